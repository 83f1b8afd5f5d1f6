"""A few of many contents, small enough to write into a file, by which data that hold the same examples are known again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from riskfront.arrays import Array

_KEPT = 128
_FEWEST = 8  # contents that come once; with fewer, examples cannot be told apart by what they lost
_IMPOSSIBLE = 1e-9


def sketch(numbers: Array) -> dict[str, Any] | None:
    """Of contents, (n,), those that come once and are smallest, which is a random choice; None where too few do."""
    values, counts = np.unique(numbers, return_counts=True)
    once = values[counts == 1]
    if len(once) < _FEWEST:
        return None
    kept = base64.b64encode(once[:_KEPT].astype("<u8").tobytes()).decode("ascii")
    return {"examples": len(numbers), "once": len(once), "twice": int((counts == 2).sum()), "kept": kept}


def seen_before(made_of: Mapping[str, Any], numbers: Array) -> int:
    """About how many of the contents, (n,), are among those that a sketch was made of; 0 where chance could explain it.

    If the two share no example, contents that come twice in all are as likely to be twice on one side as once on each. So
    the pairs across, as far as the sketch shows them, are compared with the pairs inside.
    """
    from scipy.stats import binom

    kept = np.frombuffer(base64.b64decode(made_of["kept"]), dtype="<u8")
    values, counts = np.unique(numbers, return_counts=True)
    across = len(np.intersect1d(values[counts == 1], kept, assume_unique=True))
    if across == 0:
        return 0
    inside, n, others = made_of["twice"] + int((counts == 2).sum()), len(numbers), made_of["examples"]
    share = len(kept) / made_of["once"]
    chance = share * n * others / (share * n * others + (n**2 + others**2) / 2)
    return round(across / share) if binom.sf(across - 1, across + inside, chance) < _IMPOSSIBLE else 0
