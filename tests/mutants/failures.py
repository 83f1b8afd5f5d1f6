"""Faults in what becomes of the examples on which the user's function fails."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._problems.spaces.space import config_id
from riskfront._running.evaluation.failing_examples import _Parts, _split
from riskfront._running.evaluation.outcome import Evaluated, MemoryRows
from riskfront._running.tuning.planned_losses import PlannedRows
from riskfront.errors import InvalidInputError
from tests.mutants.mutant import Mutant, method


def settings_that_crash_left_out() -> None:
    """The lucky settings stay, as they did."""

    def make(real: Any) -> Any:
        def table(self: Any, configs: Any, **named: Any) -> Any:
            def lucky(config: Any) -> bool:
                return not any(map(np.ma.is_masked, self._rows[config_id(config)][1].values()))

            left = list(filter(lucky, configs))
            if not left:
                raise InvalidInputError("all settings have failed.")
            return real(self, left, **named)

        return table

    method(MemoryRows, "table", make)


def second_try_counts() -> None:
    """A part whose parts do not fail any more has not failed."""

    def make(real: Any) -> Any:
        def look_into(self: Any, part: range) -> Any:
            found = {inner: self.outcome(inner) for inner in _split(part)} if len(part) > 1 else {}
            known = {inner: outcome for inner, outcome in found.items() if isinstance(outcome, Evaluated)}
            return known, [inner for inner in found if inner not in known]

        return look_into

    method(_Parts, "look_into", make)


def parts_that_failed_are_missing() -> None:
    """All examples of a part whose failure is not found again count as failed: examples are no longer independent."""

    def make(real: Any) -> Any:
        def look_into(self: Any, part: range) -> Any:
            found = {inner: self.outcome(inner) for inner in _split(part)} if len(part) > 1 else {}
            known = {inner: outcome for inner, outcome in found.items() if isinstance(outcome, Evaluated)}
            failed = [inner for inner in found if inner not in known]
            return (known, failed) if failed else ({}, [])

        return look_into

    method(_Parts, "look_into", make)


def no_gaps_on_testing_examples() -> None:
    method(PlannedRows, "missing", lambda real: lambda self, name, rows: np.zeros_like(real(self, name, rows)))


MUTANTS = [
    Mutant("evaluate: settings that crash are left out", "evaluate: settings that crash", settings_that_crash_left_out),
    Mutant("evaluate: a second try counts", "evaluate: crashes by chance", second_try_counts),
    Mutant("evaluate: parts that failed are missing", "evaluate: crashes by chance", parts_that_failed_are_missing),
    Mutant("tune: crashes on testing examples are forgotten", "tune: settings that crash", no_gaps_on_testing_examples),
]
