"""Tests turned around: the smallest alpha, or the smallest sample, that a p-value would reject."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riskfront._support.arrays import FloatArray


def smallest_rejected(
    p_value: Callable[[FloatArray], FloatArray], low: FloatArray, level: FloatArray, steps: int = 50
) -> FloatArray:
    """The smallest alpha above ``low`` with p_value(alpha) <= level, by bisection from above; 1 where there is none.

    Every p-value of this module falls as alpha grows, so the answer inverts the test into an upper confidence bound.
    """
    low = np.clip(low, 0.0, 1.0 - 1e-9)
    high = np.full(low.shape, 1.0 - 1e-12)
    possible = p_value(high) <= level
    for _ in range(steps):
        middle = (low + high) / 2
        rejected = p_value(middle) <= level
        high, low = np.where(rejected, middle, high), np.where(rejected, low, middle)
    return np.where(possible, high, 1.0)


def smallest_sample(p_value: Callable[[int], float], level: float, largest: int = 10**9) -> int | None:
    """The smallest n with p_value(n) <= level for a p-value that falls with n; None beyond ``largest``."""
    high = 1
    while p_value(high) > level:
        high *= 2
        if high > largest:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if p_value(middle) <= level else (middle, high)
    return high
