"""Bets with a target: sharp at the level they aim at, valid at every level, blind to what they have not seen."""

import math

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _graphs as graphs
from riskfront.statistics import _p_values as pv
from riskfront.statistics._procedures import Bonferroni, FixedSequence, Graphical, Holm, target_levels
from riskfront.testing._findings import too_many
from tests.support import reference as ref


def drops(rng: np.random.Generator, rows: int, n: int, flips: float, mean: float) -> np.ndarray:
    """Signed drops moved to [0, 1]: ``flips`` turn correct, ``flips + mean`` turn wrong."""
    u = rng.random((rows, n))
    return (1 + (u < flips + mean).astype(float) - (u > 1 - flips)) / 2


NULLS = {
    "0/1": lambda rng: (rng.random((4000, 300)) < 0.1).astype(float),
    "0/1, rare": lambda rng: (rng.random((4000, 300)) < 0.01).astype(float),
    "beta": lambda rng: rng.beta(0.3, 2.7, (4000, 300)),
    "nearly constant": lambda rng: 0.1 + 0.02 * (rng.random((4000, 300)) - 0.5),
    "a rare 1": lambda rng: np.where(rng.random((4000, 300)) < 0.02, 1.0, 0.08 / 0.98),
    "signed, many flips": lambda rng: drops(rng, 4000, 300, 0.3, 0.05),
}
MEANS = {"0/1, rare": 0.01, "signed, many flips": 0.525}


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", NULLS)
@pytest.mark.parametrize("aim", [0.1, 0.001])
def test_valid_at_every_level_whatever_it_aims_at(name: str, aim: float) -> None:
    """At the boundary of the hypothesis; the level that is judged at need not be the one aimed at."""
    losses = NULLS[name](np.random.default_rng(len(name)))
    p = pv.betting(losses, MEANS.get(name, 0.1), aim)
    for level in (0.5, 0.1, 0.02, 0.001):
        assert not too_many(int((p <= level).sum()), len(p), level)


def test_sharp_at_the_level_it_aims_at() -> None:
    """The type I error at the boundary nearly is the level: nothing is given away (.097 at n = 800; fixed stakes: .078)."""
    x = NULLS["0/1"](np.random.default_rng(5))
    assert (pv.betting(x, 0.1, 0.1) <= 0.1).mean() > 0.085


@pytest.mark.parametrize(("flips", "mean", "alpha", "n"), [(0.03, 0.04, 0.05, 4943), (0.1, 0.03, 0.05, 2812)])
def test_examples_needed_for_a_signed_drop(flips: float, mean: float, alpha: float, n: int) -> None:
    """Power .8 at the sizes measured for it, where fixed stakes had less than .7."""
    losses = drops(np.random.default_rng(1), 400, n, flips, mean)
    assert (pv.betting(losses, (1 + alpha) / 2, 0.1) <= 0.1).mean() > 0.74
    assert (pv.betting_fixed(losses, (1 + alpha) / 2, 0.1) <= 0.1).mean() < 0.72


def test_at_a_small_level_the_aim_decides() -> None:
    """delta / 6,480, a level of Bonferroni: a bet that aims there, one that aims at delta, and fixed stakes."""
    losses = drops(np.random.default_rng(2), 300, 1100, 0.03, 0.0)
    level = 0.1 / 6480
    aimed, at_delta = (pv.betting(losses, 0.525, aim) <= level for aim in (level, 0.1))
    fixed = pv.betting_fixed(losses, 0.525, 0.1) <= level
    assert aimed.mean() > 0.8
    assert max(at_delta.mean(), fixed.mean()) < aimed.mean() - 0.15


def test_goes_on_past_its_target() -> None:
    """A very safe setting has a very small p-value, so that settings can be told apart below the level."""
    losses = (np.random.default_rng(3).random((2, 2000)) < np.array([[0.01], [0.06]])).astype(float)
    p = pv.betting(losses, 0.1, 0.1)
    assert p[0] < 1e-12 < p[1] < 0.1


def test_a_stake_never_sees_its_own_loss_nor_a_later_one() -> None:
    """The wealth before example t is the same whatever the losses from t on are."""
    rng = np.random.default_rng(4)
    one, other = rng.random((2, 60)) < 0.05
    for t in (1, 20, 59):
        joined = np.concatenate([one[:t], other[t:]]).astype(float)
        up_to = [ref.betting(np.concatenate([row[:t], np.ones(60 - t)]), 0.1, 0.05) for row in (one, joined)]
        assert up_to[0] == up_to[1]
        ours = [pv.betting(np.concatenate([row[:t], np.ones(60 - t)])[None, :], 0.1, 0.05)[0] for row in (one, joined)]
        assert ours[0] == ours[1] == pytest.approx(up_to[0], rel=1e-12)


@pytest.mark.parametrize("name", ["0/1", "beta", "a rare 1"])
def test_a_stake_that_sees_its_own_loss_is_caught(name: str) -> None:
    """The mutant: the spread already knows the loss that the stake is paid for. Type I errors of .27, .16 and .24."""
    x, a = NULLS[name](np.random.default_rng(6)), 0.1
    log_wealth, squares, best = np.zeros((3, len(x)))
    for t, column in enumerate(x.T):
        squares += (column - a) ** 2
        spread = np.minimum(squares / (t + 1), a * (1 - a)) + 1e-9
        missing = np.maximum(math.log(10) - log_wealth, 0)
        stake = np.minimum(0.999 / (1 - a), np.sqrt(2 * missing / ((x.shape[1] - t) * spread)))
        log_wealth += np.log1p(stake * (a - column))
        best = np.maximum(best, log_wealth)
    assert too_many(int((np.exp(-best) <= 0.1).sum()), len(x), 0.1)


def test_aims_are_known_before_the_data() -> None:
    assert target_levels(FixedSequence(), 3, 0.1).tolist() == [0.1] * 3
    assert target_levels(Bonferroni(), 4, 0.1).tolist() == [0.025] * 4
    assert target_levels(Holm(), 4, 0.1).tolist() == [0.025] * 4
    chain = target_levels(Graphical(graphs.hamming((2, 2))), 4, 0.1)
    np.testing.assert_allclose(chain, [0.1, 0.05, 0.05, 0.1])


def table(losses: np.ndarray) -> rf.LossTable:
    return rf.LossTable([{"t": i} for i in range(len(losses))], {"loss": losses, "cost": np.ones(losses.shape)})


def test_what_measures_above_its_limit_is_never_certified() -> None:
    """A bet won early and lost again later: certified by the wealth alone, refused by the mean."""
    row = np.concatenate([np.zeros(60), np.full(20, 0.9)])[None, :]
    assert pv.betting(row, 0.2, 0.1)[0] < 0.1  # the wealth was there
    assert row.mean() > 0.2
    problem = rf.Problem([rf.Limit("loss", at_most=0.2)], ["cost"])
    evidence = Evidence(problem, table(row))
    assert evidence.combined(np.array([0])) == 1


@pytest.mark.filterwarnings("ignore:.*delta")  # so large a delta is warned of
@pytest.mark.parametrize("p_value", ["binomial", "hoeffding-bentkus", "betting"])
def test_at_large_levels_too(p_value: str) -> None:
    """delta = .7: a binomial p-value below it may well measure above its limit."""
    losses = np.zeros((1, 100), dtype=bool)
    losses[0, :11] = True
    problem = rf.Problem([rf.Limit("loss", at_most=0.1, p_value=p_value)], ["cost"], delta=0.7)
    assert Evidence(problem, table(losses)).combined(np.array([0])) == 1


def test_both_forms_of_betting_are_asked_for_by_name() -> None:
    losses = np.random.default_rng(9).beta(1, 12, (3, 200))
    low = losses[losses.mean(axis=1) < 0.1]
    for name, function in (("betting", pv.betting), ("betting-fixed", pv.betting_fixed)):
        problem = rf.Problem([rf.Limit("loss", at_most=0.1, p_value=name)], ["cost"])
        assert rf.Problem.from_dict(problem.to_dict()) == problem
        found = Evidence(problem, table(low)).combined(np.arange(len(low)))
        np.testing.assert_array_equal(found, function(low, 0.1, 0.1))
