"""p-values of a count or a mean: exact binomial, Hoeffding, Bentkus; and the sample sizes at which they pass."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront._support.arrays import FloatArray


def binomial(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """The exact tail for 0/1 losses: P(Bin(n, alpha) <= total)."""
    total, n, alpha = as_floats(total, n, alpha)
    inside = (total >= 0) & (total < n)
    # P(Bin(n, a) <= k) is the upper incomplete beta function at (k + 1, n - k); the complement form keeps small tails exact
    tail = special_functions().betaincc(np.where(inside, total, 0.0) + 1.0, np.where(inside, n - total, 1.0), alpha)
    return np.where(inside, tail, np.where(total < 0, 0.0, 1.0))


def as_floats(*values: npt.ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def special_functions() -> Any:
    """scipy.special, loaded with the first p-value: importing it takes as long as importing all the rest of riskfront."""
    import scipy.special

    return scipy.special


def hoeffding(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Hoeffding's inequality in its tight (Chernoff, relative entropy) form: exp(-n h(min(R, alpha), alpha))."""
    total, n, alpha = as_floats(total, n, alpha)
    mean = np.minimum(total / np.maximum(n, 1.0), alpha)
    special = special_functions()
    # xlogy is 0 at 0, so a perfect record gives (1 - alpha)^n and not nan
    divergence = special.xlogy(mean, mean / alpha) + special.xlogy(1 - mean, (1 - mean) / (1 - alpha))
    return np.exp(-n * np.maximum(divergence, 0.0))


def hoeffding_simple(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Hoeffding's inequality in its simple form (the paper's Algorithm "Learn then Test"): exp(-2 n (alpha - R)_+^2)."""
    total, n, alpha = as_floats(total, n, alpha)
    return np.asarray(np.exp(-2 * n * np.maximum(alpha - total / np.maximum(n, 1.0), 0.0) ** 2))


def bentkus(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Bentkus' inequality: e P(Bin(n, alpha) <= ceil(total)), at most 1."""
    return np.asarray(np.minimum(math.e * binomial(np.ceil(total), n, alpha), 1.0))


def hoeffding_bentkus(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """The smaller of the two, as in the paper: valid because both bound the same tail of the same mean."""
    return np.asarray(np.minimum(hoeffding(total, n, alpha), bentkus(total, n, alpha)))


def smallest_sample(p_value: Callable[[int], float], level: float, largest: int = 10**9) -> int | None:
    """The smallest n with p_value(n) <= level for a p-value that falls with n; None beyond ``largest``."""
    high = 1
    while p_value(high) > level:
        high *= 2
        if high > largest:
            return None
    return bisect_left(range(high), True, lo=high // 2 + 1, key=lambda n: p_value(n) <= level)


Z_95 = 1.959963984540054  # two-sided 95 %
#: how often held-out examples may "show" that a limit is broken although it holds
HELD_OUT_LEVEL = 0.05


def wilson(share: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of a share of n trials (Wilson)."""
    middle = (share + Z_95**2 / (2 * n)) / (1 + Z_95**2 / n)
    half = Z_95 / (1 + Z_95**2 / n) * np.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n**2))
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
