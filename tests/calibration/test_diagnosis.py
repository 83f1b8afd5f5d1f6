"""Why nothing was certified, and what would help."""

import re

import numpy as np
import pytest

import riskfront as rf
from riskfront.statistics import _p_values as p_values
from tests.support.tables import random_table


def one_setting(losses: np.ndarray, **more: object) -> rf.LossTable:
    losses = np.atleast_2d(losses)
    configs = [{"t": i} for i in range(len(losses))]
    # costs tell examples apart: without them the operating system would draw the order of the bets
    cost = np.random.default_rng(0).random(losses.shape)
    return rf.LossTable(configs, {"error": losses, "cost": cost}, **more)


def diagnosis(table: rf.LossTable, limit: rf.Limit, method: str = "bonferroni") -> dict:
    found = rf.calibrate(table, rf.Problem([limit], ["cost"]), method=method)
    assert not found
    return found.diagnosis


def test_too_few_examples_for_anything() -> None:
    found = diagnosis(one_setting(np.zeros(20, dtype=bool)), rf.Limit("error", at_most=0.1))
    assert found["limit"] == "error <= 0.1"
    assert found["examples"] == 20
    assert found["measured"] == 0
    assert found["p_value"] == pytest.approx(0.9**20)
    assert found["examples_if_perfect"] == 22  # 0.9^22 = 0.098 is the first at most 0.1
    assert "Even a perfect setting needs at least 22 such testing examples" in found["message"]


@pytest.mark.parametrize("name", ["binomial", "hoeffding-bentkus", "betting"])
def test_the_number_that_would_pass_does_pass(name: str) -> None:
    losses = np.zeros(100, dtype=bool)
    losses[::12] = True  # 9 of 100, against 0.1
    found = diagnosis(one_setting(losses), rf.Limit("error", at_most=0.1, p_value=name))
    n = found["examples_at_this_mean"]
    assert f"With this mean, about {n:,} such testing examples would pass" in found["message"]
    if name != "betting":
        total = np.ceil(0.09 * n) if name == "binomial" else 0.09 * n
        assert float(p_values.P_VALUES[name].function(total, n, 0.1)) <= 0.1
    else:
        # the testing examples come in an order of their own, so "about": with twice as many most orders pass
        many = np.random.default_rng(0).permuted(np.resize(losses.astype(float), (60, 2 * n)), axis=1)
        assert np.median(p_values.betting(many, 0.1, 0.1)) <= 0.1


def test_a_risk_that_is_not_below_the_limit() -> None:
    losses = np.arange(200) % 5 == 0
    found = diagnosis(one_setting(losses), rf.Limit("error", at_most=0.1))
    assert found["examples_at_this_mean"] is None
    assert (
        "What was measured is not within the limit: loosen it or offer safer settings; more examples will not help."
        in found["message"]
    )


@pytest.mark.parametrize("method", ["bonferroni", "pareto-testing", "split-fst"])
def test_limits_that_no_setting_keeps_together(method: str) -> None:
    """To offer safer settings is no advice where those that are safer break another limit."""
    random, trade = np.random.default_rng(0), np.linspace(0, 1, 6)[:, None]
    error, slow = random.random((6, 1500)) < 0.01 + 0.4 * trade, random.random((6, 1500)) < 0.41 - 0.4 * trade
    table = rf.LossTable([{"t": i} for i in range(6)], {"error": error, "slow": slow})
    found = rf.calibrate(table, rf.Problem(["error <= 0.1", "slow <= 0.1"], minimize="slow"), method=method)
    assert not found
    assert "The limits conflict: each is kept by some setting, all together by none." in found.diagnosis["message"]
    alone = rf.calibrate(table.select([4, 5]), rf.Problem("error <= 0.1", minimize="slow"), method=method)
    assert "offer safer settings" in alone.diagnosis["message"]


def test_a_risk_too_near_to_the_limit() -> None:
    losses = np.zeros(10_000, dtype=bool)
    losses[:999] = True
    found = diagnosis(one_setting(losses), rf.Limit("error", at_most=0.1))
    assert found["examples_at_this_mean"] is None or found["examples_at_this_mean"] > 100_000


def test_a_class_without_examples() -> None:
    label = np.array([0] * 500 + [1])
    table = one_setting(np.zeros(501, dtype=bool), groups={"label": label})
    found = diagnosis(table.subset(np.arange(500)), rf.Limit("error", at_most=0.1, per="label"))
    assert found["group"] == 1
    assert found["examples"] == 0
    assert found["measured"] is None
    assert "missed 'error per label <= 0.1' in group 1: no testing example speaks of it" in found["message"]


def test_nothing_planned() -> None:
    losses = np.ones((3, 60), dtype=bool)
    found = diagnosis(one_setting(losses), rf.Limit("error", at_most=0.1), "constrained-path")
    assert "No setting was within the limits on the 18 planning examples" in found["message"]


def test_baselines_by_mean() -> None:
    found = diagnosis(one_setting(np.ones((2, 60), dtype=bool)), rf.Limit("error", at_most=0.1), "alpha-constrained")
    assert "No setting measured within the limits" in found["message"]


def test_graphs_name_the_node_that_came_nearest() -> None:
    table = random_table(n=40)
    for method in ("sgt", "fallback", "holm"):
        found = diagnosis(table, rf.Limit("error", at_most=0.002), method)
        assert set(found["setting"]) == {"a", "b"}
        assert 0 < found["tested_at"] <= 0.1
        assert found["examples_if_perfect"] > 40


@pytest.mark.slow
def test_conditional_limits_count_their_examples() -> None:
    table = random_table(n=60)
    for where in ({"given": "answered"}, {"per": "label", "given": "answered"}):
        for name in ("binomial", "betting", "hoeffding"):
            found = diagnosis(table, rf.Limit("error", at_most=0.003, p_value=name, **where))
            assert 0 < found["examples"] < 60


@pytest.mark.parametrize("method", ["pareto-testing", "bonferroni"])
def test_a_ratio_over_nothing_has_nothing_to_measure(method: str) -> None:
    """A threshold above which nothing is predicted: true and false positives are 0 on every example."""
    nothing = np.zeros((3, 60), dtype=bool)
    cost = np.repeat(np.arange(3.0)[:, None], 60, axis=1)
    table = rf.LossTable([{"k": k} for k in range(3)], {"tp": nothing, "fp": nothing, "cost": cost})
    found = rf.calibrate(table, rf.Problem(rf.Limit.precision(at_least=0.9), minimize="cost"), method=method)
    assert not found
    assert "what it is divided by is 0 on all" in found.verdict()


@pytest.mark.parametrize("highest", [0.999, 1.1])
def test_a_declared_order_that_begins_with_too_few_examples_says_where_to_begin(highest: float) -> None:
    score = np.random.default_rng(0).random(1500)
    answered = score >= np.linspace(0.01, highest, 60)[:, None]
    losses = {"error": answered & (score < 0.02), "answered": answered, "skipped": ~answered}
    table = rf.LossTable([{"threshold": float(value)} for value in np.linspace(0.01, highest, 60)], losses)
    problem = rf.Problem("error <= 0.1 given answered", minimize="skipped")
    found = rf.calibrate(table, problem, method=rf.OrderedKnob(safest={"threshold": "high"}))
    assert not found
    assert "OrderedKnob(safest=..., start=value)" in found.diagnosis["message"]
    assert rf.calibrate(table, problem, method=rf.OrderedKnob(safest={"threshold": "high"}, start=0.9))


def test_among_hopeless_settings_the_nearest_is_the_one_that_measures_best() -> None:
    risks = np.array([0.9, 0.5, 0.3, 0.6])
    losses = np.arange(1000) < 1000 * risks[:, None]
    found = diagnosis(one_setting(losses), rf.Limit("error", at_most=0.1))
    assert found["p_value"] == 1
    assert found["setting"] == {"t": 2}


def test_how_many_times_as_many_is_a_plain_number() -> None:
    found = diagnosis(one_setting(np.arange(2000) < 198), rf.Limit("error", at_most=0.1))
    assert re.search(r", [\d,]+ times as many as now", found["message"])


def test_a_miss_by_a_hair_says_what_would_help() -> None:
    losses = np.arange(14466) < 1400  # 14467 would have passed: P(Bin(14467, .1) <= 1400) <= .1
    message = diagnosis(one_setting(losses), rf.Limit("error", at_most=0.1))["message"]
    assert "would pass, about as many as now: as many new ones would give it an even chance." in message
