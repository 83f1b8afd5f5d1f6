"""One self-contained HTML page about a monitor: the evidence over time, where the change is, and the risk since then."""

from __future__ import annotations

import os
from typing import Any

from riskfront._calibration.monitoring import words
from riskfront._calibration.monitoring.monitor import Monitor
from riskfront._reporting import monitor_charts
from riskfront._reporting.page import _environment, _json, _library
from riskfront._reporting.sentences import number
from riskfront._support.files import write_text
from riskfront._support.version import __version__

_SHOWN = 12  # watched limits and groups before the rest are folded away


def write_monitor_page(monitor: Monitor, path: str | os.PathLike[str]) -> None:
    """Write a page that opens offline."""
    write_text(path, monitor_html(monitor))


def monitor_html(monitor: Monitor) -> str:
    """The page as text."""
    lines = monitor_charts.series(monitor)
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
            symbols=[
                {"colour": monitor_charts.COLOURS[index], "name": line.watch.name} for index, line in enumerate(lines)
            ],
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


def _charts(monitor: Monitor, lines: list[monitor_charts.Series]) -> dict[str, Any]:
    threshold, last = lines[0].watch.detector.threshold, monitor.outcomes
    shown = number(threshold)
    evidence = f"Evidence over {last:,} outcomes on a log scale, {len(lines)} lines; the alarm is raised at {shown}."
    limit = lines[0].watch.limit.limit
    risk = f"Risk over {last:,} outcomes of {lines[0].watch.name}."
    return {
        "evidence": {
            "spec": monitor_charts.evidence_chart(lines, threshold, last, evidence),
            "tips": monitor_charts.tips(lines),
            "text": evidence,
            "axes": None,
        },
        "risk": {
            "spec": monitor_charts.risk_chart(lines[0], limit.compared_with, last, risk),
            "tips": monitor_charts.tips(lines[:1]),
            "text": risk,
            "axes": None,
        },
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
        listed = words.listed([f"{name}: {number(rate)}" for name, rate in shown.items()])
        found.append(f"Labels come from a random audit with these probabilities: {listed}.")
    if rules.audit_column is not None:
        found.append(f"Labels come from a random audit with the probabilities in '{rules.audit_column}'.")
    return found
