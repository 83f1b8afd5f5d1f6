"""Pictures with matplotlib. Every ``plot_*`` draws the plain values of its ``*_data`` and returns the axes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._reporting.certificate_charts import (
    CERTIFIED,
    CHOSEN,
    EXPLORED,
    FRONT,
    TESTED,
    Measure,
    TradeOff,
    path_data,
    threshold_data,
    tradeoff_data,
)
from riskfront._reporting.page_charts import default_axes
from riskfront._reporting.trial_charts import (
    Histogram,
    cost_curves_data,
    risk_histogram_data,
    violation_bars_data,
    violins_data,
)
from riskfront._support.values import known
from riskfront.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from riskfront._calibration.sample_planning import SamplePlan

#: Okabe and Ito: told apart by the colour-blind; lines and marks differ in shape too
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_MOST_OUTLINES = 3
_LINES = ("-", "--", "-.", ":")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLES: dict[int, dict[str, Any]] = {
    EXPLORED: {"marker": "o", "s": 10, "color": "#8f959c", "alpha": 0.5, "linewidths": 0},
    FRONT: {"marker": "D", "s": 28, "facecolors": "none", "edgecolors": "#0072B2"},
    TESTED: {"marker": "X", "s": 42, "color": "#D55E00", "linewidths": 0},
    CERTIFIED: {"marker": "^", "s": 38, "color": "#009E73", "linewidths": 0},
    CHOSEN: {"marker": "*", "s": 190, "color": "#E69F00", "edgecolors": "#1c2127", "linewidths": 0.8, "zorder": 5},
}
_DASHED: dict[str, Any] = {"color": "#1c2127", "linestyle": "--", "linewidth": 1}


def plot_tradeoff(
    certificate: Certificate, *, x: str | None = None, y: str | None = None, ax: Axes | None = None
) -> Axes:
    """All settings in two measures: explored, on the front, tested, certified, chosen.

    Args:
        x: name of an objective or a limit; by default the first objective.
        y: the same; by default the first limit.

    Examples:
        >>> import riskfront as rf
        >>> table = rf.LossTable([{"k": 0}, {"k": 1}], {"error": [[0] * 300, [1] * 300], "cost": [[2] * 300, [1] * 300]})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> axes = plot_tradeoff(certificate)  # axes.figure.savefig("tradeoff.png")
        >>> axes.get_xlabel()
        'cost'
    """
    _check_certificate(certificate, "plot_tradeoff")
    data = tradeoff_data(certificate)
    across, upwards = (_measure(data, *asked) for asked in zip((x, y), default_axes(data), strict=True))
    axes = _axes(ax)
    for code, style in _STYLES.items():
        rows = data.status == code
        if rows.any():
            label = f"{data.names[code]} ({data.counts[code]:,})"
            axes.scatter(data.values[rows, across], data.values[rows, upwards], label=label, **style)
    _limit_line(axes.axvline, data.measures[across])
    _limit_line(axes.axhline, data.measures[upwards])
    axes.set(xlabel=data.measures[across].label, ylabel=data.measures[upwards].label)
    shown = f" ({len(data.status):,} of {data.n_settings:,} settings shown)" if data.thinned else ""
    axes.set_title(f"{data.measures[upwards].label} against {data.measures[across].label}{shown}", fontsize="medium")
    axes.legend(fontsize="small")
    return axes


def plot_path(certificate: Certificate, *, ax: Axes | None = None) -> Axes:
    """p-values by step on a log scale, with delta, the share of it each was tested at, and where testing stopped.

    The sequence stops at its first failure. Steps behind it, shaded, are those of the fallback test, which has a share of delta
    of its own for all settings: they may pass although the sequence has stopped.
    """
    certificate = getattr(certificate, "certificate_", certificate)
    _check_certificate(certificate, "plot_path")
    data = path_data(certificate)
    axes = _axes(ax)
    axes.axhline(data.delta, label=f"delta = {data.delta:g}", **_DASHED)
    if data.shares_delta:
        axes.step(
            data.step, np.maximum(data.tested_at, data.floor), where="mid", color="#0072B2", ls=":", label="tested at"
        )
    status = np.where(data.chosen, CHOSEN, np.where(data.passed, CERTIFIED, TESTED))
    tested_by = certificate.path["tested_by"].to_numpy() if "tested_by" in certificate.path else np.array([])
    if (tested_by != "path").any() and (tested_by == "path").any():
        first = int(np.argmax(tested_by != "path")) + 0.5
        axes.axvspan(first, len(tested_by) + 0.5, color="#8f959c", alpha=0.15, label="fallback test of all settings")
    for code, label in ((TESTED, "failed"), (CERTIFIED, "passed"), (CHOSEN, "chosen")):
        rows = status == code
        if rows.any():
            axes.scatter(data.step[rows], np.maximum(data.p_value[rows], data.floor), label=label, **_STYLES[code])
    if data.stopped is not None:
        axes.axvline(data.stopped, color="#D55E00", linestyle=":", label=f"the sequence stopped at step {data.stopped}")
    passed = int((certificate.path["certified"]).sum())
    title = f"{passed:,} of {data.n_steps:,} tested settings passed"
    axes.set(yscale="log", xlabel="step", ylabel="p-value", ylim=(data.floor / 2, 1.5), title=title)
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize="small")
    return axes


def plot_risk_histogram(
    results: pd.DataFrame,
    column: str,
    *,
    alpha: Any = None,
    limit: float | None = None,
    bins: int = 30,
    ax: Axes | None = None,
) -> Axes:
    """Trials by the risk of the setting they chose, for each method, with the limit."""
    data = risk_histogram_data(results, column, alpha=alpha, limit=limit, bins=bins)
    axes = _axes(ax)
    if len(data.methods) <= _MOST_OUTLINES:
        for index, (name, counts) in enumerate(zip(data.methods, data.counts, strict=True)):
            axes.stairs(counts, data.edges, label=name, linewidth=1.8, **_style(index))
        axes.set(ylabel="trials")
    else:
        _one_below_the_other(axes, data)
    if data.limit is not None:
        axes.axvline(data.limit, label=f"limit {data.limit:g}", **_DASHED)
    axes.set(xlabel=data.column, title=f"{data.column} of the chosen setting, over trials")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")
    return axes


def _one_below_the_other(axes: Axes, data: Histogram) -> None:
    """A row for each method, the first at the top: outlines of many methods on one another cannot be told apart."""
    highest = max((float(np.max(counts, initial=0)) for counts in data.counts), default=0.0) or 1.0
    places = np.arange(len(data.methods))[::-1]
    for index, (place, counts) in enumerate(zip(places, data.counts, strict=True)):
        color = PALETTE[index % len(PALETTE)]
        axes.stairs(place + 0.85 * np.asarray(counts) / highest, data.edges, baseline=place, fill=True, color=color)
        axes.axhline(place, color="#8f959c", linewidth=0.6)
    axes.set_yticks(places, data.methods)
    axes.set(ylim=(-0.1, len(places)), ylabel=f"trials, {highest:,.0f} at the highest")


def plot_violins(
    results: pd.DataFrame, column: str, *, alpha: Any = None, limit: float | None = None, ax: Axes | None = None
) -> Axes:
    """The distribution of a risk or objective over trials, for each method."""
    data = violins_data(results, column, alpha=alpha, limit=limit)
    axes = _axes(ax)
    for place, values in enumerate(data.values, start=1):
        if len(values) > 1 and np.ptp(values) > 0:
            drawn: Any = axes.violinplot(values, positions=[place], showmedians=True, widths=0.8)
            drawn["bodies"][0].set_facecolor(PALETTE[(place - 1) % len(PALETTE)])
            for line in ("cmedians", "cbars", "cmins", "cmaxes"):
                drawn[line].set(color="#1c2127", linewidth=1)
        else:
            axes.plot([place] * len(values), values, "_", color="#1c2127", markersize=16)
    if data.limit is not None:
        axes.axhline(data.limit, label=f"limit {data.limit:g}", **_DASHED)
        axes.legend(fontsize="small")
    labels = [
        name if share == 1 else f"{name}\n({100 * share:.0f} % gave a setting)"
        for name, share in zip(data.methods, data.certified, strict=True)
    ]
    _name_places(axes, labels, start=1)
    axes.set(ylabel=data.column, title=f"{data.column} of the chosen setting, over trials")
    return axes


def plot_violations(
    results: pd.DataFrame,
    *,
    alpha: Any = None,
    delta: float | None = None,
    column: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """How often each method broke a limit, with 95 % intervals and delta."""
    data = violation_bars_data(results, alpha=alpha, delta=delta, column=column)
    axes = _axes(ax)
    places = np.arange(len(data.methods))
    spread = np.maximum(np.stack([data.rate - data.low, data.high - data.rate]), 0.0)
    broken = data.low > (1.0 if data.delta is None else data.delta)  # more than the noise of so many trials
    bars: Any = axes.bar(places, data.rate, yerr=spread, color=np.where(broken, "#D55E00", "#0072B2"), capsize=4)
    for bar, above in zip(bars, broken, strict=True):
        bar.set_hatch("//" if above else "")
    if data.delta is not None:
        axes.axhline(data.delta, label=f"delta = {data.delta:g}", **_DASHED)
        axes.legend(fontsize="small")
    _name_places(axes, list(data.methods))
    axes.set(ylabel=data.says, ylim=(0, None), title="How often a limit was broken")
    return axes


def plot_cost_curves(results: pd.DataFrame, column: str, *, ax: Axes | None = None) -> Axes:
    """The mean of a free objective against alpha, for each method, with 95 % bands."""
    data = cost_curves_data(results, column)
    axes = _axes(ax)
    numeric = all(isinstance(alpha, int | float) for alpha in data.alphas)
    places = np.array(data.alphas) if numeric else np.arange(len(data.alphas))
    for index, name in enumerate(data.methods):
        style, mean, error = _style(index), data.mean[index], data.error[index]
        axes.plot(places, mean, marker=_SHAPES[index % len(_SHAPES)], markersize=5, label=name, **style)
        axes.fill_between(places, mean - error, mean + error, color=style["color"], alpha=0.15, linewidth=0)
    if not numeric:
        _name_places(axes, [str(alpha) for alpha in data.alphas])
    axes.set(xlabel="alpha", ylabel=data.column, title=f"Mean {data.column} of the chosen setting")
    axes.legend(fontsize="small")
    return axes


def plot_sample_plan(plan: SamplePlan, *, ax: Axes | None = None) -> Axes:
    """The chance of a certificate against the number of examples, with what was asked for.

    The curve is ``plan.curve``, the chance with so many examples or more. It crosses what was asked for at the plan's number.

    Examples:
        >>> import riskfront as rf
        >>> axes = plot_sample_plan(rf.plan_sample("error <= 0.05", 0.03))  # axes.figure.savefig("plan.png")
    """
    axes = _axes(ax)
    curve = plan.curve.sort_values("examples")
    sizes = np.linspace(curve["examples"].min(), curve["examples"].max(), 300)
    axes.plot(sizes, PchipInterpolator(curve["examples"], curve["chance"])(sizes), **_style(0))
    axes.axhline(plan.chance, label=f"wanted: {plan.chance:g}", **_DASHED)
    if plan.examples is not None:
        axes.axvline(plan.examples, color="#009E73", linestyle=":", label=f"{plan.examples:,} examples")
    axes.legend(fontsize="small")
    axes.set(xlabel="examples, planning and testing", ylabel="chance of a certificate", ylim=(0, 1.02))
    axes.set_title("Examples needed")
    return axes


def plot_threshold(certificate: Certificate, *, ax: Axes | None = None) -> Axes:
    """Limits and objectives against one threshold, with the limits, the certified range and the setting in use.

    Args:
        certificate: of settings that differ in one number, such as a threshold; or a fitted estimator with one.

    Examples:
        >>> import riskfront as rf
        >>> settings = [{"threshold": 0.2}, {"threshold": 0.8}]
        >>> losses = {"error": [[0] * 300, [1] * 300], "cost": [[2] * 300, [1] * 300]}
        >>> certificate = rf.calibrate(rf.LossTable(settings, losses), rf.Problem("error <= 0.1", minimize="cost"))
        >>> plot_threshold(certificate).get_xlabel()
        'threshold'
    """
    certificate = getattr(certificate, "certificate_", certificate)
    _check_certificate(certificate, "plot_threshold")
    data = threshold_data(certificate)
    axes = _axes(ax)
    for index, (name, values, limit) in enumerate(zip(data.names, data.values, data.limits, strict=True)):
        style = _style(index)
        axes.plot(data.threshold, values, label=name, **style)
        if limit is not None:
            axes.axhline(limit, color=style["color"], linestyle=":", linewidth=1, label=f"limit {limit:g}")
    if data.certified is not None:
        axes.axvspan(*data.certified, color="#009E73", alpha=0.12, label="certified")
    if data.chosen is not None:
        axes.axvline(data.chosen, label=f"in use: {data.chosen:g}", **_DASHED)
    axes.set(xlabel=data.setting, ylabel="measured on the testing examples", title=textwrap.fill(data.title, 64))
    axes.legend(fontsize="small")
    return axes


def _check_certificate(given: Any, name: str) -> None:
    if not isinstance(given, Certificate):
        raise InvalidInputError(
            f"{name} draws a certificate, as calibrate returns it; got {type(given).__name__}. An estimator has one in "
            "certificate_."
        )


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None
    return plt.subplots(figsize=(6.6, 4.2), layout="constrained")[1]


def _measure(data: TradeOff, name: str | None, default: int) -> int:
    names = [measure.name for measure in data.measures]
    return default if name is None else names.index(known(name, names, "objective or limit"))


def _limit_line(draw: Any, measure: Measure) -> None:
    if measure.limit is not None:
        draw(measure.limit, **_DASHED)


def _style(index: int) -> dict[str, Any]:
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": _LINES[index % len(_LINES)]}


def _name_places(axes: Axes, names: list[str], start: int = 0) -> None:
    turned = sum(map(len, names)) > 60
    axes.set_xticks(
        range(start, start + len(names)), names, rotation=30 if turned else 0, ha="right" if turned else "center"
    )
