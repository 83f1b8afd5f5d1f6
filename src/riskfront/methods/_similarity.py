"""Which settings are alike, and means over those that are.

Only the settings themselves say so, never their losses. Numbers are alike when they are near each other, counted in steps
between the values that occur; anything else (a model, a prompt) is like nothing but itself. So is a word among numbers: in a
column of thresholds, a cascade of one model has the threshold "none".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pandas as pd

from riskfront._problems.spaces.space import Grid
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError

Scales = tuple[float, ...]
# averages reach no further than this part of an axis: of four values the first and the last are not alike. Measured: limits
# given an answer (9 x 10 x 9 x 4 settings), half a point to two points less excess; AG News (2 x 4 x 130), 5 % less cost at
# .025; on grids of 9 x 10 x 9 and larger no difference beyond noise
_OF_AN_AXIS = 6
_NEIGHBOURS = 48  # as many settings at most are averaged where the settings form no grid
_FEW_STEPS = 256  # a matrix serves an axis of so many; on a longer one only near steps are looked at
_REACH = 8.5  # standard deviations: what is farther off counts for less than rounding does
_APART = 1e9  # steps between settings that are not alike at all


class Similarity(Protocol):
    """Means over similar settings."""

    @property
    def axes(self) -> int:
        """How many scales ``smooth`` takes."""

    @property
    def together(self) -> int:
        """How many settings are alike, usually."""

    def smooth(self, values: FloatArray, scales: Scales) -> FloatArray:
        """values (settings, columns), averaged with Gaussian weights; a scale is a standard deviation in steps, 0 for none."""


def similarity(configs: pd.DataFrame) -> Similarity | None:
    """How settings are alike; None where no two of them are."""
    varying = [name for name in configs.columns if configs[name].nunique(dropna=False) > 1]
    numbers = [name for name in varying if configs[name].dtype.kind in "iuf" and configs[name].notna().all()]
    if numbers:
        try:
            return GridSimilarity.of(configs, numbers)
        except InvalidInputError:
            pass  # no full grid
    places = {name: _numbers_among(configs[name]) for name in varying}
    ordered = {name: values for name, values in places.items() if np.isfinite(values).sum() > len(configs) / 2}
    if not ordered:
        return None
    words = {
        name: configs[name].where(~np.isfinite(ordered[name]), "") if name in ordered else configs[name]
        for name in varying
        if name not in numbers
    }
    return NeighbourSimilarity.of(ordered, pd.DataFrame(words, index=configs.index))


def _numbers_among(column: pd.Series[Any]) -> FloatArray:
    """The values of a column, nan where they are no numbers."""
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64)
    return np.array([float(value) if is_number(value) else np.nan for value in column])


@dataclass(frozen=True, slots=True, eq=False)
class GridSimilarity:
    """Settings on a full grid: one small matrix for each axis of numbers, one after the other."""

    rows: IntArray
    along: tuple[int, ...]
    in_order: bool  # whether the settings come as the grid lists them, as they mostly do

    @classmethod
    def of(cls, configs: pd.DataFrame, numbers: list[str]) -> GridSimilarity:
        grid = Grid.of(configs)
        along = tuple(axis for axis, name in enumerate(grid.axes) if name in numbers)
        return cls(grid.rows, along, bool((grid.rows.ravel() == np.arange(grid.rows.size)).all()))

    @property
    def axes(self) -> int:
        return len(self.along)

    @property
    def together(self) -> int:
        return math.prod(self.rows.shape[axis] for axis in self.along)

    def smooth(self, values: FloatArray, scales: Scales) -> FloatArray:
        found = (values if self.in_order else values[self.rows.ravel()]).reshape(*self.rows.shape, -1)
        for axis, asked in zip(self.along, scales, strict=True):
            scale = min(asked, (self.rows.shape[axis] - 1) / _OF_AN_AXIS)
            if scale > 0:
                found = _along(found, axis, scale)
        if self.in_order:
            return found.reshape(values.shape)
        smoothed = np.empty(values.shape)
        smoothed[self.rows.ravel()] = found.reshape(-1, values.shape[1])
        return smoothed


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourSimilarity:
    """Any other settings: the nearest ones of each, (settings, neighbours), and their squared distances in steps."""

    nearest: IntArray
    squared: FloatArray
    together: int

    @classmethod
    def of(cls, numbers: Mapping[str, FloatArray], words: pd.DataFrame) -> NeighbourSimilarity | None:
        some = next(iter(numbers.values()))
        kinds = np.zeros(len(some), dtype=np.int64)
        if len(words.columns):
            kinds = words.groupby([*words.columns], dropna=False, sort=False).ngroup().to_numpy()
        # a step is the usual distance between settings of one kind, were they spread evenly over their ranks
        side = (len(some) / len(np.unique(kinds))) ** (1 / len(numbers))
        places = [_ranks(np.nan_to_num(values), kinds) * max(side - 1, 1.0) for values in numbers.values()]
        points = np.column_stack([*places, kinds * _APART])
        distances, nearest = _nearest(points)
        if not (distances[:, 1:] < _APART / 2).any():
            return None
        return cls(nearest, distances**2, max(round(len(some) / len(np.unique(kinds))), 2))

    @property
    def axes(self) -> int:
        return 1

    def smooth(self, values: FloatArray, scales: Scales) -> FloatArray:
        if scales[0] <= 0:
            return values
        weights = _gaussian(self.squared, scales[0])
        return np.stack([(weights * column[self.nearest]).sum(axis=1) for column in values.T], axis=1)


def _nearest(points: FloatArray) -> tuple[FloatArray, IntArray]:
    """(settings, neighbours): distances to the nearest settings of each, itself included, and which they are."""
    if len(points) <= _NEIGHBOURS:
        distances = np.sqrt(((points[:, None] - points) ** 2).sum(axis=-1))
        order = np.argsort(distances, axis=1, kind="stable")
        return np.take_along_axis(distances, order, axis=1), order
    from scipy.spatial import cKDTree  # takes as long to import as all of riskfront

    found = cKDTree(points).query(points, k=range(1, _NEIGHBOURS + 1))
    return np.asarray(found[0]), np.asarray(found[1])


def _along(values: FloatArray, axis: int, scale: float) -> FloatArray:
    """Averages along one axis of evenly spaced steps."""
    shape = values.shape
    if shape[axis] <= _FEW_STEPS:
        # (before, this axis, behind): one product for every place on the axes before
        flat = values.reshape(math.prod(shape[:axis]), shape[axis], -1)
        return np.matmul(_step_weights(shape[axis], scale), flat).reshape(shape)
    from scipy.ndimage import correlate1d

    reach = np.arange(-math.ceil(_REACH * scale), math.ceil(_REACH * scale) + 1)
    weights = np.exp(-0.5 * (reach / scale) ** 2)
    near = correlate1d(np.ones(shape[axis]), weights, mode="constant")
    total: FloatArray = correlate1d(values, weights, axis=axis, mode="constant")
    total /= near.reshape([-1 if place == axis else 1 for place in range(len(shape))])
    return total


@lru_cache(maxsize=64)
def _step_weights(steps: int, scale: float) -> FloatArray:
    """(steps, steps): every trial of an experiment asks for the same few."""
    places = np.arange(steps)
    return _gaussian((places[:, None] - places) ** 2, scale)


def _gaussian(squared: Array, scale: float) -> FloatArray:
    """Weights from squared distances, each row with sum 1."""
    weights = np.exp(-0.5 * squared / scale**2)
    return weights / weights.sum(axis=1, keepdims=True)


def _ranks(values: FloatArray, kinds: IntArray) -> FloatArray:
    """Values by their place among all that occur in settings of their kind, from 0 to 1."""
    order = np.lexsort((values, kinds))
    new_kind = np.diff(kinds[order], prepend=-1) != 0
    steps = np.cumsum(new_kind | (np.diff(values[order], prepend=np.nan) != 0))
    which = np.cumsum(new_kind) - 1
    first, last = steps[new_kind], np.maximum.reduceat(steps, np.flatnonzero(new_kind))
    ranks = np.empty(len(values))
    ranks[order] = (steps - first[which]) / np.maximum(last - first, 1)[which]
    return ranks
