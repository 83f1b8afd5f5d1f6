"""Losses that are made of others when they are needed: gaps between groups, ratios, means of the worst cases, clusters, drops.

Nothing here is stored. A term says what is wanted, and a table answers with sums or with single losses. Groups come in ordered
pairs, (A, B) and (B, A): a gap is kept when A is not too far above B, nor B above A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.groups import Groups
from riskfront._data.sums import Totals
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError

Paired = tuple[FloatArray, BoolArray | None]


def pairs(count: int) -> list[tuple[int, int]]:
    """The ordered pairs of so many groups."""
    return list(permutations(range(count), 2))


def pair_names(levels: tuple[Any, ...]) -> list[str]:
    return [f"{levels[a]} minus {levels[b]}" for a, b in pairs(len(levels))]


def gap(sums: Totals) -> Totals:
    """Sums of one term in each group as sums of differences, (settings, pairs): as many as the smaller group has examples, with
    the difference of the two means as their mean."""
    means = np.nan_to_num(sums.means())
    first, second = np.array(pairs(sums.total.shape[1]), dtype=np.int64).reshape(-1, 2).T
    n = np.minimum(sums.n[:, first], sums.n[:, second])
    return Totals(n, n * (means[:, first] - means[:, second]))


def paired(values: Array, condition: BoolArray | None, groups: list[IntArray]) -> list[Paired]:
    """For each ordered pair the differences one by one, (rows, longest), and which of them count.

    Each example of the smaller group is compared with the mean of a few of the larger one, in the order of the examples, which
    must be random: then the differences are independent of each other, each with the difference of the two risks as its mean.
    """
    found: list[Paired] = [(np.empty((len(values), 0)), None)] * (len(groups) * (len(groups) - 1))
    place = {pair: index for index, pair in enumerate(pairs(len(groups)))}
    for (a, b), index in place.items():
        if a < b:
            difference, kept = _of_two(values, condition, groups[a], groups[b])
            found[index], found[place[b, a]] = (difference, kept), (-difference, kept)
    return found


def _of_two(values: Array, condition: BoolArray | None, one: IntArray, other: IntArray) -> Paired:
    if condition is None or len(condition) == 1:
        if condition is not None:
            one, other = one[condition[0][one]], other[condition[0][other]]
        return _differences(values[:, one], values[:, other]), None
    rows = [
        _differences(v[None, one[c[one]]], v[None, other[c[other]]])[0] for v, c in zip(values, condition, strict=True)
    ]
    longest = max((len(row) for row in rows), default=0)
    kept = np.array([np.arange(longest) < len(row) for row in rows], dtype=bool).reshape(len(rows), longest)
    packed = np.zeros(kept.shape)
    packed[kept] = np.concatenate(rows) if rows else []
    return packed, kept


def _differences(one: Array, other: Array) -> FloatArray:
    """(rows, examples of the smaller): one minus other, the larger averaged over batches that are as equal as can be."""
    count = min(one.shape[1], other.shape[1])
    if count == 0:
        return np.empty((len(one), 0))
    return _batches(one, count) - _batches(other, count)


def _batches(values: Array, count: int) -> FloatArray:
    """(rows, count): means of ``count`` batches of neighbours."""
    wide = values.astype(np.float64)
    if wide.shape[1] == count:
        return wide
    edges = np.linspace(0, wide.shape[1], count + 1).astype(np.int64)
    return np.add.reduceat(wide, edges[:-1], axis=1) / np.diff(edges)


def combined(term: Term, values: Array, column: Callable[[str], Array], weights: FloatArray | None) -> Array:
    """(rows, examples): w (L - at D), or max(L - threshold, 0) (for the lower tail, max(threshold - L, 0)), or, with a proxy,
    L - weight (proxy - mean proxy of the example's own batch).

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


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Which cluster each row belongs to; ``first`` is one row of each cluster, in the order of their first rows."""

    codes: IntArray
    first: IntArray

    @classmethod
    def of(cls, groups: Groups) -> Clusters:
        """Clusters without a row are no clusters."""
        _, first, codes = np.unique(groups.codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(place[codes], first[order])

    def means(self, losses: Array) -> FloatArray:
        """(settings, rows) -> (settings, clusters): the mean over the rows of each cluster that have a value, nan without."""
        order = np.argsort(self.codes, kind="stable")
        sizes = np.bincount(self.codes)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        values = losses[:, order].astype(np.float64)
        known = ~np.isnan(values)
        if known.all():
            return np.add.reduceat(values, starts, axis=1) / sizes
        counts = np.add.reduceat(known.astype(np.int64), starts, axis=1)
        totals = np.add.reduceat(np.where(known, values, 0.0), starts, axis=1)
        return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)

    def groups(self, given: Mapping[str, Groups]) -> dict[str, Groups]:
        """The groups that all rows of a cluster share; others say nothing about a cluster."""
        shared = {name: of for name, of in given.items() if (of.codes[self.first][self.codes] == of.codes).all()}
        return {name: of.at(self.first) for name, of in shared.items()}


def find_reference(configs: pd.DataFrame, name: str) -> int:
    """The row of the only setting that a name stands for.

    The name is a value that no other setting has in any column ("gpt-4"), or values of several columns
    ("model=gpt-4, effort=high").
    """
    parts = [part.partition("=") for part in name.split(",")]
    if all(sign and column.strip() in configs.columns for column, sign, _ in parts):
        same = [_equal(configs[column.strip()], value.strip()) for column, _, value in parts]
        rows = np.flatnonzero(np.logical_and.reduce(same))
    else:  # rows that have this value in any column: were one of several meant, another could be taken for it
        rows = np.flatnonzero(np.logical_or.reduce([_equal(configs[column], name) for column in configs.columns]))
    if len(rows) != 1:
        found = "none" if len(rows) == 0 else f"{len(rows):,} of them"
        raise InvalidInputError(
            f"a reference must stand for exactly one setting; '{name}' stands for {found}. Name a value that only this "
            f"setting has, or several as 'column=value, column=value', with columns {', '.join(configs.columns)}."
        )
    return int(rows[0])


def drop(reference: Totals, of_settings: Totals) -> Totals:
    """The summed drop from the reference, (settings, groups): what the reference has and the setting has not."""
    return Totals(of_settings.n, reference.total - of_settings.total)


def own_term(term: Term, varies: bool) -> Term:
    """What is summed of each setting for a drop, if setting and reference can be compared example by example."""
    if varies:
        raise InvalidInputError(
            f"a drop must compare two settings on the same examples; '{term.given}' depends on the setting. "
            "Condition it on a group of the examples instead."
        )
    return replace(term, drop_from=None)


def _equal(column: pd.Series[Any], text: str) -> Any:
    """Where a column holds the value that a text stands for; numbers are compared as numbers."""
    if column.dtype == np.bool_:
        return column.astype(str).eq(text).to_numpy()
    same = np.zeros(len(column), dtype=bool) if column.dtype.kind in "iuf" else column.eq(text).to_numpy()
    try:
        return same | column.eq(float(text)).to_numpy()
    except ValueError:
        return same
