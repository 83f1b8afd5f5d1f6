"""Faults of a frontier whose statements hold together."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront.calibration import simultaneous
from tests.mutants.mutant import Mutant, everywhere

PATHS, NET = "frontier: paths together", "frontier: net together"


def full_level_each() -> None:
    """Every limit is tested at all of delta, as if it had been the only one."""
    walk = simultaneous.walk
    everywhere(walk, lambda paths, p_value, level, held: walk(paths, p_value, len(paths) * level, held))


def past_a_failure() -> None:
    """A failure does not end the sequence of its limit."""

    def walk(paths: Any, p_value: Any, level: float, held: Any) -> Any:
        certified, each = held.copy(), level / len(paths)
        for limit, path in enumerate(paths):
            for setting in path.tolist():
                if p_value(limit, setting) <= each:
                    certified[: limit + 1, setting] = True
        return certified, np.full(len(paths), each)

    everywhere(simultaneous.walk, walk)


def tighter_for_free() -> None:
    """What keeps a loose limit is taken to keep the tighter ones."""
    walk = simultaneous.walk

    def broken(paths: Any, p_value: Any, level: float, held: Any) -> Any:
        certified, levels = walk(paths, p_value, level, held)
        certified[:] = certified.any(axis=0)
        return certified, levels

    everywhere(walk, broken)


def undivided_net() -> None:
    """Every setting has all of the net's share of delta."""
    in_net = simultaneous._in_net
    everywhere(in_net, lambda nets, level: in_net(nets, level * nets[0].table.n_configs))


def tight_alone_in_net() -> None:
    """What passes a tight limit in the net counts as well where it failed a looser one, and the share is not divided."""
    in_net = simultaneous._in_net

    def broken(nets: Any, level: float) -> Any:
        return np.concatenate([in_net([net], 10 * level) for net in nets])

    everywhere(in_net, broken)


MUTANTS = [
    Mutant("frontier together: every limit at delta", PATHS, full_level_each),
    Mutant("frontier together: on after a failure", PATHS, past_a_failure),
    Mutant("frontier together: tighter limits for free", PATHS, tighter_for_free),
    Mutant("frontier together: net undivided", NET, undivided_net),
    Mutant("frontier together: ten times the net's share", NET, tight_alone_in_net),
]
