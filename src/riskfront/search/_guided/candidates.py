"""Settings among which a model looks for its next proposal: all of them in a small space, a sample of a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from riskfront._problems.spaces.dimensions import Choice, Int
from riskfront._problems.spaces.space import Config, Space
from riskfront._support.arrays import FloatArray, IntArray

_ALL = 10_000  # spaces up to here are looked through whole
_AT_RANDOM = 1_000
_STEPS = (0.1, 0.03, 0.01)  # lengths of the steps tried around good settings, in sides of the space
_TRIES = 100  # of each length
_KEPT = 5


class Candidates:
    """Settings of a space as points that a model can learn from: unit coordinates, and a column for each option."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        size = space.size
        self._all = [space.at(i) for i in range(size)] if size is not None and size <= _ALL else None
        self._all_points = None if self._all is None else self.points(self._all)

    def points(self, configs: Sequence[Config]) -> FloatArray:
        """(settings, features)."""
        columns: list[FloatArray] = []
        for name, dimension in self._space.dimensions.items():
            values = [config[name] for config in configs]
            if isinstance(dimension, Choice):
                codes = np.array([dimension.options.index(value) for value in values], dtype=np.int64)
                columns.extend(_one_column_each(codes, dimension.size))
            else:
                columns.append(np.array([dimension.to_unit(value) for value in values], dtype=np.float64))
        return np.stack(columns, axis=1) if columns else np.zeros((len(configs), 0))

    def best(
        self, worth: Callable[[FloatArray], FloatArray], around: Sequence[Config], known: set[tuple[object, ...]]
    ) -> Config | None:
        """The setting not known whose point is worth most; None when all are known.

        Args:
            worth: (settings, features) -> (settings,).
            around: good settings so far; a large space is looked at near them, and near the best found there.
            known: values of settings that are not wanted again.
        """
        if self._all is not None and self._all_points is not None:
            return self._pick(self._all.__getitem__, worth(self._all_points), known)
        units = np.vstack(
            [self._rng.random((_AT_RANDOM, len(self._space))), self._near(map(self._space.to_unit, around))]
        )
        values = worth(self._features(units))
        closer = self._near(units[np.argsort(-values)[:_KEPT]])
        units, values = np.vstack([units, closer]), np.concatenate([values, worth(self._features(closer))])
        return self._pick(lambda i: self._space.from_unit(units[i]), values, known)

    def _pick(
        self, config: Callable[[int], Config], values: FloatArray, known: set[tuple[object, ...]]
    ) -> Config | None:
        """The best setting that is not known; only those that come first are looked up."""
        ranked = (config(int(i)) for i in np.argsort(-values, kind="stable"))
        return next((found for found in ranked if tuple(found.values()) not in known), None)

    def _near(self, centres: Iterable[FloatArray]) -> FloatArray:
        """(points, dimensions): steps of several lengths from each centre, in some of the dimensions."""
        listed = list(centres)
        shape = (_TRIES // max(1, len(listed)) + 1, len(self._space))
        found = [
            centre + step * self._rng.standard_normal(shape) * (self._rng.random(shape) < 0.7)
            for centre in listed
            for step in _STEPS
        ]
        return np.clip(np.vstack([np.empty((0, len(self._space))), *found]), 0, 1)

    def _features(self, units: FloatArray) -> FloatArray:
        """(points, features) of the settings at these points of the unit cube, without making each of them."""
        columns: list[FloatArray] = []
        for u, dimension in zip(units.T, self._space.dimensions.values(), strict=True):
            if isinstance(dimension, Choice):
                codes = np.minimum((u * dimension.size).astype(np.int64), dimension.size - 1)
                columns.extend(_one_column_each(codes, dimension.size))
            elif isinstance(dimension, Int):
                columns.append(np.array([dimension.to_unit(dimension.from_unit(float(x))) for x in u]))
            else:
                columns.append(u)
        return np.stack(columns, axis=1) if columns else np.zeros((len(units), 0))


def _one_column_each(codes: IntArray, size: int) -> list[FloatArray]:
    return [(codes == i).astype(np.float64) for i in range(size if size > 1 else 0)]
