"""What a limit is tested on: between which bounds the averaged values lie, what their mean must not cross, and whether groups
have enough examples for any test."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from riskfront._data.derived_losses import border, example_weights, worst_means
from riskfront._data.groups import Groups
from riskfront._data.problem_fit import check_fit, ends_of_missing
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.terms import Term
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError, NotCertifiedWarning

Range = tuple[float, float, float]
BoundsOf = Callable[[str], tuple[float, float]]

_NAMED = 3  # small groups that a sentence names
_NEVER = " No number of examples shows that something never happens: allow a small share, such as 0.01."


def tested_range(limit: Limit, bounds: BoundsOf) -> Range:
    """(low, high, at): the averaged values lie in [low, high], and the limit says that their mean is at most, or at least, at.

    ``bounds`` gives the declared bounds of a loss.
    """
    if limit.term.is_ratio:
        return _of_ratio(limit, bounds)
    low, high = bounds(limit.loss)
    if limit.worst is not None:
        return _of_worst_cases(limit, low, high)
    if limit.drop_from is not None or limit.gap_per is not None:  # differences of values in [low, high]
        low, high = low - high, high - low
    if not low < limit.value < high:
        raise InvalidInputError(
            f"the limit on '{limit.name}' must lie strictly between its bounds ({low:g}, {high:g}); got {limit.value:g}."
            f"{limit.meant_percentage(low, high) or _NEVER * (limit.value in (low, high))}"
        )
    return low, high, limit.value


def _of_ratio(limit: Limit, bounds: BoundsOf) -> Range:
    """E[N] / E[D] <= c is E[N - c D] <= 0, since D is never below 0; a weighted mean is the ratio of w L and w."""
    term = limit.term
    factors = {limit.loss: 1.0}
    for name, factor in term.over:
        least = bounds(name)[0]
        if least < 0:
            raise InvalidInputError(f"what a ratio divides by must not go below 0; '{name}' may go to {least:g}.")
        factors[name] = factors.get(name, 0.0) - limit.value * factor
    ends = [sorted(factor * end for end in bounds(name)) for name, factor in factors.items()]
    low, high = sum(end[0] for end in ends), sum(end[1] for end in ends)
    if not term.over:
        low, high = low - limit.value, high - limit.value
    if term.weights is not None:
        largest = float(limit.largest_weight or 0.0)
        low, high = min(largest * low, 0.0), max(largest * high, 0.0)
    if not low < 0 < high:
        raise InvalidInputError(
            f"the limit '{limit}' must be one that can be kept and broken within the bounds of its losses; it cannot."
        )
    return low, high, 0.0


def check_groups(limit: Limit, table: LossTable) -> None:
    """Raise an error if there are no two groups to compare, or if an example weighs more than was declared."""
    if limit.gap_per is not None and len(table.group(limit.gap_per).levels) < 2:
        raise InvalidInputError(f"'{limit}' compares groups; '{limit.gap_per}' has only one.")
    if limit.weights is None:
        return
    weights = example_weights(str(limit.weights), table.group(str(limit.weights)))
    if weights.size and weights.max() > float(limit.largest_weight or 0.0):
        raise InvalidInputError(
            f"weights must stay at or below largest_weight, {limit.largest_weight:g}; '{limit.weights}' goes to "
            f"{weights.max():g}."
        )


def _of_worst_cases(limit: Limit, low: float, high: float) -> Range:
    """For any threshold t, E[(L - t)+] <= (a - t) share implies that the mean of the worst share is at most a."""
    threshold, share = limit.threshold, float(limit.worst or 0.0)
    if threshold is None:
        raise InvalidInputError(
            f"the limit '{limit}' needs a threshold from planning examples, which this method has none of: use one that "
            "plans, such as pareto-testing, or give threshold=."
        )
    inside = (
        low <= threshold < limit.value < high if limit.at_most is not None else low < limit.value < threshold <= high
    )
    if not inside:
        order = "the threshold must lie below it" if limit.at_most is not None else "the threshold must lie above it"
        raise InvalidInputError(
            f"the limit '{limit}' must lie strictly between the bounds of its loss ({low:g}, {high:g}), and {order}; got "
            f"threshold {threshold:g}."
        )
    width = high - threshold if limit.at_most is not None else threshold - low
    return 0.0, width, abs(limit.value - threshold) * share


def warn_of_small_groups(problem: Problem, bounds: BoundsOf, group: Callable[[str], Groups]) -> None:
    """Say before anything is tested that some limit cannot be certified. Sizes of groups are no outcomes."""
    for sentence in too_small_groups(problem, bounds, group):
        warnings.warn(NotCertifiedWarning(sentence), stacklevel=3)


def too_small_groups(problem: Problem, bounds: BoundsOf, group: Callable[[str], Groups]) -> list[str]:
    """A sentence for each limit that must hold in groups of which some have too few examples to ever pass.

    A record without a single bad outcome has probability (1 - alpha)^n where the risk is alpha, so every valid test needs
    (1 - alpha)^n <= delta.
    """
    said = []
    for limit in problem.limits:
        if limit.per is None or limit.worst is not None or limit.proxy is not None:
            continue
        low, high, at = (0.0, 1.0, 1 - limit.quantile) if limit.quantile is not None else tested_range(limit, bounds)
        alpha = (at - low if limit.at_least is None else high - at) / (high - low)
        needed = math.ceil(math.log(problem.delta) / math.log1p(-alpha))
        groups = group(limit.per)
        sizes = np.bincount(groups.codes, minlength=len(groups.levels))
        small = np.flatnonzero(sizes < needed)
        if len(small):
            named = ", ".join(f"{groups.levels[code]} ({sizes[code]:,})" for code in small[:_NAMED])
            said.append(
                f"'{limit}' cannot pass: {len(small):,} of {len(sizes):,} groups of '{limit.per}' have fewer than the "
                f"{needed:,} examples that even a perfect record needs: {named}{', ...' if len(small) > _NAMED else ''}. Join "
                "small groups, or limit the risk over all examples."
            )
    return said


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
