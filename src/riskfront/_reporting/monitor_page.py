"""One self-contained HTML page about a monitor: the evidence over time, where the change is, and the risk since then."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskfront._calibration.certificates.verdict import listed
from riskfront._calibration.monitoring import words
from riskfront._calibration.monitoring.detector import ratio
from riskfront._calibration.monitoring.monitor import Monitor, Watch
from riskfront._reporting import chart_views
from riskfront._reporting.page import _environment, _json, _library, _picture
from riskfront._reporting.page_charts import Spec, _axis, _chart, _line, _linear, _rule, _words
from riskfront._reporting.sentences import number
from riskfront._support.files import write_text
from riskfront._support.version import __version__

_SHOWN = 12  # watched limits and groups before the rest are folded away


def write_monitor_page(monitor: Monitor, path: str | os.PathLike[str]) -> None:
    """Write a page that opens offline."""
    write_text(path, monitor_html(monitor))


def monitor_html(monitor: Monitor) -> str:
    """The page as text."""
    lines = series(monitor)
    charts = _charts(monitor, lines) if lines else {}
    rows = sorted((_row(watch) for watch in monitor.watches), key=lambda row: (not row["alarm"], -row["evidence"]))
    said = words.verdict(monitor)
    return (
        _environment()
        .get_template("monitor.html.jinja")
        .render(
            title="Alarm" if monitor.alarm else "No alarm",
            version=__version__,
            alarm=monitor.alarm,
            warning=monitor.warning,
            sentences=said,
            cautions=words.cautions(monitor),
            rows=rows[:_SHOWN],
            more=rows[_SHOWN:],
            symbols=[{"colour": COLOURS[index], "name": line.watch.name} for index, line in enumerate(lines)],
            hidden=max(0, len(monitor.watches) - len(lines)),
            first=lines[0].watch.name if lines else "",
            charts={name: chart["text"] for name, chart in charts.items()},
            promise=words.promise(monitor),
            not_promised=words.NOT_PROMISED,
            rules=_rules(monitor),
            outcomes=monitor.outcomes,
            data=_json({"charts": charts, "mixture": None}),
            library=_library(),
        )
    )


def _charts(monitor: Monitor, lines: list[Series]) -> dict[str, Any]:
    threshold, last = lines[0].watch.detector.threshold, monitor.outcomes
    shown = number(threshold)
    evidence = f"Evidence over {last:,} outcomes on a log scale, {len(lines)} lines; the alarm is raised at {shown}."
    limit = lines[0].watch.limit.limit
    risk = f"Risk over {last:,} outcomes of {lines[0].watch.name}."
    return {
        "evidence": _picture(evidence_chart(lines, threshold, last, evidence), tips(lines), evidence),
        "risk": _picture(risk_chart(lines[0], limit.compared_with, last, risk), tips(lines[:1]), risk),
    }


def _row(watch: Any) -> dict[str, Any]:
    found = words.row(watch)
    change = watch.detector.change
    return {
        **found,
        "name": watch.name,
        "seen": None if watch.detector.alarm is None else words.at(watch.detector.alarm.row, watch.detector.alarm.time),
        "change": None if change is None else words.at(change.row, change.time),
        "since": None if change is None else change.risk,
    }


def _rules(monitor: Monitor) -> list[str]:
    rules = monitor.rules
    found = [
        "An outcome that should have a label and has none counts as the worst there can be."
        if rules.missing == "worst"
        else "An outcome that should have a label and has none is left out."
    ]
    if rules.audit is not None:
        shown = rules.audit if not isinstance(rules.audit, float | int) else {"every limited loss": rules.audit}
        rates = listed([f"{name}: {number(rate)}" for name, rate in shown.items()])
        found.append(f"Labels come from a random audit with these probabilities: {rates}.")
    if rules.audit_column is not None:
        found.append(f"Labels come from a random audit with the probabilities in '{rules.audit_column}'.")
    return found


#: of Okabe and Ito, with a shape each: lines are told apart by either
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_FLOOR = 1e-3  # evidence below this is drawn at the bottom


@dataclass(frozen=True, slots=True)
class Series:
    """One watched limit and group over time: outcomes, times, evidence, risks, how many outcomes each point stands for."""

    watch: Watch
    rows: list[int]
    times: list[str | None]
    evidence: list[float]
    risks: list[float | None]
    counts: list[int]


def series(monitor: Monitor) -> list[Series]:
    """Those with the most evidence first, at most as many as there are colours."""
    seen = [watch for watch in monitor.watches if watch.detector.history.points]
    seen.sort(key=lambda watch: (watch.detector.alarm is None, -watch.detector.largest))
    found = []
    for watch in seen[: len(COLOURS)]:
        points = watch.detector.history.points
        found.append(
            Series(
                watch,
                [point[0] + 1 for point in points],
                [point[1] for point in points],
                [max(10.0 ** min(point[5], 30.0), _FLOOR) for point in points],
                [ratio(np.array(point[3:5])) for point in points],
                [point[2] for point in points],
            )
        )
    return found


def evidence_chart(lines: list[Series], threshold: float, last: int, text: str) -> Spec:
    """The largest evidence of each stretch on a log scale, the threshold, and the estimated change of the first line."""
    top = max(threshold * 3, *(value for line in lines for value in line.evidence))
    top = min(top, threshold * 1e3)  # what comes after an alarm says nothing new
    sources, marks = _drawn(lines, [line.evidence for line in lines], top)
    scales = [
        _linear("x", [0, max(last, 1)], "width"),
        {"name": "y", "type": "log", "domain": [_FLOOR / 2, top * 1.5], "range": "height", "clamp": True},
    ]
    powers = range(math.floor(math.log10(_FLOOR)), math.ceil(math.log10(top)) + 1)
    axes = [
        _axis("x", "bottom", format="~s", grid=False),
        _axis("y", "left", format="~g", values=[10.0**power for power in powers]),
    ]
    at = {"scale": "y", "value": threshold}
    words = _beside(f"alarm at {number(threshold)}", at)
    return _chart(text, sources, [], scales, axes, [*_changes(lines), _rule(None, "y", at), words, *marks])


def risk_chart(line: Series, limit: float, last: int, text: str) -> Spec:
    """The mean of each stretch of one line, its limit, and the estimated change."""
    known = np.array([risk for risk in line.risks if risk is not None] + [limit])
    sources, marks = _drawn([line], [line.risks], math.inf)
    scales = [
        _linear("x", [0, max(last, 1)], "width"),
        _linear("y", chart_views.around(known), "height"),
    ]
    axes = [_axis("x", "bottom", format="~s", grid=False), _axis("y", "left")]
    at = {"scale": "y", "value": limit}
    words = _beside(f"limit {number(limit)}", at)
    return _chart(text, sources, [], scales, axes, [*_changes([line]), _rule(None, "y", at), words, *marks])


def tips(lines: list[Series]) -> dict[str, Any]:
    """What the page shows at a point: names, and one row a point, in the order of the lines."""
    timed = any(time is not None for line in lines for time in line.times)
    names = ["", "up to outcome", *(["time"] if timed else []), "outcomes", "risk", "evidence at most"]
    rows = []
    for line in lines:
        for row, time, count, risk, evidence in zip(
            line.rows, line.times, line.counts, line.risks, line.evidence, strict=True
        ):
            shown = [number(count), "none" if risk is None else number(risk), number(evidence)]
            rows.append([line.watch.name, number(row), *([str(time)] if timed else []), *shown])
    return {"names": names, "rows": rows}


def _drawn(lines: list[Series], values: Sequence[Sequence[float | None]], top: float) -> tuple[list[Spec], list[Spec]]:
    sources, marks, first = [], [], 0
    for index, (line, found) in enumerate(zip(lines, values, strict=True)):
        points = [
            {"i": first + place, "x": row, "y": None if value is None else min(value, top)}
            for place, (row, value) in enumerate(zip(line.rows, found, strict=True))
        ]
        first += len(points)
        kept = {"type": "filter", "expr": "isValid(datum.y)"}
        sources.append({"name": f"line-{index}", "values": points, "transform": [kept]})
        marks.append(_line(f"line-{index}", "x", "y", COLOURS[index], strokeWidth=2))
        drawn = {
            "x": {"scale": "x", "field": "x"},
            "y": {"scale": "y", "field": "y"},
            "shape": {"value": SHAPES[index]},
            "size": {"value": 34},
            "fill": {"value": COLOURS[index]},
            "tooltip": {"signal": "datum.i + 1"},  # a tooltip of 0 would be none
        }
        place = {"type": "symbol", "from": {"data": f"line-{index}"}, "aria": False, "encode": {"update": drawn}}
        marks.append(place)
    return sources, marks


def _beside(text: str, at: Spec) -> Spec:
    """Words above a line across the picture, through which points can be touched."""
    place = {"x": {"value": 6}, "y": {**at, "offset": -5}}
    return {**_words(text, place, "left", "bottom"), "interactive": False}


def _changes(lines: list[Series]) -> list[Spec]:
    """A line where the change of an alarm is estimated to be."""
    marks = []
    for index, line in enumerate(lines):
        alarm = line.watch.detector.alarm
        if alarm is not None:
            at = {"scale": "x", "value": alarm.change.row + 1}
            marks.append(_rule(None, "x", at, stroke=COLOURS[index], dash=(2, 2)))
    return marks
