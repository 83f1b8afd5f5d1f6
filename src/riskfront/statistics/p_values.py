"""p-values for H: E[L] > alpha, from n i.i.d. losses L in [0, 1].

Each function here is valid for any distribution and any n: P(p <= u) <= u under H, for all u.

The functions of the sum take ``total`` (the sum of the losses; an integer count for 0/1 losses), ``n`` and ``alpha``,
which broadcast against each other. They take the sum and not the mean because ``ceil(n * (k / n))`` is not always k.
``betting`` takes the losses themselves, in an order fixed before they were seen.

All are 1 when n = 0: no evidence, no rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from riskfront.arrays import Array, FloatArray
from riskfront.statistics.betting import betting
from riskfront.statistics.binomial import binomial, binomial_upper_bound
from riskfront.statistics.concentration import bentkus, hoeffding, hoeffding_bentkus, hoeffding_simple
from riskfront.statistics.fixed_stakes import betting_fixed
from riskfront.statistics.inversion import smallest_rejected, smallest_sample

SumPValue = Callable[[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], FloatArray]

_LARGEST_LOOK_UP = 1 << 16  # beyond this many examples a look-up table costs more than it saves


#: The p-values that need only the sum of the losses, by name.
OF_SUMS: dict[str, SumPValue] = {
    "hoeffding": hoeffding,
    "hoeffding-simple": hoeffding_simple,
    "bentkus": bentkus,
    "hoeffding-bentkus": hoeffding_bentkus,
    "binomial": binomial,
}
#: Every name that a limit may ask for.
NAMES = ("auto", *OF_SUMS, "betting")


def of_sums(name: str, total: Array, n: Array, alpha: float) -> FloatArray:
    """``OF_SUMS[name]``, by look-up when integer counts share one sample size."""
    if total.dtype.kind in "iu" and total.size:
        largest = int(n.max())
        if largest <= _LARGEST_LOOK_UP and largest == int(n.min()):
            return _look_up(_look_up_table(name, largest, alpha), name, total, largest, alpha)
    return OF_SUMS[name](total, n, alpha)


def _look_up(table: FloatArray, name: str, total: Array, n: int, alpha: float) -> FloatArray:
    """The entries of a table that is filled where it is first needed."""
    found = table[total]
    unknown = np.isnan(found)
    if unknown.any():
        counts = np.unique(total[unknown])
        table[counts] = OF_SUMS[name](counts, n, alpha)
        found = table[total]
    return found


@lru_cache(maxsize=128)
def _look_up_table(name: str, n: int, alpha: float) -> FloatArray:
    """(n + 1,): one p-value for each count, nan until it is needed."""
    return np.full(n + 1, np.nan)


__all__ = [
    "NAMES",
    "OF_SUMS",
    "SumPValue",
    "bentkus",
    "betting",
    "betting_fixed",
    "binomial",
    "binomial_upper_bound",
    "hoeffding",
    "hoeffding_bentkus",
    "hoeffding_simple",
    "of_sums",
    "smallest_rejected",
    "smallest_sample",
]
