"""Copies among examples: the same content so often that independent draws could not explain it.

Equal contents alone prove nothing: three yes-or-no features have eight values, and a thousand honest draws repeat all of them.
Two tests have a chance of about 1e-9 on independent draws, whatever their distribution; the third rests on contents so rich
that two draws would not agree:

- all contents come a multiple of so many times;
- contents that come exactly k times are too many beside those that come k - 1 and k + 1 times (half of the rows twice);
- contents repeat although a random quarter of what they hold, or half where they are short, tells nearly all of them apart (a
  bootstrap sample of numbers with many digits, of images, of long texts).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from riskfront._support.arrays import Array, IntArray

_IMPOSSIBLE = 1e-9
_REPEATED = 5  # rich contents that come again; fewer may be defaults, such as rows of zeros
_HARMLESS = 1.02  # sum of squared counts over n: the variance of a mean grows by this factor, and delta .1 becomes .102
_COLUMNS, _WORDS, _DRAWS = 512, 128, 8
_WORD = re.compile(r"\w{1,8}")  # long words, and texts without spaces, in pieces
_TOLD_APART = 0.95  # share of different contents that a random part of each must tell apart
_BITS = 64  # that are looked at, but at least a quarter and at most half of all
_DIGITS = 2.0**52
_BEYOND_ROUNDING = 5  # copies are at least so many times as many as numbers that rounding made equal
_BLOCK = 1 << 14


def n_copies(fingerprints: Array, columns: Sequence[Array] = ()) -> int:
    """How many of n examples, by their fingerprints, repeat the content of another; 0 where independent draws could explain it.
    Without the columns, (n,) each, that they are made of, how often each content comes is all that is looked at."""
    counts = np.unique(fingerprints, return_counts=True)[1]
    extra = len(fingerprints) - len(counts)
    if extra and (
        _all_multiples(counts) or _too_many_of_one_count(counts) or _rich_ones_repeat(counts, fingerprints, columns)
    ):
        return extra
    return 0


def _all_multiples(counts: IntArray) -> bool:
    """Whether all contents come a multiple of ``times`` times: for each, a chance of at most the larger of 1/times and the
    largest probability that a Poisson count has of being ``times``."""
    from scipy.special import gammaln

    times = int(np.gcd.reduce(counts))
    if times < 2:
        return False
    chance = max(1 / times, np.exp(times * np.log(times) - times - gammaln(times + 1)))
    return bool((len(counts) - 1) * np.log(chance) < np.log(_IMPOSSIBLE))


def _too_many_of_one_count(counts: IntArray) -> bool:
    """Whether the number N_k of contents that come k times breaks E[N_k]^2 <= (k + 1) / k * E[N_(k-1)] * E[N_(k+1)].

    k! E[N_k] are the moments of a positive measure on how often each content is expected (Poisson counts), so they are
    log-convex, for every distribution of examples. The means are taken at their confidence limits.
    """
    from scipy.special import gammainccinv, gammaincinv

    found = np.append(np.bincount(counts), 0)
    level = _IMPOSSIBLE / (3 * np.count_nonzero(found))
    k = np.flatnonzero(found)
    k = k[k >= 2]
    most = gammainccinv(found[k - 1] + 1, level) * gammainccinv(found[k + 1] + 1, level)
    return bool((gammaincinv(found[k], level) ** 2 > (k + 1) / k * most).any())


def _rich_ones_repeat(counts: IntArray, fingerprints: Array, columns: Sequence[Array]) -> bool:
    if not columns or (counts > 1).sum() < _REPEATED or (counts**2).sum() < _HARMLESS * counts.sum():
        return False
    first = np.unique(fingerprints, return_index=True)[1]
    return are_rich([np.asarray(column)[first] for column in columns])


def n_continuous_copies(fingerprints: Array, columns: Iterable[Array]) -> int:
    """How many of n examples repeat another although one of the columns, (n,) each, is continuous: its values tell the
    contents apart, those that come again too, and lie on no grid on which n draws could meet. 0 where none is.

    Losses need this rule of their own: at several settings they are computed from the same few things, such as the lengths
    of two texts, so that many columns are no richer than one.
    """
    counts = np.unique(fingerprints, return_counts=True)[1]  # where contents are takes several times as long
    n = len(fingerprints)
    if (counts > 1).sum() < _REPEATED or (counts**2).sum() < _HARMLESS * n:
        return 0
    first = np.unique(fingerprints, return_index=True)[1]
    repeated = int((counts > 1).sum())
    telling = (column for column in columns if repeated > _BEYOND_ROUNDING * _pairs_by_rounding(column[first]))
    return n - len(first) if one_is_continuous(telling, first, first[counts > 1], n) else 0


def _pairs_by_rounding(values: Array) -> float:
    """About how many pairs of these values, drawn independently, rounding makes equal: fingerprints are made of single
    precision, which has few numbers between 1.0001 and 1.0002."""
    low, high = (float(end) for end in np.nanquantile(np.asarray(values, dtype=np.float64), [0.05, 0.95]))
    step = float(np.spacing(np.float32(max(abs(low), abs(high)))))
    return len(values) ** 2 / 2 * step / (high - low) if high > low else float(len(values) ** 2)


def one_is_continuous(columns: Iterable[Array], first: IntArray, again: IntArray, n: int) -> bool:
    """Whether the values of one of the columns, (n,) each, tell contents apart, and those that come again too, and lie on no
    grid on which n draws could meet. ``first`` and ``again``: where each content is, and each that comes again."""
    for column in columns:
        values = np.asarray(column, dtype=np.float64)
        told_apart = all(len(np.unique(values[some])) >= _TOLD_APART * len(some) for some in (first, again))
        if told_apart and _steps(values[first])[1] >= 2 * np.log2(n) + 4:
            return True
    return False


def are_rich(columns: Sequence[Array]) -> bool:
    """Whether different contents, given by their columns, hold so much that a random part of it tells them apart."""
    n = len(columns[0]) if len(columns) else 0
    if n < 2:
        return False
    bits = _without_redundant([_as_bits(part) for column in _some(columns) for part in _parts(column)])
    looked_at = float(np.clip(_BITS / sum(width for _, width in bits), 0.25, 0.5))
    draws = np.random.default_rng(0)
    for _ in range(_DRAWS):
        found = np.zeros(n, dtype=np.uint64)
        for values, width in bits:
            mask = np.uint64(int("".join(draws.choice(["0", "1"], size=width, p=[1 - looked_at, looked_at])), 2))
            found = mixed(found, values & mask)
        if len(np.unique(found)) < _TOLD_APART * n:
            return False
    return True


def mixed(found: Array, values: Any) -> Array:
    """(n,): numbers of 64 bits with one more value in each: the finaliser of SplitMix64."""
    whole = np.atleast_1d(found ^ values)
    for start in range(0, len(whole), _BLOCK):  # in place, in the cache: fresh memory would take most of the time
        z = whole[start : start + _BLOCK]
        z += np.uint64(0x9E3779B97F4A7C15)
        z ^= z >> np.uint64(30)
        z *= np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        z *= np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return whole


def _some(columns: Sequence[Array]) -> list[Array]:
    kept = np.unique(np.linspace(0, len(columns) - 1, _COLUMNS).astype(np.int64))
    return [columns[i] for i in kept]


def _parts(column: Array) -> list[Array]:
    """A column of numbers or of few texts is one part; many different texts are taken apart into words."""
    if column.dtype.kind in "biuf" or len(pd.unique(column)) < len(column) / 2:
        return [column]
    texts = [_WORD.findall(str(value)) for value in column]
    at = np.unique(np.linspace(0, max(0, max(map(len, texts)) - 1), _WORDS).astype(np.int64))
    return [np.array([words[i] if i < len(words) else "" for words in texts], dtype=object) for i in at]


def _as_bits(column: Array) -> tuple[Array, int]:
    """Whole numbers (n,) and how many bits they have: ranks where values are few, steps of the smallest distance otherwise."""
    codes, levels = pd.factorize(column, sort=True, use_na_sentinel=False)
    if column.dtype.kind in "iuf" and len(levels) >= len(column) / 2:
        return _steps(np.asarray(column, dtype=np.float64))
    return codes.astype(np.uint64), int(max(1, len(levels) - 1)).bit_length()


def _steps(values: Any) -> tuple[Array, int]:
    low, high = np.nanmin(values), np.nanmax(values)
    if not np.isfinite(high - low) or high == low:
        return np.unique(values, return_inverse=True)[1].astype(np.uint64), len(values).bit_length()
    values = np.where(np.isnan(values), low, values)
    distances = np.diff(np.unique(values))
    smallest = distances[distances > 1e-9 * (high - low)].min()
    steps = (values - low) / smallest
    if np.abs(steps - np.rint(steps)).max() > 1e-3:
        steps = (values - low) / (high - low) * _DIGITS
    steps = np.rint(steps).astype(np.uint64)
    return steps, int(steps.max()).bit_length()


def _without_redundant(parts: list[tuple[Array, int]]) -> list[tuple[Array, int]]:
    """Of parts that say the same (x and its logarithm, a flag and its opposite) the one with the fewest bits."""
    best: dict[bytes, tuple[Array, int]] = {}
    for values, width in parts:
        partition, levels = pd.factorize(values)
        if len(levels) == len(values):  # all different: the same only if the order is
            ranks = np.argsort(np.argsort(values))
            partition = ranks if ranks[0] < len(ranks) - 1 - ranks[0] else len(ranks) - 1 - ranks
        key = partition.tobytes()
        if key not in best or width < best[key][1]:
            best[key] = (values, width)
    return list(best.values())
