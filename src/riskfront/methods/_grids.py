"""Methods that walk over a full grid of settings, in any number of dimensions, from its safest corner outwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Grid
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._plan import Plan, check_fraction
from riskfront.statistics import _graphs as graphs
from riskfront.statistics._procedures import FixedSequence, Graphical


@dataclass(frozen=True, slots=True, kw_only=True)
class _FromCorner:
    """Where testing of all settings of a grid starts: at a declared corner, or at one that some of the data teach."""

    safest: Mapping[str, str] | None = None
    learn_fraction: float = 0.1

    def __post_init__(self) -> None:
        check_fraction(self.learn_fraction, "learn_fraction")

    @property
    def opt_fraction(self) -> float:
        return self.learn_fraction if self.safest is None else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SGT(_FromCorner):
    """Sequential graphical testing on the Hamming graph of the grid (Algorithm "3D Graph Testing", any dimension).

    Args:
        safest: axis -> "low" or "high", the corner where testing starts; every example is then tested.
            Without it, the corner is learned on a part of the data that is not tested.
        learn_fraction: the size of that part.

    Examples:
        >>> SGT(safest={"threshold": "high"}).opt_fraction, SGT().opt_fraction
        (0.0, 0.1)
    """

    name: ClassVar[str] = "sgt"
    words: ClassVar[str] = (
        "Tested the grid of settings from its safest corner outwards; each success passes its share of delta "
        "on to its neighbours."
    )
    guaranteed: ClassVar[bool] = True

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return _spread(self, graphs.hamming, opt, problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback(_FromCorner):
    """Budget split over the values of the first axis, then a fixed sequence through the others.

    Args:
        safest: as for SGT.
        learn_fraction: as for SGT.

    Examples:
        >>> Fallback(safest={"threshold": "high"}).opt_fraction
        0.0
    """

    name: ClassVar[str] = "fallback"
    words: ClassVar[str] = (
        "Shared delta over the values of the first setting, and tested a fixed sequence through the others."
    )
    guaranteed: ClassVar[bool] = True

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return _spread(self, graphs.fallback, opt, problem)


def _spread(
    method: SGT | Fallback, make_graph: Callable[[Sequence[int]], graphs.Graph], opt: LossTable, problem: Problem
) -> Plan:
    """All settings, by a graph along which the budget spreads from the safest corner."""
    rows = _oriented(opt, problem, method.safest).rows
    graph = opt.shared((method.name, rows.shape), lambda: make_graph(rows.shape or (1,)))
    return Plan(method, opt, rows.ravel(), Graphical(graph))


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRiskPath:
    """From the safest corner to the constrained optimum of the planning examples, and on to the opposite corner, one axis at a
    time, always to the next setting with the lowest p-value (Algorithm "Shortest-Path Testing").

    Args:
        opt_fraction: share of the calibration data that learns the path.
        safest: axis -> "low" or "high"; without it the corner is learned on planning examples.

    Examples:
        >>> LowRiskPath(safest={"threshold": "high"}).opt_fraction
        0.5
    """

    opt_fraction: float = 0.5
    safest: Mapping[str, str] | None = None

    name: ClassVar[str] = "low-risk-path"
    words: ClassVar[str] = (
        "Learned a path through the grid of settings on the planning examples. Tested along it on the testing "
        "examples, and stopped at the first failure."
    )
    guaranteed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self.opt_fraction)

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        evidence = Evidence.of_planning(problem, opt)
        grid = _oriented(opt, problem, self.safest)
        target = np.unravel_index(int(np.argmax(grid.rows.ravel() == _constrained_optimum(evidence))), grid.rows.shape)
        origin = (0,) * grid.rows.ndim
        far = tuple(length - 1 for length in grid.rows.shape)
        middle = tuple(int(step) for step in target)
        margin = evidence.margin()
        path = [origin, *_steps(evidence, margin, grid, origin, middle), *_steps(evidence, margin, grid, middle, far)]
        return Plan(self, opt, np.array([grid.rows[cell] for cell in path], dtype=np.int64), FixedSequence())


def _steps(
    evidence: Evidence, margin: FloatArray, grid: Grid, start: tuple[int, ...], end: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """The cells after ``start`` up to ``end``. Each step raises one axis that has not reached its end, so it always ends."""
    cell, path = start, []
    while cell != end:
        open_axes = [axis for axis in range(len(cell)) if cell[axis] < end[axis]]
        # all candidates are compared from the same cell, which moves only afterwards
        candidates = [tuple(c + (axis == moved) for axis, c in enumerate(cell)) for moved in open_axes]
        rows = np.array([grid.rows[candidate] for candidate in candidates], dtype=np.int64)
        best = np.lexsort((margin[rows], evidence.combined(rows)))[0]
        cell = candidates[best]
        path.append(cell)
    return path


def _constrained_optimum(evidence: Evidence) -> int:
    """The best first free objective among settings within the limits on planning examples; the safest if there is none."""
    margin = evidence.margin()
    feasible = np.flatnonzero(margin < 0)
    if feasible.size == 0:
        return int(np.argmin(margin))
    return int(feasible[np.argmin(evidence.objectives(feasible)[:, 0])])


def _oriented(opt: LossTable, problem: Problem, safest: Mapping[str, str] | None) -> Grid:
    """The grid with its safest corner at the origin: the declared one, or the one with the lowest planning p-value."""
    grid = opt.shared("grid", lambda: Grid.of(opt.configs))
    if safest is not None:
        return grid.starting_at(grid.declared_corner(safest))
    if opt.n_examples == 0:
        raise InvalidInputError(
            "the safest corner must be declared with safest={axis: 'low' or 'high'} when there are no planning examples."
        )
    corners: IntArray = grid.corners()
    rows = corners.ravel()
    evidence = Evidence.of_planning(problem, opt)
    best = np.lexsort((evidence.margin(rows), evidence.combined(rows)))[0]
    high = np.unravel_index(int(best), corners.shape)
    return grid.starting_at(tuple(bool(end) for end in high))
