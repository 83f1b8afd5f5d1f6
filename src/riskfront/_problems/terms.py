"""Terms: what is averaged to measure a limit or an objective, and over which examples."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Term:
    """What is averaged (a loss, its square, whether it exceeds ``above``, or its drop from the setting ``drop_from``), and over
    which examples: in each group, given a condition.

    A ratio with the sum of ``over``, each column with its factor, is averaged as loss - at * over; a mean with ``weights`` as
    weight * (loss - at); with ``beyond``, a threshold, the part of the loss above it, or with ``lower`` the part below it. A
    ``gap`` is the difference between two groups of ``per``. With a ``proxy``, two columns, the loss is averaged minus
    ``proxy_weight`` times the difference of the first from the second (``_data/unlabelled_batches.py``).

    ``fill`` says what a missing outcome counts as: (loss, as the worst, as the best). Where it names no value for a loss, only
    examples count whose outcome is known.
    """

    loss: str
    per: str | None = None
    given: str | None = None
    above: float | None = None
    drop_from: str | None = None
    squared: bool = False
    over: tuple[tuple[str, float], ...] = ()
    at: float = 0.0
    weights: str | None = None
    beyond: float | None = None
    lower: bool = False
    gap: bool = False
    proxy: tuple[str, str] | None = None
    proxy_weight: float = 0.0
    fill: tuple[tuple[str, float, float], ...] = ()

    @property
    def of_reference(self) -> Term:
        """The same for the setting that others are compared with, whose missing outcomes count as the best."""
        return replace(self, fill=tuple((loss, best, worst) for loss, worst, best in self.fill))

    def filled_with(self, loss: str) -> float | None:
        """What a missing outcome of a loss counts as; None where it does not count."""
        return next((worst for name, worst, _ in self.fill if name == loss), None)

    @property
    def losses(self) -> list[str]:
        """Every loss that it is made of."""
        return list(dict.fromkeys([self.loss, *(name for name, _ in self.over), *(self.proxy or ())]))

    @property
    def is_ratio(self) -> bool:
        """Whether its mean is a mean over a mean, and not a mean over examples."""
        return bool(self.over) or self.weights is not None

    @property
    def is_combined(self) -> bool:
        """Whether its values are no column of the table."""
        return self.is_ratio or self.beyond is not None or self.proxy is not None


def short_repr(record: Any) -> str:
    """Python that makes it again, without the defaults."""
    named = [part for part in fields(record)[1:] if getattr(record, part.name) != part.default]
    inner = [repr(record.loss), *(f"{part.name}={getattr(record, part.name)!r}" for part in named)]
    return f"{type(record).__name__}({', '.join(inner)})"
