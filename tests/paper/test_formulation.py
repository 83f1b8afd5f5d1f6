"""Sections 3 to 5 of the paper: risk control, the combined p-value, the Pareto front, Algorithm 1."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _fronts as fronts
from tests.support import reference as ref
from tests.support.tables import random_table

ALPHAS = (0.12, 0.4)
PROBLEM = rf.Problem(
    [
        rf.Limit("error", at_most=ALPHAS[0], p_value="hoeffding-bentkus"),
        rf.Limit("answered", at_least=1 - ALPHAS[1], p_value="hoeffding-bentkus"),
    ],
    ["cost"],
)


def normalised_loss(table: rf.LossTable) -> list[np.ndarray]:
    """q_1 and q_2: error, and not answered."""
    return [table.losses("error"), ~table.losses("answered")]


def p_values(table: rf.LossTable) -> list[float]:
    """max_i p(Q_i; alpha_i, m) for each setting, by plain loops."""
    m = table.n_examples
    return [
        max(
            ref.hoeffding_bentkus(int(q[row].sum()), m, alpha)
            for q, alpha in zip(normalised_loss(table), ALPHAS, strict=True)
        )
        for row in range(table.n_configs)
    ]


@pytest.mark.slow
def test_eq_delta_risk() -> None:
    """Eq. (delta_risk): a certificate's settings keep all limits at once with probability 1 - delta over the calibration data.

    The population is the table, so the true risks are known; its rate over draws is measured by the contract of methods."""
    table = random_table(n=2000)
    frame = rf.experiment.run(table, PROBLEM, methods=["pareto-testing"], trials=200, calibration=400)
    assert frame["any_violated"].mean() <= 0.1


def test_eq_max_p_value() -> None:
    """Eq. (max_p_val): p(tau, alpha) = max_i p(Q_i(tau); alpha_i, m)."""
    table = random_table(n=200)
    np.testing.assert_allclose(Evidence(PROBLEM, table).combined(np.arange(20)), p_values(table), rtol=1e-9)


def test_eq_constrained_opt() -> None:
    """Eq. (constrained_opt): min Q_{c+1} s.t. Q_i < alpha_i on the empirical data; strict, and without a guarantee."""
    table = random_table(n=200)
    risks = np.stack([q.mean(axis=1) for q in normalised_loss(table)], axis=1)
    best = ref.constrained_optimum(risks.tolist(), table.losses("cost").mean(axis=1).tolist(), ALPHAS)
    found = rf.calibrate(table, PROBLEM, method="alpha-constrained")
    assert found.config == table.config(best)
    assert not found.guaranteed


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_eq_multi_obj_and_eq_pareto(objectives: int) -> None:
    """Eq. (multi_obj), Eq. (fronts): the settings that no other dominates.

    The paper's dominance is strict in all objectives and keeps ties; ours is the standard one, so ours is a subset of
    the paper's front, and where no two settings tie in any objective they are the same."""
    rng = np.random.default_rng(objectives)
    with_ties, without = rng.integers(0, 5, (40, objectives)), rng.random((40, objectives))
    for points in (with_ties, without):
        paper = [i for i in range(40) if not any((points[j] < points[i]).all() for j in range(40))]
        ours = fronts.front(points).tolist()
        assert ours == np.flatnonzero(ref.pareto_front(points.tolist())).tolist()
        assert set(ours) <= set(paper)
        assert points is with_ties or ours == paper


def test_pruning_for_several_constraints() -> None:
    """Section 5.2: with c > 1, only the front of (p_opt, Q_{c+1}, ...) need be tested."""
    opt = random_table(n=200)
    p_opt, cost = np.array(p_values(opt)), opt.losses("cost").mean(axis=1)
    rows = rf.ParetoTesting.as_in_the_paper(prune=True).plan(opt, PROBLEM).rows
    whole = rf.ParetoTesting.as_in_the_paper(prune=False).plan(opt, PROBLEM).rows
    for row in whole:
        better = (p_opt[rows] <= p_opt[row] * (1 + 1e-9)) & (cost[rows] <= cost[row] + 1e-9)
        assert better.any()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("free", [("cost",), ("cost", "regret")])
def test_algorithm_pareto_testing(seed: int, free: tuple[str, ...]) -> None:
    """Algorithm 1 as a plain loop against calibrate."""
    table = random_table(seed, n=300)
    problem = rf.Problem(PROBLEM.limits, list(free), delta=0.1)
    certificate = rf.calibrate(table, problem, method=rf.ParetoTesting.as_in_the_paper(prune=False), seed=seed)

    opt, testing = table.split(0.5, seed=seed)
    # OPTIMIZATION: front of all c + k empirical objectives, ordered by p_opt from low to high
    risks = np.stack([q.mean(axis=1) for q in normalised_loss(opt)], axis=1)
    costs = np.stack([opt.losses(name).mean(axis=1) for name in free], axis=1)
    order = ref.pareto_testing_order(np.round(risks, 12).tolist(), np.round(costs, 12).tolist(), p_values(opt))
    # CALIBRATION: fixed sequence up to the first p >= delta, then the non-dominated on the free objectives
    p_testing = p_values(testing)
    rejected = []
    for row in order:
        if p_testing[row] > 0.1:
            break
        rejected.append(row)
    means = np.stack([testing.losses(name).mean(axis=1) for name in free], axis=1)
    chosen = [
        row for row, on_front in zip(rejected, ref.pareto_front(means[rejected].tolist()), strict=True) if on_front
    ]
    assert sorted(map(str, certificate.certified[["a", "b"]].to_dict("records"))) == sorted(
        str(table.config(row)) for row in rejected
    )
    assert sorted(map(str, certificate.chosen[["a", "b"]].to_dict("records"))) == sorted(
        str(table.config(row)) for row in chosen
    )


def test_abstention() -> None:
    """Section 1, footnote: if no valid configuration is found, abstain."""
    strict = PROBLEM.at((0.0005, 0.001))
    assert not rf.calibrate(random_table(n=100), strict)
