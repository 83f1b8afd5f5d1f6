"""What the pictures of repeated trials show, as plain values. They read the data frame of ``riskfront.experiment.run``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError
from riskfront.statistics._bounds import HELD_OUT_LEVEL, Z_95, wilson

_COUNTED = {
    "violated": "share of trials whose setting breaks a limit",
    "any_violated": "share of trials that certify a setting that breaks a limit",
    "held_out_above": "share of trials whose setting measures above a limit\non held-out examples (their noise included)",
    "held_out_shown": "share of trials whose setting is shown to break a limit\nby held-out examples",
}


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """edges: (bins + 1,). counts: (methods, bins), trials by the risk of the setting they chose. limit: a line to draw."""

    column: str
    methods: tuple[str, ...]
    edges: FloatArray
    counts: Array
    limit: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Violins:
    """values: one array a method, over the trials that certified something. certified: (methods,), the share of those."""

    column: str
    methods: tuple[str, ...]
    values: tuple[FloatArray, ...]
    certified: FloatArray
    limit: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ViolationBars:
    """rate: (methods,), the share of trials; low, high: its 95 % interval (Wilson). says: what was counted, in words."""

    methods: tuple[str, ...]
    rate: FloatArray
    low: FloatArray
    high: FloatArray
    delta: float | None
    says: str


@dataclass(frozen=True, slots=True, eq=False)
class CostCurves:
    """mean: (methods, alphas), over the trials that certified something, nan where none did. error: 95 % half width of it.
    certified: (methods, alphas), the share of those trials."""

    column: str
    methods: tuple[str, ...]
    alphas: tuple[Any, ...]
    mean: FloatArray
    error: FloatArray
    certified: FloatArray


def risk_histogram_data(
    results: pd.DataFrame, column: str, *, alpha: Any = None, limit: float | None = None, bins: int = 30
) -> Histogram:
    """Trials by the value of ``column`` at the setting they chose; the bins are shared by all methods."""
    parts = _by_method(_at(results, alpha), column)
    found = np.concatenate([*parts.values(), np.array([] if limit is None else [limit])])
    edges = np.histogram_bin_edges(found, bins=bins) if found.size else np.linspace(0.0, 1.0, bins + 1)
    counts = np.stack([np.histogram(values, bins=edges)[0] for values in parts.values()])
    return Histogram(column, tuple(parts), edges, counts, limit)


def violins_data(results: pd.DataFrame, column: str, *, alpha: Any = None, limit: float | None = None) -> Violins:
    """The distribution of ``column`` over trials, for each method."""
    rows = _at(results, alpha)
    parts = _by_method(rows, column)
    sizes = rows.groupby(_labels(rows), sort=False).size()
    certified = np.array([len(values) / sizes[name] for name, values in parts.items()])
    return Violins(column, tuple(parts), tuple(parts.values()), certified, limit)


def violation_bars_data(
    results: pd.DataFrame, *, alpha: Any = None, delta: float | None = None, column: str | None = None
) -> ViolationBars:
    """How often each method broke a limit: "violated" by default, or "any_violated".

    Trials that were judged by held-out examples do not know that. For them it is how often the chosen setting measured
    above a limit there, "held_out_above"; delta, which says nothing about that, is left out.
    """
    if column is None:
        column = "violated" if "violated" in results or "held_out_above" not in results else "held_out_above"
    parts = _by_method(_at(results, alpha), column)
    rate = np.array([values.mean() for values in parts.values()])
    n = np.array([len(values) for values in parts.values()])
    low, high = wilson(rate, n)
    bound = None if column == "held_out_above" else delta
    return ViolationBars(tuple(parts), rate, low, high, bound, _COUNTED.get(column, column))


def cost_curves_data(results: pd.DataFrame, column: str) -> CostCurves:
    """The mean of ``column`` against alpha, for each method."""
    keys = [_key(alpha) for alpha in results["alpha"]]
    alphas = list(dict.fromkeys(keys))
    if all(isinstance(alpha, int | float) for alpha in alphas):
        alphas.sort()
    methods = tuple(dict.fromkeys(_labels(results)))
    mean, error, certified = (np.full((len(methods), len(alphas)), np.nan) for _ in range(3))
    for at, alpha in enumerate(alphas):
        rows = results[[key == alpha for key in keys]]
        sizes = rows.groupby(_labels(rows), sort=False).size()
        for name, values in _by_method(rows, column).items():
            row = methods.index(name)
            certified[row, at] = len(values) / sizes[name]
            if len(values):
                mean[row, at] = values.mean()
                error[row, at] = Z_95 * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return CostCurves(column, methods, tuple(alphas), mean, error, certified)


def _at(results: pd.DataFrame, alpha: Any) -> pd.DataFrame:
    """The rows of one alpha; it need not be named when there is one only."""
    keys = [_key(value) for value in results["alpha"]]
    known = list(dict.fromkeys(keys))
    if alpha is None:
        if len(known) > 1:
            raise InvalidInputError(f"alpha must name one of {known}: the results hold several; got none.")
        return results
    if _key(alpha) not in known:
        raise InvalidInputError(f"alpha must be one of {known}; got {alpha!r}.")
    return results[[key == _key(alpha) for key in keys]]


def _key(alpha: Any) -> Any:
    if alpha is None or alpha != alpha:
        return None
    return tuple(map(plain, alpha)) if isinstance(alpha, list | tuple) else plain(alpha)


def _labels(results: pd.DataFrame) -> pd.Series:
    """The name of the method, with the p-value where there are several."""
    if results["p_value"].nunique() <= 1:
        return results["method"]
    return results["method"] + " (" + results["p_value"] + ")"


def _by_method(results: pd.DataFrame, column: str) -> dict[str, FloatArray]:
    """Method -> the values of a column that are there, in the order of the results."""
    known(column, list(results.columns), "column")
    if results.empty:
        raise InvalidInputError("results must hold at least one trial; got none.")
    labels = _labels(results)
    values = results[column].to_numpy(dtype=float)
    parts = {str(name): values[(labels == name).to_numpy()] for name in dict.fromkeys(labels)}
    return {name: part[~np.isnan(part)] for name, part in parts.items()}


_HEADERS = {
    "certified_something": "found",
    "interval": "95 % interval",
    "held_out_above": "above on held-out",
    "held_out_shown": "shown to violate",
}


def trial_table(summary: pd.DataFrame, problem: Problem) -> tuple[str, pd.DataFrame]:
    """A title and the columns worth showing of what ``experiment.summarize`` returned."""
    trials = int(summary["trials"].iloc[0])
    frame = summary
    if "violated" in summary:
        title = f"Means over {trials} draws of calibration examples; the truth is the whole table"
        ends = zip(summary["violated_low"], summary["violated_high"], strict=True)
        frame = summary.assign(interval=[f"{low:.2g} to {high:.2g}" for low, high in ends])
        verdicts = ["violated", "interval"]
    else:
        title = f"Means over {trials} random splits, measured on held-out examples"
        verdicts = ["held_out_above", "held_out_shown"]
    columns = [*problem.limit_names, *(objective.name for objective in problem.objectives), *verdicts]
    names = list(dict.fromkeys(["method", "p_value", "alpha", *columns, "certified_something"]))
    return title, frame[names].dropna(axis=1, how="all").rename(columns=_HEADERS)


def trial_words(summary: pd.DataFrame, problem: Problem) -> str:
    """What the columns mean, in a line each."""
    found = "found: share of trials that certified a setting (or picked one, without a guarantee); means are over those alone."
    if "violated" in summary:
        violated = (
            "violated: share of all trials whose setting truly breaks a limit: calibration examples are drawn with "
            f"replacement, so the means of the whole table are the true risks. {problem.delta:g} is allowed."
        )
        return f"{found}\n{violated}"
    above = (
        "above on held-out: share of all trials whose setting measures above a limit on the held-out examples. Their "
        f"noise alone puts settings there that keep their limits: do not compare it with {problem.delta:g}."
    )
    shown = (
        "shown to violate: share of all trials in which held-out examples show, by a test at level "
        f"{HELD_OUT_LEVEL:g}, that the setting breaks a limit; for a method that keeps its word, at most "
        f"{problem.delta:g} + {HELD_OUT_LEVEL:g}."
    )
    return f"{found}\n{above}\n{shown}"
