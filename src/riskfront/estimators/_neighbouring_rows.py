"""Whether neighbouring rows resemble each other, as rows in time order do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray
from riskfront.errors import DependentRowsWarning

_LEAST_ROWS, _LAGS, _CLEARLY = 100, (1, 5, 25), 5.0


def warn_of_dependent_rows(table: LossTable, problem: Problem, y: Any) -> None:
    """Warn where losses of neighbouring rows are so alike that independent rows would be so once in a million files.

    Where the file is sorted by class, losses are compared within each class. No result depends on the warning.
    """
    limit = problem.limits[0]
    if table.n_examples < _LEAST_ROWS or limit.loss not in table.loss_names:
        return
    loss = pd.Series(np.asarray(table.losses(limit.loss), dtype=np.float64).mean(axis=0))
    if is_sorted(np.asarray(y), len(loss)):
        ranks = loss.groupby(np.asarray(y)).rank(pct=True)
        ranks = ranks - ranks.groupby(np.asarray(y)).transform("mean")
    else:
        ranks = loss.rank(pct=True)
    z = resemblance(ranks.to_numpy())  # of ranks, so that single large values do not decide
    if z > _CLEARLY:
        warnings.warn(
            f"neighbouring rows are alike: their '{limit.name}' goes together {z:.0f} standard errors more than that of "
            "independent rows. A limit is proven for independent rows only. Of rows in time order, or several of one person, "
            "say which belong together: fit(X, y, clusters=day). If the file is only sorted, shuffle it to be sure.",
            DependentRowsWarning,
            stacklevel=5,
        )


def is_sorted(y: Array, n: int) -> bool:
    """Whether rows come class by class."""
    if y.shape != (n,) or y.dtype.kind not in "biuOUS":
        return False
    return int(np.count_nonzero(y[1:] != y[:-1])) < 2 * len(np.unique(y)) <= n / 10


def resemblance(values: FloatArray) -> float:
    """How far the autocorrelation is above 0, in standard errors: the largest over sums of the first 1, 5 and 25 lags.

    Among independent rows each is about standard normal.
    """
    n, centred = len(values), np.asarray(values, dtype=np.float64)
    centred = centred - centred.mean()
    total = float(centred @ centred)
    if total == 0:
        return 0.0
    at = [float(centred[:-lag] @ centred[lag:]) / total for lag in range(1, max(_LAGS) + 1)]
    return max(sum(at[:lags]) * np.sqrt(n / lags) for lags in _LAGS if lags < n / 4)
