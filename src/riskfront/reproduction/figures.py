"""Figures of the experiments, one function a kind; each returns a matplotlib figure of the plain results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from riskfront.errors import MissingExtraError
from riskfront.reporting.plots import (
    PALETTE,
    plot_cost_curves,
    plot_risk_histogram,
    plot_violations,
    plot_violins,
)
from riskfront.reproduction.descriptions import Experiment
from riskfront.reproduction.optimizers import GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_trials(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """Risks, objectives and violations against alpha; at one alpha histogram, violins and bars."""
    curves = [*experiment.risks, *experiment.objectives, "violated"]
    figure, axes = _panels(title, 2, max(len(curves), 3))
    results = results.assign(alpha=[_first(alpha) for alpha in results["alpha"]])
    shown = _first(experiment.shown)
    for place, column in zip(axes[0], curves, strict=False):
        plot_cost_curves(results, column, ax=place)
        _without_legend(place)
    for place in axes[0][len(curves) :]:
        place.set_axis_off()
    axes[0][0].axline((shown, shown), slope=1, color="#1c2127", linestyle=":", linewidth=1)
    axes[0][len(curves) - 1].axhline(experiment.delta, color="#1c2127", linestyle="--", linewidth=1)
    axes[0][len(curves) - 1].set(ylabel="share of trials whose setting breaks a limit")
    risk = experiment.risks[0]
    plot_risk_histogram(results, risk, alpha=shown, limit=shown, ax=axes[1][0])
    plot_violins(results, risk, alpha=shown, limit=shown, ax=axes[1][1])
    plot_violations(results, alpha=shown, delta=experiment.delta, ax=axes[1][2])
    for place in axes[1]:
        _without_legend(place)
    for place in axes[1][1:3]:
        place.tick_params(axis="x", labelrotation=60, labelsize="x-small")
    for place in axes[1][3:]:
        place.set_axis_off()
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return figure


def draw_chosen_sets(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """The sets that the first trial chose: both objectives, coloured by the risk."""
    methods = list(dict.fromkeys(results["method"]))
    figure, axes = _panels(title, 1, len(methods), share=True)
    across, upwards = experiment.objectives
    risk = experiment.risks[0]
    top = float(np.nanmax([results[risk].max(), 1e-9]))
    drawn: Any = None
    for place, method in zip(axes[0], methods, strict=True):
        rows = results[(results["method"] == method) & (results["trial"] == 0)]
        drawn = place.scatter(1 - rows[upwards], rows[across], c=rows[risk], vmin=0, vmax=top, s=28, cmap="viridis")
        place.set(xlabel="abstention rate", ylabel=across, title=method)
        place.title.set_fontsize("small")
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
        for index, (budget, part) in enumerate(rows.groupby("evaluations")):
            place.plot(part["alpha"], part[name], marker="o", ms=4, color=PALETTE[1 + index % 6], label=f"{budget}")
        place.plot(grid["alpha"], grid[name], color=PALETTE[0], linewidth=2, label=GRID)
        place.set(xlabel="alpha", ylabel=name, title=search)
        place.legend(fontsize="small")
    return figure


def draw_clouds(experiment: Experiment, title: str, results: pd.DataFrame) -> Figure:
    """Every setting by cost and accuracy, coloured by what it prunes, with the front."""
    figure, axes = _panels(title, 1, 1)
    place = axes[0][0]
    for index, (pruned, rows) in enumerate(results.groupby("pruned", sort=True)):
        color = PALETTE[index % len(PALETTE)]
        place.scatter(rows["relative cost"], rows["accuracy"], s=8, color=color, alpha=0.6, linewidths=0, label=pruned)
    front = results[results["front"]].sort_values("relative cost")
    place.plot(front["relative cost"], front["accuracy"], color="#1c2127", linewidth=1, label="front")
    place.set(xlabel="relative cost", ylabel="accuracy")
    place.legend(fontsize="small", markerscale=2)
    return figure


def _panels(title: str, rows: int, columns: int, *, share: bool = False) -> tuple[Figure, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None
    figure = Figure(figsize=(4.2 * columns, 3.6 * rows + 0.8), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)


def _first(alpha: Any) -> float:
    """The number of the first limit, which is the one that varies."""
    return float(alpha[0] if isinstance(alpha, list | tuple) else alpha)


def _without_legend(place: Axes) -> None:
    legend = place.get_legend()
    if legend is not None:
        legend.remove()
