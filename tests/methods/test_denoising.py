"""Planning on smoothed risks: better where settings are alike, never worse where they are not, and blind to test examples."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._denoising import planned_limits
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._similarity import similarity
from tests.support.tables import grid_configs, random_table

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])


def grid_table(n: int, seed: int = 0, *, shuffled: bool = False, n_side: int = 16) -> tuple[rf.LossTable, np.ndarray]:
    """A smooth risk on a grid, with independent losses; shuffled: the same risks, unrelated to where settings are."""
    rng = np.random.default_rng(seed)
    a, b = np.indices((n_side, n_side)).reshape(2, -1) / (n_side - 1)
    risk = 0.01 + 0.25 * a * b + 0.05 * a
    risk = rng.permutation(risk) if shuffled else risk
    error = rng.random((risk.size, n)) < risk[:, None]
    cost = np.repeat((1.2 - risk * 3)[:, None], n, axis=1)
    return rf.LossTable(grid_configs((n_side, n_side)), {"error": error, "cost": cost}), risk


def planned(table: rf.LossTable, smooth: bool = True, problem: rf.Problem = PROBLEM):
    return planned_limits(Evidence(problem, table), smooth)[0]


def test_smoothed_risks_are_nearer_to_the_truth() -> None:
    table, risk = grid_table(150)
    found = planned(table)
    assert any(found.scales)
    near = np.abs(risk - 0.1) < 0.06
    error = np.abs(found.risks() - risk)[near].mean()
    assert error < 0.6 * np.abs(planned(table, smooth=False).risks() - risk)[near].mean()


def test_where_settings_are_not_alike_nothing_is_smoothed() -> None:
    """The same risks in random places: in nearly all draws cross-validation finds that there is nothing to average."""
    kept = [not any(planned(grid_table(150, seed, shuffled=True)[0]).scales) for seed in range(40)]
    assert np.mean(kept) > 0.9


def test_an_axis_without_structure_is_left_alone() -> None:
    """One axis is a smooth threshold, the other a number that means nothing: seeds, say."""
    rng = np.random.default_rng(4)
    level = rng.permutation(np.linspace(0, 0.15, 16))
    risk = (level[:, None] + np.linspace(0, 0.1, 16)).ravel()
    error = rng.random((256, 200)) < risk[:, None]
    table = rf.LossTable(grid_configs((16, 16)), {"error": error, "cost": np.ones((256, 200))})
    along = planned(table).scales
    assert along[0] <= 0.5 < along[1]


def test_what_averaging_takes_away_is_put_back() -> None:
    """Counts without any noise on a curved surface: an average is off by its curvature, the smoothed risk by far less."""
    a = np.repeat(np.arange(16), 16)
    errors = np.round(2000 * (0.02 + 0.2 * (a / 15) ** 3)).astype(int)
    rng = np.random.default_rng(0)
    error = np.stack([rng.permutation(np.arange(2000) < count) for count in errors])
    table = rf.LossTable(grid_configs((16, 16)), {"error": error, "cost": np.ones((256, 2000))})
    averages = similarity(table.configs).smooth(error.mean(axis=1)[:, None], (2.0, 2.0))[:, 0]
    found, inside = planned(table), (a > 3) & (a < 12)
    assert any(found.scales)
    off, before = (np.abs(r - errors / 2000)[inside].mean() for r in (found.risks(), averages))
    assert off < 0.5 * before


def test_the_scale_is_the_usual_one_unless_the_halves_clearly_disagree() -> None:
    """Small differences between two halves of few examples choose nothing."""
    assert [planned(grid_table(60, seed)[0]).scales for seed in range(5)] == [(2.0, 2.0)] * 5


def test_order_and_front_are_those_of_what_is_planned() -> None:
    table, _ = grid_table(150)
    rows = rf.ParetoTesting().plan(table, PROBLEM).rows
    p = planned(table).p_values(rows)
    assert (np.diff(p) >= 0).all()
    cost = table.means("cost")[rows, 0]
    assert (np.diff(cost) <= 0).all()


def test_smoothing_sees_planning_examples_only() -> None:
    """Other testing examples, the same plan."""
    table, _ = grid_table(400)
    method = rf.ParetoTesting(opt_fraction=0.2)
    opt, test = table.split(method.opt_fraction, seed=3)
    other = grid_table(400, seed=9)[0]
    mine, again = (rf.certify(method.plan(opt, PROBLEM), t, PROBLEM) for t in (test, other))
    assert mine.explored["planned"].tolist() == again.explored["planned"].tolist()
    first = [
        list(c.tested.loc[c.tested["tested_by"] == "path", ["a", "b"]].itertuples(index=False)) for c in (mine, again)
    ]
    short = min(map(len, first))
    assert first[0][:short] == first[1][:short]


@pytest.mark.parametrize("limit", [rf.Limit("error", at_most=0.1), rf.Limit("error", at_most=0.1, p_value="betting")])
def test_without_structure_the_plan_is_that_of_plain_risks(limit: rf.Limit) -> None:
    """Names in place of numbers: the front and the order of the paper, as long as p-values order as risks do."""
    table, _ = grid_table(300)
    names = rf.LossTable(
        [{"prompt": f"prompt {i}"} for i in range(256)], {n: table.losses(n) for n in ("error", "cost")}
    )
    problem = rf.Problem([limit], ["cost"])
    ours = rf.ParetoTesting().plan(names, problem)
    assert not any(planned(names, problem=problem).scales)
    if limit.p_value == "auto":
        assert ours.rows.tolist() == rf.ParetoTesting.as_in_the_paper().plan(names, problem).rows.tolist()


def test_planned_p_values_of_counts_are_those_of_the_test() -> None:
    table = random_table(n=300)
    problem = rf.Problem([rf.Limit("error", at_most=0.3, given="answered", per="label")], ["cost"])
    evidence = Evidence(problem, table)
    found = planned_limits(evidence, smooth=False)[0].p_values()
    np.testing.assert_allclose(
        np.where(found > 0.5, 1, found), np.where((p := evidence.combined(np.arange(20))) > 0.5, 1, p)
    )


def selective_world(
    rng: np.random.Generator, n: int, alpha: float
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Settings that answer between 3 % and 95 %: those that answer little have lucky risks on few examples."""
    m = 150
    rates, risk = rng.uniform(0.03, 0.95, m), rng.uniform(0.3 * alpha, 1.6 * alpha, m)
    cost = 1 - 0.5 * risk / alpha + 0.1 * rng.random(m)
    answered = rng.random((m, n)) < rates[:, None]
    error = rng.random((m, n)) < risk[:, None]
    return {"error": error, "answered": answered, "cost": np.repeat(cost[:, None], n, axis=1)}, risk, cost


@pytest.mark.slow
def test_the_front_of_p_values_pays_where_examples_differ() -> None:
    """Selective risk: mean true cost with the front of (p-value, cost) against that of (risk, cost)."""
    problem = rf.Problem([rf.Limit("error", at_most=0.1, given="answered")], ["cost"])
    costs: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(40):
        losses, _, cost = selective_world(np.random.default_rng(seed), 800, 0.1)
        table = rf.LossTable([{"s": f"{i}"} for i in range(150)], losses)
        for by in costs:
            found = rf.calibrate(table, problem, method=rf.ParetoTesting(opt_fraction=0.3, holm_share=0, by_p_value=by))
            costs[by].append(cost[int(found.config["s"])] if found else 1.2)
    assert np.mean(costs[True]) < np.mean(costs[False]) - 0.03
