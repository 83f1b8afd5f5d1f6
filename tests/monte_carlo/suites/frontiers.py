"""frontier(simultaneous=True): someone looks at the whole frontier and takes the limit that suits, a false one if there is."""

from __future__ import annotations

import numpy as np
import pandas as pd

import riskfront as rf
from tests.monte_carlo.suites.procedures import DELTA, HAIR, settings, table_of
from tests.support.simulation import Suite, one_by_one, sharp_size

LIMITS = (0.1, 0.2, 0.3)
#: settings in groups of five: never failing, then a hair above each limit in turn
RISKS = np.repeat([0.0, *(alpha + HAIR for alpha in LIMITS)], 5)
PROBLEM = rf.Problem([rf.Limit("loss", at_most=LIMITS[0])], minimize=["cost"], delta=DELTA)
_PATH_N = sharp_size(LIMITS[0], DELTA / 3, 300, 0.3)


def _false_row(found: pd.DataFrame, risks: np.ndarray) -> bool:
    """Whether the frontier has a row that someone who looks for it could take to their harm."""
    named = found.dropna(subset="a")
    return bool((risks[named["a"].astype(int)] > named["alpha"]).any())


def _losses(rng: np.random.Generator, risks: np.ndarray, n: int) -> np.ndarray:
    return rng.random((len(risks), n), dtype=np.float32) < risks[:, None]


def paths_together(trial: int) -> bool:
    """Behind the settings that keep a limit stands one that breaks it by a hair, for every limit: three chances to err."""
    loss = _losses(np.random.default_rng([21, trial]), RISKS, _PATH_N)
    method = rf.ParetoTesting(opt_fraction=0.3, net=0.0)
    table = table_of(loss, settings(len(RISKS)))
    return _false_row(rf.frontier(table, PROBLEM, LIMITS, method=method, seed=trial, simultaneous=True), RISKS)


def net_together(trial: int, n: int = 250) -> bool:
    """Thirty settings, all null at some limit and none of them safe, and half of delta for the net."""
    risks = np.repeat([alpha + HAIR for alpha in LIMITS], 10)
    loss = _losses(np.random.default_rng([22, trial]), risks, n)
    method = rf.ParetoTesting(opt_fraction=0.3, net=0.5)
    table = table_of(loss, settings(len(risks)))
    return _false_row(rf.frontier(table, PROBLEM, LIMITS, method=method, seed=trial, simultaneous=True), risks)


SUITES = [
    Suite("frontier: paths together", one_by_one(paths_together), 2400),
    Suite("frontier: net together", one_by_one(net_together), 2000),
]
