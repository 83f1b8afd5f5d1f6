"""Objectives: mean losses to make as good as possible, once every limit holds."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass

from riskfront._problems.terms import Term, short_repr
from riskfront.errors import InvalidInputError

_OBJECTIVE = re.compile(r"^\s*(?P<loss>.+?)(?:\s+per\s+(?P<per>.+?))?(?:\s+given\s+(?P<given>.+?))?\s*$")


@dataclass(frozen=True, slots=True)
class Objective:
    """A mean loss to make as good as possible: in the worst group of ``per``, over the examples where ``given`` is 1, with
    known ``weights``.

    Examples:
        >>> Objective("cost", given="answered") == Objective.parse("cost given answered")
        True
    """

    loss: str
    _: KW_ONLY
    per: str | None = None
    given: str | None = None
    maximize: bool = False
    weights: str | None = None
    said: str | None = None  # the word by which it was asked for, which results use

    @classmethod
    def parse(cls, text: str) -> Objective:
        """An objective from a text such as "cost", "cost per label" or "cost given answered"."""
        match = _OBJECTIVE.match(text)
        if match is None:
            raise InvalidInputError(
                f"an objective must read like 'cost', 'cost per label' or 'cost given answered'; got {text!r}."
            )
        return cls(match["loss"], per=match["per"], given=match["given"])

    @property
    def name(self) -> str:
        name = (self.said or self.loss) + (f" per {self.per}" if self.per else "")
        name += f" given {self.given}" if self.given and self.said is None else ""
        return name + (f" weighted by {self.weights}" if self.weights else "")

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def term(self) -> Term:
        return Term(self.loss, self.per, self.given, weights=self.weights)
