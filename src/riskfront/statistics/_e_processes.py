"""E-processes: wealth won by betting against H: E[x] > alpha, taken further as losses come, and valid at every moment.

The stakes are those of ``betting``: set anew after every loss by the wealth that is still missing to 1 / level. Each stake
knows losses before its own and nothing else, so under H the chance that the wealth ever reaches 1 / level is at most level
(Ville's inequality). One may look after every loss, and stop whenever one likes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.statistics._betting import CAP

_FEW = 16  # bets that are taken one by one
_CAUTION = 0.4  # of the stake at which wealth grows fastest: two thirds as fast, and safe where planning was lucky


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of losses before the first of them is seen, as if ``count`` had been seen before. (bets,) each."""

    mean: FloatArray
    spread: FloatArray
    count: FloatArray


def stake_on_next(
    alpha: float, missing: float, squares: float, t: int, horizon: float, growth: float | None = None
) -> float:
    """The stake of one bet on its next loss, from what is missing to ln(1 / level) and from the losses so far.

    Args:
        growth: the stake at which wealth is expected to grow fastest, where something is expected.
    """
    known = max(t, 0.5)  # before the first loss the spread is the widest there is
    spread = min(squares / known + (1 - alpha) * horizon / known**2, (1 - alpha) * alpha)
    aimed = math.sqrt(2 * max(missing, 0.0) / (max(horizon - t, 1.0) * spread))
    return min(CAP / (1 - alpha), aimed if growth is None else max(aimed, growth))


def _growth(alpha: Any, mean: Any, spread: Any, count: Any, squares: Any, total: Any, t: Any) -> Any:
    """.4 g / (q + g (1 - 2 a)), not below 0, with what was expected and what was seen so far."""
    known = count + t
    gain = alpha - (count * mean + total) / known
    square = (count * (spread + (alpha - mean) ** 2) + squares) / known
    gain = (gain + abs(gain)) / 2
    return _CAUTION * gain / (square + gain * (1 - 2 * alpha + abs(1 - 2 * alpha)) / 2)


class EProcesses:
    """Bets side by side, each on losses of its own.

    With a = alpha, m = 1 - a, Q_t = sum (x_i - a)^2 over the t losses so far, S_t = min(Q_t / t + m n / t^2, m a), S_0 = m a:

        stake_{t+1} = min(.999 / m, sqrt(2 (ln(1/level) - ln W_t) / (r_t S_t))),   W_{t+1} = W_t (1 + stake_{t+1} (a - x_{t+1}))

    where r_t = n - t losses may still come. Once a target is reached, the next is the square of the wealth then. Where
    something is ``expected`` of the losses, a bet that should be won sooner stakes more: at least .4 g / (q + g (1 - 2 a)_+),
    with the expected gain g = E[a - x] and q = E[(a - x)^2], both learnt further from the losses so far. Without the .4 it is
    the stake at which wealth grows fastest, exactly for 0/1 losses and nearly for others.

    Args:
        alpha: (bets,) the limits, in (0, 1).
        horizon: (bets,) n, how many losses may come; more may come all the same.
        expected: from planning examples, say; never from the losses that are bet on.
    """

    def __init__(
        self, alpha: npt.ArrayLike, level: float, horizon: npt.ArrayLike, expected: Expected | None = None
    ) -> None:
        self.alpha: FloatArray = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        self.level = float(level)
        self.horizon = np.broadcast_to(np.maximum(np.asarray(horizon, dtype=np.float64), 1.0), self.alpha.shape)
        self._expected = expected
        shape = self.alpha.shape
        self.log_wealth, self.best = np.zeros(shape), np.zeros(shape)  # ln W_t, and its largest value so far
        self.squares, self.total = np.zeros(shape), np.zeros(shape)
        self.seen: IntArray = np.zeros(shape, dtype=np.int64)
        self._target = np.full(shape, -np.log(self.level))

    def add(self, losses: Array, kept: BoolArray | None = None) -> None:
        """Bet on (bets, n) losses in [0, 1], one after the other; ``kept``, (bets, n), says which of them count."""
        values = losses.astype(np.float64, copy=False)
        if len(self.alpha) <= _FEW:
            for bet in range(len(self.alpha)):
                own = values[bet] if kept is None else values[bet][kept[bet]]
                self._add_to_one(bet, own.tolist())
            return
        for column in range(values.shape[1]):
            stake = self.next_stake()
            self._settle(stake, values[:, column], None if kept is None else kept[:, column])

    def _add_to_one(self, bet: int, losses: list[float]) -> None:
        """The same for one bet, in plain numbers: for few bets that is ten times as fast."""
        a, n, target = float(self.alpha[bet]), float(self.horizon[bet]), float(self._target[bet])
        wealth, best, squares = float(self.log_wealth[bet]), float(self.best[bet]), float(self.squares[bet])
        total, t, growth = float(self.total[bet]), int(self.seen[bet]), None
        known = self._expected
        prior = None if known is None else (float(known.mean[bet]), float(known.spread[bet]), float(known.count[bet]))
        for x in losses:
            if prior is not None:
                growth = _growth(a, *prior, squares, total, t)
            stake = stake_on_next(a, target - wealth, squares, t, n, growth)
            gain = a - x
            wealth += math.log1p(stake * gain)
            squares += gain * gain
            total += x
            t += 1
            best = max(best, wealth)
            if best >= target:
                target = 2 * best
        self.log_wealth[bet], self.best[bet], self.squares[bet], self._target[bet] = wealth, best, squares, target
        self.total[bet], self.seen[bet] = total, t

    def next_stake(self) -> FloatArray:
        """(bets,): what is staked on the next loss. It knows the losses so far."""
        a, t = self.alpha, self.seen
        known = np.maximum(t, 0.5)  # before the first loss the spread is the widest there is
        spread = np.minimum(self.squares / known + (1 - a) * self.horizon / known**2, (1 - a) * a)
        missing = np.maximum(self._target - self.log_wealth, 0.0)
        aimed = np.sqrt(2 * missing / (np.maximum(self.horizon - t, 1.0) * spread))
        if self._expected is not None:
            prior = self._expected.mean, self._expected.spread, self._expected.count
            aimed = np.maximum(aimed, _growth(a, *prior, self.squares, self.total, t))
        return np.minimum(CAP / (1 - a), aimed)

    def _settle(self, stake: FloatArray, x: FloatArray, counts: BoolArray | None) -> None:
        """The losses become known, and the stakes can no longer change."""
        gain = self.alpha - x
        if counts is not None:
            gain = np.where(counts, gain, 0.0)
            x = np.where(counts, x, 0.0)
        self.log_wealth = self.log_wealth + np.log1p(stake * gain)
        self.squares = self.squares + gain * gain
        self.total = self.total + x
        self.seen = self.seen + (1 if counts is None else counts)
        self.best = np.maximum(self.best, self.log_wealth)
        self._target = np.where(self.best >= self._target, 2 * self.best, self._target)

    @property
    def p_values(self) -> FloatArray:
        """(bets,): 1 / max_t W_t, at most 1; a valid p-value at every moment."""
        return np.exp(-self.best)

    def hopeless(self, z: float) -> BoolArray:
        """(bets,): whether what is missing is more than the losses that may still come will bring.

        The mean of the remaining losses would have to lie ``z`` standard errors below what was seen. It decides what is worth
        paying for; the guarantee does not rest on it.
        """
        left = np.maximum(self.horizon - self.seen, 0.0)
        missing = np.maximum(-np.log(self.level) - self.log_wealth, 0.0)
        won = self.best >= -np.log(self.level)
        mean, spread, known = self._so_far()
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.sqrt(2 * np.minimum(missing, 50.0) * spread / left)
        error = np.sqrt(spread / known + spread / np.maximum(left, 1.0))
        return ~won & ((left <= 0) | (needed - (self.alpha - mean) > z * error))

    def _so_far(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(bets,) each: mean and variance of a loss, from what was expected and seen, and how many losses they rest on."""
        a, seen = self.alpha, np.maximum(self.seen, 1)
        least = 0.1 * a * (1 - a) / seen
        if self._expected is None:
            return (
                (self.total + 0.5 * a) / (self.seen + 0.5),
                np.maximum(self.squares / seen, least),
                seen.astype(float),
            )
        prior = self._expected
        known = prior.count + self.seen
        mean = (prior.count * prior.mean + self.total) / known
        squares = prior.count * (prior.spread + (a - prior.mean) ** 2) + self.squares
        return mean, np.maximum(squares / known - (a - mean) ** 2, least), known
