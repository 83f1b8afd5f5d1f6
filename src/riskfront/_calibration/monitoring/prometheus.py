"""What a monitor found, in the Prometheus text format: for the textfile collector of the node exporter, or any scraper."""

from __future__ import annotations

import math
from collections.abc import Callable

from riskfront._calibration.monitoring.monitor import Monitor, Watch

_OF_WATCH: list[tuple[str, str, str, Callable[[Watch], float | None]]] = [
    ("alarm", "gauge", "1 once a limit was found to be broken", lambda w: float(w.detector.alarm is not None)),
    ("limit", "gauge", "The number that the risk must keep", lambda w: w.limit.limit.compared_with),
    ("risk", "gauge", "Risk over all outcomes", lambda w: w.detector.risk),
    (
        "risk_since_change",
        "gauge",
        "Risk since the estimated change",
        lambda w: None if w.detector.change is None else w.detector.change.risk,
    ),
    ("evidence", "gauge", "Evidence that the limit is broken", lambda w: w.detector.evidence),
    ("threshold", "gauge", "Evidence at which the alarm is raised", lambda w: w.detector.threshold),
    ("counted_total", "counter", "Outcomes with a label that counted", lambda w: float(w.detector.outcomes)),
    ("missing_total", "counter", "Outcomes that counted as the worst", lambda w: float(w.detector.missing)),
]


def prometheus(monitor: Monitor) -> str:
    """The metrics, as text."""
    lines: list[str] = []
    for name, kind, about, value in _OF_WATCH:
        lines += _head(name, kind, about)
        for watch in monitor.watches:
            found = value(watch)
            if found is not None:
                labels = {"limit": str(watch.limit.limit), "group": watch.group or ""}
                lines.append(_line(name, labels, found))
    lines += _head("outcomes_total", "counter", "Outcomes that were given")
    lines.append(_line("outcomes_total", {}, monitor.outcomes))
    lines += _head("uncovered_total", "counter", "Outcomes of groups that were not there at calibration")
    lines += [
        _line("uncovered_total", {"per": name}, sum(g.values())) for name, g in monitor.accounts.uncovered.items()
    ]
    lines += _head("input_warning", "gauge", "1 once scores were seen to change: a warning, no broken limit")
    lines.append(_line("input_warning", {}, float(monitor.warning)))
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP riskfront_monitor_{name} {about}.", f"# TYPE riskfront_monitor_{name} {kind}"]


def _line(name: str, labels: dict[str, str], value: float) -> str:
    inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    shown = repr(float(value)) if math.isfinite(value) else "+Inf" if value > 0 else "NaN"
    return f"riskfront_monitor_{name}{{{inner}}} {shown}" if inner else f"riskfront_monitor_{name} {shown}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
