"""The exact binomial p-value of 0/1 losses, and the upper confidence bound that inverts it."""

from __future__ import annotations

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


def binomial_upper_bound(total: npt.ArrayLike, n: npt.ArrayLike, level: npt.ArrayLike) -> FloatArray:
    """The smallest alpha that ``binomial`` rejects at ``level`` (Clopper and Pearson's one-sided bound); 1 if none."""
    total, n, level = as_floats(total, n, level)
    inside = total < n
    # the complement form again: 1 - level would be 1 at the tiny levels far out on a graph
    bound = special_functions().betainccinv(np.where(inside, total, 0.0) + 1.0, np.where(inside, n - total, 1.0), level)
    return np.where(inside, bound, 1.0)


def as_floats(*values: npt.ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def special_functions() -> Any:
    """scipy.special, loaded with the first p-value: importing it takes as long as importing all the rest of riskfront."""
    import scipy.special

    return scipy.special
