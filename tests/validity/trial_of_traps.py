"""Each trap, there and here, as numbers in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.mutants.trial_of_mutants import MUTANTS, Verdict, judge_all
from tests.validity.measured import FIRST, Measured
from tests.validity.traps import TRAPS, Fact, Faulty, Rate


@dataclass(frozen=True)
class Fell:
    """What happened on both sides in words. ``as_it_should``: wrong there, right here. ``seconds``: of other processes."""

    name: str
    happens: str
    there: str
    here: str
    as_it_should: bool
    seconds: float = 0.0


def try_trap(trap: Rate | Fact, trials: int) -> Fell:
    if isinstance(trap, Fact):
        (there, right_there), (here, right_here) = trap.there(), trap.here()
        return Fell(trap.name, trap.happens, there, here, right_here and not right_there)
    made = max(min(trials, trap.most), trap.least)
    there, here = (
        Measured("trap", trap.name, "", misses(made), made, trap.allowed) for misses in (trap.there, trap.here)
    )
    return Fell(trap.name, trap.happens, _rate(there), _rate(here), there.fails and not here.fails)


def try_faulty(traps: list[Faulty], share: float) -> Iterator[Fell]:
    """Each mutant and its suite without it, in processes of their own, one after the other."""
    jobs = [(given, MUTANTS[trap.mutant].suite) for trap in traps for given in (trap.mutant, None)]
    found = {(v.mutant, v.suite): v for v in judge_all(jobs, share, processes=1, first=FIRST)}
    for trap in traps:
        suite = MUTANTS[trap.mutant].suite
        there, here = found[trap.mutant, suite], found[None, suite]
        right, seconds = there.is_right and here.is_right, there.seconds + here.seconds
        yield Fell(trap.name, trap.happens, _verdict(there), _verdict(here), right, seconds)


def try_all(trials: int) -> Iterator[Fell]:
    """``trials`` as on the command line: traps of p-values and procedures take microseconds and get ten times as many."""
    by_name = {fell.name: fell for fell in try_faulty([t for t in TRAPS if isinstance(t, Faulty)], 1.0)}
    for trap in TRAPS:
        yield by_name[trap.name] if isinstance(trap, Faulty) else try_trap(trap, 10 * trials)


def _rate(of: Measured) -> str:
    low, high = of.interval
    return f"**{of.rate:.3f}** ({low:.3f} to {high:.3f}, {of.trials:,} trials)"


def _verdict(of: Verdict) -> str:
    if not of.trials:
        return of.words
    return _rate(Measured("trap", "", "", of.misses, of.trials))
