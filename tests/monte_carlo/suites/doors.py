"""Doors through which false certificates came, or could: copies of examples, missing outcomes, sorted logs, old examples as new
ones, limits on more than a mean, and the two tests of the default method."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._data.logs.runs import Runs
from riskfront.errors import InvalidInputError
from tests.monte_carlo.suites.procedures import ALPHA, DELTA, PARETO, PROBLEM, false_settings, nulls, settings, table_of
from tests.monte_carlo.suites.tables import _noisy
from tests.support.simulation import Suite, one_by_one, sharp_size
from tests.support.tables import from_wide

_NET_N = sharp_size(ALPHA, [DELTA / 2 / 300, DELTA / 300], 250)
_WIDE = rf.Problem("error <= 0.1", minimize="cost", delta=DELTA)
_MISSING_N = 120


def path_and_fallback(trial: int, m: int = 300) -> bool:
    """Every setting is null, and the plan and the test of all settings each have half of delta."""
    loss = nulls(np.random.default_rng([61, trial]), m, _NET_N)
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0.5)
    found = rf.calibrate(table_of(loss, settings(m)), PROBLEM, method=method, seed=trial)
    return false_settings(found, np.ones(m, dtype=bool))


def seeds_until_one_passes(trial: int, m: int = 20) -> bool:
    """One table, asked with six seeds: a false certificate that states the confidence of a single question."""
    table = table_of(nulls(np.random.default_rng([68, trial]), m, _NET_N), settings(m))
    found = [rf.calibrate(table, PROBLEM, method=PARETO, seed=seed) for seed in range(6)]
    return any(bool(one) and one.guaranteed and f"With {100 * (1 - DELTA):g} % conf" in one.verdict() for one in found)


def copies(trial: int, m: int = 100) -> bool:
    """A file that was written four times over, or a bootstrap sample. To refuse is right."""
    rng = np.random.default_rng([62, trial])
    table = _noisy(nulls(rng, m, 90), rng)
    if trial % 2:
        losses = {name: np.tile(table.losses(name), 4) for name in table.loss_names}
        table = rf.LossTable(settings(m), losses)
    else:
        table = table.subset(rng.integers(0, 90, 360))
    try:
        return bool(rf.calibrate(table, PROBLEM, method=PARETO, seed=trial))
    except InvalidInputError:
        return False


def single_precision(trial: int, m: int = 200) -> bool:
    """One file twice, the second time in single precision, with groups as texts or settings as decimal numbers."""
    rng = np.random.default_rng([63, trial])
    loss, costs = nulls(rng, m, 200), rng.random((m, 200))
    label = rng.integers(0, 3, 200)
    made = [settings(m), settings(m).astype(float)][trial % 2]
    opt = rf.LossTable(settings(m), {"loss": loss, "cost": costs}, {"label": label})
    test = rf.LossTable(made, {"loss": loss, "cost": costs.astype(np.float32)}, {"label": label.astype(str)})
    try:
        return bool(rf.certify(PARETO.plan(opt, PROBLEM), test, PROBLEM))
    except InvalidInputError:
        return False


def missing_failures(trial: int, m: int = 200) -> bool:
    """A tenth of the outcomes are failures, and three in ten of these left no outcome."""
    drawn = np.random.default_rng([64, trial]).random((_MISSING_N, m))
    cells = np.where((drawn >= 0.07) & (drawn < ALPHA + 1e-9), np.nan, drawn < 0.07)
    about = pd.DataFrame({"name": [f"s{i}" for i in range(m)], "cost": np.linspace(1, 0, m)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rf.LeftOutWarning)
        try:
            frame = pd.DataFrame(cells, columns=about["name"])
            table, _ = from_wide(frame, _WIDE, settings=about, binary=["error"])
        except InvalidInputError:  # no setting without a gap
            return False
        return bool(rf.calibrate(table, _WIDE, seed=trial))


def sorted_log(trial: int, n: int = 300) -> bool:
    """Two models that are wrong on a tenth of the prompts, in a log that is sorted by outcome. With seed 234 alone, 17 of the
    last 30 prompts would be set aside in every such log."""
    rng = np.random.default_rng([65, trial])
    score = np.tile(np.sort(rng.random(n) >= 0.1 + 1e-6)[::-1], (2, 1)) * 1.0
    values = {"score": score, "cost": 1 + 0.1 * rng.random((2, n)), "confidence": np.full((2, n), 0.5)}
    runs = Runs(pd.DataFrame({"model": ["a", "b"]}), pd.DataFrame({"example": [f"x{i}" for i in range(n)]}), values)
    table = rf.Cascade(runs, stages=1, thresholds=2, aside=0.3, seed=234).table(binary=("score",))
    problem = rf.Problem("score >= 0.9", minimize="cost", delta=DELTA)
    return bool(rf.calibrate(table, problem, method=rf.ParetoTesting(opt_fraction=0.2, holm_share=0)))


def old_as_new(trial: int, m: int = 20, n: int = 300) -> bool:
    """A check on some of the examples that the certificate was made of, in another order. To refuse is right."""
    rng = np.random.default_rng([66, trial])
    table = _noisy(rng.random((m, n)) < np.linspace(0.01, 0.2, m)[:, None], rng)
    certificate = rf.calibrate(table, PROBLEM, method="bonferroni")
    again = rng.permutation(n)[: n // 2]
    new = rf.LossTable(settings(m), {name: table.losses(name)[:, again] for name in table.loss_names})
    try:
        rf.check(certificate, new)
    except InvalidInputError:
        return False
    return True


def other_targets(trial: int, m: int = 120, n: int = 300) -> bool:
    """Hundreds of settings a hair beyond a ratio, a gap, the worst cases or a weighted mean, through calibrate."""
    rng = np.random.default_rng([67, trial])
    u, first = rng.random((m, n)), rng.random(n) < 0.4
    kind = trial % 4
    if kind == 0:
        losses, limit = {"a": u < 0.27 - 1e-6, "b": u > 0.97}, rf.Limit("a", over=("a", "b"), at_least=0.9)
    elif kind == 1:
        losses, limit = {"a": u < np.where(first, 0.25 + 1e-6, 0.1)}, rf.Limit("a", gap_per="g", at_most=0.15)
    elif kind == 2:
        time = np.where(u < 0.1, 0.6 + 4 * u, 0.5 * u)  # even between .6 and 1 in the worst tenth
        losses, limit = {"a": time}, rf.Limit("a", worst=0.1, at_most=0.8 - 1e-6)
    else:
        losses = {"a": u < np.where(first, 0.25, 0.025)}
        true = (4 * 0.25 * 0.4 + 0.5 * 0.025 * 0.6) / (4 * 0.4 + 0.5 * 0.6)
        limit = rf.Limit("a", weights="w", largest_weight=4, at_most=true - 1e-6)
    free = np.linspace(0.9, 0.1, m)[:, None] + 1e-3 * rng.random(n)
    groups = {"g": first, "w": np.where(first, 4.0, 0.5)}
    problem = rf.Problem([limit], minimize="cost", delta=DELTA)
    return bool(rf.calibrate(rf.LossTable(settings(m), {**losses, "cost": free}, groups), problem, seed=trial))


class _Exits:
    """A trace of twelve exit thresholds: nothing is lost at 0, and at every other one a hair more than the limit allows."""

    bounds = {"accuracy_drop": (-1.0, 1.0)}  # noqa: RUF012
    groups: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, trial: int) -> None:
        self._rng, self.examples = np.random.default_rng([121, trial]), np.arange(300)
        self._noise = self._rng.random(300)

    def losses(self, config: dict[str, float], examples: Any) -> dict[str, Any]:
        at, u = config["tau_layer"], self._rng.random(300)
        drop = np.where(u < 0.15 + 1e-6, 1.0, np.where(u > 0.95, -1.0, 0.0))
        return {"accuracy_drop": drop if at else np.zeros(300), "flops": 12 - at + self._noise}


def exits_in_order(trial: int) -> bool:
    """Any threshold but 0 is a false certificate."""
    from riskfront.transformers._certifying import certify_in_order

    problem = rf.Problem(["accuracy_drop <= 0.1"], minimize="flops", delta=DELTA)
    found = certify_in_order(_Exits(trial), [{"tau_layer": float(k)} for k in range(12)], problem, trial)
    return bool(found) and found.config["tau_layer"] > 0


SUITES = [
    Suite("calibrate: seeds until one passes", one_by_one(seeds_until_one_passes), 300),
    Suite("calibrate: path and fallback test", one_by_one(path_and_fallback), 4000),
    Suite("calibrate: copies of examples", one_by_one(copies), 200),
    Suite("certify: one file twice, stored otherwise", one_by_one(single_precision), 200),
    Suite("read_wide: failures are missing", one_by_one(missing_failures), 300),
    Suite("cascade: a sorted log", one_by_one(sorted_log), 300),
    Suite("check: old examples as new", one_by_one(old_as_new), 60),
    Suite("calibrate: ratio, gap, worst cases, weights", one_by_one(other_targets), 400),
    Suite("accelerate: exits in a declared order", one_by_one(exits_in_order), 300, needs="torch"),
]
