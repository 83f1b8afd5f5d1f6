"""Searches that learn nothing: every point of a grid, or random settings."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront._problems.spaces.space import Choice, Config, Float, Space
from riskfront.search._ledger import Ledger

_LISTED = 1_000_000  # the order of larger grids is not written down


class GridSearch:
    """Every setting of a grid, in an order shuffled by the seed, so that stopping early leaves an even sample.

    `points` is as in `Space.grid`. Left out, the finest grid that fits the budget is taken; the options of every Choice are
    all on it, budget or not. Of a grid of more than a million settings, random ones are asked for.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[str],
        *,
        seed: int = 0,
        budget: int = 200,
        points: int | Mapping[str, int] | None = None,
    ) -> None:
        self._ledger = Ledger(space, objectives, seed)
        axes = space.axes(_points_within(space, budget) if points is None else points)
        self._remaining = (_setting(axes, index) for index in _shuffled(math.prod(map(len, axes.values())), seed))

    def ask(self, n: int = 1) -> list[Config]:
        return list(islice(filter(self._ledger.claim, self._remaining), n))

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self._ledger.record(config, values)


def _shuffled(size: int, seed: int) -> Iterator[int]:
    """The numbers 0 to size - 1 in random order or, where they are too many to list, numbers among them at random."""
    if size <= _LISTED:
        return iter(np.random.default_rng(seed).permutation(size).tolist())
    rng = random.Random(seed)
    return (rng.randrange(size) for _ in range(size))


def _setting(axes: Mapping[str, Sequence[Any]], index: int) -> Config:
    """The setting of this number on the grid; the last dimension turns fastest, as in `Space.grid`."""
    config: Config = {}
    for name, values in reversed(list(axes.items())):
        index, place = divmod(index, len(values))
        config[name] = values[place]
    return {name: config[name] for name in axes}


def _points_within(space: Space, budget: int) -> dict[str, int]:
    """Add a point to the coarsest dimension, again and again, while the whole grid fits the budget."""
    points = {name: 1 for name, d in space.dimensions.items() if not isinstance(d, Choice)}
    options = math.prod(d.size for d in space.dimensions.values() if isinstance(d, Choice))
    growing = list(points)  # in order: a set has another one in every process
    while growing:
        name = min(growing, key=lambda name: points[name])
        dimension = space.dimensions[name]
        finer = {**points, name: points[name] + 1}
        full = not isinstance(dimension, Float | Choice) and points[name] >= dimension.size
        if full or options * math.prod(finer.values()) > budget:
            growing.remove(name)
        else:
            points = finer
    return points


_BLOCK = 64  # a power of two, which keeps Sobol points balanced
_DUPLICATES_IN_A_ROW = 100


class RandomSearch:
    """The points of one scrambled Sobol sequence, in order. Blind to the values told."""

    def __init__(self, space: Space, objectives: Sequence[str], *, seed: int = 0, budget: int = 200) -> None:
        from scipy.stats import qmc  # half of the time that importing all of riskfront would take

        self._ledger = Ledger(space, objectives, seed)
        self._sobol = qmc.Sobol(len(space), scramble=True, rng=np.random.default_rng(seed))
        self._block: list[npt.NDArray[np.float64]] = []

    def ask(self, n: int = 1) -> list[Config]:
        return list(islice(iter(self._next, None), n))

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self._ledger.record(config, values)

    def _next(self) -> Config | None:
        if self._ledger.exhausted:
            return None
        for _ in range(_DUPLICATES_IN_A_ROW):
            if not self._block:
                self._block = list(self._sobol.random(_BLOCK))[::-1]
            config = self._ledger.space.from_unit(self._block.pop())
            if self._ledger.claim(config):
                return config
        return self._ledger.fresh()
