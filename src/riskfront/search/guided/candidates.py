"""Settings among which a model looks for its next proposal: all of them in a small space, a sample of a large one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from riskfront.arrays import FloatArray
from riskfront.spaces.dimensions import Choice
from riskfront.spaces.space import Config, Space

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
                columns.extend(
                    (codes == i).astype(np.float64) for i in range(dimension.size if dimension.size > 1 else 0)
                )
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
            return self._pick(self._all, worth(self._all_points), known)
        found = self._at_random() + self._near(around)
        values = worth(self.points(found))
        closest = [found[i] for i in np.argsort(-values)[:_KEPT]]
        closer = self._near(closest)
        return self._pick(found + closer, np.concatenate([values, worth(self.points(closer))]), known)

    def _pick(self, configs: Sequence[Config], values: FloatArray, known: set[tuple[object, ...]]) -> Config | None:
        order = np.argsort(-values, kind="stable")
        return next((configs[i] for i in order if tuple(configs[i].values()) not in known), None)

    def _at_random(self) -> list[Config]:
        return [self._space.from_unit(point) for point in self._rng.random((_AT_RANDOM, len(self._space)))]

    def _near(self, centres: Sequence[Config]) -> list[Config]:
        """Steps of several lengths from each centre, in some of the dimensions."""
        found: list[Config] = []
        for centre in centres:
            for step in _STEPS:
                shape = (_TRIES // max(1, len(centres)) + 1, len(self._space))
                moves = step * self._rng.standard_normal(shape) * (self._rng.random(shape) < 0.7)
                points = np.clip(self._space.to_unit(centre) + moves, 0, 1)
                found.extend(self._space.from_unit(point) for point in points)
        return found
