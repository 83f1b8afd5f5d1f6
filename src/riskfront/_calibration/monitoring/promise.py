"""The two promises about false alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from riskfront._support.values import is_number, known, whole_number
from riskfront.errors import InvalidInputError

KINDS = ("no-false-alarm", "run-length")


@dataclass(frozen=True, slots=True)
class Promise:
    """kind: "no-false-alarm", never with probability 1 - delta, or "run-length", after ``run_length`` outcomes on average."""

    kind: str
    delta: float
    run_length: int

    def __post_init__(self) -> None:
        check_delta("delta", self.delta)
        known(self.kind, KINDS, "promise")
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "run_length", whole_number("run_length", self.run_length, 2))

    @property
    def weighted(self) -> bool:
        """Whether the weights of all starts add up to 1."""
        return self.kind == "no-false-alarm"

    def threshold(self, watches: int, limits: int) -> float:
        """The evidence at which an alarm is raised.

        delta is divided among all that is watched. For the run length, each outcome adds 1 to the mean evidence of at most
        one group of each limit, so that the evidence of all together has the mean ``limits`` times the number of outcomes.
        """
        return watches / self.delta if self.weighted else float(self.run_length * limits)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "delta": self.delta, "run_length": self.run_length}


def check_delta(name: str, value: Any) -> None:
    if not is_number(value) or not 0 < value < 1:
        raise InvalidInputError(f"{name} must lie in (0, 1); got {value!r}.")
