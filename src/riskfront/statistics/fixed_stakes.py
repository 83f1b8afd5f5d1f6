"""The betting p-value with stakes that are tuned once, for level delta and n losses.

``betting`` re-aims its stakes after every loss and is sharper. These stay for comparison, and to verify certificates that
were made with them.
"""

from __future__ import annotations

import numpy as np

from riskfront.arrays import Array, BoolArray, FloatArray

#: Stakes may reach this share of the stake that a single loss of 1 would turn into bankruptcy.
BETTING_CAP = 0.75


_BLOCK = 1 << 17  # elements of one betting block: its temporaries stay in the processor's cache


def betting_fixed(
    losses: Array, alpha: float | FloatArray, delta: float, selected: BoolArray | None = None, cap: float = BETTING_CAP
) -> FloatArray:
    """Betting against H on the losses one after the other: min(1, 1 / max_t K_t), valid by Ville's inequality.

    K_t = prod_{i <= t} (1 - nu_i (L_i - alpha)), each stake nu_i computed from the losses before i only.

    Args:
        losses: (rows, n) in [0, 1], one row a setting, in an order fixed beforehand.
        alpha: the limit, in (0, 1), or one for each row, (rows,).
        delta: the level the stakes are tuned for; the p-value is valid at every level.
        selected: (rows, n) or (1, n); a conditional risk bets on the selected examples only, as if the others were absent.
        cap: share of the bankrupting stake 1 / (1 - alpha) that is ever staked; below 1.
    """
    rows, n = losses.shape
    result = np.ones(rows)
    step = max(1, _BLOCK // max(n, 1))
    for start in range(0, rows if n else 0, step):
        block = slice(start, start + step)
        kept = None if selected is None else np.broadcast_to(selected, losses.shape)[block]
        against = np.broadcast_to(alpha, (rows,))[block, None]
        result[block] = np.exp(-_best_log_wealth(losses[block].astype(np.float64), kept, against, delta, cap))
    return result


def _best_log_wealth(x: FloatArray, kept: BoolArray | None, alpha: FloatArray, delta: float, cap: float) -> FloatArray:
    """max(0, max_t log K_t) for each row of x, (rows, n)."""
    if kept is None:
        seen = np.arange(1.0, x.shape[1] + 1)
        n: Array | float = float(x.shape[1])
    else:
        x = np.where(kept, x, 0.0)
        seen = np.cumsum(kept, axis=1, dtype=np.float64)
        n = np.maximum(seen[:, -1:], 1.0)
    mean = (0.5 + np.cumsum(x, axis=1)) / (seen + 1)
    deviation = (x - mean) ** 2
    if kept is not None:
        deviation[~kept] = 0.0
    variance = (0.25 + np.cumsum(deviation, axis=1)) / (seen + 1)
    # the stake on loss i may know losses 1..i-1 only: shift by one, prior variance 1/4 first
    past_variance = np.concatenate([np.full((x.shape[0], 1), 0.25), variance[:, :-1]], axis=1)
    stake = np.minimum(cap / (1 - alpha), np.sqrt(2 * np.log(1 / delta) / (n * past_variance)))
    gain = np.log1p(-stake * (x - alpha))
    if kept is not None:
        gain[~kept] = 0.0
    return np.asarray(np.maximum(np.cumsum(gain, axis=1).max(axis=1), 0.0))
