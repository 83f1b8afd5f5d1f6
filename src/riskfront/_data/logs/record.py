"""One answer of one setting to one example, as an evaluation tool logged it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

#: tokens that a response tells -> those of all calls that an answer took, where these are more: earlier calls, a grader
OF_ALL_CALLS = {"input_tokens": "input_tokens_of_all_calls", "output_tokens": "output_tokens_of_all_calls"}
_NOTHING: Mapping[str, Any] = MappingProxyType({})  # one for all: millions of empty dictionaries take a gigabyte


@dataclass(frozen=True, slots=True)
class Unusable:
    """A value that is no score; an error only if it is chosen as one."""

    why: str


@dataclass(slots=True)  # not frozen: millions are made, and frozen ones take several times as long
class Record:
    """One logged answer.

    Args:
        setting: what answered: {"model": ...} and whatever else tells runs apart (a prompt, arguments).
        of_task: how the task was run (shots, its arguments): tells runs apart only if one task was run in several ways.
        task: the dataset or benchmark. example: the id of the example within it.
        scores: metric -> value; nan where the tool gave none, and why where it is no number.
        also: further scores that can be chosen by name, and are no reason to ask which one is meant.
        measures: what the answer took: cost, latency, tokens; or a confidence.
        repeat: which of several answers to one example this is (an epoch, a trial).
        variant: one of several ways in which the tool looked at the same answer (a filter of lm-eval).
        answer: what was graded, to see whether repeated answers agree.
        text: the whole text of the response; None where only a part of it was logged.
        about: what is known of the example besides its task: columns that may become groups.
        where: the file and line, for messages; or the number of the line in the file ``log``.
        asked: the question, or a digest of it, where an id alone does not tell it: runs must have asked the same.
        failed: the call gave no answer: an error, a timeout. It scores the worst; what it took stays.
        left_out: why this is no answer of its own, such as a changed copy of an example; None for every answer.
        log: the file. when: when it was written, in a form that sorts; of several logs of one run the latest can be taken.
        partial: why the log does not hold the whole run; None if it does.
    """

    setting: Mapping[str, Any]
    task: str
    example: str
    scores: Mapping[str, float | Unusable]
    measures: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    repeat: Any = 0
    variant: str | None = None
    answer: str | None = None
    about: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    where: str | int = ""
    asked: str | None = None
    failed: bool = False
    left_out: str | None = None
    also: Mapping[str, float | Unusable] = field(default_factory=lambda: _NOTHING)
    of_task: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    log: str = ""
    when: str = ""
    partial: str | None = None
    text: str | None = None

    @property
    def place(self) -> str:
        """The file and line in words; for millions of records these words are not kept."""
        return f"'{self.log}', line {self.where}" if isinstance(self.where, int) else self.where


class Importer(Protocol):
    """A module that reads the files of one tool."""

    def files(self, path: Path) -> list[Path]:
        """The tool's files at or below a path."""

    def records(self, path: Path) -> Iterator[Record]:
        """What one of its files holds."""


def joined(records: Iterable[Record]) -> list[Record]:
    """The answers to one example, of records that hold some of the grades of an answer each.

    Records with different metrics grade one answer; a metric that comes again grades the next answer.
    """
    answers: list[Record] = []
    for record in records:
        place = next((k for k, other in enumerate(answers) if not other.scores.keys() & record.scores.keys()), None)
        if place is None:
            answers.append(record)
        else:
            first = answers[place]
            answers[place] = replace(
                first,
                scores={**first.scores, **record.scores},
                answer=record.answer if first.answer is None else first.answer,
                failed=first.failed or record.failed,
            )
    return answers


def as_score(value: Any, name: str, where: str) -> float | Unusable:
    """A score as one number; nothing is nan, anything else is said to be unusable."""
    if type(value) is float and math.isfinite(value):
        return value
    value = plain(value)
    if value is None:
        return math.nan
    number = as_number(value) if isinstance(value, bool | int | float) else None
    if number is not None and not math.isinf(number):
        return number
    names = {"list": "a list", "dict": "a dictionary", "str": f"the text {value!r}"}
    names |= dict.fromkeys(("float", "int"), "infinity")
    kind = names.get(type(value).__name__, type(value).__name__)
    return Unusable(f"{where}: the score '{name}' must be one number; got {kind}. Choose another (--score).")


def as_number(value: float) -> float:
    """A number as a float; a whole number that is too large for one is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def measures_of(**given: Any) -> dict[str, float]:
    """The finite numbers among what an answer took; a text that is no number, such as "$0.01", is an error."""
    found = {
        name: as_number(number)
        for name, value in given.items()
        if isinstance(number := _written_number(name, plain(value)), int | float) and not isinstance(number, bool)
    }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _written_number(name: str, value: Any) -> Any:
    """A value, or the number that a text spells: tools write decimals as texts. To leave one out would change a mean price."""
    if not isinstance(value, str) or not value.strip():
        return value
    try:
        return float(value)
    except ValueError:
        raise InvalidInputError(
            f"the {name} of an answer must be a number, or empty where it is not known; got the text {value!r}."
        ) from None


def seconds(milliseconds: Any) -> float | None:
    """A duration that was logged in milliseconds."""
    number = plain(milliseconds)
    return as_number(number) / 1000 if isinstance(number, int | float) and not isinstance(number, bool) else None


def positive(number: Any) -> Any:
    """A number, or None for 0, which tools log where they do not know; anything else as it is."""
    return number if not isinstance(number, int | float) or number > 0 else None
