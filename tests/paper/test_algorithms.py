"""The appendices on baselines, family-wise error and algorithms."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.splits import permutation
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics._procedures import Bonferroni, FixedSequence
from tests.support import reference as ref
from tests.support.tables import random_table

ALPHA, DELTA = 0.12, 0.1
LTT = rf.Problem([rf.Limit("error", at_most=ALPHA, p_value="hoeffding-simple")], ["cost"])
EXACT = rf.Problem([rf.Limit("error", at_most=ALPHA)], ["cost"])


@pytest.mark.parametrize("method", ["bonferroni", "holm"])
def test_algorithm_learn_then_test(method: str) -> None:
    """Algorithm "Learn then Test": empirical risk (Eq. emp_r), Hoeffding p-value (Eq. p_value), a FWER procedure."""
    table = random_table(n=1500)
    rejected = {"bonferroni": ref.bonferroni, "holm": ref.holm}[method](
        [ref.hoeffding_simple(int(row.sum()), 1500, ALPHA) for row in table.losses("error")], DELTA
    )
    found = rf.calibrate(table, LTT, method=method)
    expected = [table.config(row) for row in np.flatnonzero(rejected)]
    assert found.certified[["a", "b"]].to_dict("records") == expected
    assert expected


def test_eq_bonferroni() -> None:
    p = np.random.default_rng(0).beta(0.2, 3, 50)
    assert Bonferroni().reject(p, DELTA).tolist() == (p <= DELTA / 50).tolist()


def test_eq_fixed_sequence() -> None:
    """H_FST = {H_(j): j < J}, J = min {j: p_(j) > delta}. (The paper writes >=; a p-value may equal its level.)"""
    for seed in range(50):
        p = np.random.default_rng(seed).beta(0.2, 3, 20)
        first = next((j for j in range(20) if p[j] > DELTA), 20)
        assert FixedSequence().reject(p, DELTA).tolist() == [j < first for j in range(20)]


@pytest.mark.parametrize("seed", range(4))
def test_algorithm_3d_graph_testing(seed: int) -> None:
    """Algorithm "3D Graph Testing" as a plain loop with the exit it lacks: stop when nothing can be rejected."""
    shape = (3, 3, 4)
    table = random_table(seed, shape=shape, n=500)
    p = [ref.binomial(int(row.sum()), 500, ALPHA) for row in table.losses("error")]
    budget, transitions = ref.hamming(shape)
    budget = [float(w) * DELTA for w in budget]
    left, rejected = set(range(36)), set()
    while True:
        open_nodes = [i for i in left if budget[i] > 0]
        best = min(open_nodes, key=lambda i: p[i] / budget[i], default=None)
        if best is None or p[best] > budget[best]:
            break
        left.remove(best)
        rejected.add(best)
        for j in left:  # on an acyclic graph the edges need no rewiring: predecessors go first
            budget[j] += budget[best] * float(transitions[best][j])
    found = rf.calibrate(table, EXACT, method=rf.SGT(safest={"a": "low", "b": "low", "c": "low"}))
    assert found.certified[["a", "b", "c"]].to_dict("records") == [table.config(row) for row in sorted(rejected)]
    assert len(rejected) > 1


@pytest.mark.parametrize("seed", range(4))
def test_algorithm_shortest_path_testing(seed: int) -> None:
    """Algorithm "Shortest-Path Testing": to the constrained optimum and on to the far corner, by the lowest p_opt."""
    table = random_table(seed, shape=(4, 4, 3), n=400)
    safest = {"a": "low", "b": "low", "c": "low"}
    method = rf.LowRiskPath(opt_fraction=0.5, safest=safest)
    opt, test = table.split(0.5, seed=seed)
    counts = opt.losses("error").sum(axis=1)
    p_opt = [ref.binomial(int(k), 200, ALPHA) for k in counts]
    risks = [[float(k) / 200] for k in counts]
    optimum = ref.constrained_optimum(risks, opt.losses("cost").mean(axis=1).tolist(), [ALPHA])
    path = ref.low_risk_path((4, 4, 3), p_opt, optimum)
    p_test = [ref.binomial(int(test.losses("error")[row].sum()), 200, ALPHA) for row in path]
    verdicts = ref.fixed_sequence(p_test, DELTA)
    found = rf.calibrate(table, EXACT, method=method, seed=seed)
    assert found.certified[["a", "b", "c"]].to_dict("records") == [
        table.config(path[i]) for i in np.flatnonzero(verdicts)
    ]


def test_eq_constrained_opt_eps() -> None:
    """Eq. (constrained_opt_eps): solutions with limits alpha_i - eps, in the order of falling eps, by brute force over eps."""
    problem = rf.Problem([rf.Limit("error", at_most=ALPHA), rf.Limit("drop", at_most=0.4)], ["cost"])
    for seed in range(4):
        opt = random_table(seed, n=120)
        evidence = Evidence(problem, opt)
        alphas = [test.alpha for test in evidence.tests]
        epsilons = np.unique(np.concatenate([np.linspace(0, min(alphas), 4001), -evidence.margin() - 1e-9]))
        epsilons = [float(e) for e in epsilons if 0 <= e <= min(alphas)]
        cost = evidence.objectives()[:, 0]
        expected = ref.constrained_path(evidence.risks().tolist(), cost.tolist(), alphas, epsilons)
        assert cost[rf.ConstrainedPath().plan(opt, problem).rows].tolist() == cost[expected].tolist()


def test_eq_constrained_opt_eps_all() -> None:
    """With one limit, Constrained-Path Testing tests the part of Pareto Testing's path that is below the limit; with several,
    Eq. (constrained_opt_eps_all), Pareto Testing's unpruned set contains it."""
    two = rf.Problem([rf.Limit("error", at_most=ALPHA), rf.Limit("drop", at_most=0.4)], ["cost"])
    for seed in range(6):
        opt = random_table(seed, n=150)
        front = rf.ParetoTesting.as_in_the_paper(prune=False).plan(opt, EXACT).rows.tolist()
        path = rf.ConstrainedPath().plan(opt, EXACT).rows.tolist()
        below = [row for row in front if Evidence(EXACT, opt).margin()[row] < 0]
        assert path == below
        key = {
            tuple(point)
            for point in Evidence(two, opt).objectives(
                rf.ParetoTesting.as_in_the_paper(prune=False).plan(opt, two).rows
            )
        }
        assert {
            tuple(point) for point in Evidence(two, opt).objectives(rf.ConstrainedPath().plan(opt, two).rows)
        } <= key


def test_split_fst() -> None:
    """Appendix "Family-wise error rate control": for each beta, the setting whose p-values are nearest in the infinity norm."""
    problem = rf.Problem([rf.Limit("error", at_most=ALPHA), rf.Limit("answered", at_least=0.5)], ["cost"])
    opt = random_table(2, n=150)
    p = [
        [ref.binomial(int(e.sum()), 150, ALPHA), ref.binomial(int((~a).sum()), 150, 0.5)]
        for e, a in zip(opt.losses("error"), opt.losses("answered"), strict=True)
    ]
    plan = rf.SplitFST(betas=101, spacing="linear").plan(opt, problem)
    order = permutation(20, 0)  # ties go to the first in a fixed random order
    expected = ref.split_fst_order(np.array(p)[order], np.linspace(0, 1, 101))
    distance = [np.abs(np.array(p)[plan.rows] - beta).max(axis=1).min() for beta in np.linspace(0, 1, 101)]
    nearest = [np.abs(np.array(p) - beta).max(axis=1).min() for beta in np.linspace(0, 1, 101)]
    np.testing.assert_allclose(distance, nearest, atol=1e-12)
    assert len(plan) == len(expected)


def test_fallback() -> None:
    """Appendix: the budget split over the first dimension, then a fixed sequence along the second."""
    table = random_table(0, n=400)
    p = np.array([ref.binomial(int(row.sum()), 400, ALPHA) for row in table.losses("error")]).reshape(4, 5)
    found = rf.calibrate(table, EXACT, method=rf.Fallback(safest={"a": "low", "b": "low"}))
    certified = np.zeros((4, 5), dtype=bool)
    for config in found.certified[["a", "b"]].to_dict("records"):
        certified[config["a"], config["b"]] = True
    plain = np.array([ref.fixed_sequence(row, DELTA / 4) for row in p])
    # ours also hands the budget of a slice that was rejected to its end to the next one, so it finds at least these
    assert (certified >= plain).all()
    budget = 0.0
    for a in range(4):
        budget += DELTA / 4
        verdicts = ref.fixed_sequence(p[a], budget)
        assert certified[a].tolist() == verdicts
        budget = budget if all(verdicts) else 0.0
