"""Powers and numbers of examples against simulation and closed forms."""

import numpy as np
import pytest
from scipy import stats

from riskfront.statistics import _p_values as p_values
from riskfront.statistics._sample_size import examples_for, fewest, power

LEVEL = 0.1


@pytest.mark.parametrize(("n", "risk", "alpha"), [(100, 0.02, 0.05), (517, 0.03, 0.05), (2000, 0.09, 0.1)])
def test_power_of_the_exact_test_is_exact(n: int, risk: float, alpha: float) -> None:
    counts = np.arange(n + 1)
    passed = p_values.binomial(counts, n, alpha) <= LEVEL
    assert power(n, risk, alpha, LEVEL) == pytest.approx(stats.binom.pmf(counts[passed], n, risk).sum())


def test_fewest_is_where_a_perfect_setting_passes() -> None:
    for alpha, level in [(0.05, 0.1), (0.01, 0.05), (0.3, 0.001)]:
        n = fewest(alpha, level)
        assert (1 - alpha) ** n <= level < (1 - alpha) ** (n - 1)
        assert power(n - 1, 0.0, alpha, level) == 0
        assert power(n, 0.0, alpha, level) == pytest.approx(1)


def draws(kind: str, rows: int, n: int) -> tuple[np.ndarray, float, float]:
    """Losses in [0, 1], their mean and their spread."""
    rng = np.random.default_rng(7)
    if kind == "beta":
        return rng.beta(0.8, 7.2, (rows, n)), 0.1, float(np.sqrt(0.1 * 0.9 / 9))
    u = rng.random((rows, n))
    drop = (u < 0.08).astype(float) - (u > 0.95)
    return (drop + 1) / 2, 0.515, float(np.sqrt(0.13 - 0.03**2) / 2)


@pytest.mark.parametrize(("kind", "alpha"), [("beta", 0.11), ("beta", 0.12), ("drop", 0.525), ("drop", 0.54)])
def test_bets_pass_as_often_as_was_planned(kind: str, alpha: float) -> None:
    _, risk, spread = draws(kind, 1, 1)
    n = examples_for(risk, alpha, LEVEL, 0.8, spread)
    assert n is not None
    losses = draws(kind, 1500, n)[0]
    passed = (p_values.betting(losses, alpha, LEVEL) <= LEVEL).mean()
    assert passed == pytest.approx(0.8, abs=0.07)


@pytest.mark.parametrize(
    ("risk", "alpha", "spread"), [(0.035, 0.05, 0.017), (0.045, 0.05, 0.023), (0.09, 0.1, 0.045), (0.27, 0.3, 0.041)]
)
def test_losses_that_hardly_vary(risk: float, alpha: float, spread: float) -> None:
    """A bet has to learn how small the spread is: the number of examples is right to about a sixth."""
    n = examples_for(risk, alpha, LEVEL, 0.8, spread)
    assert n is not None
    rng, shape = np.random.default_rng(8), risk * (1 - risk) / spread**2 - 1
    powers = []
    for size in (round(n / 1.2), round(1.2 * n)):
        losses = rng.beta(risk * shape, (1 - risk) * shape, (500, size))
        powers.append((p_values.betting(losses, alpha, LEVEL) <= LEVEL).mean())
    assert powers[0] < 0.8 < powers[1]


@pytest.mark.parametrize(
    ("risk", "alpha", "spread"),
    [(0.45, 0.5, 0.02), (0.48, 0.5, 0.02), (0.85, 0.9, 0.03), (0.4, 0.5, 0.05), (0.6, 0.7, 0.1), (0.3, 0.5, 0.1)],
)
@pytest.mark.parametrize("wanted", [0.5, 0.8])
@pytest.mark.parametrize("level", [0.1, 0.001])
def test_large_means_that_hardly_vary(risk: float, alpha: float, spread: float, wanted: float, level: float) -> None:
    """Where a bet has most to learn: a formula said 23 examples where 35 were needed, and nothing was certified."""
    n = examples_for(risk, alpha, level, wanted, spread)
    assert n is not None
    rng, shape = np.random.default_rng(9), risk * (1 - risk) / spread**2 - 1
    powers = []
    for size in (int(n / 1.25), int(1.25 * n) + 1):
        losses = rng.beta(risk * shape, (1 - risk) * shape, (400, size))
        powers.append((p_values.betting(losses, alpha, level) <= level).mean())
    assert powers[0] < wanted < powers[1]


def test_losses_that_never_vary_win_at_once_or_not() -> None:
    n = examples_for(0.4, 0.5, LEVEL, 0.8, 0.0)
    assert n is not None
    assert power(n, 0.4, 0.5, LEVEL, 0.0) == 1
    assert power(n - 1, 0.4, 0.5, LEVEL, 0.0) == 0
    for size in (n - 1, n):
        assert (p_values.betting(np.full((1, size), 0.4), 0.5, LEVEL)[0] <= LEVEL) == (size == n)


def test_from_that_number_on_the_power_stays() -> None:
    """The power of an exact test is a saw: 446 examples reach .8 for a moment, 515 for good."""
    n = examples_for(0.03, 0.05, LEVEL, 0.8)
    assert n is not None
    assert power(n - 1, 0.03, 0.05, LEVEL) < 0.8
    assert all(power(more, 0.03, 0.05, LEVEL) >= 0.8 for more in range(n, 2 * n))
    assert any(power(fewer, 0.03, 0.05, LEVEL) >= 0.8 for fewer in range(n // 2, n - 1))


def test_what_no_number_of_examples_certifies() -> None:
    assert examples_for(0.05, 0.05, LEVEL, 0.8) is None
    assert examples_for(0.1, 0.05, LEVEL, 0.8, 0.2) is None
    assert power(10**6, 0.1, 0.05, LEVEL) < 1e-6
