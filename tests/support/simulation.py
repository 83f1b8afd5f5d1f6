"""Simulations through the public doors: what a trial is, how many are made, and when they are too many misses.

A trial makes data whose truth is known, asks riskfront as a user would, and says whether what came back contains a setting
that truly breaks a limit (a miss). ``delta`` bounds how often that may happen.

A suite looks at the number of misses after 1/32, 1/16, ..., a half and all of its trials, so that what is badly broken is
found soon. The looks share LEVEL: a correct library fails a suite with probability at most LEVEL, 1e-6, and all
suites together, fewer than 100, with probability below 1e-4. The seeds are fixed, so this is decided once, not in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from riskfront.testing._findings import too_many

LEVEL = 1e-6
LOOKS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)


@dataclass(frozen=True)
class Suite:
    """misses: (numbers of trials) -> how many of them are misses. The same number is the same trial, always."""

    name: str
    misses: Callable[[range], int]
    trials: int
    delta: float = 0.1
    needs: str | None = None  # a module without which it cannot run


@dataclass(frozen=True)
class Outcome:
    misses: int
    trials: int
    caught: bool

    @property
    def rate(self) -> float:
        return self.misses / self.trials


def one_by_one(miss: Callable[[int], bool]) -> Callable[[range], int]:
    """The misses of a suite whose trials stand each for itself."""
    return lambda numbers: sum(bool(miss(number)) for number in numbers)


def run(suite: Suite, share: float = 1.0, first: int = 0, level: float = LEVEL) -> Outcome:
    """The suite, or a share of its trials; it ends early when it is clear that there are too many misses.

    ``first``: the number of the first trial; another one makes other data. ``level``: how likely a correct library fails.
    """
    trials = max(1, round(share * suite.trials))
    misses = done = 0
    for look in LOOKS:
        upto = max(1, round(look * trials))
        misses, done = misses + suite.misses(range(first + done, first + upto)), upto
        if too_many(misses, done, suite.delta, level / len(LOOKS)):
            return Outcome(misses, done, caught=True)
    return Outcome(misses, done, caught=False)


def sharp_size(alpha: float, levels: float | Sequence[float], least: int, opt_fraction: float = 0.0) -> int:
    """A number of examples of which the exact test of those left after planning spends nearly all of its level, or levels.

    An exact test of counts stays below its level, here more, there less. Where it comes close to it, a wrong test shows.
    """
    sizes = np.arange(least, least + max(60, least // 2))
    tested = sizes - np.rint(opt_fraction * sizes).astype(int)
    spent = []
    for level in np.atleast_1d(levels):
        critical = stats.binom.ppf(level, tested, alpha).astype(int)
        critical -= stats.binom.cdf(critical, tested, alpha) > level
        spent.append(stats.binom.cdf(critical, tested, alpha) / level)
    return int(sizes[np.argmax(np.min(spent, axis=0))])
