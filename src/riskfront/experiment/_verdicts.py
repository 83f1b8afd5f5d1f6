"""Whether a trial broke a limit: known exactly from the whole table, or tested on held-out examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from riskfront._data.table import LossTable
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.statistics import binomial, hoeffding_bentkus
from riskfront.statistics._intervals import HELD_OUT_LEVEL

_ROUNDING = 1e-12


def by_population(judge: Evidence, certified: IntArray, best: IntArray) -> dict[str, bool]:
    """Which limits are truly broken: the judge is the whole population, its means are the true risks."""
    broken = _above(judge, certified)
    return {"violated": bool(broken[np.isin(certified, best)].any()), "any_violated": bool(broken.any())}


def by_held_out(judge: Evidence, best: IntArray) -> dict[str, bool]:
    """Whether the chosen setting measures above a limit on held-out examples, and whether that is more than their noise."""
    if len(best) == 0:
        return {"held_out_above": False, "held_out_shown": False}
    p = np.concatenate([_p_of_excess(test, judge.table, best).ravel() for test in judge.tests])
    # one limit or group may show it by chance, so they share the level
    return {"held_out_above": bool(_above(judge, best)[0]), "held_out_shown": bool(p.min() <= HELD_OUT_LEVEL / p.size)}


def true_value(test: LimitTest, table: LossTable, rows: IntArray) -> FloatArray:
    """(rows,): the true value that the limit bounds, without the padding that some tests add."""
    return replace(test, limit=replace(test.limit, padded=False)).worst_measured(table, rows)


def _above(judge: Evidence, rows: IntArray) -> BoolArray:
    """(rows,): whether the mean of a setting is above one of its limits; groups without examples say nothing."""
    return np.any([_beyond(test, judge.table, rows) for test in judge.tests], axis=0)


def _beyond(test: LimitTest, table: LossTable, rows: IntArray) -> BoolArray:
    if test.limit.worst is None:
        return np.asarray(test.worst_mean(table, rows) > test.alpha + _ROUNDING)
    # what a threshold says is only a bound on the mean of the worst cases, which is known here
    distance = test.worst_measured(table, rows) - test.limit.value
    return np.asarray((distance if test.limit.at_most is not None else -distance) > _ROUNDING)


def _p_of_excess(test: LimitTest, table: LossTable, rows: IntArray) -> FloatArray:
    """(rows, groups): the p-value of "the limit holds", small when the mean is too far above it.

    The mean of x is at most alpha exactly if that of 1 - x is at least 1 - alpha, so the p-values of the package serve.
    """
    sums = test.sums(table, rows)
    if test.limit.worst is not None:  # one threshold that fails shows nothing
        return np.ones(sums.total.shape)
    if test.limit.gap_per is not None:
        return test.opposite.p_values(table, rows)
    p_value = binomial if test.kind.needs == "count" else hoeffding_bentkus
    return p_value(sums.n - sums.total, sums.n, 1 - test.alpha)
