"""Procedures that reject hypotheses from their p-values with family-wise error at most delta, under any dependence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from riskfront._support.arrays import BoolArray, FloatArray
from riskfront.statistics._graphs import Graph


class Procedure(Protocol):
    """Tests hypotheses, given in the order of the plan."""

    @property
    def sequential(self) -> bool:
        """Whether hypotheses after the first failure are never looked at, so that they need not be evaluated."""

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        """The level at which each hypothesis is finally judged: rejected exactly if p <= level. nan where none is reached."""

    def reject(self, p_values: FloatArray, delta: float) -> BoolArray:
        """Which hypotheses are rejected."""
        return p_values <= self.levels(p_values, delta)


@dataclass(frozen=True, slots=True)
class FixedSequence(Procedure):
    """Test in the given order at the full level and stop at the first failure."""

    sequential: ClassVar[bool] = True

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        levels = np.full(p_values.shape, np.nan)
        levels[: int(np.logical_and.accumulate(p_values <= delta).sum()) + 1] = delta
        return levels


@dataclass(frozen=True, slots=True)
class TwoSequences(Procedure):
    """A fixed sequence up to the hypothesis ``second``, and one from there on, which has ``share`` of delta."""

    second: int
    share: float

    sequential: ClassVar[bool] = False

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        parts = (p_values[: self.second], delta - self.share * delta), (p_values[self.second :], self.share * delta)
        return np.concatenate([FixedSequence().levels(part, level) for part, level in parts])


@dataclass(frozen=True, slots=True)
class Bonferroni(Procedure):
    """Test each of m hypotheses at delta / m."""

    sequential: ClassVar[bool] = False

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        return np.full(p_values.shape, delta / max(p_values.size, 1))


@dataclass(frozen=True, slots=True)
class Holm(Procedure):
    """From the smallest p-value on, test at delta / (hypotheses left) and stop at the first failure."""

    sequential: ClassVar[bool] = False

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        m = p_values.size
        order = np.argsort(p_values, kind="stable")
        steps = delta / np.arange(m, 0, -1)
        passed = int(np.logical_and.accumulate(p_values[order] <= steps).sum())
        levels = np.empty(m)
        # everything from the first failure on is judged, and fails, at the level of that failure
        levels[order] = steps[np.minimum(np.arange(m), passed)] if m else steps
        return levels


@dataclass(frozen=True, slots=True)
class Graphical(Procedure):
    """Bretz et al. (2009): hypotheses hold shares of delta and pass them on along a graph when they are rejected."""

    graph: Graph

    sequential: ClassVar[bool] = False

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        return delta * self.graph.final_weights(p_values, delta)


@dataclass(frozen=True, slots=True)
class Uncorrected(Procedure):
    """Accept every p-value at most delta. No control of the family-wise error: only for baselines without a guarantee."""

    sequential: ClassVar[bool] = False

    def levels(self, p_values: FloatArray, delta: float) -> FloatArray:
        return np.full(p_values.shape, delta)


def target_levels(procedure: Procedure, count: int, delta: float) -> FloatArray:
    """(count,): the level that each test should be sharpest at, known before any p-value is.

    A p-value is valid whatever its target level is. Bonferroni and Holm start at delta / count. The target level of a node of a
    graph is the share of delta that arrives when everything before it is rejected: there its test decides about other nodes.
    """
    if isinstance(procedure, Bonferroni | Holm):
        return np.full(count, delta / max(count, 1))
    if isinstance(procedure, TwoSequences):
        return procedure.levels(np.zeros(count), delta)
    if isinstance(procedure, Graphical):
        shares = procedure.graph.final_weights(np.zeros(count), delta)
        return delta * np.where(np.isnan(shares), 1 / max(count, 1), shares)
    return np.full(count, delta)
