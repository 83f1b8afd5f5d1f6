"""The worst outcome there can be, for each loss of a problem: what a missing one counts as."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from riskfront.arrays import Array
from riskfront.errors import InvalidInputError
from riskfront.problems.limits import Limit
from riskfront.problems.problem import Problem


def worst_outcomes(
    problem: Problem | None, arrays: Mapping[str, Array], bounds: Mapping[str, tuple[float, float]] | None
) -> dict[str, float] | None:
    """Name of a loss -> its worst value; None where that is not known: without a problem, or where it asks for both ends.

    A limit is broken most by one end of the range of its loss; objectives that are not limited take the worst value seen. With
    a missing outcome so counted, a setting that keeps its limits keeps them whatever the outcome would have been.
    """
    if problem is None:
        return None
    if any(limit.proxy is not None for limit in problem.limits):
        # filled with the worst, proxies of labelled examples would no longer be what those of unlabelled ones are
        raise InvalidInputError(
            "a limit with a proxy needs every outcome of every setting on every example; some are missing. Fill them in, or "
            "leave the proxy out: then missing ones count as the worst."
        )
    found: dict[str, float] = {}
    for limit in problem.limits:
        ends = _worst_ends(limit, dict(bounds or {}))
        if ends is None or any(found.get(name, end) != end for name, end in ends.items()):
            return None
        found |= ends
    largest = {objective.loss: not objective.maximize for objective in problem.objectives}
    for name, array in arrays.items():
        if name not in found and np.isfinite(array).any():
            found[name] = float(np.nanmax(array) if largest.get(name, True) else np.nanmin(array))
    return {name: found[name] for name in arrays if name in found} if set(arrays) <= set(found) else None


def _worst_ends(limit: Limit, bounds: dict[str, tuple[float, float]]) -> dict[str, float] | None:
    """The worst end of the range of each loss of a limit; a condition is taken to hold."""
    if limit.gap_per is not None or limit.drop_from is not None:
        return None  # what makes one group or the reference worse makes a difference smaller
    large_is_bad = limit.at_least is None
    if limit.quantile is not None and limit.loss not in bounds:
        return {limit.loss: float(np.nextafter(limit.value, np.inf))}
    signs = {limit.loss: 1.0}
    for name, factor in limit.term.over:
        signs[name] = signs.get(name, 0.0) - limit.value * factor
    ends = {name: bounds.get(name, (0.0, 1.0))[1 if (sign > 0) is large_is_bad else 0] for name, sign in signs.items()}
    if limit.given is not None and ends.setdefault(limit.given, 1.0) != 1.0:
        return None
    return ends
