"""E-processes that find a change at any time: weighted Shiryaev-Roberts sums of bets against "the mean is at most its limit".

y_t is what outcome t exceeds the limit by; while the limit holds, its mean given the past is at most 0, and y_t >= -low_t. A
bet with stake g that starts at outcome s is worth prod_{i = s..t} (1 + g y_i). Bets start at every outcome with weight w_s, at
every stake of a grid:

    A_t(g) = (A_{t-1}(g) + w_t) (1 + g y_t),  A_0(g) = w_0,     M_t = mean over g of A_t(g) + (1 - w_0 - ... - w_t)

With weights that add up to at most 1, M is an e-process: the chance that it ever reaches 1/delta is at most delta (Ville). With
w_t = 1 it is the e-SR detector: the mean run length to a false alarm is at least its threshold (Shin et al., 2024).

Weights may depend on the past. A clock gives them out that runs while recent outcomes lie above the limit and almost stands
still while they lie below: a long good past then costs little, since few weights were lost in it. Half of the weight
starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray

INITIAL_WEIGHT = 0.5  # the weight of bets that start before the first outcome
RECENT = 0.02  # weight of the newest outcome in the mean of recent ones
IDLE = 0.001  # ticks of the clock for an outcome while recent ones keep the limit
_SUSPICIOUS = 0.5  # recent means this many of their standard deviations above the limit start the clock
_LARGEST = 1e40  # what a sum of bets may grow to: to give up what is beyond can only lower the evidence
_EXPONENT = 250.0  # powers of ten that products inside a block may span
BLOCK = 1024  # outcomes that are multiplied at a time, at most


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What is left of the past, the same size after any number of outcomes.

    bets: (families, stakes), the sums A_t. clock: ticks so far. recent, recent_square: weighted means of recent y and y^2.
    """

    bets: FloatArray
    clock: float
    recent: float
    recent_square: float


def stakes(alpha: float) -> tuple[FloatArray, FloatArray]:
    """Stakes as shares of the largest that cannot lose all, 1 / low, and their weights, which add up to 1; both (stakes,).

    Kelly's share for 0/1 losses of mean p is (p - alpha) / (1 - alpha): most of the weight lies on means from a third above
    alpha to six times alpha, a little on smaller and on sudden changes.
    """
    low, high = 0.3 * alpha * (1 - alpha), min(0.6, 5 * alpha)
    usual = np.geomspace(low, max(high, 2 * low), 8)
    shares = np.concatenate([[low / 10, low / 3], usual, [0.9 if alpha > 0.2 else 0.6]])
    weights = np.concatenate([[0.03, 0.05], np.full(8, 0.11), [0.04]])
    return shares, weights


def start(shape: tuple[int, ...], square: float, *, weighted: bool = True) -> Sums:
    """Before the first outcome. ``shape``: (families, stakes). ``square``: what y^2 is expected to be."""
    return Sums(np.full(shape, INITIAL_WEIGHT if weighted else 0.0), 0.0, 0.0, square)


def unspent(clock: FloatArray) -> FloatArray:
    """The weight of bets that start after this many ticks: falls quickly at first, and like 1 / log in the long run."""
    return (1 - INITIAL_WEIGHT) * 0.5 * (np.log(10.0) / np.log(clock + 10.0) + 1 / (1 + clock / 30.0))


def block_ends(gains: FloatArray, share: float) -> list[int]:
    """Where to cut outcomes into blocks whose products stay in the range of floating-point numbers at the largest share.

    gains: (families, n).
    """
    n = gains.shape[1]
    up = np.log10(1 + share * np.maximum(gains.max(axis=0), 0.0))
    down = -np.log10(1 + share * np.minimum(gains.min(axis=0), 0.0))
    span = np.cumsum(np.maximum(up, down))
    ends, last = [], 0
    while last < n:
        before = span[last - 1] if last else 0.0
        last = min(n, last + BLOCK, max(int(np.searchsorted(span, before + _EXPONENT)), last + 1))
        ends.append(last)
    return ends


def advance(
    sums: Sums,
    gains: FloatArray,
    shares: FloatArray,
    weights: FloatArray,
    rate: float = RECENT,
    *,
    weighted: bool = True,
    idle: float = IDLE,
) -> tuple[Sums, FloatArray, FloatArray]:
    """The sums after a block of outcomes, the evidence M after each, (n,), and what 1 put on each bet is worth
    before the first and after every outcome, (families, stakes, n + 1).

    Args:
        gains: (families, n), y_t / low_t, at least -1 each; the last family also drives the clock.
        shares: (stakes,), in (0, 1). weights: (families, stakes), adding up to 1.
        rate: weight of the newest outcome among recent ones.
        weighted: False gives every start the weight 1, for a promise on the run length.
        idle: ticks of the clock for an outcome while recent ones keep the limit.
    """
    with_first = np.ones((len(gains), len(shares), gains.shape[1] + 1))
    np.multiply(shares[:, None], gains[:, None, :], out=with_first[:, :, 1:])
    with_first[:, :, 1:] += 1
    with_first = with_first.cumprod(axis=2)
    before, products = with_first[:, :, :-1], with_first[:, :, 1:]
    if weighted:
        clock, recent, square = _clock(sums, gains[-1], rate, idle)
        left = unspent(clock)
        starts = left[:-1] - left[1:]
        sums = replace(sums, clock=float(clock[-1]), recent=recent, recent_square=square)
    else:
        starts = np.ones(gains.shape[1])
    bets = np.cumsum(starts / before, axis=2)
    bets += sums.bets[:, :, None]
    bets *= products
    evidence = weights.ravel() @ bets.reshape(weights.size, -1)
    if weighted:
        evidence += left[1:]
    return replace(sums, bets=np.minimum(bets[:, :, -1], _LARGEST)), evidence, with_first


def _clock(sums: Sums, gains: FloatArray, rate: float, idle: float) -> tuple[FloatArray, float, float]:
    """The clock before the first and after every outcome, (n + 1,), and the recent means at the end.

    Whether it ticks at an outcome is decided by the outcomes before it.
    """
    means, squares = _recent(sums.recent, gains, rate), _recent(sums.recent_square, gains * gains, rate)
    deviation = np.sqrt(squares[:-1] * rate / (2 - rate))
    ticks = np.where(means[:-1] > _SUSPICIOUS * deviation, 1.0, idle) * (rate / RECENT)
    clock = np.full(len(means), sums.clock)
    clock[1:] += np.cumsum(ticks)
    return clock, float(means[-1]), float(squares[-1])


def _recent(before: float, values: FloatArray, rate: float) -> FloatArray:
    """(n + 1,): the exponentially weighted mean before the first value and after each."""
    kept, inverse = _powers(rate)
    means = np.empty(len(values) + 1)
    means[0] = before
    np.cumsum(values * inverse[: len(values)], out=means[1:])
    means[1:] += before
    means *= kept[: len(means)]
    return means


@cache
def _powers(rate: float) -> tuple[FloatArray, FloatArray]:
    """(1 - rate)^i from i = 0, and rate (1 - rate)^-i from i = 1."""
    kept = np.power(1 - rate, np.arange(BLOCK + 1, dtype=np.float64))
    return kept, rate / kept[1:]


@dataclass(frozen=True, slots=True, eq=False)
class Restarts:
    """For each bet, (families, stakes): the logarithm of its best value over all starts, and where that start lies.

    since: outcomes since then. totals: (2, families, stakes), sums of numerators and denominators since then.
    """

    logs: FloatArray
    since: IntArray
    totals: FloatArray


def no_restarts(families: int, number: int) -> Restarts:
    shape = (families, number)
    return Restarts(np.zeros(shape), np.zeros(shape, dtype=np.int64), np.zeros((2, *shape)))


def restarts(past: Restarts, products: FloatArray, measured: FloatArray) -> Restarts:
    """CUSUM: max over s of log prod_{i = s..t} (1 + g y_i), with the s that attains it, after a block of outcomes.

    Args:
        products: (families, stakes, n + 1), as ``advance`` returns them. measured: (2, n), numerators and denominators.
    """
    n = products.shape[2] - 1
    lowest = n - np.argmin(products[:, :, ::-1], axis=2)  # of equal ones the last
    least = np.log(np.take_along_axis(products, lowest[:, :, None], axis=2)[:, :, 0])
    last = np.log(products[:, :, -1])
    anew = past.logs + least <= 0
    sums = np.concatenate([np.zeros((2, 1)), np.cumsum(measured, axis=1)], axis=1)
    return Restarts(
        np.where(anew, last - least, past.logs + last),
        np.where(anew, n - lowest, past.since + n),
        np.where(anew, sums[:, -1, None, None] - sums[:, lowest], past.totals + sums[:, -1, None, None]),
    )


BINS = 20


def bin_edges(scores: FloatArray) -> FloatArray:
    """Inner edges of bins that hold about as many of these scores each; fewer where scores repeat."""
    return np.unique(np.quantile(scores, np.linspace(0, 1, BINS + 1)[1:-1]))


def conformal_p_values(
    counts: IntArray, scores: FloatArray, edges: FloatArray, uniforms: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Counts of each bin after these scores, (edges + 1,), and the p-value of each score, (n,)."""
    places = np.searchsorted(edges, scores, side="right")
    seen = counts + np.cumsum(np.eye(len(counts), dtype=np.int64)[places], axis=0)
    above = np.cumsum(seen[:, ::-1], axis=1)[:, ::-1] - seen
    rows = np.arange(len(scores))
    p_values = (above[rows, places] + uniforms * seen[rows, places]) / seen.sum(axis=1)
    return (seen[-1] if len(scores) else counts), p_values
