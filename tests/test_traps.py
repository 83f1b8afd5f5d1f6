"""What is known to go wrong, in the multiple testing and the paths: each trap on a mutant, and that ours does not fall in.

The traps of the p-values are in test_traps_of_p_values.py.
"""

from itertools import pairwise

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._registry import BY_NAME
from riskfront.statistics import _graphs as graphs
from riskfront.statistics._procedures import FixedSequence, Graphical
from riskfront.testing._findings import too_many
from tests.support import reference as ref
from tests.support.graphs import chain
from tests.support.tables import random_table
from tests.validity import broken

TRIALS, DELTA = 4000, 0.1


def family_wise_error(rejects, m: int, seed: int = 0) -> int:
    """Trials of m independent uniform nulls with a rejection."""
    p = np.random.default_rng(seed).random((TRIALS, m))
    return sum(bool(np.any(rejects(row))) for row in p)


def test_graphical_loop_without_an_exit() -> None:
    p, budget = np.array([0.01, 0.9, 0.9]), np.array([0.05, 0.03, 0.02])
    assert broken.steps_of_a_loop_without_an_exit(p, budget, 10_000) == 10_000  # one rejection, then for ever
    for graph in (chain(3), graphs.hamming((3,)), graphs.fallback((3,))):
        assert not Graphical(graph).reject(np.ones(3), DELTA).any()  # ours returns
    cyclic = graphs.Graph(np.full(3, 1 / 3), np.array([0, 1, 2, 3]), np.array([1, 2, 0]), np.ones(3))
    assert Graphical(cyclic).reject(np.array([0.01, 0.9, 0.9]), DELTA).tolist() == [True, False, False]


def test_path_builder_that_moves_while_it_compares() -> None:
    published = broken.path_that_moves_while_it_compares
    p_opt = np.add.outer(np.arange(4.0), np.arange(4.0))[::-1, ::-1]  # always falling: each comparison moves
    jumps = [np.abs(np.subtract(a, b)).sum() for a, b in pairwise(published((0, 0), (3, 3), p_opt))]
    assert max(jumps) == 2  # skips settings
    assert len(published((0, 0), (3, 3), p_opt, step=2)) == 50  # a step that misses the end: for ever
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])
    for seed in range(5):
        opt = random_table(seed, shape=(4, 3, 3))
        cells = np.array(np.unravel_index(rf.LowRiskPath().plan(opt, problem).rows, (4, 3, 3))).T
        assert (np.abs(np.diff(cells, axis=0)).sum(axis=1) == 1).all()
        assert len(cells) == 1 + 3 + 2 + 2


def test_fixed_sequence_that_goes_on_after_a_failure() -> None:
    wrong = family_wise_error(lambda p: broken.goes_on_after_a_failure(p, DELTA), 30)
    assert wrong / TRIALS > 0.9
    assert too_many(wrong, TRIALS, DELTA)
    assert not too_many(family_wise_error(lambda p: FixedSequence().reject(p, DELTA), 30), TRIALS, DELTA)


def test_an_extra_starting_point_without_its_own_share() -> None:
    wrong = family_wise_error(lambda p: broken.two_starts(p, DELTA), 10)
    assert wrong / TRIALS == pytest.approx(0.19, abs=0.025)
    assert too_many(wrong, TRIALS, DELTA)
    shared = Graphical(chain(10, np.array([0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0])))
    assert not too_many(family_wise_error(lambda p: shared.reject(p, DELTA), 10), TRIALS, DELTA)
    with pytest.raises(rf.InvalidInputError, match=r"sum to at most 1"):
        chain(10, np.array([1, 0, 0, 0, 0, 1, 0, 0, 0, 0]))


def test_direction_of_the_sequence_read_off_the_tested_data() -> None:
    wrong = family_wise_error(lambda p: broken.whichever_end_looks_better(p, DELTA), 10)
    assert wrong / TRIALS == pytest.approx(0.19, abs=0.025)
    assert too_many(wrong, TRIALS, DELTA)
    # ours learns the corner on opt data or is told; the test data cannot turn it
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])
    table = random_table(0, n=600)
    opt, test = table.split(0.3)
    hostile = rf.LossTable(table.configs, {"error": ~test.losses("error"), "cost": test.losses("cost")})
    for method in (rf.SGT(), rf.Fallback(), rf.LowRiskPath()):
        plan = method.plan(opt, problem)
        assert plan.rows_in(hostile).tolist() == plan.rows.tolist()
        assert plan.rows[0] == 0
    with pytest.raises(rf.InvalidInputError, match=r"must be declared"):
        rf.SGT().plan(table.subset([]), problem)


def test_an_isolated_nodes_budget_given_to_the_smallest_p() -> None:
    wrong = family_wise_error(lambda p: broken.budget_for_the_smallest(p, DELTA), 12)
    assert wrong / TRIALS == pytest.approx(0.72, abs=0.03)
    assert too_many(wrong, TRIALS, DELTA)
    isolated = Graphical(
        graphs.Graph(np.full(12, 1 / 12), np.zeros(13, dtype=int), np.zeros(0, dtype=int), np.zeros(0))
    )
    assert not too_many(family_wise_error(lambda p: isolated.reject(p, DELTA), 12), TRIALS, DELTA)


@pytest.mark.slow
def test_budget_that_stays_after_it_was_passed_on() -> None:
    """Node weights not dropped: a rejected node's budget is handed over again at every step."""
    nulls = np.arange(6) > 0  # the first is rejected for certain, and its budget arrives again and again
    p = np.random.default_rng(1).random((TRIALS, 6)) * nulls
    assert too_many(sum(broken.budget_that_stays(row, DELTA)[1:].any() for row in p), TRIALS, DELTA)
    ring = Graphical(graphs.Graph(np.full(6, 1 / 6), np.arange(7), (np.arange(6) + 1) % 6, np.ones(6)))
    assert not too_many(sum(ring.reject(row, DELTA)[1:].any() for row in p), TRIALS, DELTA)


def test_setting_number_zero_returned_silently() -> None:
    passed = np.zeros(5, dtype=bool)
    assert np.argmin(np.where(passed, np.arange(5), np.inf)) == 0  # how it happens
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])
    always = {"error": np.ones((20, 60), dtype=bool), "cost": np.ones((20, 60))}
    for method in BY_NAME:
        found = rf.calibrate(rf.LossTable(random_table().configs, always), problem, method=method)
        with pytest.raises(rf.NotCertifiedError, match=r"there is no certified setting to use"):
            _ = found.config
        assert len(found.chosen) == 0


def test_effective_sample_sizes_filled_for_the_first_limit_only() -> None:
    rng = np.random.default_rng(0)
    losses = {name: rng.random((3, 400)) < 0.01 for name in ("error", "harm")}
    table = rf.LossTable([{"t": i} for i in range(3)], {**losses, "cost": np.ones((3, 400))})
    problem = rf.Problem([rf.Limit("error", at_most=0.1), rf.Limit("harm", at_most=0.1)], ["cost"])
    sizes = [400, 0]  # the slip: the second stays 0
    forgotten = [ref.binomial(4, n, 0.1) if n else 1.0 for n in sizes]
    assert max(forgotten) == 1
    assert (Evidence(problem, table).p_values(np.arange(3)) < 1e-6).all()
    assert rf.calibrate(table, problem)
