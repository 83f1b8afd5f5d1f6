"""A learnt route beside its trivial alternatives, and the thresholds it offers: both from cross-fitted predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray

#: drops from the best model at which rules are compared
DROPS = (0.01, 0.02, 0.05, 0.1)
_LEVELS, _QUANTILES = 250, 20
_FINER = 3  # times as many levels for a router, which has one list, as for each model that a cascade may begin with
#: (models, n) before a call, and by the model asked first after its answer
Guesses = tuple[FloatArray, Mapping[str, FloatArray]]


def net_values(scores: FloatArray, prices: FloatArray, level: float, start: int | None) -> FloatArray:
    """(models, n): predicted score less ``level`` for each unit of predicted price; a model that has answered costs nothing
    more."""
    values = scores - level * prices
    if start is not None:
        values[start] = scores[start]
    return values


def price_levels(
    kind: str, guesses: Guesses, prices: FloatArray, names: Sequence[str], wanted: int | Sequence[float]
) -> dict[str, list[float]]:
    """For each model that may be asked first ("" for none), gains a unit of price, at equal steps of the predicted price."""
    if not isinstance(wanted, int):
        levels = sorted({float(level) for level in wanted})
        return dict.fromkeys(guesses[1] if kind == "cascade" else [""], levels)
    if kind == "router":
        return {"": _spread(guesses[0], prices, None, _FINER * wanted)}
    return {name: _spread(scores, prices, names.index(name), wanted) for name, scores in guesses[1].items()}


def _spread(scores: FloatArray, prices: FloatArray, start: int | None, count: int) -> list[float]:
    levels = _all_levels(scores, prices)
    paid = prices.copy()
    if start is not None:
        paid[start] = 0.0
    each = np.arange(scores.shape[1])
    means = np.array([paid[net_values(scores, prices, level, start).argmax(axis=0), each].mean() for level in levels])
    steps = np.linspace(means.max(), means.min(), count)
    return sorted({float(levels[int(np.abs(means - step).argmin())]) for step in steps})


def _all_levels(scores: FloatArray, prices: FloatArray) -> FloatArray:
    """0 and a wide range around the gain of the best over the cheapest for the difference of their prices.

    Negative levels favour dear models: a cheaper one is then taken only where it is predicted to be better by some margin.
    Tight limits need that, because the largest of several predictions is too high on average.
    """
    spread = max(float(np.ptp(prices.mean(axis=1))), 1e-300)
    unit = max(float(np.ptp(scores.mean(axis=1))), 1e-6) / spread
    positive = np.geomspace(1e-3, 1e3, _LEVELS) * unit
    found = np.array([*-positive[::-1], 0.0, *positive])
    return np.array([float(f"{level:.6g}") for level in found])


def compare(
    kind: str,
    options: Mapping[str, Guesses],
    scores: FloatArray,
    prices: FloatArray,
    guessed_prices: FloatArray,
    names: Sequence[str],
) -> tuple[dict[str, dict[str, float]], str]:
    """Rule -> drop -> the smallest price, relative to the best model, and the learner that needs the lowest.

    The rules are "always" (one model for all), "random" (a coin decides between two), "P(right)" (a threshold on the
    predicted score of the first of two), and the gain a dollar by each learner.
    """
    means, costs = scores.mean(axis=1), prices.mean(axis=1)
    top = max(range(len(means)), key=lambda row: (means[row], -costs[row]))
    best, full = float(means[top]), max(float(costs[top]), 1e-300)

    def prices_of(points: Any) -> dict[str, float]:
        array = np.array(points).reshape(-1, 2)
        drops, relative = best - array[:, 1], array[:, 0] / full
        return {f"{drop:g}": float(np.min(relative[drops <= drop + 1e-12], initial=1.0)) for drop in DROPS}

    found = {"always": prices_of(np.column_stack([costs, means]))}
    found["random"] = prices_of(_coins(costs, means))
    gains: dict[str, dict[str, float]] = {}
    rights: dict[str, dict[str, float]] = {}
    for name, guesses in options.items():
        rights[name] = prices_of(_by_right(kind, guesses, scores, prices, names))
        gains[name] = prices_of(_by_gain(kind, guesses, scores, prices, guessed_prices, names))
    chosen = min(gains, key=lambda name: sum(gains[name].values()))
    found["P(right)"] = min(rights.values(), key=lambda each: sum(each.values()))
    return found | {f"gain a dollar, {name}": each for name, each in gains.items()}, chosen


def _coins(costs: FloatArray, means: FloatArray) -> FloatArray:
    """(points, 2): mean price and score of every share of every pair of models."""
    shares = np.linspace(0, 1, 101)
    mixed = [(1 - shares) * values[:, None, None] + shares * values[None, :, None] for values in (costs, means)]
    return np.stack([values.ravel() for values in mixed], axis=1)


def _by_right(
    kind: str, guesses: Guesses, scores: FloatArray, prices: FloatArray, names: Sequence[str]
) -> list[tuple[float, float]]:
    points = list[tuple[float, float]]()
    firsts = range(len(scores)) if kind == "router" else [names.index(name) for name in guesses[1]]
    for one in firsts:
        sure = guesses[0][one] if kind == "router" else guesses[1][names[one]][one]
        limits = np.quantile(sure, np.arange(1, _QUANTILES + 1) / (_QUANTILES + 1))
        stop = sure >= limits[:, None]
        for two in range(len(scores)):
            if two != one:
                paid = prices[two] if kind == "router" else prices[one] + prices[two]
                cost = np.where(stop, prices[one], paid).mean(axis=1)
                points += list(zip(cost, np.where(stop, scores[one], scores[two]).mean(axis=1), strict=True))
    return points


def _by_gain(
    kind: str,
    guesses: Guesses,
    scores: FloatArray,
    prices: FloatArray,
    guessed_prices: FloatArray,
    names: Sequence[str],
) -> list[tuple[float, float]]:
    points, each = list[tuple[float, float]](), np.arange(scores.shape[1])
    levels = price_levels(kind, guesses, guessed_prices, names, _QUANTILES)
    for name, offered in levels.items():
        start = names.index(name) if name else None
        guessed = guesses[1][name] if name else guesses[0]
        for level in offered:
            at: IntArray = net_values(guessed, guessed_prices, level, start).argmax(axis=0)
            cost = prices[at, each] + (0 if start is None else np.where(at == start, 0.0, prices[start]))
            points.append((float(cost.mean()), float(scores[at, each].mean())))
    return points
