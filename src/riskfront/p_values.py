"""p-values for H: E[L] > alpha, from n i.i.d. losses L in [0, 1].

Each function here is valid for any distribution and any n: P(p <= u) <= u under H, for all u.

The functions of the sum take ``total`` (the sum of the losses; an integer count for 0/1 losses), ``n`` and ``alpha``,
which broadcast against each other. They take the sum and not the mean because ``ceil(n * (k / n))`` is not always k.
``betting`` takes the losses themselves, in an order fixed before they were seen.

All are 1 when n = 0: no evidence, no rejection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront.arrays import Array, BoolArray, FloatArray

SumPValue = Callable[[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], FloatArray]

#: Stakes may reach this share of the stake that a single loss of 1 would turn into bankruptcy.
BETTING_CAP = 0.75
_BLOCK = 1 << 17  # elements of one betting block: its temporaries stay in the processor's cache
_LARGEST_LOOK_UP = 1 << 16  # beyond this many examples a look-up table costs more than it saves


def hoeffding(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Hoeffding's inequality in its tight (Chernoff, relative entropy) form: exp(-n h(min(R, alpha), alpha))."""
    total, n, alpha = _as_floats(total, n, alpha)
    mean = np.minimum(total / np.maximum(n, 1.0), alpha)
    special = _special()
    # xlogy is 0 at 0, so a perfect record gives (1 - alpha)^n and not nan
    divergence = special.xlogy(mean, mean / alpha) + special.xlogy(1 - mean, (1 - mean) / (1 - alpha))
    return np.exp(-n * np.maximum(divergence, 0.0))


def hoeffding_simple(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Hoeffding's inequality in its simple form (the paper's Algorithm "Learn then Test"): exp(-2 n (alpha - R)_+^2)."""
    total, n, alpha = _as_floats(total, n, alpha)
    return np.asarray(np.exp(-2 * n * np.maximum(alpha - total / np.maximum(n, 1.0), 0.0) ** 2))


def bentkus(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Bentkus' inequality: e P(Bin(n, alpha) <= ceil(total)), at most 1."""
    return np.asarray(np.minimum(np.e * binomial(np.ceil(total), n, alpha), 1.0))


def hoeffding_bentkus(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """The smaller of the two, as in the paper: valid because both bound the same tail of the same mean."""
    return np.asarray(np.minimum(hoeffding(total, n, alpha), bentkus(total, n, alpha)))


def binomial(total: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """The exact tail for 0/1 losses: P(Bin(n, alpha) <= total)."""
    total, n, alpha = _as_floats(total, n, alpha)
    inside = (total >= 0) & (total < n)
    # P(Bin(n, a) <= k) is the upper incomplete beta function at (k + 1, n - k); the complement form keeps small tails exact
    tail = _special().betaincc(np.where(inside, total, 0.0) + 1.0, np.where(inside, n - total, 1.0), alpha)
    return np.where(inside, tail, np.where(total < 0, 0.0, 1.0))


def betting(
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


#: The p-values that need only the sum of the losses, by name.
OF_SUMS: dict[str, SumPValue] = {
    "hoeffding": hoeffding,
    "hoeffding-simple": hoeffding_simple,
    "bentkus": bentkus,
    "hoeffding-bentkus": hoeffding_bentkus,
    "binomial": binomial,
}
#: Every name that a limit may ask for.
NAMES = ("auto", *OF_SUMS, "betting")


def of_sums(name: str, total: Array, n: Array, alpha: float) -> FloatArray:
    """``OF_SUMS[name]``, by look-up when integer counts share one sample size."""
    if total.dtype.kind in "iu" and total.size:
        largest = int(n.max())
        if largest <= _LARGEST_LOOK_UP and largest == int(n.min()):
            return _look_up(_look_up_table(name, largest, alpha), name, total, largest, alpha)
    return OF_SUMS[name](total, n, alpha)


def _look_up(table: FloatArray, name: str, total: Array, n: int, alpha: float) -> FloatArray:
    """The entries of a table that is filled where it is first needed."""
    found = table[total]
    unknown = np.isnan(found)
    if unknown.any():
        counts = np.unique(total[unknown])
        table[counts] = OF_SUMS[name](counts, n, alpha)
        found = table[total]
    return found


@lru_cache(maxsize=128)
def _look_up_table(name: str, n: int, alpha: float) -> FloatArray:
    """(n + 1,): one p-value for each count, nan until it is needed."""
    return np.full(n + 1, np.nan)


def binomial_upper_bound(total: npt.ArrayLike, n: npt.ArrayLike, level: npt.ArrayLike) -> FloatArray:
    """The smallest alpha that ``binomial`` rejects at ``level`` (Clopper and Pearson's one-sided bound); 1 if none."""
    total, n, level = _as_floats(total, n, level)
    inside = total < n
    # the complement form again: 1 - level would be 1 at the tiny levels far out on a graph
    bound = _special().betainccinv(np.where(inside, total, 0.0) + 1.0, np.where(inside, n - total, 1.0), level)
    return np.where(inside, bound, 1.0)


def smallest_rejected(
    p_value: Callable[[FloatArray], FloatArray], low: FloatArray, level: FloatArray, steps: int = 50
) -> FloatArray:
    """The smallest alpha above ``low`` with p_value(alpha) <= level, by bisection from above; 1 where there is none.

    Every p-value of this module falls as alpha grows, so the answer inverts the test into an upper confidence bound.
    """
    low = np.clip(low, 0.0, 1.0 - 1e-9)
    high = np.full(low.shape, 1.0 - 1e-12)
    possible = p_value(high) <= level
    for _ in range(steps):
        middle = (low + high) / 2
        rejected = p_value(middle) <= level
        high, low = np.where(rejected, middle, high), np.where(rejected, low, middle)
    return np.where(possible, high, 1.0)


def smallest_sample(p_value: Callable[[int], float], level: float, largest: int = 10**9) -> int | None:
    """The smallest n with p_value(n) <= level for a p-value that falls with n; None beyond ``largest``."""
    high = 1
    while p_value(high) > level:
        high *= 2
        if high > largest:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if p_value(middle) <= level else (middle, high)
    return high


def _as_floats(*values: npt.ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _special() -> Any:
    """scipy.special, loaded with the first p-value: importing it takes as long as importing all the rest of riskfront."""
    import scipy.special

    return scipy.special
