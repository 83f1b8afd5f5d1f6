"""Bets that are made side by side are the bets that each evidence would make alone."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.prediction_powered import with_unlabelled
from riskfront.methods._evidence.shared_bets import KnownPValues, bet_together
from tests.calibration import test_unlabelled as unlabelled
from tests.support.experiment_tables import simulated_table

TABLE = simulated_table(200, exits=6)
LIMITS = {
    "signed": [rf.Limit("accuracy_drop", at_most=0.05)],
    "in every class": [rf.Limit("accuracy_drop", at_most=0.05), rf.Limit("accuracy_drop", at_most=0.15, per="label")],
    "at least": [rf.Limit("confidence", at_least=0.6), rf.Limit("error", at_most=0.3)],
    "padded": [rf.Limit("confidence", at_least=0.5, per="label", padded=True, p_value="betting")],
    "given": [rf.Limit("relative_cost", at_most=0.6, given="error")],
}


@pytest.mark.parametrize("name", LIMITS)
def test_together_as_alone(name: str) -> None:
    problem = rf.Problem(LIMITS[name], minimize="flops")
    first = [0.02, 0.05, 0.2] if name != "at least" else [0.4, 0.6, 0.8]
    evidences = [Evidence(problem.at([alpha, *(0.25,) * (len(LIMITS[name]) - 1)]), TABLE) for alpha in first]
    rows = [np.array([3, 0, 30, 17]), np.arange(TABLE.n_configs), np.array([9])]
    levels = [0.1, 0.001, 0.05]
    for known, alone, asked, aim in zip(bet_together(evidences, rows, levels), evidences, rows, levels, strict=True):
        assert isinstance(known, KnownPValues)
        np.testing.assert_array_equal(known.p_values(asked[::-1], np.full(len(asked), aim)), known._found[::-1])
        np.testing.assert_array_equal(known._found, alone.p_values(asked, np.full(len(asked), aim)))


def test_what_was_not_foreseen_is_computed() -> None:
    problem = rf.Problem(LIMITS["signed"], minimize="flops")
    alone = Evidence(problem, TABLE)
    known = bet_together([alone, alone], [np.arange(5), np.arange(5)], [0.1, 0.1])[0]
    for rows, target_levels in ((np.arange(8), None), (np.arange(4), np.full(4, 0.01))):
        np.testing.assert_array_equal(known.p_values(rows, target_levels), alone.p_values(rows, target_levels))


def test_without_bets_nothing_is_foreseen() -> None:
    alone = Evidence(rf.Problem("error <= 0.1", minimize="flops"), TABLE)
    assert bet_together([alone, alone], [np.arange(5)] * 2, [0.1, 0.1]) == [alone, alone]


def test_limits_with_a_proxy_bet_as_they_do_alone() -> None:
    labelled, others = unlabelled.tables()
    table = with_unlabelled(labelled, unlabelled.PROBLEM, others, 0)[0]
    evidences = [Evidence(unlabelled.PROBLEM.at(alpha), table) for alpha in (0.1, 0.2)]
    rows = np.arange(0, table.n_configs, 5)
    for known, alone in zip(bet_together(evidences, [rows, rows], [0.1, 0.1]), evidences, strict=True):
        np.testing.assert_array_equal(known.p_values(rows), alone.p_values(rows))
