"""The traps of published code: how often each breaks a guarantee there, and how often riskfront does on the same data.

A rate is what happens on data on which nothing may be certified; a fact is something that can be shown once. Faults that lie in
how data are handled are mutants of riskfront itself (tests/mutants), run in a process of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from riskfront.statistics import _p_values as pv
from riskfront.statistics._procedures import FixedSequence, Graphical
from tests.validity import broken, sides
from tests.validity.sides import DELTA, Misses


@dataclass(frozen=True)
class Rate:
    """``there`` and ``here``: number of trials -> misses. ``least``, ``most``: trials that show it, and are worth it."""

    name: str
    happens: str
    there: Misses
    here: Misses
    allowed: float = DELTA
    least: int = 0
    most: int = 100_000


@dataclass(frozen=True)
class Fact:
    """Each side says in words what it does, and whether that is right."""

    name: str
    happens: str
    there: Callable[[], tuple[str, bool]]
    here: Callable[[], tuple[str, bool]]


@dataclass(frozen=True)
class Faulty:
    """A mutant of riskfront with this fault; its own suite, with it and without."""

    name: str
    happens: str
    mutant: str


def many(name: str, happens: str, rule: Callable[..., np.ndarray], ours: object, m: int, safe: int = 0) -> Rate:
    """A broken procedure beside the right one on the same p-values."""
    return Rate(
        name,
        happens,
        sides.nulls(m, lambda p: rule(p, DELTA), safe),
        sides.nulls(m, lambda p: ours.reject(p, DELTA), safe),
    )


TRAPS: list[Rate | Fact | Faulty] = [
    Fact(
        "graph loop without an exit",
        "nothing can be rejected any more, and the loop never ends",
        lambda: sides.loop(True),
        lambda: sides.loop(False),
    ),
    Fact(
        "path that moves while it compares",
        "the current point is overwritten inside the loop over its neighbours",
        lambda: sides.path(True),
        lambda: sides.path(False),
    ),
    Fact(
        "a p-value that is nan",
        "Holm's procedure by argmin stops at it before it has begun",
        lambda: sides.nan(True),
        lambda: sides.nan(False),
    ),
    many(
        "sequence that goes on after a failure",
        "30 null settings",
        broken.goes_on_after_a_failure,
        FixedSequence(),
        30,
    ),
    many(
        "second starting point without a share of delta",
        "10 null settings",
        broken.two_starts,
        Graphical(sides.SHARED),
        10,
    ),
    many(
        "direction read off the tested data",
        "10 null settings",
        broken.whichever_end_looks_better,
        FixedSequence(),
        10,
    ),
    many(
        "budget of an isolated node given to the smallest p-value",
        "12 null settings",
        broken.budget_for_the_smallest,
        Graphical(sides.ISOLATED),
        12,
    ),
    many(
        "budget that stays after it was passed on",
        "a ring of 6, the first of which holds",
        broken.budget_that_stays,
        Graphical(sides.RING),
        6,
        safe=1,
    ),
    Rate(
        "signed differences fed to Hoeffding-Bentkus",
        "accuracy drop at its limit, 30 % of answers turn right",
        sides.signed_there,
        sides.signed_here,
        most=5000,
    ),
    Rate(
        "two-sided betting",
        "a true risk of .6 where .1 is allowed",
        lambda trials: sides.below(broken.two_sided(sides.losses(0.6, 250, trials), 0.1)),
        lambda trials: sides.below(pv.betting(sides.losses(0.6, 250, trials), 0.1, DELTA)),
        most=5000,
    ),
    Rate(
        "a loss that enters its own stake",
        "0/1 losses at the limit, .1",
        lambda trials: sides.below(broken.kelly(sides.losses(0.1, 300, trials).astype(float), 0.1)),
        lambda trials: sides.below(pv.betting(sides.losses(0.1, 300, trials), 0.1, DELTA)),
        most=5000,
    ),
    Rate(
        "maxima of two halves added up",
        "0/1 losses at the limit, .1",
        lambda trials: sides.below(broken.halves_added_up(sides.losses(0.1, 300, trials).astype(float), 0.1, DELTA)),
        lambda trials: sides.below(pv.betting(sides.losses(0.1, 300, trials), 0.1, DELTA)),
        most=5000,
    ),
    Rate(
        "normal approximation",
        "100 losses at a limit of .01: often none, and then p = 0",
        sides.normal_there,
        lambda trials: sides.below(pv.binomial(sides.losses(0.01, 100, trials).sum(axis=1), 100, 0.01)),
    ),
    Rate(
        "a sum that is floored",
        "losses of .99 at the limit, .1",
        lambda trials: sides.floored(trials, True),
        lambda trials: sides.floored(trials, False),
        least=6000,
    ),
    Fact(
        "counts made from means",
        "ceil(n * (k / n)) is not k",
        lambda: sides.counts(True),
        lambda: sides.counts(False),
    ),
    Fact(
        "0 log 0 taken for nan",
        "the Hoeffding part is lost where nothing failed",
        lambda: sides.mean_zero(True),
        lambda: sides.mean_zero(False),
    ),
    Fact(
        "examples counted for the first limit only",
        "no second limit can ever be certified",
        lambda: sides.sizes(True),
        lambda: sides.sizes(False),
    ),
    Rate(
        "setting number 0 when nothing passed",
        "every setting always fails",
        lambda trials: sides.nothing_holds(trials, True),
        lambda trials: sides.nothing_holds(trials, False),
        most=300,
    ),
    Fact(
        "a bet won early and lost again",
        "60 right answers, then 20 wrong ones, where .1 are allowed: valid, and nobody would believe it",
        lambda: sides.early(True),
        lambda: sides.early(False),
    ),
    Rate(
        "a bound for the chosen setting as if it had not been chosen",
        "the best of 100 settings in three objectives; here: the limits shown",
        lambda trials: sides.bound_and_limits(trials)[0],
        lambda trials: sides.bound_and_limits(trials)[1],
        most=200,
    ),
    Faulty("bets in the order of the file", "rows sorted by class", "bets in the order of the file"),
    Faulty("splits by the seed alone", "files sorted by their own losses", "splits by the seed alone"),
    Faulty(
        "one file as planning and testing examples",
        "loaded twice, so that no object is the same",
        "shared examples found by object identity",
    ),
    Faulty(
        "calibration rows that the model was trained on",
        "labels are coin flips, and error at most .4 is asked for",
        "classifier: calibrates on rows it was trained on",
    ),
    Faulty(
        "testing examples looked at until something passes",
        "six larger and larger search budgets",
        "tune: forgets what was asked before",
    ),
]
