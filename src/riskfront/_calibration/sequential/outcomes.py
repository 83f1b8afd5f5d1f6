"""What is known so far: the outcomes of settings on chunks of examples, whose borders are fixed before any outcome is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.table import LossTable
from riskfront._support.arrays import IntArray

_FIRST_RACE = 20  # examples on which every setting is tried
_LEVELS = 5  # that a race has where there are examples enough, each with twice the examples of the one before
_GROWTH = 1.2  # of the chunks of testing examples


class Outcomes(Protocol):
    """Outcomes of settings, by row, on chunks of examples."""

    @property
    def edges(self) -> IntArray:
        """(chunks + 1,): chunk k holds the examples from edges[k] to edges[k + 1]."""

    @property
    def n_settings(self) -> int: ...

    def known(self, row: int, chunk: int) -> bool:
        """Whether every outcome of a setting on a chunk is known."""

    def table(self, rows: Sequence[int], chunks: slice) -> LossTable:
        """The losses of these settings on these chunks."""


def race_edges(n: int) -> IntArray:
    """Borders of the levels of a race on n planning examples: each level has twice the examples of the one before."""
    edges = [n]
    while len(edges) < _LEVELS and edges[-1] // 2 >= _FIRST_RACE:
        edges.append(edges[-1] // 2)
    return np.array([0, *edges[::-1]], dtype=np.int64)


def test_edges(n: int) -> IntArray:
    """Borders of the chunks after which a test of n examples is looked at."""
    edges, size = [0], float(min(max(n // 40, 8), 64))
    while n - edges[-1] > 1.5 * size:
        edges.append(edges[-1] + int(size))
        size *= _GROWTH
    if edges[-1] < n:
        edges.append(n)
    return np.array(edges, dtype=np.int64)


def groups_of(groups: dict[str, Groups], start: int, stop: int) -> dict[str, Groups]:
    """The groups of some neighbouring examples; levels that none of them has stay."""
    return {name: Groups(of.levels, of.codes[start:stop]) for name, of in groups.items()}
