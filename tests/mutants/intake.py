"""Faults at the doors of tests/monte_carlo/suites/intake.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._calibration.certificates import choice
from riskfront._data import problem_fit as missing
from riskfront._data.reading import filters
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from tests.mutants.mutant import Mutant, everywhere


def incomplete_examples_left_out() -> None:
    """An example counts only if some setting has all of its columns."""
    made = LossTable.with_intake

    def complete(table: LossTable, intake: Any) -> LossTable:
        gaps = [np.isnan(table.losses(name)).all(axis=0) for name in table.missing]
        whole = made(table, intake)
        return whole.subset(~np.logical_or.reduce(gaps)) if gaps else whole

    LossTable.with_intake = complete  # type: ignore[method-assign]


def missing_is_not_counted() -> None:
    """A limit speaks of the outcomes that are known."""
    everywhere(missing.ends_of_missing, lambda *given: ())


def next_number_in_single_precision() -> None:
    """What is missing is the next number above the limit, in single precision: the limit itself."""
    ends = missing.ends_of_missing

    def rounded(limit: Limit, table: LossTable) -> missing.Ends:
        above = float(np.float32(np.nextafter(limit.value, np.inf)))
        return tuple((name, above, best) for name, _, best in ends(limit, table))

    everywhere(ends, rounded)


def settings_may_state_their_means() -> None:
    everywhere(filters.states_means, lambda values, sums: False)


def means_are_outcomes() -> None:
    everywhere(missing.refuse_means, lambda *given: None)


def everything_mixes() -> None:
    everywhere(choice._refuse_limits_that_do_not_mix, lambda problem: None)


MUTANTS = [
    Mutant("incomplete examples are left out", "calibrate: errors without a bill", incomplete_examples_left_out),
    Mutant(
        "examples that all settings crash on are left out",
        "calibrate: all settings crash",
        incomplete_examples_left_out,
    ),
    Mutant("limits speak of known outcomes only", "read_table: failed calls have no row", missing_is_not_counted),
    Mutant("the worst is rounded", "calibrate: a missing latency in single precision", next_number_in_single_precision),
    Mutant(
        "settings are filtered by their means",
        "read_table: a filter by what was measured",
        settings_may_state_their_means,
    ),
    Mutant("means count as outcomes", "calibrate: means in every row", means_are_outcomes),
    Mutant("an order may be measured", "calibrate: an order by what was measured", settings_may_state_their_means),
    Mutant("every limit mixes", "mixture: gaps given a condition", everything_mixes),
]
