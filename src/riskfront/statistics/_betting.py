"""The betting p-value: money won by betting against the hypothesis, on any bounded loss, one example after the other.

The stakes have a target, 1 / level, and are set anew after every loss by the wealth that is still missing (Voracek and Orabona,
2025, arXiv 2505.22422). Each stake knows the losses before its own and nothing else, so the largest wealth W ever reached makes
1 / W a p-value at every level (Ville's inequality), whatever the target was. It is sharpest at the level it aimed at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray

#: Stakes stay below this share of the stake that a single loss of 1 would turn into bankruptcy.
CAP = 0.999

_ROWS = 2048  # settings that bet side by side: their wealths and stakes stay in the processor's cache
_STEPS = 64  # examples that are turned into gains at a time


def betting(
    losses: Array,
    alpha: float | FloatArray,
    level: float | FloatArray,
    selected: BoolArray | None = None,
    of: IntArray | None = None,
) -> FloatArray:
    """min(1, 1 / max_t W_t), W_t = prod_{i <= t} (1 + stake_i (alpha - L_i)), for each row of losses.

    With m = 1 - alpha, Q_t = sum_{i <= t} (L_i - alpha)^2 and S_t = min(Q_t / t + m n / t^2, m alpha), S_0 = m alpha:

        stake_{t+1} = min(.999 / m, sqrt(2 (ln(1/level) - ln W_t) / ((n - t) S_t)))

    Once a target is reached, the next is the square of the wealth then: what was won counts, so the p-value can only fall.

    Args:
        losses: (rows, n) in [0, 1], one row a setting, in an order fixed beforehand.
        alpha: the limit, in (0, 1), or one for each bet.
        level: the level that stakes are made for, or one for each bet; fixed before the losses were seen.
        selected: (rows, n) or (1, n); a conditional risk bets on the selected examples only, as if the others were absent.
        of: (bets,), the row of losses that each bet is on; by default one bet on each row.
    """
    on, n = np.arange(len(losses)) if of is None else of, losses.shape[1]
    result = np.ones(len(on))
    against, target_levels = (np.broadcast_to(np.asarray(v, dtype=np.float64), on.shape) for v in (alpha, level))
    for start in range(0, len(on) if n else 0, _ROWS):
        block = slice(start, start + _ROWS)
        bets, rows, counts = losses, on[block], np.full(len(on[block]), n)
        if selected is not None:
            bets, counts = packed(losses[rows], np.broadcast_to(selected, losses.shape)[rows])
            rows = np.arange(len(rows))
        result[block] = np.exp(-_best_log_wealth(bets, rows, counts, against[block], target_levels[block]))
    return result


def packed(losses: Array, kept: BoolArray) -> tuple[Array, IntArray]:
    """The selected losses of each row first, in their order, (rows, longest); and how many each row has, (rows,)."""
    counts = kept.sum(axis=1)
    first = np.arange(int(counts.max(initial=0))) < counts[:, None]
    packed = np.zeros(first.shape, dtype=losses.dtype)
    packed[first] = losses[kept]
    return packed, counts


def _best_log_wealth(
    losses: Array, rows: IntArray, counts: IntArray, alpha: FloatArray, level: FloatArray
) -> FloatArray:
    """max(0, max_t log W_t) for each bet on one of the ``rows`` of losses, of which the first ``counts``, (bets,), count.

    One pass over t. Every line works on all bets at once, in place; a row that has ended bets on gains of 0.
    """
    target = -np.log(level)
    missing, least = target.copy(), target.copy()  # log(target / W_t), now and at its smallest
    squares, stake, spread = (np.zeros(len(rows)) for _ in range(3))
    a, n = _one_if_equal(alpha), _one_if_equal(counts.astype(np.float64))
    most, prior, widest = np.broadcast_to(CAP / (1 - a), stake.shape).copy(), (1 - a) * n, (1 - a) * a
    for t, gain, square in _gains(losses, rows, counts, alpha):
        seen = max(t, 0.5)  # before the first loss the spread is the widest there is
        half = (max(n - t, 1.0) if isinstance(n, float) else np.maximum(n - t, 1.0)) / 2
        np.multiply(squares, half / seen, out=spread)
        spread += prior * half / seen**2
        np.minimum(spread, widest * half, out=spread)
        np.divide(missing, spread, out=stake)
        np.sqrt(stake, out=stake)
        np.minimum(stake, most, out=stake)
        # from here on the loss itself is known, and the stake can no longer change
        stake *= gain
        stake += 1
        missing -= np.log(stake, out=stake)
        squares += square
        np.minimum(least, missing, out=least)
        if least[least.argmin()] <= 0:  # faster than least.min()
            best = target - least
            ahead = np.where(least <= 0, 2 * best - target, 0.0)
            target, missing, least = target + ahead, missing + ahead, least + ahead
    return target - least


def _one_if_equal(values: FloatArray) -> FloatArray | float:
    """One number where all are the same: arithmetic with it is faster."""
    return float(values[0]) if values.min() == values.max() else values


def _gains(
    losses: Array, rows: IntArray, counts: IntArray, alpha: FloatArray
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """t, alpha - L_{t+1} of every bet, (bets,), 0 where its row has ended, and its square."""
    ends = counts.min(initial=losses.shape[1])
    for start in range(0, losses.shape[1], _STEPS):
        gains = np.ascontiguousarray((alpha[:, None] - losses[rows, start : start + _STEPS]).T)
        if ends < start + len(gains):
            gains[np.arange(start, start + len(gains))[:, None] >= counts] = 0.0
        yield from zip(range(start, start + len(gains)), gains, gains * gains, strict=True)
