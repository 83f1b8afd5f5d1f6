"""A full grid, as in the paper's main experiments."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from riskfront.search.ledger import Ledger
from riskfront.space import Choice, Config, Float, Space


class GridSearch:
    """Every setting of a grid, in an order shuffled by the seed, so that stopping early leaves an even sample.

    `points` is as in `Space.grid`. Left out, the finest grid that fits the budget is taken.
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
        configs = space.grid(_points_within(space, budget) if points is None else points)
        order = np.random.default_rng(seed).permutation(len(configs))
        self._remaining = iter([configs[i] for i in order])

    def ask(self, n: int = 1) -> list[Config]:
        fresh = filter(self._ledger.claim, self._remaining)
        return [config for _, config in zip(range(n), fresh, strict=False)]

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self._ledger.record(config, values)


def _points_within(space: Space, budget: int) -> dict[str, int]:
    """Add a point to the coarsest dimension, again and again, while the whole grid fits the budget."""
    points = {name: 1 for name, d in space.dimensions.items() if not isinstance(d, Choice)}
    options = math.prod(d.size for d in space.dimensions.values() if isinstance(d, Choice))
    growing = set(points)
    while growing:
        name = min(growing, key=lambda name: points[name])
        dimension = space.dimensions[name]
        finer = {**points, name: points[name] + 1}
        full = not isinstance(dimension, Float | Choice) and points[name] >= dimension.size
        if full or options * math.prod(finer.values()) > budget:
            growing.discard(name)
        else:
            points = finer
    return points
