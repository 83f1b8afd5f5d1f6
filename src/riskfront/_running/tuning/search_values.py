"""What a search is told of the settings that it proposed: the normalised loss of each limit and the value of each objective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config, config_id
from riskfront._running.evaluation.result_rows import Bounds, RowsOf
from riskfront._support.arrays import BoolArray, FloatArray
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.search import Search


def told_names(problem: Problem) -> list[str]:
    """What a search is told: the normalised loss of each limit, then each objective."""
    limits = problem.limit_names
    return [*limits, *(f"{o.name} (free)" if o.name in limits else o.name for o in problem.objectives)]


class Teller:
    """Tells a search each setting once.

    The search is told the worst value found so far where a setting has no value of an objective, as one that failed on every
    example. Where none was found yet the setting waits, so that a run that is gone on with tells the search the same.

    Args:
        rows: evaluated settings, on planning examples.
    """

    def __init__(self, search: Search, problem: Problem, rows: RowsOf, bounds: Bounds | None) -> None:
        self._search, self._problem, self._rows, self._bounds = search, problem, rows, bounds
        self._names = told_names(problem)
        self._worst = np.full(len(problem.objectives), -np.inf)
        self._waiting: dict[str, Config] = {}
        self.told: dict[str, Config] = {}

    @property
    def count(self) -> int:
        """Settings that were told, or will be."""
        return len(self.told) + len(self._waiting)

    def has_told(self, configs: Iterable[Config]) -> None:
        """Count these settings as told."""
        self.told |= {config_id(config): config for config in configs}

    def tell(self, configs: Sequence[Config]) -> None:
        """Tell the search these settings, except those that it was told before; then those that waited."""
        waited = list(self._waiting.values())
        known = self.told.keys() | self._waiting.keys()
        new = [config for config in configs if config_id(config) not in known]
        self._waiting |= {config_id(config): config for config in new}
        self._tell_ready(new)
        self._tell_ready(waited)

    def end(self) -> None:
        """Count settings that still wait, for no setting has a value of some objective, as told."""
        self.has_told(config for config in self._waiting.values() if config in self._rows)
        self._waiting = {}

    def _tell_ready(self, configs: Sequence[Config]) -> None:
        ready = [config for config in configs if config in self._rows]
        if not ready:
            return
        table = self._rows.table(ready, bounds=self._bounds)
        evidence = Evidence.of_planning(self._problem, table)
        risks, objectives = evidence.risks(), evidence.objectives()
        self._worst = np.maximum(self._worst, self._worst_of(table, np.asarray(np.isfinite(objectives).any(axis=0))))
        objectives = np.where(np.isfinite(objectives), objectives, self._worst)
        for config, values in zip(ready, np.hstack([risks, objectives]), strict=True):
            if np.isfinite(values).all():
                self._search.tell(config, dict(zip(self._names, map(float, values), strict=True)))
                self.told[config_id(config)] = config
                self._waiting.pop(config_id(config), None)

    def _worst_of(self, table: LossTable, known: BoolArray) -> FloatArray:
        """(objectives,): the worst loss of these settings, to be minimised; -inf where none is known."""
        found = np.full(len(known), -np.inf)
        for column in np.flatnonzero(known):
            objective = self._problem.objectives[column]
            low, high = table.observed_range(objective.loss)
            found[column] = -low if objective.maximize else high
        return found
