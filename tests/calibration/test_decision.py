"""Testing along a plan, and choosing among what was certified."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.decision import decide
from riskfront.methods import Plan
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics._procedures import Bonferroni, FixedSequence, Holm
from tests.support import reference as ref
from tests.support.tables import random_table

TABLE = random_table(n=400)
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])


def test_sequential_tests_stop_at_the_first_failure() -> None:
    evidence = Evidence(PROBLEM, TABLE)
    p = evidence.combined(np.arange(20))
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(20)
        decision = decide(Plan(rf.ParetoTesting(), TABLE, rows, FixedSequence()), Evidence(PROBLEM, TABLE))
        verdicts = ref.fixed_sequence(p[rows], 0.1)
        assert rows[: len(decision.rows)][decision.certified].tolist() == rows[np.flatnonzero(verdicts)].tolist()
        assert len(decision.rows) == min(sum(verdicts) + 1, 20)


def test_nothing_behind_the_failure_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    original = Evidence.p_values
    monkeypatch.setattr(
        Evidence, "p_values", lambda self, rows, target_levels: asked.extend(rows.tolist()) or original(self, rows)
    )
    table = random_table(shape=(200,), n=50)
    hopeless = rf.Problem([rf.Limit("error", at_most=0.001, p_value="betting")], ["cost"])
    decide(Plan(rf.ParetoTesting(), table, np.arange(200), FixedSequence()), Evidence(hopeless, table))
    assert len(asked) < 200


@pytest.mark.parametrize("procedure", [Bonferroni(), Holm()])
def test_all_at_once(procedure: object) -> None:
    evidence = Evidence(PROBLEM, TABLE)
    decision = decide(Plan(rf.HolmTesting(), TABLE, np.arange(20), procedure), evidence)
    expected = ref.holm if isinstance(procedure, Holm) else ref.bonferroni
    assert decision.certified.tolist() == expected(evidence.combined(np.arange(20)), 0.1)


def test_one_objective_chooses_the_cheapest_certified() -> None:
    decision = decide(rf.BonferroniTesting().plan(TABLE, PROBLEM), Evidence(PROBLEM, TABLE))
    cost = np.where(decision.certified, TABLE.losses("cost").mean(axis=1), np.inf)
    assert decision.chosen.tolist() == [int(np.argmin(cost))]


def test_several_objectives_choose_the_front_of_the_certified() -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost", "latency"], ["answered"])
    evidence = Evidence(problem, TABLE)
    decision = decide(rf.HolmTesting().plan(TABLE, problem), evidence)
    certified = np.flatnonzero(decision.certified)
    front = certified[ref.pareto_front(evidence.objectives(certified).tolist())]
    assert sorted(decision.chosen.tolist()) == front.tolist()
    first = evidence.objectives(decision.rows[decision.chosen])[:, 0]
    assert (np.diff(first) >= 0).all()


def test_ties_go_to_the_smaller_p_value() -> None:
    losses = np.zeros((3, 200), dtype=bool)
    losses[0, :4] = losses[2, :2] = True
    table = rf.LossTable([{"t": i} for i in range(3)], {"error": losses, "cost": np.ones((3, 200))})
    decision = decide(rf.HolmTesting().plan(table, PROBLEM), Evidence(PROBLEM, table))
    assert decision.chosen.tolist() == [1]


def test_an_empty_plan_is_a_decision() -> None:
    plan = Plan(rf.ConstrainedPath(), TABLE, np.empty(0, dtype=np.int64), FixedSequence())
    decision = decide(plan, Evidence(PROBLEM, TABLE))
    assert len(decision.rows) == len(decision.certified) == len(decision.chosen) == 0
    assert decision.p_values.shape == (0, 1)


def test_empirical_means_are_compared_strictly() -> None:
    losses = np.zeros((2, 10), dtype=bool)
    losses[0, 0] = True
    table = rf.LossTable([{"t": 0}, {"t": 1}], {"error": losses, "cost": np.ones((2, 10))})
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])
    decision = decide(rf.AlphaConstrained().plan(table, problem), Evidence(problem, table))
    assert decision.certified.tolist() == [False, True]


def test_plans_find_their_settings_in_another_table() -> None:
    opt = random_table(seed=1)
    plan = rf.ParetoTesting().plan(opt, PROBLEM)
    shuffle = np.random.default_rng(0).permutation(20)
    other = random_table(seed=2).select(shuffle)
    assert shuffle[plan.rows_in(other)].tolist() == plan.rows.tolist()
    with pytest.raises(rf.InvalidInputError, match=r"must hold every setting of the plan.*is missing"):
        plan.rows_in(other.select(np.arange(3)))
