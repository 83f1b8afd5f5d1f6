"""The betting p-value with the help of a proxy of the loss that is known on many more examples.

L_i is the loss of a labelled example, f_i its proxy, and b_i the mean proxy of a batch of unlabelled examples that belongs to
this example alone. Then d_i = f_i - b_i has mean 0, whatever the proxy is worth, and L_i - rho d_i has the mean of L_i for any
rho that was fixed before example i. So one may bet on it as on the loss itself (prediction-powered inference, Angelopoulos et
al., 2023; with bets, Csillag et al., 2025). It varies less than the loss where proxy and loss go together.

rho is the slope of loss on d over the examples before, drawn a little towards 0: it starts at 0, stays near it for a proxy that
says nothing, and may be negative. Betting on several fixed rho at once and adding up what was won is valid too, and was
weaker: with a useless proxy it lost 5 to 13 points of power at n = 800, this loses less than one.
"""

from __future__ import annotations

import numpy as np

from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.statistics._betting import CAP, packed

#: Slopes stay within this, in ranges of the loss for a range of the proxy: a steep one leaves little room to stake.
STEEPEST = 2.0

_ROWS = 2048  # settings that bet side by side
_STEPS = 64  # examples that are laid out at a time


def powered_betting(
    losses: Array,
    differences: Array,
    alpha: float,
    level: float | FloatArray,
    reach: tuple[float, float] = (-1.0, 1.0),
    selected: BoolArray | None = None,
) -> FloatArray:
    """min(1, 1 / max_t W_t), W_t = prod_{i <= t} (1 + stake_i (alpha - L_i + rho_i d_i)), for each row of losses.

    With x_i = L_i - alpha, and k = alpha (1 - alpha), which is also the spread that stakes start from:

        rho_{t+1} = sum_{i <= t} x_i d_i / (k + sum_{i <= t} d_i^2), held within [-2, 2]
        stake_{t+1}: as in ``betting``, with the squares of x_i - rho_{t+1} d_i, and small enough never to lose all

    Args:
        losses, alpha, level, selected: as for ``betting``, with one bet on each row.
        differences: (rows, n), proxy minus the mean proxy of the example's own batch; mean 0, within ``reach``.
        reach: what a difference can be at least and at most; at least one end is -1 or 1.
    """
    rows, n = losses.shape
    result, target_levels = np.ones(rows), np.broadcast_to(np.asarray(level, dtype=np.float64), (rows,))
    for start in range(0, rows if n else 0, _ROWS):
        block = slice(start, start + _ROWS)
        bets, proxies, counts = losses[block], differences[block], np.full(len(losses[block]), n)
        if selected is not None:
            kept = np.broadcast_to(selected, losses.shape)[block]
            (bets, counts), (proxies, _) = packed(bets, kept), packed(proxies, kept)
        result[block] = np.exp(-_best_log_wealth(bets, proxies, counts, alpha, target_levels[block], reach))
    return result


def _best_log_wealth(
    losses: Array, differences: Array, counts: IntArray, alpha: float, level: FloatArray, reach: tuple[float, float]
) -> FloatArray:
    """max(0, max_t log W_t) for each row of losses, (rows, n), of which the first ``counts``, (rows,), count."""
    target = -np.log(level)
    missing, least = target.copy(), target.copy()  # log(target / W_t), now and at its smallest
    past = _Past(len(losses), alpha, reach)
    n = counts.astype(np.float64)
    for start in range(0, losses.shape[1], _STEPS):
        x = np.ascontiguousarray((losses[:, start : start + _STEPS] - alpha).T)
        d = np.ascontiguousarray(differences[:, start : start + _STEPS].T, dtype=np.float64)
        ended = np.arange(start, start + len(x))[:, None] >= counts
        x[ended], d[ended] = 0.0, 0.0  # a row that has ended wins and loses nothing
        for t, loss, difference in zip(range(start, start + len(x)), x, d, strict=True):
            stake, rho = past.stake(t, n, missing)
            # from here on the example itself is known, and neither stake nor slope can change
            missing = missing - np.log1p(stake * (rho * difference - loss))
            past.see(loss, difference)
            np.minimum(least, missing, out=least)
            if least.min() <= 0:  # a target was reached: the next is the square of the wealth then
                ahead = np.where(least <= 0, target - 2 * least, 0.0)
                target, missing, least = target + ahead, missing + ahead, least + ahead
    return target - least


class _Past:
    """What the examples before say of the next: how steep loss follows proxy, and how much what is left varies."""

    def __init__(self, rows: int, alpha: float, reach: tuple[float, float]) -> None:
        self._alpha, self._reach, self._widest = alpha, reach, alpha * (1 - alpha)
        self._losses, self._products, self._differences = (np.zeros(rows) for _ in range(3))

    def stake(self, t: int, n: FloatArray, missing: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(rows,) each: the stake on example t + 1, and the slope."""
        rho = np.clip(self._products / (self._widest + self._differences), -STEEPEST, STEEPEST)
        squares = self._losses - rho * (2 * self._products - rho * self._differences)
        seen = max(t, 0.5)
        spread = np.minimum(squares / seen + (1 - self._alpha) * n / seen**2, self._widest)
        spread = np.maximum(spread, 1e-12)  # squares may round to less than nothing
        most = CAP / (self.largest(rho) - self._alpha)
        return np.minimum(most, np.sqrt(2 * missing / (np.maximum(n - t, 1.0) * spread))), rho

    def largest(self, rho: FloatArray) -> FloatArray:
        """(rows,): the largest that L - rho d can be."""
        return 1 + np.maximum(-rho * self._reach[0], -rho * self._reach[1])

    def see(self, loss: FloatArray, difference: FloatArray) -> None:
        self._losses += loss * loss
        self._products += loss * difference
        self._differences += difference * difference
