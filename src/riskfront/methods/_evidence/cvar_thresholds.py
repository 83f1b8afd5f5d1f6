"""Means of the worst cases: what was measured, and the threshold that the planning examples choose for the test.

The mean of the worst share of a loss L is the smallest value of t + E[(L - t)+] / share over all thresholds t. So any t that
was fixed before the testing examples were seen gives a valid test, and the best t is the border of the worst cases.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from riskfront._data.derived.cvar import border, worst_means
from riskfront._data.missing_outcomes import ends_of_missing
from riskfront._data.problem_fit import check_fit
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.terms import Term
from riskfront._support.arrays import FloatArray, IntArray

_SETTINGS = 400  # that are looked at to choose a threshold
_INSIDE = 1e-6  # of the range: how far a threshold stays from the limit itself


def measured_worst_cases(limit: Limit, term: Term, table: LossTable, rows: IntArray | None) -> FloatArray:
    """(settings, groups): the mean of the worst share of the examples in each group, nan without examples."""
    every = np.arange(table.n_configs) if rows is None else rows
    losses, condition, groups = table.sequences(replace(term, beyond=None), every)
    share, lower = float(limit.worst or 0.0), limit.at_least is not None
    found = [
        worst_means(losses[:, group], None if condition is None else condition[:, group], share, lower=lower)
        for group in groups
    ]
    return np.stack(found, axis=1)


def open_thresholds(problem: Problem) -> list[Limit]:
    """The limits whose threshold is left to the planning examples."""
    return [limit for limit in problem.limits if limit.worst is not None and limit.threshold is None]


def with_thresholds(problem: Problem, opt: LossTable) -> Problem:
    """The problem with every threshold chosen, on planning examples alone; without any, it stays as it is."""
    if not open_thresholds(problem) or opt.n_examples == 0:
        return problem
    check_fit(problem, opt)
    limits = [_with_threshold(limit, opt) if limit.worst is not None else limit for limit in problem.limits]
    return problem.with_limits(limits)


def _with_threshold(limit: Limit, opt: LossTable) -> Limit:
    if limit.threshold is not None:
        return limit
    return opt.remember(("threshold", limit), lambda: replace(limit, threshold=_chosen(limit, opt)))


def _chosen(limit: Limit, opt: LossTable) -> float:
    """The border of the worst cases of the setting that comes nearest to the limit without crossing it."""
    rows = np.unique(np.linspace(0, opt.n_configs - 1, _SETTINGS).astype(np.int64))
    share, lower = float(limit.worst or 0.0), limit.at_least is not None
    term = replace(limit.term, beyond=None, fill=ends_of_missing(limit, opt))
    means = np.nan_to_num(measured_worst_cases(limit, term, opt, rows)[:, 0], nan=np.inf) * (-1 if lower else 1)
    at = -limit.value if lower else limit.value
    kept = np.flatnonzero(means <= at)
    nearest = rows[kept[np.argmax(means[kept])] if kept.size else np.argmin(means)]
    values, condition, _ = opt.sequences(replace(term, per=None), np.array([nearest]))
    selected = values[0] if condition is None else values[0][condition[0]]
    low, high = opt.bounds(limit.loss)
    inside = _INSIDE * (high - low)
    found = border(selected, share, lower=lower) if len(selected) else limit.value
    return min(max(found, limit.value + inside), high) if lower else max(min(found, limit.value - inside), low)
