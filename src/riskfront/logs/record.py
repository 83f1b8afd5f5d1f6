"""One answer of one setting to one example, as an evaluation tool logged it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from riskfront.losses.values import plain


@dataclass(frozen=True, slots=True)
class Unusable:
    """A value that is no score; an error only if it is chosen as one."""

    why: str


@dataclass(frozen=True, slots=True)
class Record:
    """One logged answer.

    Args:
        setting: what answered: {"model": ...} and whatever else tells runs apart (a prompt, arguments).
        task: the dataset or benchmark. example: the id of the example within it.
        scores: metric -> value; nan where the tool gave none, and why where it is no number.
        measures: what the answer took: cost, latency, tokens; or a confidence.
        repeat: which of several answers to one example this is (an epoch, a trial).
        variant: one of several ways in which the tool looked at the same answer (a filter of lm-eval).
        answer: the text, to see whether repeated answers agree.
        about: what is known of the example besides its task: columns that may become groups.
        where: the file and line, for messages.
        asked: the question, where an id is only a position: runs must have asked the same.
    """

    setting: Mapping[str, Any]
    task: str
    example: str
    scores: Mapping[str, float | Unusable]
    measures: Mapping[str, float] = field(default_factory=dict)
    repeat: Any = 0
    variant: str | None = None
    answer: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    asked: str | None = None


class Importer(Protocol):
    """A module that reads the files of one tool."""

    def files(self, path: Path) -> list[Path]:
        """The tool's files at or below a path."""

    def records(self, path: Path) -> Iterator[Record]:
        """What one of its files holds."""


def as_score(value: Any, name: str, where: str) -> float | Unusable:
    """A score as one number; nothing is nan, anything else is said to be unusable."""
    value = plain(value)
    if value is None:
        return math.nan
    if isinstance(value, bool | int | float) and not math.isinf(value):
        return float(value)
    names = {"list": "a list", "dict": "a dictionary", "str": f"the text {value!r}", "float": "infinity"}
    kind = names.get(type(value).__name__, type(value).__name__)
    return Unusable(f"{where}: the score '{name}' must be one number; got {kind}. Choose another (--score).")


def measures_of(**given: Any) -> dict[str, float]:
    """The finite numbers among what an answer took."""
    found = {name: plain(value) for name, value in given.items()}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
