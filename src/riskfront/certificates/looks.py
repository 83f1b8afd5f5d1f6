"""Looks at testing examples: which questions they have answered already.

A certificate holds with probability 1 - delta when its question was fixed before the testing examples were looked at. Ask them
again, with another seed, another limit or a larger search, keep what passes, and the probability is gone: ten looks at delta
0.1 gave false certificates in 0.4 of runs. So questions are written down, and every output says what was asked before.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from riskfront.problems.problem import Problem

_TABLES = 1000  # whose questions this process remembers


@dataclass(frozen=True, slots=True)
class Look:
    """A question that testing examples have answered.

    Args:
        question: a digest of everything that decides the answer.
        asked: the question in words.
        delta: the probability with which its answer may be wrong.
        counts: whether that delta is added to that of later answers.
    """

    question: str
    asked: str
    delta: float
    counts: bool = False

    @classmethod
    def of(cls, problem: Problem, method: str, parameters: Mapping[str, Any], decided_by: Any, said: str) -> Look:
        """The question of a problem to a method; ``decided_by`` is what else decides the answer, in JSON values."""
        content = json.dumps([problem.to_dict(), method, dict(parameters), decided_by], sort_keys=True, default=str)
        return cls(hashlib.sha256(content.encode()).hexdigest(), f"{problem}; {method}, {said}", problem.delta)

    @classmethod
    def of_certificate(cls, made: Any) -> Look:
        """The question of a certificate of ``calibrate``."""
        return cls.of(made.problem, made.method, made.parameters, decided_by=made.seed, said=f"seed {made.seed}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Asked:
    """The questions that were put to each table by this process, by the digest of the table."""

    def __init__(self) -> None:
        self._looks: OrderedDict[str, dict[str, Look]] = OrderedDict()

    def before(self, data: str, look: Look) -> tuple[Look, ...]:
        """Other questions that were put to these data before; this one is written down."""
        known = self._looks.setdefault(data, {})
        self._looks.move_to_end(data)
        if len(self._looks) > _TABLES:
            self._looks.popitem(last=False)
        earlier = list(known.values())
        position = list(known).index(look.question) if look.question in known else len(earlier)
        known.setdefault(look.question, look)
        return tuple(earlier[:position])  # to repeat a question is no new look, and gives the same answer


#: what this process asked of the tables it calibrated on
ASKED = Asked()


def delta_of_all(delta: float, earlier: Sequence[Look]) -> float:
    """The probability that an answer, or an earlier one that counts, is wrong: at most the sum."""
    return min(1.0, delta + sum(look.delta for look in earlier if look.counts))
