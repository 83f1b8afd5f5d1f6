"""How Monte-Carlo tests decide: exact binomial bounds, and what they let through.

A rate of misses is compared with delta by an exact binomial tail. If the true rate is at most delta, the number of misses in
N trials is at most a Binomial(N, delta) number, so the check ``P(Bin(N, delta) >= misses) < LEVEL`` fails a correct method with
probability below LEVEL. The suites make fewer than 1,000 such checks, LEVEL is 1e-9, and by the union bound all of
them together fail a correct library with probability below 1e-6. (The seeds are fixed: the outcome is decided once.)

What it catches, with N = 1,000 and delta = 0.1: 162 misses or more; a method whose true rate is 0.2 is caught with
probability above 0.99. With N = 12,000: 1,400 misses; a true rate of .12 is caught with probability .88 at that level,
and .98 at the level of the simulations through public doors (tests/support/simulation.py).
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
    """The probability that a true rate of misses is caught."""
    return float(stats.binom.sf(most_allowed(trials, delta, level), trials, rate))
