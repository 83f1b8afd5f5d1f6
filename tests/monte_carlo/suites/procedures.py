"""calibrate with each procedure on hundreds of settings, nulls at the very limit, where every bit of delta is spent."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._calibration import decision
from tests.support.simulation import Suite, one_by_one, sharp_size
from tests.support.tables import grid_configs

ALPHA, DELTA, HAIR = 0.1, 0.1, 1e-9
PARETO = rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0)  # the path alone, so that it spends all of delta
PROBLEM = rf.Problem([rf.Limit("loss", at_most=ALPHA)], minimize=["cost"], delta=DELTA)


@cache
def settings(*shape: int) -> pd.DataFrame:
    """Settings of a grid, in C order."""
    return pd.DataFrame(grid_configs(shape))


def table_of(loss: np.ndarray, configs: pd.DataFrame, **more: Any) -> rf.LossTable:
    """The later a setting, the cheaper; the cost of an example differs a little, so that no two examples are alike."""
    m, n = loss.shape
    own = 1e-3 * np.random.default_rng(n).random(n)
    return rf.LossTable(configs, {"loss": loss, "cost": np.linspace(0.9, 0.1, m)[:, None] + own}, **more)


def false_settings(certificate: rf.Certificate, broken: np.ndarray) -> bool:
    """Whether any setting that a certificate names breaks a limit; ``broken`` has the shape of the grid."""
    if not certificate:
        return False
    axes = list("abcdefgh"[: broken.ndim])
    named = pd.concat([certificate.certified[axes], certificate.chosen[axes], pd.DataFrame([certificate.config])])
    return bool(broken[tuple(named[axes].to_numpy(dtype=int).T)].any())


def nulls(rng: np.random.Generator, m: int, n: int, alpha: float = ALPHA) -> np.ndarray:
    """(m, n): independent 0/1 losses, a hair above the limit."""
    return rng.random((m, n), dtype=np.float32) < alpha + HAIR


# ---------------------------------------------------------------- sequences


_SEQUENCE_N = sharp_size(ALPHA, DELTA, 200, 0.3)


def sequence_of_nulls(trial: int, m: int = 300) -> bool:
    """Every setting is null: the first that is tested is certified with probability delta, and no more."""
    loss = nulls(np.random.default_rng([1, trial]), m, _SEQUENCE_N)
    return false_settings(
        rf.calibrate(table_of(loss, settings(m)), PROBLEM, method=PARETO, seed=trial), np.ones(m, dtype=bool)
    )


def default_method(trial: int, m: int = 300) -> bool:
    """The method that people get without asking, with a safe part in front of the nulls."""
    rng = np.random.default_rng([2, trial])
    risk = np.where(np.arange(m) < 100, 0.02, ALPHA + HAIR)
    loss = rng.random((m, 300), dtype=np.float32) < risk[:, None]
    return false_settings(rf.calibrate(table_of(loss, settings(m)), PROBLEM, seed=trial), risk > ALPHA)


def names_only(trial: int, m: int = 300) -> bool:
    """The same where settings are names, all of them null: nothing is smoothed, and half of delta goes to the fallback test."""
    loss = nulls(np.random.default_rng([12, trial]), m, 300)
    names = pd.DataFrame({"prompt": [f"p{i}" for i in range(m)]})
    return bool(rf.calibrate(table_of(loss, names), PROBLEM, seed=trial))


def borders(trial: int, m: int = 230) -> bool:
    """A declared order in which all settings hold but one, which sits where one chunk of a costly test ends, or begins.

    On a grid with one axis the low-risk path is that order. Losses are not 0/1, so that they are bet on.
    """
    rng = np.random.default_rng([3, trial])
    chunk = getattr(decision, "_FIRST_CHUNK", 32)
    place = min(rng.choice([chunk - 1, chunk, chunk, chunk + 1, 3 * chunk, 7 * chunk]), m - 1)
    loss = np.where(rng.random((m, 120)) < 0.05, 0.1, 0.0)
    loss[place] = np.where(rng.random(120) < 0.5, 0.6 + 2 * HAIR, 0.0)
    problem = rf.Problem([rf.Limit("loss", at_most=0.3)], minimize=["cost"], delta=DELTA)
    method = rf.LowRiskPath(opt_fraction=0.3, safest={"a": "low"})
    return false_settings(
        rf.calibrate(table_of(loss, settings(m)), problem, method=method, seed=trial), np.arange(m) == place
    )


_KNOB_N = sharp_size(ALPHA, DELTA, 200)
FROM_LOW = rf.OrderedKnob(safest={"a": "low"})


def ordered_knob(trial: int, m: int = 60) -> bool:
    """Every value of the knob is null, at both ends: the declared end is certified with probability delta, and no more."""
    loss = nulls(np.random.default_rng([11, trial]), m, _KNOB_N)
    found = rf.calibrate(table_of(loss, settings(m)), PROBLEM, method=FROM_LOW, seed=trial)
    return false_settings(found, np.ones(m, dtype=bool))


def ordered_knob_bets(trial: int, m: int = 40, n: int = 400) -> bool:
    """Bets along a knob whose risk does not rise: ten values that hold, ten nulls, ten that hold, ten nulls."""
    rng = np.random.default_rng([12, trial])
    broken = np.arange(m) // 10 % 2 == 1
    severe = np.where(broken, ALPHA + HAIR, 0.01)[:, None] / 0.8  # losses of .8, a mean of .1 where they are null
    loss = np.where(rng.random((m, n), dtype=np.float32) < severe, 0.8, 0.0)
    found = rf.calibrate(table_of(loss, settings(m)), PROBLEM, method=FROM_LOW, seed=trial)
    return false_settings(found, broken)


# ---------------------------------------------------------------- all settings at once

_ALL_N = sharp_size(ALPHA, [DELTA / 300, 2 * DELTA / 300], 200)
_HOLM_N = sharp_size(ALPHA, [DELTA / 2, DELTA], 200)


def bonferroni(trial: int, m: int = 300) -> bool:
    loss = nulls(np.random.default_rng([4, trial]), m, _ALL_N)
    return false_settings(
        rf.calibrate(table_of(loss, settings(m)), PROBLEM, method="bonferroni", seed=trial), np.ones(m, dtype=bool)
    )


def holm(trial: int, m: int = 300) -> bool:
    """All but two settings never fail, so that Holm comes to the last two, which are null, with delta / 2."""
    loss = np.zeros((m, _HOLM_N), dtype=bool)
    loss[-2:] = nulls(np.random.default_rng([5, trial]), 2, _HOLM_N)
    return false_settings(
        rf.calibrate(table_of(loss, settings(m)), PROBLEM, method="holm", seed=trial), np.arange(m) >= m - 2
    )


# ---------------------------------------------------------------- graphs


def _bordered(rng: np.random.Generator, shape: tuple[int, ...], border: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Settings fewer than ``border`` steps from the origin never fail; all others are null."""
    broken = np.indices(shape).sum(axis=0) >= border
    return nulls(rng, broken.size, n) & broken.ravel()[:, None], broken


def wide_graph(trial: int, shape: tuple[int, ...] = (6, 8, 8), border: int = 3) -> bool:
    """A grid with so many settings a stage that its graph is walked a stage at a time."""
    loss, broken = _bordered(np.random.default_rng([6, trial]), shape, border, 250)
    method = rf.SGT(safest=dict.fromkeys("abc", "low"))
    return false_settings(rf.calibrate(table_of(loss, settings(*shape)), PROBLEM, method=method, seed=trial), broken)


def narrow_graph(trial: int, shape: tuple[int, ...] = (12, 20), border: int = 4) -> bool:
    """A grid with few settings a stage, whose graph is walked edge by edge."""
    loss, broken = _bordered(np.random.default_rng([7, trial]), shape, border, 250)
    method = rf.SGT(safest=dict.fromkeys("ab", "low"))
    return false_settings(rf.calibrate(table_of(loss, settings(*shape)), PROBLEM, method=method, seed=trial), broken)


_CORNER_N = sharp_size(ALPHA, DELTA, 200, 0.1)


def learned_corner(trial: int, shape: tuple[int, ...] = (6, 6, 6)) -> bool:
    """All are null: whichever of the eight corners is tested first is certified with probability delta, and no more."""
    loss, broken = _bordered(np.random.default_rng([8, trial]), shape, 0, _CORNER_N)
    method = rf.SGT(learn_fraction=0.1)
    return false_settings(rf.calibrate(table_of(loss, settings(*shape)), PROBLEM, method=method, seed=trial), broken)


_FALLBACK_N = sharp_size(ALPHA, DELTA / 20, 200)


def fallback(trial: int, shape: tuple[int, ...] = (20, 15)) -> bool:
    """All are null: each of twenty sequences begins with a twentieth of delta."""
    loss, broken = _bordered(np.random.default_rng([9, trial]), shape, 0, _FALLBACK_N)
    method = rf.Fallback(safest=dict.fromkeys("ab", "low"))
    return false_settings(rf.calibrate(table_of(loss, settings(*shape)), PROBLEM, method=method, seed=trial), broken)


# ---------------------------------------------------------------- sharp: .12 is seen against .10


@cache
def _population(m: int = 300, n: int = 20_000) -> rf.LossTable:
    """Every setting fails on exactly a tenth of the examples, each on its own."""
    rng = np.random.default_rng(10)
    loss = np.zeros((m, n), dtype=bool)
    for row in loss:
        row[rng.choice(n, n // 10, replace=False)] = True
    return table_of(loss, settings(m))


_SHARP_N = sharp_size(ALPHA, DELTA, 1500, 0.3)


def sharp_sequence(numbers: range) -> int:
    """The same nulls by experiment.run, whose trials are calls of calibrate on draws with replacement, many at a time.

    So many examples are tested that a level of .12 certifies nearly a fifth more, and so few that one count shows, too.
    """
    problem = rf.Problem([rf.Limit("loss", at_most=ALPHA - HAIR)], minimize=["cost"], delta=DELTA)
    found = rf.experiment.run(
        _population(), problem, methods=[PARETO], trials=len(numbers), calibration=_SHARP_N, seed=10 + numbers.start
    )
    return int(found["any_violated"].sum())


# ---------------------------------------------------------------- planning on smoothed risks, and the fallback test


_SMOOTH_N = sharp_size(ALPHA, DELTA, 200, 0.3)


def smooth_grid(trial: int, side: int = 12) -> bool:
    """Risks rise along both axes from a hair above the limit: there is much to smooth, and every setting is null."""
    rng = np.random.default_rng([11, trial])
    steps = np.indices((side, side)).sum(axis=0).ravel()
    risk = ALPHA + HAIR + 0.3 * np.maximum(steps - 10, 0) / side
    loss = rng.random((side * side, _SMOOTH_N), dtype=np.float32) < risk[:, None]
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0.0)
    return false_settings(
        rf.calibrate(table_of(loss, settings(side, side)), PROBLEM, method=method, seed=trial),
        np.ones((side, side), dtype=bool),
    )


_NETTED = 60
_NET_N = sharp_size(ALPHA, DELTA / 2 / _NETTED, 1500)


def path_and_fallback(numbers: range) -> int:
    """All are null, and delta is halved between the path and the fallback test: together they spend delta."""
    problem = rf.Problem([rf.Limit("loss", at_most=ALPHA - HAIR)], minimize=["cost"], delta=DELTA)
    found = rf.experiment.run(
        _population(_NETTED),
        problem,
        methods=[rf.ParetoTesting(opt_fraction=0.3, holm_share=0.5)],
        trials=len(numbers),
        calibration=_NET_N,
        seed=20 + numbers.start,
    )
    return int(found["any_violated"].sum())


SUITES = [
    Suite("calibrate: sequence of nulls", one_by_one(sequence_of_nulls), 1600),
    Suite("calibrate: default method", one_by_one(default_method), 800),
    Suite("calibrate: default method on names", one_by_one(names_only), 800),
    Suite("calibrate: borders of chunks", one_by_one(borders), 200),
    Suite("calibrate: ordered knob", one_by_one(ordered_knob), 2400),
    Suite("calibrate: ordered knob, bets", one_by_one(ordered_knob_bets), 2000),
    Suite("calibrate: bonferroni", one_by_one(bonferroni), 800),
    Suite("calibrate: holm", one_by_one(holm), 1600),
    Suite("calibrate: wide graph", one_by_one(wide_graph), 600),
    Suite("calibrate: narrow graph", one_by_one(narrow_graph), 600),
    Suite("calibrate: learned corner", one_by_one(learned_corner), 800),
    Suite("calibrate: fallback", one_by_one(fallback), 600),
    Suite("experiment.run: sharp", sharp_sequence, 12_000),
    Suite("calibrate: smooth grid of nulls", one_by_one(smooth_grid), 2_000),
    Suite("experiment.run: path and fallback test", path_and_fallback, 8_000),
]
