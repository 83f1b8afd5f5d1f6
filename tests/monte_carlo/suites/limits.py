"""calibrate with every kind of limit: in every class, given a condition, signed, from below, several, on a quantile.

In each suite all two hundred settings break a limit by a hair, so that a miss is any certificate at all.
"""

from __future__ import annotations

import numpy as np

import riskfront as rf
from tests.monte_carlo.suites.procedures import ALPHA, DELTA, HAIR, PARETO, nulls, settings, table_of
from tests.support.simulation import Suite, one_by_one, sharp_size

M = 200


def _certified(table: rf.LossTable, *limits: rf.Limit, trial: int) -> bool:
    problem = rf.Problem(limits, minimize=["cost"], delta=DELTA)
    return bool(rf.calibrate(table, problem, method=PARETO, seed=trial))


def worst_class(trial: int, alpha: float = 0.2) -> bool:
    """Four classes; only the rarest is at the limit, all others never fail."""
    rng = np.random.default_rng([21, trial])
    label = rng.choice(4, size=400, p=[0.4, 0.25, 0.2, 0.15])
    loss = nulls(rng, M, 400, alpha) & (label == 3)
    return _certified(
        table_of(loss, settings(M), groups={"label": label}), rf.Limit("loss", at_most=alpha, per="label"), trial=trial
    )


def selective(trial: int, alpha: float = 0.15, bets: bool = False) -> bool:
    """Settings answer 90 % down to 40 % of the examples and never fail on the others."""
    rng = np.random.default_rng([22, bets, trial])
    answered = rng.random((M, 360), dtype=np.float32) < np.linspace(0.9, 0.4, M)[:, None]
    loss = nulls(rng, M, 360, alpha) & answered
    table = table_of(loss.astype(float) if bets else loss, settings(M))
    losses = {name: table.losses(name) for name in table.loss_names} | {"answered": answered}
    return _certified(rf.LossTable(settings(M), losses), rf.Limit("loss", at_most=alpha, given="answered"), trial=trial)


def signed(trial: int, alpha: float = 0.2, flips: float = 0.3) -> bool:
    """The drop in {-1, 0, 1}: 30 % of the predictions turn correct, 50 % turn wrong."""
    rng = np.random.default_rng([23, trial])
    u = rng.random((M, 300))
    drop = (u < flips + alpha + HAIR).astype(np.int8) - (u > 1 - flips).astype(np.int8)
    return _certified(
        table_of(drop, settings(M), bounds={"loss": (-1, 1)}), rf.Limit("loss", at_most=alpha), trial=trial
    )


_N = sharp_size(ALPHA, DELTA, 200, 0.3)


def from_below(trial: int) -> bool:
    """Hits a hair less often than nine times in ten, where at least nine are wanted."""
    hits = ~nulls(np.random.default_rng([24, trial]), M, _N)
    return _certified(table_of(hits, settings(M)), rf.Limit("loss", at_least=1 - ALPHA), trial=trial)


def several(trial: int) -> bool:
    """Each setting breaks one of three limits, the next setting another, and keeps the other two easily."""
    rng = np.random.default_rng([25, trial])
    turn = np.arange(M)[:, None] % 3
    broken = nulls(rng, M, _N)
    table = rf.LossTable(
        settings(M),
        {
            "error": broken & (turn == 0),
            "recall": ~(broken & (turn == 1)),
            "regret": np.where(turn == 2, 0.5 * broken, 0.0),
            "cost": np.linspace(0.9, 0.1, M)[:, None] + 1e-3 * rng.random(_N),
        },
    )
    limits = (
        rf.Limit("error", at_most=ALPHA),
        rf.Limit("recall", at_least=1 - ALPHA),
        rf.Limit("regret", at_most=ALPHA / 2),
    )
    return _certified(table, *limits, trial=trial)


def quantile(trial: int) -> bool:
    """A hair more than a tenth of the examples take longer than the .9-quantile may be."""
    rng = np.random.default_rng([26, trial])
    late = nulls(rng, M, _N)
    times = np.where(late, 3.0, 0.5) + 0.4 * rng.random((M, _N))
    return _certified(table_of(times, settings(M)), rf.Limit("loss", at_most=1.0, quantile=1 - ALPHA), trial=trial)


def continuous(trial: int) -> bool:
    """Losses between 0 and 1 that are bet on: mostly small, and now and then large."""
    rng = np.random.default_rng([27, trial])
    loss = rng.beta(0.3, 2.7, (M, 250)) * (1 + HAIR)
    return _certified(table_of(loss, settings(M)), rf.Limit("loss", at_most=ALPHA), trial=trial)


def nothing_found(trial: int) -> bool:
    """Not a guarantee but a use: settings far inside three kinds of limits, of which at least one must be certified."""
    rng = np.random.default_rng([28, trial])
    n, label = 400, rng.integers(0, 2, 400)
    rare = rng.random((M, n)) < np.linspace(0.01, 0.5, M)[:, None]
    losses = {
        "error": rare,
        "recall": ~rare,
        "drop": rare.astype(np.int8) - (rng.random((M, n)) < 0.1),
        "cost": np.linspace(0.9, 0.1, M)[:, None] + 1e-3 * rng.random(n),
    }
    table = rf.LossTable(settings(M), losses, groups={"label": label}, bounds={"drop": (-1, 1)})
    limits = (
        rf.Limit("error", at_most=0.15, per="label"),
        rf.Limit("recall", at_least=0.85),
        rf.Limit("drop", at_most=0.1),
    )
    return not _certified(table, *limits, trial=trial)


SUITES = [
    Suite("calibrate: worst class", one_by_one(worst_class), 800),
    Suite("calibrate: given answered", one_by_one(selective), 800),
    Suite("calibrate: given answered, bets", one_by_one(lambda trial: selective(trial, bets=True)), 400),
    Suite("calibrate: signed", one_by_one(signed), 400),
    Suite("calibrate: at least", one_by_one(from_below), 800),
    Suite("calibrate: three limits", one_by_one(several), 800),
    Suite("calibrate: quantile", one_by_one(quantile), 1600),
    Suite("calibrate: continuous losses", one_by_one(continuous), 800),
    Suite("calibrate: something is found", one_by_one(nothing_found), 200),
]
