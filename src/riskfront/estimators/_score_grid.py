"""Thresholds that tell the occurring scores apart, out of a list that is fixed before any score is seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from riskfront._support.arrays import FloatArray

_STEPS = ((3_000, 1e-4), (10_000, 1e-3), (np.inf, 5e-3))  # up to so many examples: steps of thresholds from .1 on
_DECADES = 6


def occurring(scores: FloatArray, cut: Callable[[FloatArray], FloatArray]) -> list[float]:
    """Thresholds in (0, 1), ascending: one for each way in which a threshold of the list divides the (n,) scores.

    The list holds all numbers with four digits (three from 3,000 examples on, every fifth of these from 10,000 on), counted
    from the nearer of 0 and 1: .0831, .5, .9987 are some. Thresholds
    that divide the scores alike have the same losses, so that testing one of them is testing all: the result is that
    of a test of the whole list, whichever scores occur. Thresholds above all scores, which select nothing, are left out.

    Args:
        cut: the smallest score that each threshold lets pass.
    """
    listed = _listed(next(step for most, step in _STEPS if len(scores) <= most))
    left_out = np.searchsorted(np.sort(scores), cut(listed), side="left")
    starts = np.flatnonzero(np.diff(left_out, prepend=-1))
    ends = np.append(starts[1:], len(left_out))
    kept = listed[(starts + ends - 1) // 2][left_out[starts] < len(scores)]
    return [float(value) for value in (kept if kept.size else listed[:1])]


@cache
def _listed(step: float) -> FloatArray:
    """Numbers in (0, 1): in steps from .1 on, in steps of a tenth of these from .01 on, ..., and one minus these."""
    decades = [np.arange(0.1, 1, step) / 10.0**k for k in range(_DECADES)]
    lower = np.unique(np.concatenate(decades).round(12))
    lower = lower[lower < 0.5 - step / 2]
    return np.concatenate([lower, [0.5], (1 - lower[::-1]).round(12)])
