"""What every search is: its protocol, and a record of what was asked and told."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np

from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront._support.values import plain
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


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Hold back a library's log lines and warnings while we call it, then restore the user's settings."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@runtime_checkable
class Search(Protocol):
    """Proposes settings and learns from their values. Tells may come late, in any order, or without an ask."""

    def ask(self, n: int = 1) -> list[Config]:
        """Up to n settings never asked or told before; fewer, at last none, when the space has no more."""
        ...

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        """The value of every objective at this setting, each to be minimised."""
        ...


@runtime_checkable
class Remembering(Search, Protocol):
    """A search that may know settings from before it was made: earlier runs and other machines told them."""

    def belong_to(self, task: Callable[[], Mapping[str, str]]) -> None:
        """Whose settings these are, by a name for each part of the task; an error if they are another's."""
        ...

    def remembered(self) -> list[Config]:
        """Every setting told so far, each time in the same order."""
        ...
