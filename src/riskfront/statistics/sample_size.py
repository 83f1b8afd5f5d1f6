"""How likely a test is to pass, and how many examples make it likely enough, if the true risk is known.

0/1 losses are exact: the test passes when at most k losses occur, a binomial event. Bets on other losses behave like a test of
the mean that knows the spread and has fewer examples: a twelfth fewer when there are many, and more than that where a bet has
to learn first how small the spread is. How many fewer was fitted to simulations of 50 kinds of losses and levels, with a spread
from .005 to .4, and agrees with them to about a tenth in the number of examples, to a sixth where the spread is so small that
the bet hardly learns it (``tests/statistics/test_sample_size.py``).
"""

from __future__ import annotations

import math

from riskfront.statistics.binomial import special_functions

_PRICE_OF_BETTING = 1.08  # examples of a bet for one of a test that knows the spread
_PRICE_OF_LEARNING = 1.15  # what it takes to learn the spread, the more the further the limit is below 1
_PRICE_OF_CERTAINTY = (
    0.35  # examples more where losses hardly vary: then a bet that knows so little is still far too careful
)
_MOST = 1 << 40


def power(n: int, risk: float, alpha: float, level: float, spread: float | None = None) -> float:
    """The probability that n examples certify a setting with this risk at this level, both in units of [0, 1].

    Args:
        spread: the standard deviation of the losses; None for 0/1 losses, which have their own and are tested exactly.
    """
    if n < 1 or not 0 <= risk <= 1:
        return 0.0
    if n < fewest(alpha, level):
        return 0.0
    special = special_functions()
    if spread is None:
        count = _largest_count(n, alpha, level)
        return float(special.bdtr(count, n, risk)) if count >= 0 else 0.0
    if spread <= 0:
        return 1.0 if risk < alpha else 0.0
    variation = n * spread**2
    counted = n / (1 + _PRICE_OF_CERTAINTY / (1 + variation**2))
    distance = (alpha - risk) / spread * math.sqrt(counted) / _root_of_price(counted * spread**2, alpha)
    return float(special.ndtr(distance + special.ndtri(level)))


def _root_of_price(variation: float, alpha: float) -> float:
    """s with s^2 = 1.08 + c s / sqrt(n variance): s^2 examples of a bet for one of a test that knows the spread."""
    learning = _PRICE_OF_LEARNING * (1 - alpha) ** 1.6 / math.sqrt(variation)
    return (learning + math.sqrt(learning**2 + 4 * _PRICE_OF_BETTING)) / 2


def examples_for(risk: float, alpha: float, level: float, wanted: float, spread: float | None = None) -> int | None:
    """The smallest number of examples, to three digits, with which the power reaches what is wanted; None if none does."""
    if not risk < alpha:
        return None
    high = max(fewest(alpha, level), 1)
    while power(high, risk, alpha, level, spread) < wanted:
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle, risk, alpha, level, spread) >= wanted else (middle, high)
    return high


def fewest(alpha: float, level: float) -> int:
    """Fewer examples certify nothing, not even a setting that never loses: (1 - alpha)^n must come down to the level."""
    return math.ceil(math.log(level) / math.log1p(-alpha) - 1e-9)


def _largest_count(n: int, alpha: float, level: float) -> int:
    """The largest number of losses that still passes, -1 if none does."""
    special = special_functions()
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if float(special.bdtr(middle, n, alpha)) <= level else (low, middle)
    return low
