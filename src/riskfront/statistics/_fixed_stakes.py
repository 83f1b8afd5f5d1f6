"""The betting p-value with stakes that are tuned once, for level delta and n losses.

``betting`` sets its stakes anew after every loss and is sharper; this form stays for comparison.
"""

from __future__ import annotations

import numpy as np

from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray

#: Stakes may reach this share of the stake that a single loss of 1 would turn into bankruptcy.
BETTING_CAP = 0.75

_BLOCK = 1 << 17  # elements of one betting block: its temporaries stay in the processor's cache


def betting_fixed(
    losses: Array,
    alpha: float | FloatArray,
    level: float | FloatArray,
    selected: BoolArray | None = None,
    of: IntArray | None = None,
) -> FloatArray:
    """Betting against H on the losses one after the other: min(1, 1 / max_t K_t), valid by Ville's inequality.

    K_t = prod_{i <= t} (1 - nu_i (L_i - alpha)), each stake nu_i computed from the losses before i only.

    It takes what ``betting`` takes.
    """
    on, n = np.arange(len(losses)) if of is None else of, losses.shape[1]
    result = np.ones(len(on))
    against, levels = (np.broadcast_to(np.asarray(v, dtype=np.float64), on.shape) for v in (alpha, level))
    step = max(1, _BLOCK // max(n, 1))
    for start in range(0, len(on) if n else 0, step):
        block = slice(start, start + step)
        kept = None if selected is None else np.broadcast_to(selected, losses.shape)[on[block]]
        bets = losses[on[block]].astype(np.float64)
        result[block] = np.exp(-_best_log_wealth(bets, kept, against[block, None], levels[block, None]))
    return result


def _best_log_wealth(x: FloatArray, kept: BoolArray | None, alpha: FloatArray, level: FloatArray) -> FloatArray:
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
    stake = np.minimum(BETTING_CAP / (1 - alpha), np.sqrt(2 * np.log(1 / level) / (n * past_variance)))
    gain = np.log1p(-stake * (x - alpha))
    if kept is not None:
        gain[~kept] = 0.0
    return np.asarray(np.maximum(np.cumsum(gain, axis=1).max(axis=1), 0.0))
