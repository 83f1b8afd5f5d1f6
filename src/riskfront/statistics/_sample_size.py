"""How likely a test is to pass, and how many examples make it likely enough, if the true risk is known.

0/1 losses are exact: the test passes when at most k losses occur, a binomial event. Bets on other losses are either played
through on losses that are as typical as can be (two values with the expected mean and spread, taking turns), as unlucky as the
chance that is asked for allows; or, where there are many and chance outweighs what a bet has to learn, they behave like a test
of the mean that knows the spread and has a twelfth fewer examples. Both agree with simulations to about a tenth in the number
of examples (``tests/statistics/test_sample_size.py``).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from riskfront._support.arrays import FloatArray
from riskfront.statistics._betting import CAP
from riskfront.statistics._bounds import special_functions

_PRICE_OF_BETTING = 1.08  # examples of a bet for one of a test that knows the spread
_PRICE_OF_LEARNING = 1.15  # what it takes to learn the spread, the more the further the limit is below 1
_NOISY = 30.0  # variances of all examples together above which chance outweighs what a bet has to learn
_PLAYED = 5_000  # examples of the longest bet that is played through
_LUCK = 4.0  # standard deviations: nobody has more
_MOST = 1 << 40


def power(n: int, risk: float, alpha: float, level: float, spread: float | None = None) -> float:
    """The probability that n examples certify a setting with this risk at this level, both in units of [0, 1].

    Args:
        spread: the standard deviation of the losses; None for 0/1 losses, which have their own and are tested exactly.
    """
    if n < 1 or not 0 <= risk <= 1 or n < fewest(alpha, level):
        return 0.0
    special = special_functions()
    if spread is None:
        count = _largest_count(n, alpha, level)
        return float(special.bdtr(count, n, risk)) if count >= 0 else 0.0
    if _is_played(n, spread):
        return _chance_when_played(n, risk, alpha, level, spread)
    distance = (alpha - risk) / spread * math.sqrt(n) / _root_of_price(n * spread**2, alpha)
    return float(special.ndtr(distance + special.ndtri(level)))


def _is_played(n: int, spread: float) -> bool:
    return n * spread**2 <= _NOISY and (n <= _PLAYED or spread == 0)


def _chance_when_played(n: int, risk: float, alpha: float, level: float, spread: float) -> float:
    """How much bad luck a bet on typical losses survives, as a probability."""
    low, high = -_LUCK, _LUCK
    if not _survives(low, n, risk, alpha, level, spread):
        return 0.0
    if spread == 0 or _survives(high, n, risk, alpha, level, spread):
        return 1.0
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if _survives(middle, n, risk, alpha, level, spread) else (low, middle)
    return float(special_functions().ndtr((low + high) / 2))


def _survives(luck: float, n: int, risk: float, alpha: float, level: float, spread: float) -> bool:
    """Whether the bet passes when the sample mean lies ``luck`` standard errors above the risk."""
    return wins(alpha - typical(n, risk + luck * spread / math.sqrt(n), spread), alpha, level, n)


def _root_of_price(variation: float, alpha: float) -> float:
    """s with s^2 = 1.08 + c s / sqrt(n variance): s^2 examples of a bet for one of a test that knows the spread."""
    learning = _PRICE_OF_LEARNING * (1 - alpha) ** 1.6 / math.sqrt(variation)
    return (learning + math.sqrt(learning**2 + 4 * _PRICE_OF_BETTING)) / 2


def examples_for(risk: float, alpha: float, level: float, wanted: float, spread: float | None = None) -> int | None:
    """The smallest number of examples, to three digits, from which on the power is what is wanted; None if none does."""
    if not risk < alpha:
        return None
    luck = float(special_functions().ndtri(wanted))

    def reached(n: int) -> bool:
        if spread is None or not _is_played(n, spread):
            return power(n, risk, alpha, level, spread) >= wanted
        return n >= fewest(alpha, level) and _survives(luck, n, risk, alpha, level, spread)

    return smallest(reached, max(fewest(alpha, level), 1), teeth(alpha) if spread is None else 0)


def smallest(reached: Callable[[int], bool], start: int = 1, ahead: int = 0) -> int | None:
    """The smallest number, to three digits, from which on something is reached, as far as the next ``ahead`` numbers tell.

    The power of an exact test falls back whenever one more example allows no further loss.
    """
    high = start
    while not reached(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    while missed := [n for n in range(high + 1, high + ahead + 1, max(1, high // 1000)) if not reached(n)]:
        high = missed[-1] + 1
    return high


def teeth(alpha: float) -> int:
    """How far to look on: the power of an exact test falls back about every 1 / alpha examples."""
    return min(math.ceil(3 / alpha), 10_000)


def fewest(alpha: float, level: float) -> int:
    """Fewer examples certify nothing, not even a setting that never loses: (1 - alpha)^n must come down to the level."""
    return math.ceil(math.log(level) / math.log1p(-alpha) - 1e-9)


def _largest_count(n: int, alpha: float, level: float) -> int:
    """The largest number of losses that still passes, -1 if none does."""
    special = special_functions()
    return bisect_left(range(n), True, key=lambda count: special.bdtr(count, n, alpha) > level) - 1


_EXACT = 200  # below this the smallest number itself, above it a multiple of about a hundredth


def examples_to_win(sequence: FloatArray, alpha: float, level: float, most: int = 1_000_000) -> int | None:
    """The number of examples like these at which a bet aimed at ``level`` is won; None beyond ``most``, or if never.

    ``sequence``: losses in [0, 1] in the order of the bets, (n,), repeated as often as needed.
    """
    gains = alpha - np.asarray(sequence, dtype=np.float64)
    gain, square = float(gains.mean()), float((gains * gains).mean())
    if gain <= 0:
        return None
    # stakes of sqrt(2 ln(1/level) / (n square)) win ln(1/level) at about this n, never at a small part of it
    guess = 2 * math.log(1 / level) * square / gain**2
    if guess > 4 * most:
        return None
    low, high = int(guess / 8), min(max(1, int(guess / 2)), most)
    while not wins(gains, alpha, level, high):
        if high == most:
            return None
        low, high = high, min(max(high + 1, int(1.4 * high)), most)
    while high - low > max(1, high // _EXACT):
        middle = (low + high) // 2
        low, high = (low, middle) if wins(gains, alpha, level, middle) else (middle, high)
    return high


def typical(n: int, mean: float, spread: float) -> FloatArray:
    """(n,): losses in [0, 1] with about this mean and spread and no luck in their order: two values that take turns."""
    mean = min(max(mean, 0.0), 1.0)
    low = max(mean - spread, 0.0)
    if mean == low:
        return np.full(n, mean)
    high = mean + spread**2 / (mean - low)
    share = (mean - low) / (high - low)
    turns = np.floor(np.arange(1, n + 1) * share + 0.5) > np.floor(np.arange(n) * share + 0.5)
    return np.where(turns, min(high, 1.0), low)


def wins(gains: FloatArray, alpha: float, level: float, n: int) -> bool:
    """Whether the stakes of ``_betting.py`` reach 1 / level within n examples: the same arithmetic, for one row."""
    log, sqrt = math.log, math.sqrt
    missing, squares, most = -log(level), 0.0, CAP / (1 - alpha)
    prior, widest = (1 - alpha) * n, (1 - alpha) * alpha
    for t, gain in enumerate(np.resize(gains, n).tolist()):
        seen = t or 0.5
        spread = min(squares / seen + prior / seen**2, widest)
        missing -= log(1 + min(most, sqrt(2 * missing / ((n - t) * spread))) * gain)
        if missing <= 0:
            return True
        squares += gain * gain
    return False
