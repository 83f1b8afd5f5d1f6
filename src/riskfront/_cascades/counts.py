"""What a policy returned, and what it did so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any


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
