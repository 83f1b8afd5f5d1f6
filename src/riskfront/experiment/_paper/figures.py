"""Figures of the experiments, one function a kind (repeated trials: trial_figures); each returns a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from riskfront._reporting.matplotlib_plots import PALETTE
from riskfront.experiment._paper.descriptions import Experiment
from riskfront.experiment._paper.optimizers import GRID
from riskfront.experiment._paper.trial_figures import INK, first, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: by what is pruned, in alphabetical order; all that prunes nothing but layers stands out
_CLOUD = ("#E69F00", "#D55E00", "#8C564B", "#CC79A7", "#0072B2", "#000000", "#009E73", "#56B4E9")


def draw_chosen_sets(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """The sets that the first trial chose: both objectives, coloured by the risk."""
    methods = list(dict.fromkeys(results["method"]))
    figure, axes = _panels(title, 1, len(methods), share=True)
    across, upwards = experiment.objectives
    risk = experiment.risks[0]
    top = max(float(np.nanmax([results[risk].max(), 0.0])), first(experiment.alphas[0]))
    drawn: Any = None
    for place, method in zip(axes[0], methods, strict=True):
        rows = results[(results["method"] == method) & (results["trial"] == 0)]
        drawn = place.scatter(1 - rows[upwards], rows[across], c=rows[risk], vmin=0, vmax=top, s=28, cmap="viridis")
        place.set(xlabel="abstention rate", title=method.replace(", ", ",\n"))
        place.title.set_fontsize("small")
    axes[0][0].set(ylabel=across)
    figure.colorbar(drawn, ax=list(axes[0]), label=risk)
    return figure


def draw_optimizers(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """A panel a search: cost against alpha after each number of evaluations, beside the grid."""
    name = experiment.objectives[0]
    searches = [method for method in dict.fromkeys(results["method"]) if method != GRID]
    figure, axes = _panels(title, 1, max(len(searches), 1), share=True)
    means = results.groupby(["method", "evaluations", "alpha"], sort=False)[name].mean().reset_index()
    grid = means[means["method"] == GRID]
    for place, search in zip(axes[0], searches, strict=False):
        rows = means[means["method"] == search]
        place.plot(grid["alpha"], grid[name], color=PALETTE[0], linewidth=3, label=GRID)
        for index, (budget, part) in enumerate(rows.groupby("evaluations")):
            color = PALETTE[1 + index % 6]
            place.plot(part["alpha"], part[name], marker="o", ms=4, color=color, label=f"{budget} evaluations")
        place.set(xlabel="alpha", title=search)
        place.set_yscale(**_logarithmic(means[name]))
        place.set_xticks(grid["alpha"][1:])
    axes[0][0].set(ylabel=name)
    handles = axes[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, fontsize="small", frameon=False)
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


def _panels(title: str, rows: int, columns: int, *, share: bool = False) -> tuple[Figure, Any]:
    figure = new_figure(title, 3.6 * columns + 0.6, 3.4 * rows + 0.6)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
