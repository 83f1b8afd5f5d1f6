"""The account of an intake: what became of every row that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from riskfront.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Intake:
    """Rows read = rows used + rows counted as the worst + rows left out for a reason that was declared beforehand.

    A row is the outcome of one setting on one example: a row of a long file, a cell of a wide one, a logged answer.

    Attributes:
        read: rows that the source holds.
        used: rows that count with the outcome that was recorded.
        worst: rows without an outcome that a limit needs: it counts as the worst there can be.
        left_out: reason, such as a filter, -> rows that do not count because of it.
        absent: outcomes that the source has no row for; they count as the worst, too.
        known: objective that misses some outcomes -> how many rows it is the mean over.
    """

    read: int
    used: int
    worst: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    absent: int = 0
    known: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counted = self.used + self.worst + sum(self.left_out.values())
        if self.read != counted or min(self.read, self.used, self.worst, self.absent, *self.left_out.values()) < 0:
            raise InvalidInputError(
                f"every row must be accounted for; {self.read:,} were read, and {self.used:,} used, {self.worst:,} counted as "
                f"the worst and {sum(self.left_out.values()):,} left out. Please report this."
            )

    @classmethod
    def whole(cls, rows: int) -> Intake:
        """Every row counts as it is."""
        return cls(rows, rows)

    def without(self, reason: str, rows: int) -> Intake:
        """Some of the rows that were used are left out for a declared reason."""
        if rows == 0:
            return self
        left_out = {**self.left_out, reason: self.left_out.get(reason, 0) + rows}
        return replace(self, used=self.used - rows, left_out=left_out)

    def with_worst(self, rows: int, known: Mapping[str, int] | None = None) -> Intake:
        """So many of the rows that were used have no outcome that a limit needs."""
        return replace(self, used=self.used - rows, worst=self.worst + rows, known=dict(known or {}))

    def __add__(self, other: Intake) -> Intake:
        """The account of two sources together."""
        names = dict.fromkeys([*self.left_out, *other.left_out])
        left_out = {name: self.left_out.get(name, 0) + other.left_out.get(name, 0) for name in names}
        known = {name: self.known.get(name, 0) + other.known.get(name, 0) for name in {**self.known, **other.known}}
        return Intake(
            self.read + other.read,
            self.used + other.used,
            self.worst + other.worst,
            left_out,
            self.absent + other.absent,
            known,
        )

    def __str__(self) -> str:
        """One line for people."""
        parts = [f"{self.read:,} rows read: {self.used:,} used", f"{self.worst:,} counted as the worst"]
        # of a file that cannot be read nobody knows how many rows it held
        gone = ((f"{rows:,}" if rows else "an unreadable file", reason) for reason, rows in self.left_out.items())
        parts += [f"{what} left out ({reason})" for what, reason in gone] or ["none left out"]
        line = ", ".join(parts) + "."
        if self.absent:
            line += f" {self.absent:,} outcomes have no row and count as the worst, too."
        for name, rows in self.known.items():
            line += f" '{name}' is the mean over the {rows:,} rows that know it."
        return line

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
