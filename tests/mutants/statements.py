"""Faults of statements about several limits, and about new data."""

from __future__ import annotations

from typing import Any

from riskfront.calibration import simultaneous
from riskfront.verification import check
from tests.mutants.mutant import Mutant, everywhere


def each_limit_has_all_of_delta() -> None:
    """Every limit of a frontier is tested as if it were the only one."""
    real = simultaneous.walk
    everywhere(real, lambda paths, p_value, level, certified: real(paths, p_value, len(paths) * level, certified))


def says_what_it_measures() -> None:
    """A measured value below the limit is taken for a proof that it is kept, one above for a proof that it is not."""
    real = check._judged

    def broken(test: Any, *given: Any) -> list[dict[str, Any]]:
        rows = real(test, *given)
        for row in rows:
            row["says"] = check.HOLDS if row["measured"] <= test.alpha else check.BROKEN
        return rows

    check._judged = broken


MUTANTS = [
    Mutant("frontier: all of delta for every limit", "frontier: five limits together", each_limit_has_all_of_delta),
    Mutant("check: measured values taken for proof", "check: broken by a hair", says_what_it_measures),
    Mutant("check: an alarm whenever it measures above", "check: kept by a hair", says_what_it_measures),
]
