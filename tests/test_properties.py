"""Laws that hold for all inputs (hypothesis)."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._procedures import FixedSequence, Graphical
from tests.support.graphs import chain
from tests.support.p_values import OF_SUMS
from tests.support.tables import random_table

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

seeds = st.integers(0, 10_000)
alphas = st.floats(0.02, 0.6)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def evidence(table: rf.LossTable, limit: rf.Limit) -> Evidence:
    return Evidence(rf.Problem([limit], ["cost"]), table)


@given(seeds, alphas, st.sampled_from(list(OF_SUMS)))
def test_p_values_of_sums_do_not_depend_on_the_order_of_examples(seed: int, alpha: float, name: str) -> None:
    table = random_table(seed, n=40)
    shuffled = table.subset(np.random.default_rng(seed).permutation(40))
    for where in ({}, {"per": "label"}, {"given": "answered"}):
        limit = rf.Limit("error", at_most=alpha, p_value=name, **where)
        rows = np.arange(20)
        np.testing.assert_array_equal(evidence(table, limit).combined(rows), evidence(shuffled, limit).combined(rows))


@given(
    seeds, alphas, st.floats(-5, 5), st.floats(0.1, 50), st.sampled_from(["hoeffding", "hoeffding-simple", "betting"])
)
def test_rescaling_a_loss_with_its_bounds_and_its_limit(
    seed: int, alpha: float, shift: float, scale: float, name: str
) -> None:
    table = random_table(seed, n=30)
    cost, regret = table.losses("cost"), table.losses("regret")
    moved = rf.LossTable(
        table.configs,
        {"regret": shift + scale * regret, "cost": cost},
        bounds={"regret": (shift - 1e-9, shift + scale + 1e-9)},
    )
    rows = np.arange(20)
    p = evidence(table, rf.Limit("regret", at_most=alpha, p_value=name)).combined(rows)
    q = evidence(moved, rf.Limit("regret", at_most=shift + scale * alpha, p_value=name)).combined(rows)
    np.testing.assert_allclose(p, q, rtol=1e-5)


@given(seeds, st.integers(0, 19))
def test_adding_a_dominated_setting_does_not_change_pareto_testing(seed: int, copied: int) -> None:
    table = random_table(seed, n=60)
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])
    losses = {name: table.losses(name) for name in ("error", "cost")}
    worse = {
        "error": losses["error"][copied] | (np.arange(60) == 0),
        "cost": np.minimum(losses["cost"][copied] + 0.01, 2),
    }
    worse["error"] = np.where(losses["error"][copied].all(), True, worse["error"])
    configs = [*table.configs.to_dict("records"), {"a": 99, "b": 99}]
    extended = rf.LossTable(configs, {name: np.vstack([losses[name], worse[name][None, :]]) for name in losses})
    before = rf.ParetoTesting.as_in_the_paper().plan(table, problem).configs()
    after = rf.ParetoTesting.as_in_the_paper().plan(extended, problem).configs()
    assert before == after


@given(probabilities, st.lists(st.floats(0, 1), max_size=5), st.floats(0.01, 0.5))
def test_adding_a_hypothesis_at_the_end_of_a_sequence(p: list[float], more: list[float], delta: float) -> None:
    before = FixedSequence().reject(np.array(p), delta)
    after = FixedSequence().reject(np.array([*p, *more]), delta)
    assert after[: len(p)].tolist() == before.tolist()
    found = Graphical(chain(len(p) + len(more))).reject(np.array([*p, *more]), delta)
    assert found.tolist() == after.tolist()


@pytest.mark.slow
@given(
    seeds, st.sampled_from(["pareto-testing", "holm", "sgt", "split-fst", "alpha-constrained"]), st.floats(0.001, 0.3)
)
def test_json_round_trip_of_a_certificate(seed: int, method: str, alpha: float) -> None:
    limits = [rf.Limit("error", at_most=alpha, per="label"), rf.Limit("drop", at_most=0.4)]
    problem = rf.Problem(limits, ["cost"], ["answered"])
    table = random_table(seed, n=80)
    before = rf.calibrate(table, problem, method=method, seed=seed)
    text = json.dumps(before.to_dict(), allow_nan=False)
    after = rf.Certificate.from_dict(json.loads(text))
    assert json.dumps(after.to_dict(), allow_nan=False) == text
    assert bool(after) == bool(before)
    assert not before or after.configs == before.configs
    assert after.problem == before.problem
    pd.testing.assert_frame_equal(after.path, before.path)
    pd.testing.assert_frame_equal(after.measured, before.measured, check_dtype=bool(before))  # of no rows at all
    assert rf.verify(after, table) == []


@given(seeds, alphas, st.sampled_from(["hoeffding", "hoeffding-bentkus", "betting", "binomial"]))
def test_at_least_is_at_most_of_the_complement(seed: int, alpha: float, name: str) -> None:
    table = random_table(seed, n=40)
    losses = {"error": ~table.losses("error"), "regret": 1 - table.losses("regret"), "cost": table.losses("cost")}
    flipped = rf.LossTable(table.configs, losses)
    rows = np.arange(20)
    for loss in ("error", "regret") if name in ("hoeffding", "betting") else ("error",):
        p = evidence(table, rf.Limit(loss, at_most=alpha, p_value=name)).combined(rows)
        q = evidence(flipped, rf.Limit(loss, at_least=1 - alpha, p_value=name)).combined(rows)
        np.testing.assert_allclose(p, q, rtol=1e-7)


@given(seeds, st.integers(1, 4), st.integers(1, 60))
def test_the_front_dominates_everything_and_nothing_in_itself(seed: int, objectives: int, size: int) -> None:
    points = np.random.default_rng(seed).integers(0, 8, (size, objectives)).astype(float)
    front = points[fronts.front(points)]
    assert all((front <= point).all(axis=1).any() for point in points)
    for point in front:
        assert not ((front <= point).all(axis=1) & (front < point).any(axis=1)).any()
