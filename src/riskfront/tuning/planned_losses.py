"""Test losses that are evaluated when a test asks for them, along the plan, a batch at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront.arrays import Array, IntArray
from riskfront.errors import InvalidInputError
from riskfront.evaluation.evaluation import RowsOf, fill
from riskfront.evaluation.workers import Evaluator
from riskfront.losses.groups import Groups
from riskfront.losses.sums import Rows
from riskfront.losses.table import LossTable
from riskfront.methods import Plan
from riskfront.problems.problem import Problem
from riskfront.runtime.progress import ProgressBar
from riskfront.spaces.space import Config


class PlannedRows:
    """The settings of a plan on the testing examples.

    Args:
        plan: which settings, in which order. No other setting is ever evaluated.
        configs: the settings of the planning table, by row.
        rows: where evaluated settings are kept.
        workers: they evaluate on the testing examples; as many settings at a time as there are workers.
        problem: its limited losses must keep their declared bounds on the testing examples.
    """

    def __init__(
        self,
        plan: Plan,
        configs: Sequence[Config],
        rows: RowsOf,
        workers: Evaluator,
        problem: Problem,
        bar: ProgressBar,
    ) -> None:
        self._opt, self._configs, self._rows, self._workers, self._bar = plan.opt, configs, rows, workers, bar
        self._limited = {loss for limit in problem.limits for loss in limit.bounded}
        self._order = [int(row) for row in plan.rows]
        self._position = {row: position for position, row in enumerate(self._order)}

    def table(self, n_test: int, groups: Mapping[str, Groups]) -> LossTable:
        """The rows of the planning table on the testing examples."""
        columns = {
            name: PlannedColumn(self, name, (self._opt.n_configs, n_test), self._opt.is_binary(name))
            for name in self._opt.loss_names
        }
        return self._opt.on_demand(columns, groups, at_once=self._workers.count)

    def losses(self, name: str, rows: IntArray) -> Array:
        """(rows, testing examples). What is not known yet is evaluated, with what comes next on the plan to fill a batch."""
        wanted = [int(row) for row in rows]
        for row in wanted:
            if row not in self._position:
                raise InvalidInputError(f"only settings of the plan are tested; {self._configs[row]} is not on it.")
        while missing := [row for row in wanted if self._configs[row] not in self._rows]:
            ahead = self._order[min(self._position[row] for row in missing) :]
            batch = [self._configs[row] for row in ahead if self._configs[row] not in self._rows]
            fill(self._rows, self._workers, batch[: self._workers.count], self._bar)
        if not wanted:
            return np.empty((0, self._rows.n_examples), dtype=bool if self._opt.is_binary(name) else float)
        return self._checked(name, self._rows.table([self._configs[row] for row in wanted]))

    def _checked(self, name: str, part: LossTable) -> Array:
        """The p-value was chosen by what the loss was declared to be; test values must keep to it."""
        if name not in part.loss_names:
            raise InvalidInputError(
                f"the losses function must return '{name}' on testing examples as on planning examples."
            )
        values = part.losses(name)
        if self._opt.is_binary(name) and not part.is_binary(name):
            raise InvalidInputError(
                f"loss '{name}' was 0/1 on the planning examples and must be so on the testing examples; got values from "
                f"{values.min():g} to {values.max():g}. Return booleans, or floats at every setting."
            )
        if name in self._limited:
            low, high = self._opt.bounds(name)
            if values.min() < low or values.max() > high:
                raise InvalidInputError(
                    f"loss '{name}' must lie in its bounds ({low:g}, {high:g}); on the testing examples its values run from "
                    f"{values.min():g} to {values.max():g}. Declare the range it can take with bounds={{'{name}': ...}}."
                )
        return values


class PlannedColumn:
    """One loss of the settings of a plan."""

    def __init__(self, source: PlannedRows, name: str, shape: tuple[int, int], binary: bool) -> None:
        self._source, self._name, self._shape = source, name, shape
        self._dtype: np.dtype[Any] = np.dtype(np.bool_ if binary else np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def range(self) -> tuple[float, float]:
        raise InvalidInputError("the range of losses that are not evaluated yet is not known.")

    def __getitem__(self, rows: Rows) -> Array:
        if isinstance(rows, slice):
            raise InvalidInputError("test losses are evaluated for settings of the plan only, never for all.")
        return self._source.losses(self._name, rows)

    def row_digests(self) -> list[bytes]:
        return [hashlib.sha256(b"not evaluated").digest()]

    def check(self, rows: Array | None = None) -> None:
        """Rows come from tables in memory, which were checked when they were read."""

    def part(self, rows: slice) -> PlannedColumn:
        raise InvalidInputError("test losses are evaluated for settings of the plan only, never for all.")
