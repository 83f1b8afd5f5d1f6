"""p-values from concentration inequalities: the Hoeffding and Bentkus bounds of the paper, for any bounded loss."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from riskfront._support.arrays import FloatArray
from riskfront.statistics._binomial import as_floats, binomial, special_functions


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
