"""Whether two sets of examples share some: by all fingerprints, or by a sample, a few of them that a file can hold."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from riskfront._support.arrays import Array, FloatArray, IntArray

_KEPT = 128
_FEWEST = 8  # contents that come once; with fewer, examples cannot be told apart by what they lost
_IMPOSSIBLE = 1e-9


def shared(first: Array, second: Array) -> int:
    """How many examples, by their fingerprints in order, are in both; 0 where chance could explain what agrees."""
    if not len(first) or not len(second):
        return 0
    values, counts = np.unique(first, return_counts=True)
    others, other_counts = np.unique(second, return_counts=True)
    if np.array_equal(first, second) and _log_chance_of_same_sequence(counts) < np.log(_IMPOSSIBLE):
        return len(first)
    same = np.array_equal(values, others) and np.array_equal(counts, other_counts)
    if same and _log_chance_of_same_contents(counts) < np.log(_IMPOSSIBLE):
        return len(first)
    across = len(np.intersect1d(values[counts == 1], others[other_counts == 1], assume_unique=True))
    inside = len(np.setdiff1d(values[counts == 2], others, assume_unique=True))
    inside += len(np.setdiff1d(others[other_counts == 2], values, assume_unique=True))
    return across if _pairs_across(across, inside, len(first), len(second)) else 0


def fingerprint_sample(numbers: Array) -> dict[str, Any] | None:
    """Of contents, (n,), those that come once and are smallest, which is a random choice; None where too few do."""
    values, counts = np.unique(numbers, return_counts=True)
    once = values[counts == 1]
    if len(once) < _FEWEST:
        return None
    kept = base64.b64encode(once[:_KEPT].astype("<u8").tobytes()).decode("ascii")
    return {"examples": len(numbers), "once": len(once), "twice": int((counts == 2).sum()), "kept": kept}


def seen_before(example_fingerprints: Mapping[str, Any], numbers: Array) -> int:
    """About how many of the contents, (n,), are among those that a sample was taken of; 0 where chance could explain it.

    If the two share no example, contents that come twice in all are as likely to be twice on one side as once on each. So
    the pairs across, as far as the sample shows them, are compared with the pairs inside.
    """
    from scipy.special import bdtrc

    kept = np.frombuffer(base64.b64decode(example_fingerprints["kept"]), dtype="<u8")
    values, counts = np.unique(numbers, return_counts=True)
    across = len(np.intersect1d(values[counts == 1], kept, assume_unique=True))
    if across == 0:
        return 0
    inside, n, others = (
        example_fingerprints["twice"] + int((counts == 2).sum()),
        len(numbers),
        example_fingerprints["examples"],
    )
    share = len(kept) / example_fingerprints["once"]
    chance = share * n * others / (share * n * others + (n**2 + others**2) / 2)
    return round(across / share) if bdtrc(across - 1, across + inside, chance) < _IMPOSSIBLE else 0


def _log_chance_of_same_sequence(n: IntArray) -> float:
    """That two independent samples agree example by example, given what both hold together: n of each content."""
    return float(
        _log_factorial(n.sum()) - _log_factorial(2 * n.sum()) + (_log_factorial(2 * n) - _log_factorial(n)).sum()
    )


def _log_chance_of_same_contents(n: IntArray) -> float:
    """That two independent samples hold the same contents equally often, given what both hold together."""
    ways = _log_factorial(2 * n) - 2 * _log_factorial(n)
    return float(ways.sum() - (_log_factorial(2 * n.sum()) - 2 * _log_factorial(n.sum())))


def _pairs_across(across: int, inside: int, n: int, n_other: int) -> bool:
    """Whether of the contents that occur twice in all more are once in each table than chance could explain."""
    from scipy.special import bdtrc

    total = n + n_other
    chance = 2 * n * n_other / (total * (total - 1))
    return bool(across and bdtrc(across - 1, across + inside, chance) < _IMPOSSIBLE)


def _log_factorial(n: IntArray | int) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(np.asarray(n, dtype=np.float64) + 1))
