"""Uses of the testing examples: which questions they have answered already.

A certificate holds with probability 1 - delta when its question was fixed before the testing examples were used. Ask them
again, with another seed, another limit or a larger search, keep what passes, and the probability is gone: ten questions at
delta 0.1 gave false certificates in 0.4 of runs. So questions are recorded, and the deltas of all questions up to this one add
up (union bound): of all answers that state a confidence of at least 1 - x, the probability that one is wrong is at most x.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

from riskfront._problems.problem import Problem

_DATA_SETS = 1000  # whose questions this process remembers
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True, slots=True)
class UseOfTestSet:
    """A use of the testing examples: a question that they have answered.

    Args:
        question: a digest of everything that decides the answer.
        asked: the question in words.
        delta: the probability with which its answer may be wrong. Later answers add it to their own.
    """

    question: str
    asked: str
    delta: float

    @classmethod
    def of(
        cls, problem: Problem, method: str, parameters: Mapping[str, Any], decided_by: Any, said: str
    ) -> UseOfTestSet:
        """The question of a problem to a method; ``decided_by`` is what else decides the answer, in JSON values."""
        content = json.dumps([problem.to_dict(), method, dict(parameters), decided_by], sort_keys=True, default=str)
        return cls(hashlib.sha256(content.encode()).hexdigest(), f"{problem}; {method}, {said}", problem.delta)

    @classmethod
    def of_certificate(cls, made: Any) -> UseOfTestSet:
        """The question of a certificate of ``calibrate``, or of the frontier that it was chosen from."""
        if made.frontier is not None:
            return cls.of_frontier(made.problem, made, made.frontier["values"])
        by = made.seed if made.split_by == "contents" else [made.seed, made.split_by]
        by = [by, helped] if (helped := _unlabelled(made)) else by
        return cls.of(made.problem, made.method, made.parameters, decided_by=by, said=f"seed {made.seed}")

    @classmethod
    def of_frontier(cls, problem: Problem, made: Any, values: Mapping[str, Sequence[float]]) -> UseOfTestSet:
        """The question of a frontier: all values of its limits at once. ``made`` is the frontier or what was chosen from it."""
        named = zip(problem.limit_names, problem.limits, strict=True)
        loosest = problem.at([values.get(name, [limit.value])[0] for name, limit in named])
        count = math.prod(len(listed) for listed in values.values())
        said = f"seed {made.seed}, {count:,} combinations of limits that hold together"
        by = [made.seed, made.split_by, {name: list(listed) for name, listed in values.items()}, *_unlabelled(made)]
        return cls.of(loosest, made.method, made.parameters, by, said)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _unlabelled(made: Any) -> list[str]:
    """The digest of the unlabelled examples that helped: with others, the same labels are asked another question."""
    return [digest] if (digest := (made.unlabelled or {}).get("sha256")) else []


@dataclass(frozen=True, slots=True)
class DataDigests:
    """Digests of a data set.

    Args:
        exact: of everything, in its order.
        limited: of the losses that a question limits, in any order: data that agree in one of them hold the same examples.
        others: of the other losses, by which later questions may limit.
    """

    exact: str
    limited: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Asked:
    """The questions that this process put to each data set."""

    def __init__(self) -> None:
        self._uses: list[tuple[set[str], dict[tuple[str, str], UseOfTestSet]]] = []
        self._lock = Lock()

    def before(self, data: DataDigests, use: UseOfTestSet) -> tuple[UseOfTestSet, ...]:
        """The questions that were put to these data before this one, which is recorded.

        A repeated question is no new use and gives its first answer: only what came before its first time counts. In another
        order the examples are split in another way, so the question is another one.
        """
        if _RECOMPUTING.get():
            return ()
        with self._lock:
            same = [one for one in self._uses if not one[0].isdisjoint((data.exact, *data.limited))]
            digests, questions = {data.exact, *data.limited, *data.others}, dict[tuple[str, str], UseOfTestSet]()
            for known, asked in same:
                digests |= known
                questions |= asked
            questions.setdefault((data.exact, use.question), use)
            self._uses = [*(one for one in self._uses if one not in same), (digests, questions)][-_DATA_SETS:]
            return tuple(questions.values())[: list(questions).index((data.exact, use.question))]


_RECOMPUTING: ContextVar[bool] = ContextVar("recomputing", default=False)


@contextmanager
def recomputing() -> Iterator[None]:
    """To recompute a certificate is no use of testing examples: nothing is recorded or counted inside."""
    token = _RECOMPUTING.set(True)
    try:
        yield
    finally:
        _RECOMPUTING.reset(token)


#: what this process asked of its data
ASKED = Asked()


def delta_of_all(delta: float, earlier: Sequence[UseOfTestSet]) -> float:
    """The probability that this answer or an earlier one is wrong: at most the sum of their deltas."""
    return min(1.0, math.fsum([delta, *(use.delta for use in earlier)]))


def uses_in_words(uses: int) -> str:
    """ "both uses", "all six uses"."""
    if uses == 2:
        return "both uses"
    return f"all {_NUMBERS[uses - 2] if uses - 2 < len(_NUMBERS) else f'{uses:,}'} uses"
