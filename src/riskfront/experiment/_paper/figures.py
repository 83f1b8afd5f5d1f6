"""Figures of the experiments, one function a kind (repeated trials: trial_figures); each returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from riskfront._reporting.matplotlib_plots import PALETTE
from riskfront._reporting.trial_charts import (
    cost_curves_data,
    risk_histogram_data,
    violation_bars_data,
    violins_data,
)
from riskfront._support.arrays import FloatArray
from riskfront.errors import MissingExtraError
from riskfront.experiment._paper.descriptions import Experiment
from riskfront.experiment._paper.optimizers import GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: by what is pruned, in alphabetical order; all that prunes nothing but layers stands out
_CLOUD = ("#E69F00", "#D55E00", "#8C564B", "#CC79A7", "#0072B2", "#000000", "#009E73", "#56B4E9")


def draw_chosen_sets(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """The sets that the first trial chose: both objectives, coloured by the risk."""
    methods = list(dict.fromkeys(results["method"]))
    figure, axes = _panels(title, len(methods))
    across, upwards = experiment.objectives
    risk = experiment.risks[0]
    top = max(float(np.nanmax([results[risk].max(), 0.0])), first(experiment.alphas[0]))
    drawn: Any = None
    for place, method in zip(axes, methods, strict=True):
        rows = results[(results["method"] == method) & (results["trial"] == 0)]
        drawn = place.scatter(1 - rows[upwards], rows[across], c=rows[risk], vmin=0, vmax=top, s=28, cmap="viridis")
        place.set(xlabel="abstention rate", title=method.replace(", ", ",\n"))
        place.title.set_fontsize("small")
    axes[0].set(ylabel=across)
    figure.colorbar(drawn, ax=list(axes), label=risk)
    return figure


def draw_optimizers(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """A panel a search: cost against alpha after each number of evaluations, beside the grid."""
    name = experiment.objectives[0]
    searches = [method for method in dict.fromkeys(results["method"]) if method != GRID]
    figure, axes = _panels(title, max(len(searches), 1))
    means = results.groupby(["method", "evaluations", "alpha"], sort=False)[name].mean().reset_index()
    grid = means[means["method"] == GRID]
    for place, search in zip(axes, searches, strict=False):
        rows = means[means["method"] == search]
        place.plot(grid["alpha"], grid[name], color=PALETTE[0], linewidth=3, label=GRID)
        for index, (budget, part) in enumerate(rows.groupby("evaluations")):
            color = PALETTE[1 + index % 6]
            place.plot(part["alpha"], part[name], marker="o", ms=4, color=color, label=f"{budget} evaluations")
        place.set(xlabel="alpha", title=search)
        place.set_yscale(**_logarithmic(means[name]))
        place.set_xticks(grid["alpha"][1:])
    axes[0].set(ylabel=name)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small", frameon=False
    )
    return figure


def draw_clouds(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """Every setting by cost and accuracy, coloured by what it prunes, with the front."""
    figure = new_figure(title, 8.2, 4.4)
    place = figure.subplots()
    for pruned, color in zip(sorted(set(results["pruned"])), _CLOUD, strict=False):
        rows = results[results["pruned"] == pruned]
        place.scatter(rows["relative cost"], rows["accuracy"], s=9, color=color, alpha=0.7, linewidths=0, label=pruned)
    front = results[results["front"]].sort_values("relative cost")
    place.plot(front["relative cost"], front["accuracy"], color=INK, linewidth=1, drawstyle="steps-post", label="front")
    place.set(xlabel="relative cost", ylabel="accuracy")
    place.set_xscale(**_logarithmic(results["relative cost"]))
    figure.legend(loc="outside right center", fontsize="small", markerscale=2, frameon=False, title="prunes")
    return figure


def _logarithmic(values: pd.Series) -> dict[str, Any]:
    """A logarithmic scale on which a cost of 0, that of an exit before the first layer, has a place too."""
    positive = values[values > 0]
    if positive.empty:
        return {"value": "linear"}
    return {"value": "log"} if len(positive) == len(values) else {"value": "symlog", "linthresh": positive.min()}


def _panels(title: str, columns: int) -> tuple[Figure, Any]:
    figure = new_figure(title, 3.6 * columns + 0.6, 4.0)
    return figure, figure.subplots(1, columns, squeeze=False, sharex=True, sharey=True)[0]


INK = "#1c2127"
_UNGUARDED = {"alpha-constrained": "#000000", "alpha-delta-constrained": "#8a8a8a"}
_OWN = ("#56B4E9", "#7A3E9D", "#A50026", "#6B8E23", "#8C564B", "#17BECF")  # riskfront's rows, and the user's methods
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
_WIDE = 8.0  # a range with such a ratio is drawn on a log scale


def draw_trials(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """Risks, objectives and violations against alpha; below them the risk and the violations at the alpha that is shown."""
    curves = [*experiment.risks, *experiment.objectives, "violated"]
    results = results.assign(alpha=[first(alpha) for alpha in results["alpha"]])
    looks = styles(list(dict.fromkeys(results["method"])))
    columns = max(len(curves), 3)
    figure = new_figure(title, 3.3 * columns, 4.0 + 0.32 * len(looks) + 1.6)
    halves: Any = figure.subfigures(2, 1, height_ratios=(3.6, 1.1 + 0.32 * len(looks)))
    above, below = halves
    places = above.subplots(1, columns, squeeze=False)[0]
    for place, column in zip(places, curves, strict=False):
        _curves(place, results, column, looks, log=column in experiment.objectives)
    _reference(places[0], experiment)
    places[len(curves) - 1].axhline(experiment.delta, color=INK, linestyle="--", linewidth=1)
    places[len(curves) - 1].set(ylabel="trials with a broken limit (share)")
    for place in places[len(curves) :]:
        place.set_axis_off()
    handles = places[0].get_legend_handles_labels()
    above.legend(*handles, loc="outside lower center", ncols=columns, fontsize="small", frameon=False)
    _at_one_alpha(below, experiment, results, looks)
    return figure


def _at_one_alpha(below: Any, experiment: Experiment, results: pd.DataFrame, looks: Mapping[str, Any]) -> None:
    """Histogram, violins and bars with the methods named once, on the left."""
    shown, risk = first(experiment.shown), experiment.risks[0]
    places = below.subplots(1, 3, sharey=True)
    histogram = risk_histogram_data(results, risk, alpha=shown, limit=shown, bins=40)
    violins = violins_data(results, risk, alpha=shown, limit=shown)
    bars = violation_bars_data(results, alpha=shown, delta=experiment.delta)
    for at, name in enumerate(looks):
        color = looks[name]["color"]
        if name in histogram.methods:
            counts = histogram.counts[histogram.methods.index(name)]
            tops = at - 0.8 * counts / max(counts.max(), 1)
            places[0].stairs(tops, histogram.edges, baseline=at, fill=True, color=color, alpha=0.75)
            _violin(places[1], at, violins.values[violins.methods.index(name)], color)
    for at, name in enumerate(bars.methods):
        error = [[max(bars.rate[at] - bars.low[at], 0.0)], [max(bars.high[at] - bars.rate[at], 0.0)]]
        places[2].barh(at, bars.rate[at], xerr=error, height=0.6, color=looks[name]["color"], ecolor=INK, capsize=2)
    for place in places[:2]:
        place.axvline(shown, color=INK, linestyle="--", linewidth=1)
    places[2].axvline(experiment.delta, color=INK, linestyle="--", linewidth=1)
    places[0].set_yticks(range(len(looks)), [_wrapped(name) for name in looks], fontsize="small")
    places[0].set(ylim=(len(looks) - 0.4, -1.0), xlabel=f"{risk}, trials", title=f"alpha = {shown:g}")
    places[1].set(xlabel=risk)
    places[2].set(xlabel="broken limits (dashed: delta)", xlim=(0, None))
    places[0].title.set_fontsize("small")


def _violin(place: Axes, at: int, values: FloatArray, color: str) -> None:
    if len(values) > 1 and np.ptp(values) > 0:
        drawn: Any = place.violinplot(
            values, positions=[at], orientation="horizontal", showmedians=True, widths=0.8, points=40
        )
        drawn["bodies"][0].set(facecolor=color, alpha=0.6)
        for line in ("cmedians", "cbars", "cmins", "cmaxes"):
            drawn[line].set(color=INK, linewidth=0.8)
    else:
        place.plot(values, [at] * len(values), "|", color=INK, markersize=9)


def _curves(place: Axes, results: pd.DataFrame, column: str, looks: Mapping[str, Any], *, log: bool) -> None:
    data = cost_curves_data(results, column)
    for name, mean, error in zip(data.methods, data.mean, data.error, strict=True):
        style = looks[name]
        place.plot(data.alphas, mean, label=name, **style)
        place.fill_between(data.alphas, mean - error, mean + error, color=style["color"], alpha=0.1, linewidth=0)
    place.set(xlabel="alpha", ylabel=column)
    seen = data.mean[np.isfinite(data.mean)]
    if log and seen.size and seen.min() > 0 and seen.max() > _WIDE * seen.min():
        place.set_yscale("log")
        place.set_ylim(seen.min() / 1.3, seen.max() * 1.3)


def _reference(place: Axes, experiment: Experiment) -> None:
    """The limit itself: risks must stay below it."""
    shown = first(experiment.shown)
    low, high = place.get_ylim()
    place.axline((shown, shown), slope=1, color=INK, linestyle=":", linewidth=1)
    place.set_ylim(low, high)


def styles(methods: list[str]) -> dict[str, dict[str, Any]]:
    """Method -> how its line is drawn: methods without a guarantee are black and grey, riskfront's own rows dashed."""
    found: dict[str, dict[str, Any]] = {}
    papers, own = list(PALETTE[:5]), list(_OWN)
    for index, name in enumerate(methods):
        # the first line is a broad one: others that run with it are drawn inside it
        mark = {"marker": _MARKS[index % len(_MARKS)], "markersize": 3.5, "linewidth": 1.4 if index else 3.5}
        if name in _UNGUARDED:
            look = {"color": _UNGUARDED[name], "linestyle": ":"}
        elif "," in name or not papers:
            look = {"color": own[index % len(own)], "linestyle": "--"}
        else:
            look = {"color": papers.pop(0), "linestyle": "-"}
        found[name] = look | mark
    return found


def _wrapped(name: str) -> str:
    """A long name on two lines."""
    return ",\n".join(name.split(", ", 1)) if len(name) > 24 else name


def new_figure(title: str, width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    return figure


def first(alpha: Any) -> float:
    """The number of the first limit, which is the one that varies."""
    return float(alpha[0] if isinstance(alpha, list | tuple) else alpha)
