"""What a monitor found: in sentences, and in the Prometheus text format."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from riskfront._calibration.certificates.verdict import listed
from riskfront._calibration.monitoring.watched_limit import NO_GROUP

if TYPE_CHECKING:
    from riskfront._calibration.monitoring.detector import Detector
    from riskfront._calibration.monitoring.monitor import Monitor, Watch

NOT_PROMISED = (
    "It watches the limits, not the inputs: a change that leaves the risks below their limits raises no alarm, and a risk that "
    "rises without crossing its limit raises none either."
)


def number(value: float) -> str:
    return f"{value:.4g}"


def promise(monitor: Monitor) -> str:
    watched = f"{len(monitor.watches)} limits and groups" if len(monitor.watches) > 1 else "one limit"
    if not monitor.promise.weighted:
        return (
            f"While every limit holds, a false alarm comes after {monitor.promise.run_length:,} outcomes or more on average "
            f"({watched})."
        )
    share = f", divided among {watched}" if len(monitor.watches) > 1 else ""
    delta = monitor.promise.delta
    return (
        f"While every limit holds, there will never be a false alarm, with probability at least {number(1 - delta)} "
        f"(delta = {number(delta)}{share})."
    )


def verdict(monitor: Monitor) -> list[str]:
    alarms = [sentence for watch in monitor.watches for sentence in alarm_words(watch)]
    if alarms:
        return alarms
    if not monitor.outcomes:
        return ["No outcome was given yet."]
    return [f"No alarm after {monitor.outcomes:,} outcomes."]


def alarm_words(watch: Watch) -> list[str]:
    """Nothing without an alarm."""
    alarm = watch.detector.alarm
    if alarm is None:
        return []
    change = alarm.change
    found = [
        f"ALARM: '{watch.name}' is broken, seen at outcome {at(alarm.row, alarm.time)}.",
        f"The change is estimated at outcome {at(change.row, change.time)}.",
    ]
    if change.risk is not None:
        found.append(f"The risk since then: {number(change.risk)} over {change.outcomes:,} outcomes.")
    return found


def at(row: int, time: str | None) -> str:
    return f"{row + 1:,}" + (f" ({time})" if time is not None else "")


def cautions(monitor: Monitor) -> list[str]:
    """Whatever a reader must know to believe the verdict."""
    found = []
    for watch in monitor.watches:
        missing = watch.detector.missing
        if missing:
            found.append(
                f"{missing:,} of {watch.detector.outcomes:,} outcomes of '{watch.name}' were missing and counted as the worst."
            )
    for limit, count in monitor.accounts.left_out.items():
        if count:
            found.append(
                f"{count:,} missing outcomes of '{limit}' were left out, as declared: what is said holds only if they "
                "would have lost no more than the others."
            )
    for name, groups in monitor.accounts.uncovered.items():
        if groups.get(NO_GROUP):
            found.append(
                f"{groups[NO_GROUP]:,} outcomes have no '{name}' and may belong to any: those whose loss is above the limit "
                "counted in every group."
            )
        others = {group: count for group, count in groups.items() if group != NO_GROUP}
        total = sum(others.values())
        if total:
            named = listed([f"'{group}' ({count:,})" for group, count in list(others.items())[:5]])
            found.append(
                f"{total:,} outcomes belong to groups of '{name}' that were not there at calibration: {named}. No limit was "
                "certified for them and none is watched."
            )
    for limit, (labelled, due, rate) in monitor.doubtful_audits().items():
        found.append(
            f"Labels came for {100 * labelled / due:.3g} % of outcomes of '{limit}', but {100 * rate:.3g} % was declared: "
            "the audit is not the random one that the promise rests on."
        )
    if monitor.input_change is not None and monitor.input_change.row is not None:
        found.append(
            f"Warning, not a broken limit: the scores '{monitor.input_change.column}' changed, seen at outcome "
            f"{monitor.input_change.row + 1:,} (delta = {number(monitor.input_change.delta)} of its own)."
        )
    return [*found, *monitor.notes]


def row(watch: Watch) -> dict[str, Any]:
    """One line of the table of what is watched."""
    detector: Detector = watch.detector
    change = detector.change
    return {
        "limit": str(watch.limit.limit),
        "group": watch.group,
        "outcomes": detector.outcomes,
        "missing": detector.missing,
        "risk": detector.risk,
        "evidence": detector.evidence,
        "threshold": detector.threshold,
        "alarm": detector.alarm is not None,
        "alarm_at": None if detector.alarm is None else detector.alarm.row + 1,
        "change_at": None if change is None else change.row + 1,
        "risk_since": None if change is None else change.risk,
    }


_OF_WATCH: list[tuple[str, str, str, Callable[[Watch], float | None]]] = [
    ("alarm", "gauge", "1 once a limit was found to be broken", lambda w: float(w.detector.alarm is not None)),
    ("limit", "gauge", "The number that the risk must keep", lambda w: w.limit.limit.compared_with),
    ("risk", "gauge", "Risk over all outcomes", lambda w: w.detector.risk),
    ("risk_since_change", "gauge", "Risk since the estimated change", lambda w: row(w)["risk_since"]),
    ("evidence", "gauge", "Evidence that the limit is broken", lambda w: w.detector.evidence),
    ("threshold", "gauge", "Evidence at which the alarm is raised", lambda w: w.detector.threshold),
    ("counted_total", "counter", "Outcomes with a label that counted", lambda w: float(w.detector.outcomes)),
    ("missing_total", "counter", "Outcomes that counted as the worst", lambda w: float(w.detector.missing)),
]


def prometheus(monitor: Monitor) -> str:
    """The metrics, as text."""
    lines: list[str] = []
    for name, kind, about, value in _OF_WATCH:
        found = [({"limit": str(w.limit.limit), "group": w.group or ""}, value(w)) for w in monitor.watches]
        lines += metric(f"monitor_{name}", kind, about, [(labels, v) for labels, v in found if v is not None])
    lines += metric("monitor_outcomes_total", "counter", "Outcomes that were given", [({}, monitor.outcomes)])
    uncovered = [({"per": name}, sum(groups.values())) for name, groups in monitor.accounts.uncovered.items()]
    about = "Outcomes without a group, or of groups that were not there at calibration"
    lines += metric("monitor_uncovered_total", "counter", about, uncovered)
    about = "1 once scores were seen to change: a warning, no broken limit"
    lines += metric("monitor_input_warning", "gauge", about, [({}, monitor.warning)])
    return "\n".join(lines) + "\n"


def metric(name: str, kind: str, about: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    """One metric in the Prometheus text format: what it is, then a line for each (labels, value)."""
    lines = [f"# HELP riskfront_{name} {about}.", f"# TYPE riskfront_{name} {kind}"]
    for labels, value in rows:
        escaped = {
            label: text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for label, text in labels.items()
        }
        inner = ",".join(f'{label}="{text}"' for label, text in escaped.items())
        shown = repr(float(value)) if math.isfinite(value) else "+Inf" if value > 0 else "NaN"
        lines.append(f"riskfront_{name}{{{inner}}} {shown}" if inner else f"riskfront_{name} {shown}")
    return lines
