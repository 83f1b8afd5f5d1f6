"""How many examples a bet would need: for advice, so to about one in a hundred, and in no time.

The p-values themselves are in betting.py. What is asked here is about examples nobody has seen: those seen so far stand for
them, over and over.
"""

from __future__ import annotations

import math

import numpy as np

from riskfront._support.arrays import FloatArray
from riskfront.statistics._betting import CAP

_EXACT = 200  # below this the smallest number itself, above it a multiple of about a hundredth


def examples_to_win(sequence: FloatArray, alpha: float, level: float, most: int = 1_000_000) -> int | None:
    """The number of examples like these at which a bet aimed at ``level`` is won; None beyond ``most``, or if never.

    Args:
        sequence: losses in [0, 1] in the order of the bets, (n,), repeated as often as needed.
        alpha: the limit, in (0, 1).
        level: what the stakes aim at.
        most: where to give up.
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
    """Whether the stakes of betting.py reach 1 / level within n examples: the same arithmetic, for one row."""
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
