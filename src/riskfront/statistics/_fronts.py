"""Pareto fronts under standard dominance: no worse anywhere, better somewhere. Every objective is minimised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError

_FEW = 64  # points that are compared pair by pair: faster than to load a library


def front(values: npt.ArrayLike, *, keep_duplicates: bool = True) -> IntArray:
    """Indices of the rows of ``values``, (points, objectives), that no other row dominates, ascending.

    Equal rows do not dominate each other; without ``keep_duplicates`` only the first of them is returned.
    """
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 2:
        raise InvalidInputError(f"values must have shape (points, objectives); got shape {points.shape}.")
    if np.isnan(points).any():
        raise InvalidInputError("values must not contain NaN; replace it by infinity to rank a point last.")
    if points.shape[1] == 1:
        best = np.flatnonzero(points[:, 0] == points[:, 0].min(initial=np.inf))
        return best if keep_duplicates else best[:1]
    if len(points) <= 1 or points.shape[1] == 0:
        return np.arange(len(points))
    if len(points) <= _FEW:
        no_worse = (points[:, None] <= points[None]).all(axis=2)  # [j, i]: j is no worse than i anywhere
        beaten = no_worse & ~no_worse.T
        if not keep_duplicates:
            beaten |= np.triu(no_worse & no_worse.T, 1)
        return np.flatnonzero(~beaten.any(axis=0))
    if np.isinf(points).any():
        # dominance only compares, so any strictly increasing map per objective keeps the front; ranks are finite
        points = np.stack([np.unique(column, return_inverse=True)[1] for column in points.T], axis=1).astype(np.float64)
    import moocore  # with the first front, to keep ``import riskfront`` short

    return np.flatnonzero(moocore.is_nondominated(points, keep_weakly=keep_duplicates))


def thin(values: npt.ArrayLike, most: int) -> IntArray:
    """At most ``most`` rows of ``values`` that keep the ends and the shape of a front: indices, ascending.

    The best row of each objective stays. Then the row farthest from those taken (in the unit cube that the values span)
    is added, again and again, so that no stretch of the front is left without a point near it.
    """
    points = np.asarray(values, dtype=np.float64)
    if most < 1:
        raise InvalidInputError(f"the largest size of a front must be at least 1; got {most}.")
    if len(points) <= most:
        return np.arange(len(points))
    finite = np.isfinite(points)
    low = np.min(points, axis=0, where=finite, initial=np.inf)
    spread = np.max(points, axis=0, where=finite, initial=-np.inf) - low
    offset = np.subtract(points, low, out=np.zeros(points.shape), where=finite)
    unit = np.where(finite, offset / np.where(spread > 0, spread, 1.0), 2.0)  # what is infinite lies past all the rest
    taken = list(dict.fromkeys(np.argmin(unit, axis=0).tolist()))[:most]
    distance = np.full(len(points), np.inf)
    for index in taken:
        distance = np.minimum(distance, np.linalg.norm(unit - unit[index], axis=1))
    while len(taken) < most:
        index = int(np.argmax(distance))
        taken.append(index)
        distance = np.minimum(distance, np.linalg.norm(unit - unit[index], axis=1))
    return np.sort(np.asarray(taken, dtype=np.int64))
