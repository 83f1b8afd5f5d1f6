"""Means of the worst cases (conditional value at risk): as measured, and the threshold that they are tested with."""

from __future__ import annotations

import numpy as np

from riskfront._support.arrays import Array, BoolArray, FloatArray


def worst_means(values: Array, kept: BoolArray | None, share: float, *, lower: bool = False) -> FloatArray:
    """(rows,): the mean of the worst ``share`` of each row, the largest values or the smallest; nan without examples.

    The example at the border counts with the part of it that belongs to the share.
    """
    found = np.full(len(values), np.nan)
    for row, losses in enumerate(values):
        of = losses if kept is None else losses[np.broadcast_to(kept, values.shape)[row]]
        if len(of) == 0:
            continue
        ordered = np.sort(of.astype(np.float64))[:: 1 if lower else -1]
        count = share * len(ordered)
        whole = min(int(count), len(ordered) - 1)
        found[row] = (ordered[:whole].sum() + (count - whole) * ordered[whole]) / count
    return found


def border(values: Array, share: float, *, lower: bool = False) -> float:
    """The value that the worst ``share`` lies beyond: the best threshold for losses such as these."""
    return float(np.quantile(values.astype(np.float64), share if lower else 1 - share))
