"""What a check found: one line for each rule that is broken, and a table of the rates that were measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from scipy import stats

_SHOWN = 12  # broken rules that an error lists


@dataclass(slots=True)
class Findings:
    """The broken rules and measured rates of one check. ``end`` raises an AssertionError if a rule is broken."""

    about: str
    level: float
    broken: list[str] = field(default_factory=list)
    rates: list[dict[str, Any]] = field(default_factory=list)

    def require(self, holds: bool, otherwise: str) -> bool:
        """Note a broken rule unless it holds."""
        if not holds:
            self.broken.append(otherwise)
        return holds

    def rate(self, where: str, event: str, misses: int, trials: int, allowed: float, *, judged: bool = True) -> None:
        """Note how often an event happened that may happen with probability ``allowed`` at most."""
        self.rates.append(
            {"where": where, "misses": misses, "trials": trials, "rate": misses / trials, "allowed": allowed}
        )
        if judged and too_many(misses, trials, allowed, self.level):
            most = most_allowed(trials, allowed, self.level)
            self.broken.append(
                f"{where}: {event} in {misses:,} of {trials:,} trials ({misses / trials:.3f}); allowed is a rate of at most "
                f"{allowed:g}, at which more than {most:,} happen with probability below {self.level:.0e}."
            )

    def end(self) -> pd.DataFrame:
        """The measured rates; an AssertionError that lists the broken rules if there are any."""
        if self.broken:
            more = [f"... and {len(self.broken) - _SHOWN} more."] if len(self.broken) > _SHOWN else []
            lines = [f"- {line}" for line in (*self.broken[:_SHOWN], *more)]
            rules = "one rule" if len(self.broken) == 1 else f"{len(self.broken)} rules"
            raise AssertionError("\n".join([f"{self.about} breaks {rules}:", *lines]))
        return pd.DataFrame(self.rates)


LEVEL = 1e-9


def too_many(misses: int, trials: int, delta: float, level: float = LEVEL) -> bool:
    """Whether so many misses can hardly happen when each has probability at most delta."""
    return bool(stats.binom.sf(misses - 1, trials, delta) < level)


def most_allowed(trials: int, delta: float, level: float = LEVEL) -> int:
    """The largest number of misses that passes the check."""
    misses = int(trials * delta)
    while not too_many(misses + 1, trials, delta, level):
        misses += 1
    return misses
