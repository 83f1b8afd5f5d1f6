"""Objectives: mean losses to make as good as possible, once every limit holds."""

from __future__ import annotations

from dataclasses import dataclass

from riskfront.losses.sums import Term
from riskfront.problems.short_repr import short_repr


@dataclass(frozen=True, slots=True)
class Objective:
    """A mean loss to make as good as possible: in the worst group of ``per``, over the examples where ``given`` is 1."""

    loss: str
    per: str | None = None
    given: str | None = None
    maximize: bool = False

    @property
    def name(self) -> str:
        name = self.loss + (f" per {self.per}" if self.per else "")
        return name + (f" given {self.given}" if self.given else "")

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def term(self) -> Term:
        return Term(self.loss, self.per, self.given)
