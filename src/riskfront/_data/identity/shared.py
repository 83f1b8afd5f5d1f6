"""Whether two sets of examples share some: by all fingerprints, or by a sample, a few of them that a file can hold."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from riskfront._data.identity.copies import one_is_continuous
from riskfront._data.identity.fingerprints import order_free_digest
from riskfront._support.arrays import Array, FloatArray, IntArray

_KEPT = 128
_KEPT_ROUNDED = 192
_FEWEST = 8  # contents that come once; with fewer, examples cannot be told apart by what they lost
_IMPOSSIBLE = 1e-9
_UNLIKELY = 1e-3  # enough where values are continuous besides, so that two draws would not agree


def shared(first: Array, second: Array, columns: Callable[[], Iterable[Array]] | None = None) -> int:
    """How many examples, by their fingerprints in order, (n,) and (m,), are in both; 0 where chance could explain what agrees.

    ``columns`` makes the columns, (n + m,) each, that fingerprints were made of: ten examples are enough where one of these is
    continuous, thirty otherwise.
    """
    if not len(first) or not len(second):
        return 0
    values, counts = np.unique(first, return_counts=True)
    others, other_counts = np.unique(second, return_counts=True)
    if np.array_equal(first, second) and _log_chance_of_same_sequence(counts) < np.log(_IMPOSSIBLE):
        return len(first)
    same = np.array_equal(values, others) and np.array_equal(counts, other_counts)
    if same and _log_chance_of_same_contents(counts) < np.log(_IMPOSSIBLE):
        return len(first)
    both = np.intersect1d(values[counts == 1], others[other_counts == 1], assume_unique=True)
    across, inside = len(both), _pairs_inside(values, counts, others, other_counts)
    chance = _chance_of_pairs(across, inside, len(first), len(second))
    if chance >= _IMPOSSIBLE and columns is not None and chance < _UNLIKELY:
        every, at = np.unique(np.concatenate([first, second]), return_index=True)
        continuous = one_is_continuous(columns(), at, at[np.isin(every, both)], len(first) + len(second))
        return across if continuous else 0
    return across if chance < _IMPOSSIBLE else 0


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
    n, others = len(numbers), example_fingerprints["examples"]
    inside = example_fingerprints["twice"] + int((counts == 2).sum())
    share = len(kept) / example_fingerprints["once"]
    chance = share * n * others / (share * n * others + (n**2 + others**2) / 2)
    return round(across / share) if bdtrc(across - 1, across + inside, chance) < _IMPOSSIBLE else 0


def sample_with_counts(numbers: Array) -> dict[str, Any]:
    """Of contents, (n,), those whose first 32 bits are smallest, which is a random choice, and how often each comes."""
    values, counts = np.unique(numbers >> np.uint64(32), return_counts=True)
    packed = (values[:_KEPT_ROUNDED].astype("<u4"), np.minimum(counts[:_KEPT_ROUNDED], 255).astype(np.uint8))
    kept, often = (base64.b64encode(array.tobytes()).decode("ascii") for array in packed)
    return {"examples": len(numbers), "kept": kept, "counts": often, "all": order_free_digest(numbers)}


def seen_before_by_counts(sample: Mapping[str, Any], numbers: Array) -> int:
    """The same as ``seen_before`` of a sample with counts. It suits contents that often come twice by chance: those up to the
    largest of the sample are compared as ``shared`` compares all. All of the examples are known by their digest."""
    if sample.get("all") is not None and sample["all"] == order_free_digest(numbers):
        return len(numbers)
    kept = np.frombuffer(base64.b64decode(sample["kept"]), dtype="<u4")
    kept_counts = np.frombuffer(base64.b64decode(sample["counts"]), dtype=np.uint8).astype(np.int64)
    values, counts = np.unique(numbers >> np.uint64(32), return_counts=True)
    looked_at = values <= kept[-1]
    values, counts = values[looked_at], counts[looked_at]
    across = len(np.intersect1d(values[counts == 1], kept[kept_counts == 1], assume_unique=True))
    inside = _pairs_inside(values, counts, kept, kept_counts)
    if _chance_of_pairs(across, inside, len(numbers), sample["examples"]) >= _IMPOSSIBLE:
        return 0
    return round(len(numbers) * across / (counts == 1).sum())


def _pairs_inside(values: Array, counts: IntArray, others: Array, other_counts: IntArray) -> int:
    """How many contents come twice on one side and never on the other."""
    here = len(np.setdiff1d(values[counts == 2], others, assume_unique=True))
    return here + len(np.setdiff1d(others[other_counts == 2], values, assume_unique=True))


def _log_chance_of_same_sequence(n: IntArray) -> float:
    """That two independent samples agree example by example, given what both hold together: n of each content."""
    return float(
        _log_factorial(n.sum()) - _log_factorial(2 * n.sum()) + (_log_factorial(2 * n) - _log_factorial(n)).sum()
    )


def _log_chance_of_same_contents(n: IntArray) -> float:
    """That two independent samples hold the same contents equally often, given what both hold together."""
    ways = _log_factorial(2 * n) - 2 * _log_factorial(n)
    return float(ways.sum() - (_log_factorial(2 * n.sum()) - 2 * _log_factorial(n.sum())))


def _chance_of_pairs(across: int, inside: int, n: int, n_other: int) -> float:
    """That of the contents that occur twice in all so many are once in each table."""
    from scipy.special import bdtrc

    total = n + n_other
    return float(bdtrc(across - 1, across + inside, 2 * n * n_other / (total * (total - 1)))) if across else 1.0


def _log_factorial(n: IntArray | int) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(np.asarray(n, dtype=np.float64) + 1))
