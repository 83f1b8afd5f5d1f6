"""Limits on the drop from a reference: range, tests, the reference itself, and the error probability."""

from dataclasses import replace

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from tests.support.tables import random_table

ROWS = np.arange(20)
REFERENCE = "a=1, b=2"
ROW = 7


def evidence(at_most=0.05, loss="error", **options):
    limit = rf.Limit(loss, at_most=at_most, drop_from=REFERENCE, **options)
    return Evidence(rf.Problem([limit], minimize="cost"), random_table(n=600))


@pytest.mark.parametrize("text", ["score drop <= 0.02", "score drop from full <= 2 %"])
def test_texts(text):
    limit = rf.Limit.parse(text, reference="full")
    assert limit == rf.Limit("score", drop_from="full", at_most=0.02)
    assert rf.Limit.parse(str(limit)) == limit
    assert str(limit) == "score drop from full <= 0.02"
    assert rf.Limit.parse("score drop <= 0.02") == rf.Limit("score drop", at_most=0.02)  # a loss of that name
    problem = rf.Problem([text], minimize="cost", reference="full")
    assert rf.Problem.from_dict(problem.to_dict()) == problem
    assert eval(repr(limit), {"Limit": rf.Limit}) == limit


def test_the_drop_has_twice_the_range_and_is_bet_on():
    (test,) = evidence().tests
    assert (test.low, test.high, test.p_value) == (-1.0, 1.0, "betting")
    assert test.alpha == pytest.approx(0.525)


def test_the_reference_needs_no_test_against_itself():
    small = rf.LossTable([{"m": "x"}, {"m": "y"}], {"score": np.ones((2, 3), bool)})
    limit = rf.Limit("score", at_most=0.01, drop_from="x")
    p = Evidence(rf.Problem([limit], minimize="score"), small).p_values(np.arange(2))
    assert p[0, 0] == 0.0
    assert p[1, 0] > 0.5  # the same losses, but another setting: three examples prove nothing


def test_a_reference_that_must_get_better_than_itself_is_tested_like_any_other():
    p = evidence(at_most=-0.01).p_values(ROWS)
    assert p[ROW, 0] == 1.0


def test_other_limits_of_the_reference_are_tested():
    limits = [rf.Limit("error", at_most=0.05, drop_from=REFERENCE), rf.Limit("error", at_most=1e-6)]
    found = Evidence(rf.Problem(limits, minimize="cost"), random_table()).p_values(np.array([ROW]))
    assert found[0, 0] == 0.0
    assert found[0, 1] > 0.9


def test_a_front_of_drops_is_not_the_front_of_the_loss():
    """One remembered front must not serve the loss and its drop, which point in opposite directions."""
    table = random_table(n=600)
    opt, _ = table.split(0.5)
    method = rf.ParetoTesting()
    of_loss = method.plan(opt, rf.Problem([rf.Limit("error", at_most=0.3)], minimize="cost"))
    of_drop = method.plan(opt, rf.Problem([rf.Limit("error", at_most=0.3, drop_from=REFERENCE)], minimize="cost"))
    assert of_loss.rows.tolist() != of_drop.rows.tolist()


def test_certificate_says_what_is_controlled_and_is_verified(tmp_path):
    table = random_table(n=2000)
    problem = rf.Problem([rf.Limit("error", at_least=-0.03, drop_from="a=0, b=0")], minimize="cost")
    certificate = rf.calibrate(table, problem)
    assert "error drop from a=0, b=0 (gains offset losses) stays at or above -3 %" in certificate.verdict()
    certificate.save(tmp_path / "c.json")
    again = rf.Certificate.load(tmp_path / "c.json")
    assert rf.verify(again, table) == []


@pytest.mark.slow
@pytest.mark.parametrize("flips", [0.0, 0.1, 0.3])
def test_error_probability_of_a_drop_at_its_limit(flips):
    """A setting whose true drop is just above the limit passes in at most delta of all draws, however often it flips."""
    rng = np.random.default_rng(5)
    alpha, delta, n, trials = 0.05, 0.1, 400, 1500
    u = rng.random((trials, n))
    full = u < 0.5 + alpha + flips
    other = (u < 0.5) | ((u >= 0.5 + alpha + flips) & (u < 0.5 + alpha + 2 * flips))
    # the drops of all draws side by side, as signed losses; each draw as a drop from its own reference gives the same
    drops = rf.LossTable([{"m": i} for i in range(trials)], {"drop": full * 1.0 - other}, bounds={"drop": (-1, 1)})
    problem = rf.Problem([rf.Limit("drop", at_most=alpha, p_value="betting")], minimize="drop", delta=delta)
    p_values = Evidence(problem, drops).p_values(np.arange(trials))[:, 0]
    for trial in range(25):
        pair = np.stack([full[trial], other[trial]])
        table = rf.LossTable([{"m": "full"}, {"m": "other"}], {"score": pair})
        limit = rf.Limit("score", at_most=alpha, drop_from="full")
        alone = Evidence(rf.Problem([limit], minimize="score", delta=delta), table).p_values(np.array([1]))
        assert alone[0, 0] == pytest.approx(p_values[trial])
    assert (p_values <= delta).mean() <= delta + 3 * np.sqrt(delta * (1 - delta) / trials)


def test_a_testing_table_of_its_own_keeps_the_reference_that_was_not_planned():
    """certify lays the planned settings out anew: the reference must come along, though it is not tested itself."""
    opt = random_table(seed=1, n=500)
    test = random_table(seed=2, n=2000)
    problem = rf.Problem([rf.Limit("error", at_least=-0.02, drop_from="a=0, b=0")], minimize="cost")
    plan = rf.ParetoTesting().plan(opt, problem)
    rows = plan.rows[plan.rows != 0]
    certificate = rf.certify(replace(plan, rows=rows), test, problem)
    errors = test.losses("error").mean(axis=1)
    np.testing.assert_allclose(
        certificate.path[problem.limit_names[0]], errors[0] - errors[rows[: len(certificate.path)]]
    )
