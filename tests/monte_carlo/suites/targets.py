"""Limits on more than a mean, each at the very limit: ratios, gaps, worst cases, weights, clusters.

Every setting is a trial of its own, with losses independent of those of the others, so that thousands are tested at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.ranges import with_thresholds
from tests.support.simulation import Suite

DELTA, HAIR = 0.1, 1e-6


def _table(losses: dict[str, Any], **more: Any) -> rf.LossTable:
    m, n = next(iter(losses.values())).shape
    return rf.LossTable(pd.DataFrame({"trial": np.arange(m)}), {**losses, "free": np.zeros((m, n), dtype=bool)}, **more)


def _passed(table: rf.LossTable, limit: rf.Limit) -> int:
    """How many settings pass, all of which break the limit by a hair."""
    problem = rf.Problem([limit], minimize="free", delta=DELTA)
    opt, test = table.split(0.2)
    found = Evidence(with_thresholds(problem, opt), test).p_values(np.arange(table.n_configs)).max(axis=1)
    return int((found <= DELTA).sum())


def ratio(numbers: range, n: int = 250) -> int:
    """Failures over successes, one of the two on every example: where one goes up the other goes down."""
    rng = np.random.default_rng([31, numbers.start])
    solved = rng.random((len(numbers), n)) < 0.5 - HAIR
    cost = np.where(solved, 0.0, 1.0)
    return _passed(_table({"cost": cost, "solved": solved}), rf.Limit("cost", over="solved", at_most=1.0))


def precision(numbers: range, n: int = 300) -> int:
    """A third of the examples get a positive answer, one in ten of which is wrong."""
    rng = np.random.default_rng([32, numbers.start])
    u = rng.random((len(numbers), n))
    return _passed(_table({"tp": u < 0.27 - HAIR, "fp": u > 0.97}), rf.Limit.precision(at_least=0.9))


def gap(numbers: range, n: int = 300, tolerance: float = 0.15) -> int:
    """Two groups of unequal size; in half of the settings the first is worse, in the others the second."""
    rng = np.random.default_rng([33, numbers.start])
    first = np.arange(n) % 3 == 0
    worse = np.where(np.arange(len(numbers))[:, None] % 2 == 0, first, ~first)
    error = rng.random((len(numbers), n)) < 0.1 + (tolerance + HAIR) * worse
    return _passed(_table({"error": error}, groups={"g": first}), rf.Limit("error", gap_per="g", at_most=tolerance))


def worst(numbers: range, n: int = 300) -> int:
    """A tenth of the examples take a time that is even between .6 and 1: their mean is .8."""
    rng = np.random.default_rng([34, numbers.start])
    late, time = rng.random((len(numbers), n)) < 0.1, rng.random((len(numbers), n))
    times = np.where(late, 0.6 + 0.4 * time, 0.5 * time)
    return _passed(_table({"time": times}), rf.Limit("time", worst=0.1, at_most=0.8 - HAIR))


def weighted(numbers: range, n: int = 300) -> int:
    """Examples that will come four times as often fail more often: .1 here, .2 there."""
    rng = np.random.default_rng([35, numbers.start])
    often = np.arange(n) % 3 == 0
    error = rng.random((len(numbers), n)) < np.where(often, 0.25, 0.025)
    weights = np.where(often, 4.0, 0.5)
    true = (4 * 0.25 / 3 + 0.5 * 0.025 * 2 / 3) / (4 / 3 + 0.5 * 2 / 3)
    limit = rf.Limit("error", weights="w", largest_weight=4, at_most=true - HAIR)
    return _passed(_table({"error": error}, groups={"w": weights}), limit)


def clusters(numbers: range, n: int = 120, rows: int = 4) -> int:
    """Four rows of each patient that all fail together."""
    rng = np.random.default_rng([36, numbers.start])
    failed = rng.random((len(numbers), n)) < 0.2 + HAIR
    table = _table({"error": np.repeat(failed, rows, axis=1)}, groups={"patient": np.repeat(np.arange(n), rows)})
    return _passed(table.by_cluster("patient"), rf.Limit("error", at_most=0.2))


def _in_parts(misses: Callable[[range], int], size: int = 500) -> Callable[[range], int]:
    """So many settings at a time; a few more than are asked for count as well."""
    return lambda numbers: sum(
        misses(range(start, min(start + size, numbers.stop))) for start in range(numbers.start, numbers.stop, size)
    )


SUITES = [
    Suite(name, _in_parts(misses), 20_000)
    for name, misses in {
        "targets: ratio": ratio,
        "targets: precision": precision,
        "targets: gap between groups": gap,
        "targets: worst cases": worst,
        "targets: weights": weighted,
        "targets: clusters": clusters,
    }.items()
]
