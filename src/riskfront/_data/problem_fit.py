"""Whether a problem fits a table, what a missing outcome counts as in its limits, and the account of every row.

An evaluation that crashed or ran out of time often leaves no outcome. To drop the examples that a setting lacks would leave the
easy ones to it, and to drop the settings that lack an example would keep those that were lucky. Counted as the worst, a setting
that keeps its limits keeps them whatever the missing outcomes would have been.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection

import numpy as np

from riskfront._data.contents import some_settings
from riskfront._data.intake import Intake
from riskfront._data.reading.filters import states_means
from riskfront._data.table import LossTable
from riskfront._problems import proxies
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.proxies import columns_of
from riskfront._problems.terms import Term
from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError, LeftOutWarning

_SEVERAL = 100  # examples from which on one number for all of them is no accident


def check_fit(problem: Problem, table: LossTable) -> None:
    """Raise a clear error if a problem does not fit a table."""
    for loss in (loss for limit in problem.limits for loss in limit.term.losses):
        if table.belongs_to_settings(loss):
            raise InvalidInputError(
                f"a limit must be on a loss; '{loss}' is a column of the settings, which needs no test. "
                "Keep only the settings you want, with where= or --where, or make it an objective."
            )
    for limit in problem.limits:
        if limit.drop_from is not None:
            table.reference(limit.drop_from)
        if table.clusters is not None:
            _check_means(limit, table.clusters)
        proxies.check_batches(limit, table.loss_names)
        _check_failures(limit, table)
        if limit.quantile is None and all(loss in table.loss_names for loss in limit.term.losses):
            for loss in limit.term.losses:
                table.bounds(loss)  # an error before anything is tested
    own = [o.loss for o in problem.objectives if table.belongs_to_settings(o.loss)]
    problem.check_names([*table.loss_names, *own], table.group_names)


def refuse_means(problem: Problem, table: LossTable) -> None:
    """Raise an error if a limited loss is a number of the setting: the mean over all examples, say, in every row."""
    rows = some_settings(table)
    for limit in problem.limits:
        if limit.quantile is not None or limit.term.over or limit.loss not in table.loss_names:
            continue
        if table.is_binary(limit.loss) or table.n_examples < _SEVERAL:
            continue
        values = table.sequences(Term(limit.loss), rows)[0]
        if (values == values[:, :1]).all() and (values[:, 0] % 1 != 0).any():
            raise InvalidInputError(
                f"a limit must be on an outcome of each example; '{limit.loss}' is one number in each setting, the same on all "
                f"{table.n_examples:,} examples. A mean over examples is no outcome: give that of each. A price needs no test: "
                "keep the settings that you want, with where= or --where, or make it an objective."
            )


def refuse_measured_order(safest: Collection[str], table: LossTable, problem: Problem) -> None:
    """Raise an error if a declared order of settings was read off the outcomes: a knob that states their mean."""
    for knob in (name for name in safest if name in table.configs and table.configs[name].dtype.kind in "iuf"):
        values = table.configs[knob].to_numpy(dtype=np.float64)
        for loss in sorted({loss for limit in problem.limits for loss in limit.term.losses}):
            sums, squares = (table.totals(Term(loss, squared=squared)) for squared in (False, True))
            n = np.broadcast_to(sums.n, sums.total.shape)[:, 0].astype(np.float64)
            if states_means(values, np.stack([sums.total[:, 0], n, n, squares.total[:, 0]])):
                raise InvalidInputError(
                    f"the order of testing must be known beforehand; '{knob}' states the mean '{loss}' of each setting on the "
                    "examples that are tested. Name a knob of the system, or use a method that learns the order, such as "
                    "pareto-testing."
                )


def _check_failures(limit: Limit, table: LossTable) -> None:
    """Failed calls must have been recorded as the worst for this limit."""
    recorded = table.failures.get(limit.loss)
    if recorded is None:
        return
    low, high = table.observed_range(limit.loss)
    large_is_bad = (limit.at_least is None) is (limit.drop_from is None)
    best, rounding = recorded[0] if large_is_bad else recorded[1], 1e-6 * (high - low)
    if best < high - rounding if large_is_bad else best > low + rounding:
        raise InvalidInputError(
            f"calls that failed were recorded with '{limit.loss}' = {best:g}, which is not the worst for '{limit}'. Import "
            "the logs again and name the worst: read_runs(..., worst=), or riskfront import ... --worst. In a table of your "
            "own leave the score empty where the column 'failed' is 1, or rename the column if it says something else."
        )


def _check_means(limit: Limit, clusters: str) -> None:
    """A quantile of means, or a mean of the worst of them, is not that of the rows: averages hide the extremes."""
    if limit.quantile is not None:
        raise InvalidInputError(
            f"rows of one {clusters} are averaged, and a quantile of averages is not one of rows; got '{limit}'. Limit a 0/1 "
            f"column that says whether '{limit.loss}' is above {limit.value:.10g}, at most {limit.compared_with:.10g}; "
            f"or average the rows yourself, one row a {clusters}, if you mean the averages."
        )
    if limit.worst is not None:
        raise InvalidInputError(
            f"rows of one {clusters} are averaged, which hides the worst of them; got '{limit}'. Keep one row of each "
            f"{clusters}; or average the rows yourself, if you mean the averages."
        )


Ends = tuple[tuple[str, float, float], ...]


def ends_of_missing(limit: Limit, table: LossTable) -> Ends:
    """For each loss of a limit what a missing outcome counts as: as the worst, as the best. Empty where none is missing."""
    needed = set(_columns_of_test(limit))
    gaps = sorted(needed & set(table.missing))
    if not gaps:
        return ()
    check_complete(limit, gaps[0])
    if limit.quantile is not None:
        return ((limit.loss, math.inf, -math.inf),)
    worst_is_high = limit.at_least is None
    # what counts for a limit on N / D is N - limit * D; a drop is what the reference has and the setting has not
    signs = {limit.loss: -1.0 if limit.drop_from is not None else 1.0}
    for name, factor in limit.term.over:
        signs[name] = signs.get(name, 0.0) - limit.value * factor
    ends = []
    for name, sign in signs.items():
        low, high = table.bounds(name)
        ends.append((name, high, low) if (sign > 0) is worst_is_high else (name, low, high))
    return tuple(ends)


def complete_losses(problem: Problem) -> dict[str, Limit]:
    """Each loss that must not miss an outcome, and the limit that forbids it: no value is the worst there."""
    needing = [limit for limit in problem.limits if limit.proxy is not None or limit.gap_per is not None]
    return {name: limit for limit in needing for name in _columns_of_test(limit)}


def check_complete(limit: Limit, loss: str) -> None:
    """An error if the test of a limit cannot do with missing outcomes of this loss."""
    if limit.proxy is not None:
        # filled with the worst, proxies of labelled examples would no longer be what those of unlabelled ones are
        raise InvalidInputError(
            f"a limit with a proxy needs every outcome of every setting on every example; some of '{loss}' are missing. "
            "Fill them in, or leave the proxy out: then missing ones count as the worst."
        )
    if limit.gap_per is not None:
        raise InvalidInputError(
            f"a limit on a difference between groups needs every outcome of every setting on every example; some of "
            f"'{loss}' are missing, and no value is the worst for both groups. Fill in what a missing outcome costs."
        )


def _columns_of_test(limit: Limit) -> list[str]:
    """The losses that the test of a limit reads, conditions and proxies among them."""
    proxies = list(columns_of(limit)) if limit.proxy is not None else []
    return [*limit.term.losses, *([limit.given] if limit.given else []), *proxies]


def worst_in_every_limit(problem: Problem, table: LossTable) -> dict[str, float]:
    """Loss -> what a missing outcome counts as in every limit; an error where limits differ, or where there is no one value."""
    found: dict[str, float] = {}
    for limit in problem.limits:
        for loss, worst, _ in ends_of_missing(limit, table):
            if limit.drop_from is not None or limit.quantile is not None or found.setdefault(loss, worst) != worst:
                raise InvalidInputError(
                    f"rows that are averaged need one value that a missing '{loss}' counts as; '{limit}' has none, or another "
                    "limit counts it otherwise. Fill in what a missing outcome costs."
                )
    return found


def limited_losses(problem: Problem) -> list[str]:
    """Every column that the tests of the limits rest on, conditions among them."""
    names = [name for limit in problem.limits for name in (*limit.term.losses, limit.given, limit.proxy)]
    return list(dict.fromkeys(name for name in names if name is not None))


def account(table: LossTable, problem: Problem, rows: IntArray | None = None) -> Intake:
    """The account of a table for a problem: which rows lack an outcome that a limit needs, and over how many rows each
    objective is a mean. ``rows``: the settings that were looked at, where not all were evaluated."""
    objectives = [loss for objective in problem.objectives for loss in objective.term.losses]
    computed = table.account(limited_losses(problem), objectives)
    if computed is not None and rows is None:
        return computed
    intake = table.intake if rows is None else table.account_of(len(rows))
    if table.clusters is not None or not table.missing:  # means over clusters were accounted for before they were taken
        return intake
    worst = table.n_missing(limited_losses(problem), rows) - intake.absent
    cells = (table.n_configs if rows is None else len(rows)) * table.n_examples
    known = {
        objective.name: cells - table.n_missing(objective.term.losses, rows)
        for objective in problem.objectives
        if set(objective.term.losses) & set(table.missing)
    }
    return intake.with_worst(worst, known)


def warn_of_missing(intake: Intake) -> None:
    """Say that outcomes are missing, and what they count as."""
    missing = intake.worst + intake.absent
    if missing:
        warnings.warn(
            LeftOutWarning(
                f"{missing:,} outcomes that limits need are missing; each counts as the worst there can be. {intake} To count "
                "them otherwise, fill them in."
            ),
            stacklevel=3,
        )
