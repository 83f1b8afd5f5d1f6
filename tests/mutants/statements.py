"""Faults of statements about several limits, and about new data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from riskfront._verification import check
from riskfront.statistics import _nested_sequences as nested_sequences
from tests.mutants.mutant import Mutant, everywhere


def each_limit_has_all_of_delta() -> None:
    """Every limit of a frontier is tested as if it were the only one."""
    real = nested_sequences.reject_along
    everywhere(real, lambda sequences, *given: real([replace(one, share=1.0) for one in sequences], *given))


def says_what_it_measures() -> None:
    """A measured value below the limit is taken for a proof that it is kept, one above for a proof that it is not."""
    real = check._judged

    def broken(test: Any, *given: Any) -> list[dict[str, Any]]:
        rows = real(test, *given)
        for row in rows:
            row["says"] = check.HOLDS if row["measured"] <= test.alpha else check.BROKEN
        return rows

    check._judged = broken


def takes_groups_as_they_come() -> None:
    """The groups of the new data are judged, whichever were certified."""
    check._covered = lambda test, table, certified: ([True] * len(test.groups(table)), [])


MUTANTS = [
    Mutant("frontier: all of delta for every limit", "frontier: five limits together", each_limit_has_all_of_delta),
    Mutant("check: measured values taken for proof", "check: broken by a hair", says_what_it_measures),
    Mutant("check: an alarm whenever it measures above", "check: kept by a hair", says_what_it_measures),
    Mutant("check: groups as they come", "check: other groups than the certified ones", takes_groups_as_they_come),
]
