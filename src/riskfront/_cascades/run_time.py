"""What a policy reads when it runs, what it returns, and what it did so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from riskfront._cascades.confidence import LearntConfidence
from riskfront._cascades.gain import LearntGain
from riskfront._data.logs.responses import FROM_PROMPT, FROM_RESPONSE, NEVER, measured
from riskfront.errors import InvalidInputError

#: a number that whoever calls the model makes of several answers by himself
OF_A_CALLER = "answer_agreement"
Confidence = str | LearntConfidence | LearntGain


def names_of(confidence: Confidence) -> list[str]:
    """The columns that a confidence rests on."""
    return [confidence] if isinstance(confidence, str) else [str(name) for name in confidence.features]


def one_number(confidence: Confidence) -> str:
    """The name of the one number that a confidence rests on; "confidence" if it rests on several."""
    names = [] if isinstance(confidence, LearntGain) else names_of(confidence)
    return names[0] if len(names) == 1 else "confidence"


def said_with_answers(kind: str, confidence: Confidence) -> set[str]:
    """The columns that are known with an answer alone, each of its own model."""
    if kind == "router":
        return set()
    if isinstance(confidence, LearntGain):
        return {name for part in confidence.fitted.get("after", {}).values() for name in part["encoder"]}
    return {confidence} if isinstance(confidence, str) else set(confidence.of_answers)


def must_exist_when_run(confidence: Confidence) -> None:
    """Raise a clear error if a confidence rests on what only an evaluation run can tell."""
    for name in names_of(confidence):
        if name in NEVER:
            raise InvalidInputError(
                f"a confidence must be known where the policy runs; '{name}' is not: {NEVER[name]}. Name another column."
            )


@dataclass(frozen=True, slots=True)
class Call:
    """What is to be called next, and how often."""

    function: Callable[[], Any]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Needs:
    """Where the numbers come from that a policy compares with its thresholds.

    Attributes:
        prompt: computed from the request. response: computed from what a model answers.
        supplied: what people must supply with a request: ``about=``.
        samples: how often a model is asked, where the logs hold so many answers: its numbers are means over them.
        first_only: whether only the first model is asked that often.
        answers: what people must supply with every answer: the function that calls the model returns it, or a judge.
    """

    prompt: tuple[str, ...]
    response: tuple[str, ...]
    supplied: tuple[str, ...]
    samples: int = 1
    first_only: bool = False
    answers: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: str, models: Sequence[str], confidence: Confidence, samples: int | None) -> Needs:
        names = names_of(confidence) if len(models) > 1 else []
        first = confidence.fitted.get("before", ()) if isinstance(confidence, LearntGain) else ()  # before any response
        computed = set(FROM_RESPONSE) - set(first) if kind == "cascade" else set()
        response = [name for name in names if name in computed and (name != "agreement" or samples is not None)]
        prompt = [name for name in names if name in FROM_PROMPT]
        others = [name for name in names if name not in (*response, *prompt)]
        said = said_with_answers(kind, confidence)
        return cls(
            tuple(prompt),
            tuple(response),
            tuple(name for name in others if name not in said),
            samples or 1,
            isinstance(confidence, LearntGain),
            tuple(name for name in others if name in said),
        )

    def lines(self) -> list[str]:
        """What is read from where, in words."""
        found = [f"{name}: computed from the request ({FROM_PROMPT[name]})" for name in self.prompt]
        found += [f"{name}: computed from the response ({FROM_RESPONSE[name]})" for name in self.response]
        found += [f"{name}: you must supply it with every request (about=)" for name in self.supplied]
        found += [
            f"{name}: you must supply it with every answer (a judge, or what calls the model)" for name in self.answers
        ]
        if self.samples > 1:
            asked = "the first model" if self.first_only else "each model but the last"
            found.append(f"{asked} is asked {self.samples} times, as in the logs")
        return found


def unpacked(replies: Sequence[Any], confidence: Confidence) -> tuple[list[Any], dict[str, Any]]:
    """The answers in what a model returned each time it was asked, and the numbers that are known of them together.

    A model may return the response of a provider (a chat completion, as an object or a dictionary), a dictionary with "answer"
    and numbers by name, a pair of an answer and its confidence, or an answer alone. A call that failed is its error; of several
    calls some may have failed, and then a mean over all is unknown, as in logs.
    """
    parts = [None if isinstance(part, Exception) else _parts(part, confidence) for part in replies]
    answered = [part for part in parts if part is not None]
    known: dict[str, Any] = {}
    if all(part.completion is not None for part in answered):
        numbers = measured([None if part is None else part.completion for part in parts])
        # of a response that lacks a number nobody is sure; of an answer that is no response it must be given
        known |= {name: numbers.get(name, float("nan")) for name in names_of(confidence) if name in FROM_RESPONSE}
    for name in dict.fromkeys(name for part in answered for name in part.numbers):
        given = [part.numbers.get(name) for part in answered]
        if name == "cost":
            known[name] = None if None in given else sum(given)
        else:
            known[name] = given[0] if len(replies) == 1 else mean_of(given, len(replies))
    return [part.answer for part in answered], known


def mean_of(numbers: Sequence[Any], calls: int) -> float:
    """The mean over all calls of what is said of their answers; nan where some say nothing."""
    return math.fsum(map(as_number, numbers)) / calls if len(numbers) == calls else math.nan


def as_number(value: Any) -> float:
    """A number that a model or a judge gave, nan where it failed or said nothing."""
    try:
        return float(value) if not isinstance(value, Exception) and value is not None else math.nan
    except (TypeError, ValueError):
        return math.nan


@dataclass(frozen=True, slots=True)
class _Parts:
    answer: Any
    numbers: Mapping[str, Any]
    completion: Mapping[str, Any] | None


def _parts(reply: Any, confidence: Confidence) -> _Parts:
    number = one_number(confidence)
    if isinstance(reply, Mapping) and "answer" in reply:
        known = {str(name): value for name, value in reply.items() if name != "answer"}
        known = {number: known["confidence"], **known} if "confidence" in known else known
        return _Parts(reply["answer"], known, _completion(reply["answer"]))
    if isinstance(reply, tuple) and len(reply) == 2:
        return _Parts(reply[0], {number: reply[1]}, None)
    return _Parts(reply, {}, _completion(reply))


def _completion(answer: Any) -> Mapping[str, Any] | None:
    """A response of a provider as a dictionary; None if it is none."""
    found = answer.model_dump() if hasattr(answer, "model_dump") else answer
    return found if isinstance(found, Mapping) and "choices" in found else None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and how it came about.

    Attributes:
        answer: what the model said. model: which one. called: all that were called, in order.
        errors: model -> the error it raised, if any.
        cost: what all calls cost together, if every model said so.
        confidence: how sure the answering model was; None for the last model, which is not asked.
    """

    answer: Any
    model: str
    called: tuple[str, ...]
    errors: Mapping[str, str] = field(default_factory=dict)
    cost: float | None = None
    confidence: float | None = None


@dataclass(slots=True)
class Calls:
    """The calls of one request: which models were called, how they failed, and what all of it cost, if every one said so."""

    called: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    cost: float | None = 0.0

    def take(
        self, name: str, replies: Sequence[Any], confidence: Confidence
    ) -> tuple[list[Any], dict[str, Any]] | None:
        """What ``unpacked`` finds in the replies of a model; None if it failed, as often as it was asked."""
        self.called.append(name)
        if all(isinstance(reply, Exception) for reply in replies):
            self.errors[name] = f"{type(replies[0]).__name__}: {replies[0]}"
            return None
        answers, known = unpacked(replies, confidence)
        self.cost = None if self.cost is None or "cost" not in known else self.cost + float(known["cost"])
        return answers, known

    def answer(self, answer: Any, model: str, confidence: float | None = None) -> Answer:
        return Answer(answer, model, tuple(self.called), self.errors, self.cost, confidence)


class Counts:
    """Requests, calls, answers, errors and cost of a policy since it was made. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answers: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._requests = self._escalated = 0
        self._cost, self._priced = 0.0, 0

    def add(self, model: str | None, called: Sequence[str], errors: Mapping[str, str], cost: float | None) -> None:
        """One request: who answered (None if nobody could), all that were called, and what it cost as far as it is known."""
        with self._lock:
            self._requests += 1
            self._escalated += len(called) - 1
            self._answers.update([] if model is None else [model])
            self._calls.update(called)
            self._errors.update(errors.keys())
            if cost is not None:
                self._cost, self._priced = self._cost + cost, self._priced + 1

    def to_dict(self) -> dict[str, Any]:
        """How many requests came, who answered them, how many calls and errors each model had, and the mean cost."""
        with self._lock:
            return {
                "requests": self._requests,
                "answered": dict(self._answers),
                "called": dict(self._calls),
                "errors": dict(self._errors),
                "failed": self._requests - sum(self._answers.values()),
                "escalated": self._escalated,
                "mean_cost": self._cost / self._priced if self._priced else None,
            }

    def __repr__(self) -> str:
        return f"Counts({self.to_dict()})"
