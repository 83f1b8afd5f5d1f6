"""Settings whose workers were lost: tried again with others first, then alone, so that the one to blame is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from riskfront._problems.spaces.space import Config

TRIES = 3  # of a setting whose worker is lost, the last one without others beside it


class WorkersLostError(Exception):
    """Workers were lost again and again while a setting was evaluated, at last with no other setting beside it.

    ``position`` is the setting's, None if no setting was begun; ``healthy`` says whether the workers do other things, so that
    the setting is to blame.
    """

    def __init__(self, reason: str, position: int | None, healthy: bool) -> None:
        super().__init__(reason)
        self.reason, self.position, self.healthy = reason, position, healthy


class LossOfWorkersError(Exception):
    """Workers ended, or could not be reached, before all settings were evaluated."""


class Retries:
    """The settings that were lost, by position. To evaluate a setting twice is harmless."""

    def __init__(self) -> None:
        self._tries: Counter[int | None] = Counter()
        self._again: dict[int, Config] = {}
        self._alone: dict[int, Config] = {}

    def __len__(self) -> int:
        return len(self._again) + len(self._alone)

    def lost(self, under_way: dict[int, Config]) -> list[int | None]:
        """Take what was under way when workers were lost; the positions that were tried too often."""
        positions: list[int | None] = [*under_way] or [None]
        self._tries.update(positions)
        exhausted = [position for position in positions if self._tries[position] >= TRIES]
        for position, config in under_way.items():
            if position not in exhausted:
                (self._again if self._tries[position] < TRIES - 1 else self._alone)[position] = config
        return exhausted

    def together(self) -> Iterator[tuple[int, Config]]:
        """Take out, one by one, what may be tried beside others; what is not taken stays."""
        while self._again:
            position = next(iter(self._again))
            yield position, self._again.pop(position)

    def alone(self) -> list[tuple[int, Config]]:
        """Take out a setting that is tried without others, if there is one."""
        return [self._alone.popitem()] if self._alone else []
