"""The guarantees, family by family. Each function makes lines of the page from a number of trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.methods import METHODS, Method, make_method
from riskfront.methods._registry import BY_NAME
from riskfront.statistics._p_values import NAMES
from riskfront.testing._p_values import NULLS, p_value_of_name
from riskfront.testing._populations import CORNER, POPULATIONS
from riskfront.testing._procedures import DEPENDENCE, misses, true_hypotheses, uniforms
from tests.contracts import test_procedures as procedures
from tests.monte_carlo.suites import SUITES
from tests.support.simulation import Suite
from tests.validity.doors import count_misses
from tests.validity.measured import FIRST, Measured

#: a p-value or a procedure takes microseconds where a certificate takes hundredths of a second
CHEAP = 10
#: doors that are looked at again and again: about 2,000 runs of each where others have 300
LIVE, LIVE_TIMES = ("sequential", "tune, adaptive", "monitor"), 20 / 3
#: suites that guard a use, not a probability
NO_GUARANTEE = ("calibrate: something is found", "split: seeds")


def of_p_values(trials: int) -> Iterator[Measured]:
    """Every p-value on losses whose risk is the limit or above: it may fall below a level with that probability only."""
    rng, n = np.random.default_rng(21), CHEAP * trials
    for where, null in NULLS.items():
        losses = null.draw(rng, (n, null.examples))
        for name in (name for name in NAMES if name != "auto"):  # always one of the others
            try:
                p = p_value_of_name(name, null, losses)
            except InvalidInputError:
                continue  # an exact test of counts says that these losses are none
            for level in (0.01, 0.1):
                yield Measured("p-values", name, f"{where}, level {level:g}", int((p <= level).sum()), n, level)


def of_procedures(trials: int) -> Iterator[Measured]:
    """Every procedure on null p-values under every dependence: one false rejection is a miss."""
    draws, m, delta = min(CHEAP * trials, 3000), procedures.M, procedures.DELTA
    for dependence in DEPENDENCE:
        drawn = uniforms(dependence, np.random.default_rng(22), (draws, m))
        for case, true in true_hypotheses(m).items():
            for name, procedure in procedures.PROCEDURES.items():
                missed = misses(procedure, np.where(true, drawn, 0.0), true, delta)
                yield Measured("procedures", name, f"{case}, {dependence}", missed, draws, delta)


def guaranteed_methods() -> dict[str, Method]:
    """Every method of the registry that gives a guarantee and needs only its name; an ordered knob has a suite of its own."""
    found = {name: make_method(name) for name in BY_NAME if METHODS[name].guaranteed}
    declared = {"sgt, corner declared": rf.SGT(safest=CORNER), "fallback, corner declared": rf.Fallback(safest=CORNER)}
    return {**found, **declared, "pareto-testing, as in the paper": rf.ParetoTesting.as_in_the_paper()}


def of_methods(trials: int) -> Iterator[Measured]:
    """Every method on every population with every p-value that applies: one certified setting that breaks a limit is a miss."""
    for population, make in POPULATIONS.items():
        world = make()
        for p_value in world.p_values:
            where = population if p_value == "as given" else f"{population}; {p_value}"
            for name, method in guaranteed_methods().items():
                try:
                    found = world.trials([method], p_value, trials, seed=23)
                except InvalidInputError:
                    continue  # a method that these settings or limits are not for says so
                yield Measured(
                    "methods", name, where, int(found["any_violated"].sum()), len(found), world.problem.delta
                )


def of_doors(trials: int, jobs: int = 1, kept: Path | None = None) -> Iterator[Measured]:
    """Every public door on a hard null: calibrate, certify, tune, estimators, frontier, check, and every kind of limit."""
    made = {s.name: _size(s, trials) for s in SUITES.values() if s.name not in NO_GUARANTEE and not s.needs}
    for name, missed, seconds in count_misses({name: range(FIRST, FIRST + n) for name, n in made.items()}, jobs, kept):
        door, _, population = name.partition(": ")
        yield Measured("doors", door, population, missed, made[name], SUITES[name].delta, seconds)


def _size(suite: Suite, trials: int) -> int:
    """As many trials as asked for; more where a suite is looked at again and again, or is made for thousands."""
    if suite.name.partition(": ")[0] in LIVE:
        return round(LIVE_TIMES * trials)
    return CHEAP * trials if suite.trials > CHEAP * 1000 and "sharp" not in suite.name else trials


FAMILIES: dict[str, Callable[[int], Iterator[Measured]]] = {
    "p-values": of_p_values,
    "procedures": of_procedures,
    "methods": of_methods,
}
