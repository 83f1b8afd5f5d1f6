"""Differences between groups: of their sums, and of their losses one by one, paired at random.

Groups come in ordered pairs, (A, B) and (B, A): a gap is kept when A is not too far above B, nor B above A.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from riskfront._data.sums import Totals
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray

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
