"""Quasi-random search: scrambled Sobol points, which cover a space more evenly than independent ones."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from riskfront._problems.spaces.space import Config, Space
from riskfront.search._ledger import Ledger

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
        configs: list[Config] = []
        while len(configs) < n and (config := self._next()) is not None:
            configs.append(config)
        return configs

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self._ledger.record(config, values)

    def _next(self) -> Config | None:
        if self._ledger.exhausted:
            return None
        for _ in range(_DUPLICATES_IN_A_ROW):
            config = self._ledger.space.from_unit(self._next_point())
            if self._ledger.claim(config):
                return config
        return self._ledger.fresh()

    def _next_point(self) -> npt.NDArray[np.float64]:
        if not self._block:
            self._block = list(self._sobol.random(_BLOCK))[::-1]
        return self._block.pop()
