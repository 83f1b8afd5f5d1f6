"""p-values for H: E[L] > alpha, from n i.i.d. losses L in [0, 1]: the registry of them.

Each is valid for any distribution and any n: P(p <= u) <= u under H, for all u. ``P_VALUES`` holds one entry a name: the words
that people read, the function, and what of the losses the function needs. Everything else (testing, planning, diagnosis, near
misses, reports) dispatches on what it needs, so a new p-value is a function and a line here.

| needs | function takes |
| --- | --- |
| count, sum | ``(total, n, alpha)``, which broadcast; counts are integers and need 0/1 losses |
| moments | ``(total, squares, n, alpha)``: the sums of the losses and of their squares |
| sequence | ``(losses, alpha, level, selected, of)``: as ``betting``, the losses in an order fixed before they were seen |

Functions take sums and not means because ``ceil(n * (k / n))`` is not always k. All are 1 when n = 0: without
evidence nothing is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from riskfront._support.arrays import Array, FloatArray
from riskfront.statistics._betting import betting
from riskfront.statistics._bounds import (
    bentkus,
    binomial,
    hoeffding,
    hoeffding_bentkus,
    hoeffding_simple,
    smallest_sample,
)
from riskfront.statistics._fixed_stakes import betting_fixed
from riskfront.statistics._sample_size import examples_to_win

_LARGEST_LOOK_UP = 1 << 16  # beyond this many examples a look-up table costs more than it saves
_MOST_EXAMPLES = 10_000_000  # where advice about sample sizes ends
_MOST_BETS = 1_000_000


@dataclass(frozen=True, slots=True)
class PValue:
    """A p-value, and all that the library must know of it.

    Attributes:
        name: what a limit asks for it by.
        words: what people read.
        needs: what of the losses the function takes (see the table above).
        function: the p-value.
    """

    name: str
    words: str
    needs: Literal["count", "sum", "moments", "sequence"]
    function: Callable[..., FloatArray]

    @property
    def of_totals(self) -> bool:
        """Whether the number of losses and their sum are all that it needs."""
        return self.needs in ("count", "sum")

    def from_totals(self, total: Array, n: Array, alpha: float, squares: Array | None = None) -> FloatArray:
        """The p-values of sums; by look-up when integer counts share one sample size."""
        if not self.of_totals:
            return self.function(total, squares, n, alpha)
        if total.dtype.kind in "iu" and total.size:
            largest = int(n.max())
            if largest <= _LARGEST_LOOK_UP and largest == int(n.min()):
                return _look_up(_look_up_table(self.name, largest, alpha), self.function, total, largest, alpha)
        return self.function(total, n, alpha)

    def without_losses(self, n: int, alpha: float, level: float, padded: float = 0.0) -> float:
        """The p-value of n examples without any loss; a share ``padded`` of them counts as alpha."""
        if self.needs == "sequence":
            losses = np.where(np.arange(n) < (1 - padded) * n, 0.0, alpha)[None, :]
            return float(self.function(losses, alpha, level)[0])
        return self._typical(alpha * padded, alpha**2 * padded, n, alpha)

    def examples_without_losses(self, alpha: float, level: float, padded: float = 0.0) -> int | None:
        """How many examples without any loss would be rejected at ``level``; None if no number would."""
        most = _MOST_BETS if self.needs == "sequence" else _MOST_EXAMPLES
        return smallest_sample(lambda n: self.without_losses(n, alpha, level, padded), level, most)

    def examples_like(self, mean: float, losses: FloatArray | None, alpha: float, level: float) -> int | None:
        """How many examples with losses like these would be rejected at ``level``; None if no number would.

        Args:
            losses: (n,), with this mean; None where the mean is all that is needed.
        """
        if losses is not None and self.needs == "sequence":
            return examples_to_win(losses, alpha, level, _MOST_BETS)
        square = mean if losses is None else float((losses * losses).mean())
        if mean >= alpha:
            return None
        return smallest_sample(lambda n: self._typical(mean, square, n, alpha), level, _MOST_EXAMPLES)

    def _typical(self, mean: float, square: float, n: int, alpha: float) -> float:
        """The p-value of n losses with this mean and mean square."""
        total = np.ceil(mean * n - 1e-9) if self.needs == "count" else mean * n
        return float(self.function(total, n, alpha) if self.of_totals else self.function(total, square * n, n, alpha))


#: every p-value by name
P_VALUES: dict[str, PValue] = {
    p_value.name: p_value
    for p_value in (
        PValue("hoeffding", "Hoeffding", "sum", hoeffding),
        PValue("hoeffding-simple", "Hoeffding, simple form", "sum", hoeffding_simple),
        PValue("bentkus", "Bentkus", "sum", bentkus),
        PValue("hoeffding-bentkus", "Hoeffding-Bentkus", "sum", hoeffding_bentkus),
        PValue("binomial", "exact binomial", "count", binomial),
        PValue("betting", "betting", "sequence", betting),
        PValue("betting-fixed", "betting with stakes tuned once", "sequence", betting_fixed),
    )
}
#: every name that a limit may ask for; "auto" is binomial for 0/1 losses and betting for all others
NAMES = ("auto", *P_VALUES)


def _look_up(table: FloatArray, function: Callable[..., FloatArray], total: Array, n: int, alpha: float) -> FloatArray:
    """The entries of a table that is filled where it is first needed."""
    found = table[total]
    unknown = np.isnan(found)
    if unknown.any():
        counts = np.unique(total[unknown])
        table[counts] = function(counts, n, alpha)
        found = table[total]
    return found


@lru_cache(maxsize=128)
def _look_up_table(name: str, n: int, alpha: float) -> FloatArray:
    """(n + 1,): one p-value for each count, nan until it is needed."""
    return np.full(n + 1, np.nan)
