"""The doors by which outcomes come in: what is missing, failed, absent or rounded must never make a setting look better."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import riskfront as rf
from riskfront._data.reading.column_roles import Layout
from tests.monte_carlo.suites.procedures import DELTA
from tests.support.simulation import Suite, one_by_one

_N, _M = 400, 12
_ERROR = rf.Problem("error <= 0.1", minimize="cost", delta=DELTA)


def _rows(error: np.ndarray, cost: np.ndarray, kind: int) -> object:
    """A long table of (settings, examples), in some order, as one of several kinds of data frame."""
    m, n = error.shape
    frame = pd.DataFrame(
        {
            "knob": np.repeat(np.arange(m), n),
            "example": np.tile(np.arange(n), m),
            "error": error.ravel(),
            "cost": cost.ravel(),
        }
    )
    if kind % 3 == 1:
        frame = frame.sort_values(["example", "knob"], ignore_index=True)
    if kind % 3 == 2:
        frame = frame.sample(frac=1, random_state=kind, ignore_index=True)
    return (frame, pa.Table.from_pandas(frame), pl.from_pandas(frame))[kind // 3 % 3]


def _certified(data: object, problem: rf.Problem, trial: int, **options: object) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rf.LeftOutWarning)
        return bool(rf.calibrate(data, problem, seed=trial, **options))  # type: ignore[arg-type]


def refused_and_not_billed(trial: int) -> bool:
    """The provider refuses a prompt at every setting: an error, and nothing is billed. Every setting is wrong a little more
    often than the limit allows, mostly on such prompts."""
    rng = np.random.default_rng([131, trial])
    refused = rng.random(_N) < 0.09
    error = (refused | (rng.random((_M, _N)) < 0.0111)) * 1
    cost = np.where(refused, np.nan, np.linspace(1, 0.1, _M)[:, None] + 0.01 * rng.random((_M, _N)))
    return _certified(_rows(error, cost, trial), _ERROR, trial)


def all_settings_crash(trial: int) -> bool:
    """On some examples no setting has an outcome: all of them crashed. That is an error of each."""
    rng = np.random.default_rng([132, trial])
    crashed = rng.random(_N) < 0.09
    error = np.where(crashed, np.nan, rng.random((_M, _N)) < 0.0111)
    cost = np.linspace(1, 0.1, _M)[:, None] + 0.01 * rng.random((_M, _N))
    return _certified(_rows(error, cost, trial), _ERROR, trial)


def quantile_in_single_precision(trial: int) -> bool:
    """Nine of a hundred answers never came: their latency is missing. The others are at most as slow as the limit."""
    rng = np.random.default_rng([133, trial])
    slow = rng.random((_M, _N)) < 0.0501
    latency = np.where(slow, np.nan, 300 * rng.random((_M, _N))).astype(np.float32)
    cost = np.linspace(1, 0.1, _M)[:, None] + 0.01 * rng.random((_M, _N))
    problem = rf.Problem("q0.95(latency) <= 300", minimize="cost", delta=DELTA)
    table = rf.LossTable([{"k": k} for k in range(_M)], {"latency": latency, "cost": cost})
    return _certified(table, problem, trial)


def rows_that_are_absent(trial: int) -> bool:
    """A failed call leaves no row at all."""
    rng = np.random.default_rng([134, trial])
    error = (rng.random((_M, _N)) < 0.101).astype(float)
    frame = pd.DataFrame(
        {
            "knob": np.repeat(np.arange(_M), _N),
            "example": np.tile(np.arange(_N), _M),
            "error": error.ravel(),
            "cost": np.linspace(1, 0.1, _M).repeat(_N),
        }
    )
    failed = (error.ravel() > 0) & (rng.random(_M * _N) < 0.4)
    layout = Layout(("knob",), "example")
    table, _ = rf.read_table(frame[~failed], _ERROR, layout=layout, binary=["error"])
    return _certified(table, _ERROR, trial)


def filtered_by_what_was_measured(trial: int, m: int = 600) -> bool:
    """A file states the measured accuracy of each setting, and a filter leaves the best. Every setting breaks the limit by a
    hair. To refuse is right."""
    rng = np.random.default_rng([136, trial])
    error = (rng.random((m, _N)) < 0.1 + 1e-9) * 1
    frame = pd.DataFrame(_rows(error, rng.random((m, _N)), 0))
    accuracy = 1 - error.mean(axis=1)
    frame["accuracy"] = (accuracy if trial % 2 else np.round(100 * accuracy, 1))[frame["knob"]]
    at_least = np.sort(frame["accuracy"].unique())[-3]
    try:
        table, _ = rf.read_table(frame, _ERROR, where=f"accuracy >= {at_least}")
    except rf.InvalidInputError:
        return False
    return _certified(table, _ERROR, trial)


def means_in_every_row(trial: int) -> bool:
    """Every row holds the mean error of its setting. To refuse is right."""
    rng = np.random.default_rng([137, trial])
    error = np.repeat((rng.random((_M, _N)) < 0.1 + 1e-9).mean(axis=1)[:, None], _N, axis=1)
    try:
        return _certified(_rows(error, rng.random((_M, _N)), trial), _ERROR, trial)
    except rf.InvalidInputError:
        return False


def order_by_what_was_measured(trial: int) -> bool:
    """Settings are numbered by their measured accuracy, and tested from the best on. To refuse is right."""
    rng = np.random.default_rng([138, trial])
    error = rng.random((30, _N)) < 0.1 + 1e-9
    accuracy = 1 - error.mean(axis=1) + 1e-9 * np.arange(30)
    table = rf.LossTable([{"accuracy": float(a)} for a in accuracy], {"error": error, "cost": rng.random(error.shape)})
    try:
        return bool(rf.calibrate(table, _ERROR, method=rf.OrderedKnob(safest={"accuracy": "high"})))
    except rf.InvalidInputError:
        return False


def mixture_of_gaps(trial: int, n: int = 3000) -> bool:
    """Two settings that keep a gap given "answered", each because it answers another group, mixed. To refuse is right."""
    rng = np.random.default_rng([135, trial])
    country = rng.random(n) < 0.5
    hard = rng.random(n) < 0.5
    answered = np.stack([np.where(country, hard, rng.random(n) < 0.05), np.where(country, rng.random(n) < 0.05, ~hard)])
    error = np.stack([rng.random(n) < 0.6 * country, rng.random(n) < 0.6 * country]) * answered
    cost = np.stack([np.full(n, 1.0), np.full(n, 2.0)])
    time = cost[::-1]
    problem = rf.Problem(
        rf.Limit("error", at_most=0.9, gap_per="country", given="answered"), minimize=["cost", "time"], delta=DELTA
    )
    losses = {"error": error, "answered": answered, "cost": cost, "time": time}
    certificate = rf.calibrate(rf.LossTable([{"k": 0}, {"k": 1}], losses, {"country": country}), problem, seed=trial)
    try:
        certificate.mixture({"cost": 1.5})
    except (rf.InvalidInputError, rf.NotCertifiedError):
        return False
    return True


SUITES = [
    Suite("calibrate: errors without a bill", one_by_one(refused_and_not_billed), 300),
    Suite("calibrate: all settings crash", one_by_one(all_settings_crash), 300),
    Suite("calibrate: a missing latency in single precision", one_by_one(quantile_in_single_precision), 300),
    Suite("read_table: failed calls have no row", one_by_one(rows_that_are_absent), 300),
    Suite("read_table: a filter by what was measured", one_by_one(filtered_by_what_was_measured), 100),
    Suite("calibrate: means in every row", one_by_one(means_in_every_row), 100),
    Suite("calibrate: an order by what was measured", one_by_one(order_by_what_was_measured), 100),
    Suite("mixture: gaps given a condition", one_by_one(mixture_of_gaps), 40),
]
