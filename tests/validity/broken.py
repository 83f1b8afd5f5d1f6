"""Mechanisms of published code that break a guarantee, each as small as it can be written: the left side of the traps."""

from __future__ import annotations

import numpy as np

from riskfront.statistics._procedures import FixedSequence


def goes_on_after_a_failure(p: np.ndarray, delta: float) -> np.ndarray:
    """A fixed sequence that tests every setting, whatever came before."""
    return p <= delta


def two_starts(p: np.ndarray, delta: float) -> np.ndarray:
    """A second starting point, with all of delta once more."""
    half = len(p) // 2
    return np.concatenate([FixedSequence().reject(p[:half], delta), FixedSequence().reject(p[half:], delta)])


def whichever_end_looks_better(p: np.ndarray, delta: float) -> np.ndarray:
    """The direction of the sequence read off the tested data."""
    return FixedSequence().reject(p if p[0] <= p[-1] else p[::-1], delta)


def budget_for_the_smallest(p: np.ndarray, delta: float) -> np.ndarray:
    """The budget of isolated nodes of a graph given to the smallest p-value."""
    return p <= np.where(p == p.min(), delta, delta / len(p))


def budget_that_stays(p: np.ndarray, delta: float) -> np.ndarray:
    """A ring in which a rejected node keeps what it hands on, and hands it on again at every step."""
    weights, rejected = np.full(len(p), 1 / len(p)), np.zeros(len(p), dtype=bool)
    for _ in range(5 * len(p)):
        for i in np.flatnonzero(p <= weights * delta):
            rejected[i] = True
            weights[(i + 1) % len(p)] += weights[i]
    return rejected


def holm_of_nan(p: np.ndarray, delta: float) -> np.ndarray:
    """Holm's procedure by argmin, which finds nan first: it is not below any level, so nothing is ever rejected."""
    left, rejected = np.ones(len(p), dtype=bool), np.zeros(len(p), dtype=bool)
    while left.any():
        at = np.flatnonzero(left)[np.argmin(p[left])]
        if not p[at] <= delta / left.sum():
            break
        rejected[at], left[at] = True, False
    return rejected


def steps_of_a_loop_without_an_exit(p: np.ndarray, budget: np.ndarray, most: int) -> int:
    """While hypotheses are left; nothing happens when none can be rejected."""
    left, steps = list(range(len(p))), 0
    while left and steps < most:
        best = min(left, key=lambda i: p[i] / max(budget[i], 1e-300))
        if p[best] < budget[best]:
            left.remove(best)
        steps += 1
    return steps


def path_that_moves_while_it_compares(
    start: tuple[int, ...], end: tuple[int, ...], p_opt: np.ndarray, step: int = 1, most: int = 50
) -> list[tuple[int, ...]]:
    """A path whose current point is overwritten inside the loop over its neighbours."""
    path, here = [start], list(start)
    while tuple(here) != end and len(path) < most:
        smallest = np.inf
        for axis in range(len(here)):
            if here[axis] + step > end[axis]:
                continue
            ahead = [*here]
            ahead[axis] += step
            if p_opt[tuple(ahead)] < smallest:
                here, smallest = ahead, p_opt[tuple(ahead)]
        path.append(tuple(here))
    return path


def kelly(x: np.ndarray, alpha: float) -> np.ndarray:
    """Betting with approximate Kelly stakes (alpha - mean) / (variance + (alpha - mean)^2), which see their own loss."""
    t = np.arange(1, x.shape[1] + 1)
    mean = (0.5 + np.cumsum(x, axis=1)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2, axis=1)) / (t + 1)
    gap = alpha - mean
    stake = np.clip(gap / (variance + gap**2), 0, 0.75 / (1 - alpha))
    return np.exp(-np.maximum(np.cumsum(np.log1p(-stake * (x - alpha)), axis=1).max(axis=1), 0))


def halves_added_up(x: np.ndarray, alpha: float, delta: float) -> np.ndarray:
    """The usual bet in two halves, to save memory, and the best logarithms of both added up: the best of both times."""
    n = x.shape[1]
    t = np.arange(1, n + 1)
    mean = (0.5 + np.cumsum(x, axis=1)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2, axis=1)) / (t + 1)
    variance = np.hstack([np.full((len(x), 1), 0.25), variance[:, :-1]])
    stake = np.minimum(1, np.sqrt(2 * np.log(1 / delta) / (n * variance)))
    gains = np.log(np.maximum(1 - stake * (x - alpha), 1e-300))
    halves = (gains[:, : n // 2], gains[:, n // 2 :])
    return np.exp(-sum(np.cumsum(half, axis=1).max(axis=1) for half in halves))


def two_sided(x: np.ndarray, alpha: float) -> np.ndarray:
    """Half of the money on fewer losses than alpha, half on more: evidence that the risk is another, also when it is higher."""
    wealth = [np.exp(np.cumsum(np.log1p(stake * (x - alpha)), axis=1)) for stake in (-0.9, 0.9)]
    return 1 / np.maximum(np.add(*wealth) / 2, 1e-300).max(axis=1)
