"""How a simulation decides that misses are too many: an exact binomial tail.

If the true rate of misses is at most delta, the number of misses in N trials is at most a Binomial(N, delta) number, so the
check ``P(Bin(N, delta) >= misses) < level`` fails what is correct with probability below ``level``.

With N = 1,000, delta = 0.1 and level = 1e-9, 162 misses are too many; a true rate of 0.2 is found with probability above 0.99.
With N = 300 and level = 1e-7, 62 misses are too many; a true rate of 0.3 is found with probability above 0.99.
"""

from __future__ import annotations

from scipy import stats

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


def power(rate: float, trials: int, delta: float, level: float = LEVEL) -> float:
    """The probability that a true rate of misses is found."""
    return float(stats.binom.sf(most_allowed(trials, delta, level), trials, rate))
