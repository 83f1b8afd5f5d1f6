"""Faults behind cascades."""

from __future__ import annotations

from typing import Any

from riskfront.cascades import cascade
from tests.mutants.mutant import Mutant


def learns_from_what_it_tests() -> None:
    """The examples that a confidence and its thresholds are learnt from are planned and tested on as well."""
    split = cascade.split_examples

    def broken(*args: Any) -> tuple[Any, Any]:
        _, rest = split(*args)
        return rest, rest

    cascade.split_examples = broken  # type: ignore[attr-defined]


MUTANTS = [
    Mutant(
        "a confidence learnt from what is tested", "cascade: a confidence learnt from noise", learns_from_what_it_tests
    )
]
