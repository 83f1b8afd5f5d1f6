"""What has been asked and told so far, and fresh settings from what is left."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._problems.spaces.dimensions import plain
from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront.errors import InvalidInputError

_RANDOM_TRIES = 100
_LARGEST = 1e150  # told numbers are cut to this size: models square them


class Ledger:
    """The memory of one search: no strategy returns a setting twice, and each checks what it is told here."""

    def __init__(self, space: Space, objectives: Sequence[str], seed: int | Sequence[int]) -> None:
        if not isinstance(space, Space):
            raise InvalidInputError(f"space must be a Space; got {space!r}.")
        names = [objectives] if isinstance(objectives, str) else list(objectives)
        if not names or len(set(names)) < len(names):
            raise InvalidInputError(f"objectives must be one or more different names; got {names!r}.")
        self.space = space
        self.objectives = tuple(names)
        self._known: set[str] = set()
        self._rng = np.random.default_rng(seed)

    @property
    def exhausted(self) -> bool:
        return self.space.size is not None and len(self._known) >= self.space.size

    def claim(self, config: Config) -> bool:
        """True, once, for a setting not known before."""
        name = config_id(config)
        if name in self._known:
            return False
        self._known.add(name)
        return True

    def record(self, config: Mapping[str, Any], values: Mapping[str, float]) -> tuple[Config, tuple[float, ...]]:
        """A told setting in the space's own types, and its values in the order of the objectives."""
        checked = self.space.check(config)
        if not isinstance(values, Mapping) or values.keys() != set(self.objectives):
            got = sorted(map(str, values)) if isinstance(values, Mapping) else values
            raise InvalidInputError(f"values must have exactly the keys {list(self.objectives)}; got {got!r}.")
        numbers = [plain(values[name]) for name in self.objectives]
        for name, number in zip(self.objectives, numbers, strict=True):
            if not isinstance(number, int | float) or not abs(number) < math.inf:
                raise InvalidInputError(f"The value of {name} must be a finite number; got {number!r}.")
        self._known.add(config_id(checked))
        return checked, tuple(float(min(max(number, -_LARGEST), _LARGEST)) for number in numbers)

    def fresh(self) -> Config | None:
        """A setting at random among those not known, now claimed; None when there are none left."""
        if self.exhausted:
            return None
        for _ in range(_RANDOM_TRIES):
            config = self.space.from_unit(self._rng.random(len(self.space)))
            if self.claim(config):
                return config
        size = self.space.size
        if size is None:  # a Float so narrow that all numbers in it are known
            return None
        # Few are left: walk through the numbered settings from a random one on.
        start = int(self._rng.integers(size))
        candidates = (self.space.at((start + step) % size) for step in range(size))
        return next(filter(self.claim, candidates), None)


def startup_size(budget: int) -> int:
    """How many quasi-random settings a surrogate should see first."""
    return max(4, min(10, budget // 4))
