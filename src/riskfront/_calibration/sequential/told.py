"""Outcomes that were told, one by one or a table at a time, in the order of the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.intake import Intake
from riskfront._data.problem_fit import limited_losses
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray


@dataclass(slots=True)
class Told:
    """Values (settings, places) of each loss; known where something was told, missing where an evaluation failed.

    A place is the position of an example in the order in which examples are used, which has nothing to do with outcomes.
    """

    configs: list[Config]
    bounds: Mapping[str, tuple[float, float]]
    known: BoolArray
    values: dict[str, FloatArray] = field(default_factory=dict)
    missing: dict[str, BoolArray] = field(default_factory=dict)
    groups: dict[str, Groups] = field(default_factory=dict)  # of the places

    @classmethod
    def nothing(
        cls, configs: list[Config], bounds: Mapping[str, tuple[float, float]], places: int, groups: dict[str, Groups]
    ) -> Told:
        return cls(configs, bounds, np.zeros((len(configs), places), dtype=bool), groups=groups)

    def same(self, row: int, place: int, outcome: Mapping[str, float | None]) -> bool:
        """Whether this very outcome was told before."""
        return all(
            self.missing[name][row, place] == (value is None)
            and (value is None or self.values[name][row, place] == value)
            for name, value in outcome.items()
        )

    def add(self, row: int, place: int, outcome: Mapping[str, float | None]) -> None:
        """Write down the outcome of a setting on an example; None is one that failed."""
        for name, value in outcome.items():
            if name not in self.values:
                self.values[name] = np.zeros(self.known.shape)
                self.missing[name] = np.zeros(self.known.shape, dtype=bool)
            self.missing[name][row, place] = value is None
            self.values[name][row, place] = 0.0 if value is None else value
        self.known[row, place] = True

    def add_columns(self, outcomes: Mapping[str, Array], groups: Mapping[str, Groups]) -> None:
        """Add examples with the outcomes of all settings, (settings, examples) each, perhaps masked."""
        n = next(iter(outcomes.values())).shape[1]
        for name, values in outcomes.items():
            before = self.values.get(name, np.zeros((len(self.configs), 0)))
            gaps = self.missing.get(name, np.zeros((len(self.configs), 0), dtype=bool))
            filled = np.ma.filled(np.ma.asarray(values, dtype=np.float64), 0.0)
            self.values[name] = np.concatenate([before, filled], axis=1)
            self.missing[name] = np.concatenate([gaps, np.ma.getmaskarray(values)], axis=1)
        self.known = np.concatenate([self.known, np.ones((len(self.configs), n), dtype=bool)], axis=1)
        for name, of in groups.items():
            before_codes = self.groups[name].codes if name in self.groups else np.zeros(0, dtype=np.int64)
            self.groups[name] = Groups(of.levels, np.concatenate([before_codes, of.codes]))

    def account(self, problem: Problem) -> Intake:
        """The account of everything that was told."""
        limited = [self.missing[name] for name in limited_losses(problem) if name in self.missing]
        told = int(self.known.sum())
        return Intake.whole(told).with_worst(int(np.logical_or.reduce(limited).sum()) if limited else 0)

    def part(self, edges: IntArray) -> PartOfTold:
        return PartOfTold(self, edges)


@dataclass(slots=True)
class PartOfTold:
    """Chunks of told outcomes: planning examples or testing examples. ``places`` are the borders of the chunks."""

    told: Told
    places: IntArray

    @property
    def edges(self) -> IntArray:
        return self.places - self.places[0]

    def known(self, row: int, chunk: int) -> bool:
        if chunk + 1 >= len(self.places):
            return False
        return bool(self.told.known[row, self.places[chunk] : self.places[chunk + 1]].all())

    def level(self, row: int) -> int:
        """How many chunks of a setting are known, from the first on."""
        chunks = len(self.places) - 1
        return next((k for k in range(chunks) if not self.known(row, k)), chunks)

    def table(self, rows: Sequence[int], chunks: slice) -> LossTable:
        start, stop = int(self.places[chunks.start]), int(self.places[chunks.stop])
        losses: dict[str, Any] = {}
        for name, values in self.told.values.items():
            part: Array = values[rows, start:stop]
            gaps = self.told.missing[name][rows, start:stop]
            if self.told.bounds.get(name, (0.0, 1.0)) == (0.0, 1.0) and np.isin(part, (0.0, 1.0)).all():
                part = part.astype(np.int8)
            losses[name] = np.ma.MaskedArray(part, gaps) if gaps.any() else part
        groups = {name: of.at(slice(start, stop)) for name, of in self.told.groups.items()}
        return LossTable([self.told.configs[row] for row in rows], losses, groups, self.told.bounds)


_FIRST_RACE = 20  # examples on which every setting is tried
_LEVELS = 5  # that a race has where there are examples enough, each with twice the examples of the one before
_FEWEST_SEARCHED = 100  # examples by which a search learns
_GROWTH = 1.2  # of the chunks of testing examples


class Outcomes(Protocol):
    """Outcomes of settings, by row, on chunks of examples."""

    @property
    def edges(self) -> IntArray:
        """(chunks + 1,): chunk k holds the examples from edges[k] to edges[k + 1]."""

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


def search_level(n: int) -> int:
    """The level up to which a race of n planning examples runs while a search still learns: that of a quarter of them, or all
    where a quarter is few. Most proposals are then known well enough to search by, and only the best of all run further."""
    edges = race_edges(n)
    level = len(edges) - 3
    return level if level > 0 and edges[level] >= _FEWEST_SEARCHED else len(edges) - 1


def test_edges(n: int) -> IntArray:
    """Borders of the chunks after which a test of n examples is looked at."""
    edges, size = [0], float(min(max(n // 40, 8), 64))
    while n - edges[-1] > 1.5 * size:
        edges.append(edges[-1] + int(size))
        size *= _GROWTH
    if edges[-1] < n:
        edges.append(n)
    return np.array(edges, dtype=np.int64)
