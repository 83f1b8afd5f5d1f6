"""Appendix A: the lemma on the maximum, the proposition on validity, the corollary on time sharing; Eq. (fwer)."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.decision import decide
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _p_values as pv
from riskfront.testing._findings import too_many
from tests.support import worlds
from tests.support.tables import table_of

DELTA, TRIALS = 0.1, 400


@pytest.mark.monte_carlo
@pytest.mark.parametrize("dependence", ["independent", "equal", "opposite"])
@pytest.mark.parametrize("null", [(True, False), (False, True), (True, True)])
def test_lemma_max_p_value(null: tuple[bool, bool], dependence: str) -> None:
    """Lemma: if some limit is broken, P(max_i p_i <= u) <= u, whatever the dependence of the losses."""
    n, trials = 200, 4000
    rng = np.random.default_rng(0)
    u = rng.random((trials, n))
    v = {"independent": rng.random((trials, n)), "equal": u, "opposite": 1 - u}[dependence]
    risks = [0.1 if broken else 0.02 for broken in null]
    p = np.maximum(*(pv.binomial((x < r).sum(axis=1), n, 0.1) for x, r in zip((u, v), risks, strict=True)))
    for level in (0.01, 0.05, 0.1, 0.5):
        assert not too_many(int((p <= level).sum()), trials, level)


@pytest.fixture(scope="module")
def outcomes() -> list[tuple[np.ndarray, np.ndarray, worlds.HardWorld]]:
    """Certified and chosen settings of Pareto Testing, two free objectives, over fresh calibration data."""
    world = worlds.correlated(0.1, settings=20, safe=8, excess=1e-4, blocks=3)
    problem = rf.Problem([rf.Limit("loss", at_most=0.1)], ["cost", "other"], delta=DELTA)
    method, rng, found = rf.ParetoTesting(), np.random.default_rng(1), []
    for _ in range(TRIALS):
        table = table_of(world, rng, 300)
        losses = {name: table.losses(name) for name in ("loss", "cost")}
        losses["other"] = 1.1 - losses["cost"] ** 2  # a second objective that pulls the other way
        table = rf.LossTable(table.configs, losses)
        opt, test = table.split(method.opt_fraction, seed=0)
        decision = decide(method.plan(opt, problem), Evidence(problem, test))
        found.append((decision.rows[decision.certified], decision.rows[decision.chosen], world))
    return found


@pytest.mark.monte_carlo
def test_proposition_validity(outcomes) -> None:
    """Proposition: all settings of the output hold all limits at once with probability at least 1 - delta. Eq. (fwer)."""
    misses = sum(bool((world.true_risks[certified] > world.alpha).any()) for certified, _, world in outcomes)
    assert not too_many(misses, TRIALS, DELTA)
    assert np.mean([len(chosen) for _, chosen, _ in outcomes]) > 1.5  # it says something, with k > 1
    assert all(set(chosen.tolist()) <= set(certified.tolist()) for certified, chosen, _ in outcomes)


@pytest.mark.monte_carlo
def test_corollary_time_sharing(outcomes) -> None:
    """Corollary: any random mixture of the chosen settings is risk controlling too, with the same probability."""
    rng = np.random.default_rng(2)
    misses = 0
    for _, chosen, world in outcomes:
        if len(chosen):
            weights = rng.dirichlet(np.ones(len(chosen)))
            mixed = float(weights @ world.true_risks[chosen])
            assert mixed <= world.true_risks[chosen].max() + 1e-15  # Q(share) = sum Delta_j Q(tau_j) <= max_j Q(tau_j)
            misses += mixed > world.alpha
    assert not too_many(misses, TRIALS, DELTA)


def test_corollary_for_conditional_risks() -> None:
    """A mixture of settings that answer different examples: E[sum D L A] / E[sum D A] <= the largest of the ratios."""
    rng = np.random.default_rng(3)
    for _ in range(100):
        rates, risks = rng.random(5), rng.random(5) * 0.1
        weights = rng.dirichlet(np.ones(5))
        assert (weights * rates) @ risks / (weights @ rates) <= risks.max() + 1e-15


def test_certificate_mixtures_are_of_certified_settings() -> None:
    world = worlds.correlated(0.1, settings=20, safe=8)
    table = table_of(world, np.random.default_rng(4), 2000)
    found = rf.calibrate(table, rf.Problem([rf.Limit("loss", at_most=0.1)], ["cost"]))
    mixed = found.mixture({"cost": 1.0})
    assert set(mixed["a"]) <= set(found.certified["a"])
    assert mixed["weight"].sum() == pytest.approx(1)
