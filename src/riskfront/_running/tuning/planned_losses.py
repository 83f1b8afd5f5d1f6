"""Test losses that are evaluated when a test asks for them, along the plan, a batch at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from riskfront._data.groups import Groups
from riskfront._data.problem_fit import check_complete, complete_losses
from riskfront._data.stores.stored_rows import range_of
from riskfront._data.sums import Rows
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.evaluate import fill
from riskfront._running.evaluation.failing_examples import Failures
from riskfront._running.evaluation.outcome import RowsOf
from riskfront._running.evaluation.workers import Evaluator
from riskfront._support.arrays import Array, IntArray
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError
from riskfront.methods import Plan


class PlannedRows:
    """The settings of a plan on the testing examples.

    Args:
        plan: which settings, in which order. No other setting is ever evaluated.
        configs: the settings of the planning table, by row.
        workers: they evaluate on the testing examples; as many settings at a time as there are workers.
        problem: its limited losses must keep their declared bounds on the testing examples.
        failures: as for ``fill``.
    """

    def __init__(
        self,
        plan: Plan,
        configs: Sequence[Config],
        rows: RowsOf,
        workers: Evaluator,
        problem: Problem,
        bar: ProgressBar,
        failures: Failures | None = None,
    ) -> None:
        self._opt, self._configs, self._rows, self._workers, self._bar = plan.opt, configs, rows, workers, bar
        self._failures = failures
        # what was read last, for both columns of a loss
        self._last: tuple[tuple[str, tuple[int, ...]], Array] | None = None
        self._limited = {loss for limit in problem.limits for loss in limit.bounded}
        self._complete = complete_losses(problem)
        self._order = [int(row) for row in plan.rows]
        self._position = {row: position for position, row in enumerate(self._order)}

    def table(self, n_test: int, groups: Mapping[str, Groups]) -> LossTable:
        """The rows of the planning table on the testing examples."""
        shape = self._opt.n_configs, n_test
        columns = {
            name: PlannedColumn(partial(self.losses, name), shape, self._opt.is_binary(name))
            for name in self._opt.loss_names
        }
        # before they are evaluated, any outcome may be missing; where none may, a missing one is an error when it is read
        may_miss = [name for name in self._opt.loss_names if name not in self._complete]
        missing = {name: PlannedColumn(partial(self.missing, name), shape, True) for name in may_miss}
        table = self._opt.on_demand(columns, groups, batch_size=self._workers.count, missing=missing)
        table.copies_left_out = self._rows.copies
        return table

    def losses(self, name: str, rows: IntArray) -> Array:
        """(rows, testing examples); where an outcome is missing, some number."""
        return np.ma.getdata(self._outcomes(name, rows))

    def missing(self, name: str, rows: IntArray) -> Array:
        """(rows, testing examples), True where an outcome is missing."""
        return np.ma.getmaskarray(self._outcomes(name, rows))

    def _outcomes(self, name: str, rows: IntArray) -> Array:
        wanted = [int(row) for row in rows]
        if self._last is None or self._last[0] != (name, tuple(wanted)):
            self._last = (name, tuple(wanted)), self._evaluated(name, wanted)
        return self._last[1]

    def _evaluated(self, name: str, wanted: list[int]) -> Array:
        """(wanted rows, testing examples), masked where an outcome is missing.

        What is not known yet is evaluated, with what comes next on the plan to fill a batch.
        """
        for row in wanted:
            if row not in self._position:
                raise InvalidInputError(f"only settings of the plan are tested; {self._configs[row]} is not on it.")
        while missing := [row for row in wanted if self._configs[row] not in self._rows]:
            ahead = self._order[min(self._position[row] for row in missing) :]
            batch = [self._configs[row] for row in ahead if self._configs[row] not in self._rows]
            names = self._opt.loss_names
            fill(self._rows, self._workers, batch[: self._workers.count], self._bar, self._failures, names=names)
        if not wanted:
            return np.empty((0, self._rows.n_examples), dtype=bool if self._opt.is_binary(name) else float)
        return self._checked(name, self._rows.table([self._configs[row] for row in wanted]))

    def _checked(self, name: str, part: LossTable) -> Array:
        """The p-value was chosen by what the loss was declared to be; test values must keep to it."""
        if name not in part.loss_names:
            raise InvalidInputError(
                f"the losses function must return '{name}' on testing examples as on planning examples."
            )
        if name in self._complete and name in part.missing:
            check_complete(self._complete[name], name)
        values = part.outcomes(name, np.arange(part.n_configs))
        if self._opt.is_binary(name) and not part.is_binary(name):
            values = self._as_binary(name, values)
        if name in self._limited:
            low, high = self._opt.bounds(name)
            smallest, largest = range_of(values) or (low, high)
            if smallest < low or largest > high:
                raise InvalidInputError(
                    f"loss '{name}' must lie in its bounds ({low:g}, {high:g}); on the testing examples its values run from "
                    f"{smallest:g} to {largest:g}. Declare the range it can take with bounds={{'{name}': ...}}."
                )
        return values

    @staticmethod
    def _as_binary(name: str, values: Array) -> Array:
        """0/1 losses that NaN has turned into floats."""
        known = np.ma.compressed(values)
        if np.ma.isMaskedArray(values) and np.isin(known, (0, 1)).all():
            return values.astype(np.bool_)
        raise InvalidInputError(
            f"loss '{name}' was 0/1 on the planning examples and must be so on the testing examples; got values from "
            f"{known.min():g} to {known.max():g}. Return booleans, or floats at every setting."
        )


class PlannedColumn:
    """One loss of the settings of a plan, or where it is missing; ``read`` gives (rows, testing examples) of it."""

    def __init__(self, read: Callable[[IntArray], Array], shape: tuple[int, int], binary: bool) -> None:
        self._read, self.shape = read, shape
        self.dtype: np.dtype[Any] = np.dtype(np.bool_ if binary else np.float64)

    @property
    def range(self) -> tuple[float, float]:
        raise InvalidInputError("the range of losses that are not evaluated yet is not known.")

    def __getitem__(self, rows: Rows) -> Array:
        if isinstance(rows, slice):
            raise InvalidInputError("test losses are evaluated for settings of the plan only, never for all.")
        return self._read(rows)

    def row_digests(self) -> list[bytes]:
        return [hashlib.sha256(b"not evaluated").digest()]

    def check(self, rows: Array | None = None) -> None:
        """Rows come from tables in memory, which were checked when they were read."""

    def part(self, rows: slice) -> PlannedColumn:
        raise InvalidInputError("test losses are evaluated for settings of the plan only, never for all.")
