"""One line of the page: how often a guarantee was missed on a population, and what that says."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

from riskfront.testing._findings import too_many

#: a correct library fails one line with at most this probability; there are fewer than 1,000 lines
LEVEL = 1e-6
#: number of the first trial of a suite: other data than those on which the tests of the suites are run again and again
FIRST = 1_000_000


@dataclass(frozen=True)
class Measured:
    """``allowed``: the probability of a miss that the guarantee allows. ``seconds``: of other processes."""

    family: str
    guarantee: str
    population: str
    misses: int
    trials: int
    allowed: float = 0.1
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.misses / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        """The exact (Clopper-Pearson) interval of the rate, 95 %."""
        found = stats.binomtest(self.misses, self.trials).proportion_ci(0.95, method="exact")
        return float(found.low), float(found.high)

    @property
    def fails(self) -> bool:
        """So many misses can hardly happen when each has the probability allowed."""
        return too_many(self.misses, self.trials, self.allowed, LEVEL)
