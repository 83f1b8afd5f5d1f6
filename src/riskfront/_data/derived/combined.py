"""One column made of several: what a ratio, a weighted mean or a mean of worst cases is tested on, and a proxy planned with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.sums import Totals
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, FloatArray
from riskfront.errors import InvalidInputError


def combined(term: Term, values: Array, column: Callable[[str], Array], weights: FloatArray | None) -> Array:
    """(rows, examples): w (L - at D), or max(L - threshold, 0) (for the lower tail, max(threshold - L, 0)), or, with a proxy,
    L - strength (proxy - mean proxy of the example's own batch).

    Args:
        values: (rows, examples), the loss L itself.
        column: the same rows of another loss, by name; D is the sum of ``term.over``, and 1 for a weighted mean.
        weights: (examples,) or None for 1.
    """
    made = values.astype(np.float64)
    if term.beyond is not None:
        return np.maximum(term.beyond - made if term.lower else made - term.beyond, 0.0)
    if term.proxy is not None:
        return made - term.proxy_weight * (column(term.proxy[0]).astype(np.float64) - column(term.proxy[1]))
    if term.over:
        for name, factor in term.over if term.at else ():
            made -= term.at * factor * column(name)
    elif term.at:
        made -= term.at
    return made if weights is None else made * weights


def ratios(at_0: Totals, at_1: Totals) -> FloatArray:
    """(settings, groups): sum of w L over sum of w D, from the sums of w L and of w (L - D); nan where D has none."""
    below = at_0.total - at_1.total
    return np.divide(at_0.total, below, out=np.full(below.shape, np.nan), where=below > 1e-12 * np.abs(at_0.total))


def example_weights(name: str, groups: Groups) -> FloatArray:
    """(examples,): the weight of each, which a table holds as a group whose values are numbers."""
    if not all(isinstance(level, int | float) and level >= 0 for level in groups.levels):
        raise InvalidInputError(
            f"weights must be numbers of at least 0, one for each example; '{name}' holds {groups.levels[0]!r}."
        )
    return np.asarray(groups.levels, dtype=np.float64)[groups.codes]
