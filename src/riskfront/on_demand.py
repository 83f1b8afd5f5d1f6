"""Test losses that are evaluated when a test asks for them, along the plan, a batch at a time."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront.arrays import Array, IntArray
from riskfront.columns import Groups
from riskfront.errors import InvalidInputError
from riskfront.evaluation import SKIP_HINT, Failures, RowsOf, fill
from riskfront.methods import Plan
from riskfront.problem import Problem
from riskfront.progress import ProgressBar
from riskfront.space import Config
from riskfront.sums import Rows
from riskfront.table import LossTable
from riskfront.workers import Evaluator


class PlannedRows:
    """The settings of a plan on the test examples.

    Args:
        plan: which settings, in which order. No other setting is ever evaluated.
        configs: the settings of the planning table, by row.
        rows: where evaluated settings are kept.
        workers: they evaluate on the test examples; as many settings at a time as there are workers.
        problem: its limited losses must keep their declared bounds on the test examples.
        skip: a setting at which the user's function fails has the worst losses there are, instead of ending the run.
    """

    def __init__(
        self,
        plan: Plan,
        configs: Sequence[Config],
        rows: RowsOf,
        workers: Evaluator,
        problem: Problem,
        bar: ProgressBar,
        *,
        skip: bool = False,
    ) -> None:
        self._opt, self._configs, self._rows, self._workers, self._bar = plan.opt, configs, rows, workers, bar
        self._limited = {limit.loss for limit in problem.limits if limit.quantile is None}
        self._worst = _worst_losses(plan.opt, problem) if skip else None
        self._order = [int(row) for row in plan.rows]
        self._position = {row: position for position, row in enumerate(self._order)}

    def table(self, n_test: int, groups: Mapping[str, Groups]) -> LossTable:
        """The rows of the planning table on the test examples."""
        columns = {
            name: PlannedColumn(self, name, (self._opt.n_configs, n_test), self._opt.is_binary(name))
            for name in self._opt.loss_names
        }
        return self._opt.on_demand(columns, groups, at_once=self._workers.count)

    def losses(self, name: str, rows: IntArray) -> Array:
        """(rows, test examples). What is not known yet is evaluated, with what comes next on the plan to fill a batch."""
        wanted = [int(row) for row in rows]
        for row in wanted:
            if row not in self._position:
                raise InvalidInputError(f"only settings of the plan are tested; {self._configs[row]} is not on it.")
        while missing := [row for row in wanted if self._configs[row] not in self._rows]:
            ahead = self._order[min(self._position[row] for row in missing) :]
            batch = [self._configs[row] for row in ahead if self._configs[row] not in self._rows]
            self._evaluate(batch[: self._workers.count])
        if not wanted:
            return np.empty((0, self._rows.n_examples), dtype=bool if self._opt.is_binary(name) else float)
        return self._checked(name, self._rows.table([self._configs[row] for row in wanted]))

    def _evaluate(self, configs: Sequence[Config]) -> None:
        failures: Failures = {}
        fill(self._rows, self._workers, configs, self._bar, None if self._worst is None else failures, SKIP_HINT)
        for config, failure in failures.values():
            self._rows.write(config, {n: np.full(self._rows.n_examples, v) for n, v in (self._worst or {}).items()})
            warnings.warn(
                f"a setting was not certified because the losses function failed on test examples: {failure.reason}, at the "
                f"setting {config}.",
                stacklevel=2,
            )

    def _checked(self, name: str, part: LossTable) -> Array:
        """The p-value was chosen by what the loss was declared to be; test values must keep to it."""
        if name not in part.loss_names:
            raise InvalidInputError(f"the losses function must return '{name}' on test examples as on opt examples.")
        values = part.losses(name)
        if self._opt.is_binary(name) and not part.is_binary(name):
            raise InvalidInputError(
                f"loss '{name}' was 0/1 on the opt examples and must be so on the test examples; got values from "
                f"{values.min():g} to {values.max():g}. Return booleans, or floats at every setting."
            )
        if name in self._limited:
            low, high = self._opt.bounds(name)
            if values.min() < low or values.max() > high:
                raise InvalidInputError(
                    f"loss '{name}' must lie in its bounds ({low:g}, {high:g}); on the test examples its values run from "
                    f"{values.min():g} to {values.max():g}. Declare the range it can take with bounds={{'{name}': ...}}."
                )
        return values


def _worst_losses(opt: LossTable, problem: Problem) -> dict[str, Any]:
    """A value of each loss that no limit on it could pass with; no example counts as selected by a condition."""
    conditions = {limit.given for limit in problem.limits}
    worst: dict[str, Any] = {}
    for name in opt.loss_names:
        worst[name] = 0.0 if name in conditions else opt.observed_range(name)[1]
    for limit in problem.limits:
        if limit.quantile is not None:
            worst[limit.loss] = np.nextafter(limit.value, np.inf)
        else:
            low, high = opt.bounds(limit.loss)
            worst[limit.loss] = high if limit.at_least is None else low
    return {name: bool(value) if opt.is_binary(name) else float(value) for name, value in worst.items()}


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
