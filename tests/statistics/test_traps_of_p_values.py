"""What is known to go wrong in p-values: each trap on a mutant written here, and that ours does not fall in."""

import math

import numpy as np
import pytest
from scipy import stats

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _p_values as pv
from riskfront.testing._findings import too_many
from tests.support import worlds
from tests.support.p_values import OF_SUMS
from tests.support.tables import table_of
from tests.validity.broken import kelly


def type_one_errors(p: np.ndarray, delta: float = 0.1) -> int:
    return int((p <= delta).sum())


def ours(table: rf.LossTable, alpha: float, name: str = "auto") -> np.ndarray:
    problem = rf.Problem([rf.Limit("loss", at_most=alpha, p_value=name)], ["cost"])
    return Evidence(problem, table).combined(np.arange(table.n_configs))


@pytest.mark.parametrize(("alpha", "flips"), [(0.1, 0.3), (0.025, 0.1), (0.025, 0.3)])
def test_signed_differences_fed_to_hoeffding_bentkus(alpha: float, flips: float) -> None:
    world = worlds.signed(alpha, flips=flips, settings=3000, safe=0)
    table = table_of(world, np.random.default_rng(0), 500)
    sums = table.losses("loss").sum(axis=1, dtype=int)
    mutant = np.where(sums < 0, 0.0, pv.hoeffding_bentkus(np.maximum(sums, 0), 500, alpha))
    assert too_many(type_one_errors(mutant), 3000, 0.1)
    assert type_one_errors(mutant) / 3000 > 0.17
    assert stats.binom.cdf(-3, 500, alpha) == 0  # a negative mean gives p = 0
    for name in ("betting", "hoeffding-bentkus"):  # on the declared bounds, (-1, 1)
        assert not too_many(type_one_errors(ours(table, alpha, name)), 3000, 0.1)


def test_two_sided_betting() -> None:
    """Stakes of both signs find evidence that the risk differs from alpha, also when it is far above."""
    losses = (np.random.default_rng(1).random((1, 250)) < 0.6).astype(float)
    two_sided = np.exp(-np.cumsum(np.log1p(0.9 * (losses - 0.1))).max())  # bets on more losses than alpha
    assert two_sided < 1e-29
    assert pv.betting(losses, 0.1, 0.1)[0] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_the_current_loss_enters_its_own_stake(alpha: float) -> None:
    """It shows in stakes that follow the mean: a loss of 1 lowers the stake it is paid with. On 0/1 losses the type I error is
    near 0.3 (alpha .1, n = 300) to 0.5 (alpha .5, n = 1000). Where only the variance sees its own loss, as it would
    in our stakes, the error is smaller: 0.17 at alpha = .1, n = 300, and below 0.1 at alpha = .5."""
    x = (np.random.default_rng(2).random((3000, 300 if alpha == 0.1 else 1000)) < alpha).astype(float)
    seeing, blind = type_one_errors(kelly(x, alpha, own=True)), type_one_errors(kelly(x, alpha, own=False))
    assert seeing / 3000 > (0.25 if alpha == 0.1 else 0.4)
    assert too_many(seeing, 3000, 0.1)
    assert not too_many(blind, 3000, 0.1)
    assert not too_many(type_one_errors(pv.betting(x, alpha, 0.1)), 3000, 0.1)


def test_our_stakes_with_the_current_loss() -> None:
    """The same slip in our own stakes, at alpha = .1: forgetting to shift the variance by one."""
    x = (np.random.default_rng(3).random((3000, 300)) < 0.1).astype(float)
    t = np.arange(1, 301)
    mean = (0.5 + np.cumsum(x, axis=1)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2, axis=1)) / (t + 1)
    stake = np.minimum(0.75 / 0.9, np.sqrt(2 * np.log(10) / (300 * variance)))
    mutant = np.exp(-np.maximum(np.cumsum(np.log1p(-stake * (x - 0.1)), axis=1).max(axis=1), 0))
    assert too_many(type_one_errors(mutant), 3000, 0.1)
    assert not too_many(type_one_errors(pv.betting(x, 0.1, 0.1)), 3000, 0.1)


def test_maxima_of_two_halves_added_up() -> None:
    """A maximum over time is no fair wager: E[max K] > 1, so the mean of two maxima passes 1 / delta too often.

    The stake 1 / (1 - alpha) on 0/1 losses makes it exact: the wealth grows by that factor until the first loss takes it all.
    """
    trials, alpha = 100_000, 0.01
    before_the_first_loss = np.random.default_rng(4).geometric(alpha, size=(trials, 2)) - 1
    best = (1 - alpha) ** -np.minimum(before_the_first_loss, 1000.0)
    misses = int((best.mean(axis=1) >= 10).sum())
    assert 0.11 < misses / trials < 0.17
    assert too_many(misses, trials, 0.1)
    assert not too_many(int((best[:, 0] >= 10).sum()), trials, 0.1)  # one process, by Ville's inequality


def test_normal_approximation_as_default() -> None:
    losses = np.zeros(3)
    with np.errstate(divide="ignore"):
        mutant = stats.norm.cdf((losses.mean() - 0.1) / (losses.std() / np.sqrt(3)))
    assert mutant == 0
    for name in OF_SUMS:
        assert float(OF_SUMS[name](0, 3, 0.1)) > 0.7
    assert pv.betting(losses[None, :], 0.1, 0.1)[0] > 0.7


def test_ceil_of_n_times_the_mean() -> None:
    shares, floored = [], 0
    for n in (49, 100, 1000, 5000, 7600):
        k = np.arange(n + 1)
        shares.append(float((np.ceil(n * (k / n)) != k).mean()))
        floored += int((np.floor(n * (k / n)) < k).sum())
    assert max(shares) > 0.03  # weaker tests
    assert floored > 0  # and anti-conservative where floored
    n, k = next((n, k) for n in range(10, 200) for k in range(1, n // 5) if math.floor(n * (k / n)) < k)
    assert float(pv.binomial(math.floor(n * (k / n)), n, 0.3)) < 0.8 * float(pv.binomial(k, n, 0.3))
    # ours: sums of 0/1 losses are integers all the way
    for n in (49, 100, 1000):
        losses = np.tri(n + 1, n, k=-1, dtype=bool)  # row k has k losses
        table = rf.LossTable([{"k": k} for k in range(n + 1)], {"loss": losses, "cost": np.ones((n + 1, n))})
        for name in ("binomial", "hoeffding-bentkus"):
            below = np.arange(int(0.1 * n) + 1)  # what measures above its limit has p-value 1
            np.testing.assert_array_equal(ours(table, 0.1, name)[below], OF_SUMS[name](below, n, 0.1))


def test_hoeffding_part_lost_at_mean_zero() -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = np.float64(0.0)
        divergence = zero * np.log(zero / 0.1) + (1 - zero) * np.log((1 - zero) / 0.9)
        mutant = np.nanmin([np.exp(-20 * divergence), float(pv.bentkus(0, 20, 0.1))])
    assert np.isnan(divergence)
    assert mutant == pytest.approx(0.33, abs=0.005)
    assert float(pv.hoeffding_bentkus(0, 20, 0.1)) == pytest.approx(0.12, abs=0.005)


def test_floor_in_bentkus_shows_on_losses_that_are_not_whole() -> None:
    """e P(Bin <= floor(sum)) is below e P(Bin <= ceil(sum)) by one whole count."""
    assert float(pv.bentkus(4.5, 100, 0.1)) == float(pv.bentkus(5, 100, 0.1))
    assert math.e * stats.binom.cdf(4, 100, 0.1) < 0.5 * float(pv.bentkus(4.5, 100, 0.1))


def test_the_smaller_of_two_families_on_the_same_data() -> None:
    """Hoeffding-Bentkus may take a minimum since both parts bound the tail of one mean. Binomial or betting may not."""
    x = np.random.default_rng(6).random((6000, 300)) < 0.1
    exact, bet = pv.binomial(x.sum(axis=1), 300, 0.1), pv.betting(x, 0.1, 0.1)
    level = float(np.unique(exact)[np.searchsorted(np.unique(exact), 0.1) - 1])  # a level the exact test uses up
    assert not too_many(type_one_errors(exact, level), 6000, level)
    assert too_many(type_one_errors(np.minimum(exact, bet), level), 6000, level)
