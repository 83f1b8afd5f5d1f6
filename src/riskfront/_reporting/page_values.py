"""What the page says, as plain values: every number is the certificate's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate, configs_in
from riskfront._problems.limits import Limit
from riskfront._reporting import sentences
from riskfront._reporting.certificate_charts import TestingPath, TradeOff, measures
from riskfront._reporting.sentences import number, setting_value
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

_MOST_GROUPS = 12
_MOST_CHOSEN = 25
_MOST_STEPS = 100
_TARGETS = 25

Row = dict[str, Any]


def in_short(setting: Mapping[str, Any]) -> str:
    """A setting on one line."""
    return ", ".join(f"{name} = {setting_value(value)}" for name, value in setting.items())


def setting_json(setting: Mapping[str, Any]) -> str:
    return json.dumps(dict(setting), ensure_ascii=False)


def limits(certificate: Certificate, rank: int = 1) -> list[Row]:
    """The table of limits of one chosen setting: what was measured, and how it was tested, for each limit and group."""
    by_name = {str(limit): limit for limit in certificate.problem.limits}
    rows = []
    for record in certificate.measured[certificate.measured["chosen"] == rank].to_dict("records"):
        limit = by_name[record["limit"]]
        group = record["group"]
        if group is None or group != group:
            group = None
        rows.append(
            {
                "what": sentences.limit_name(limit),
                "group": sentences.group_name(limit, group),
                "side": "at most" if limit.at_least is None else "at least",
                "limit": limit.compared_with,
                "measured": record["measured"],
                "examples": record["examples"],
                "p_value": record["p_value"],
                "tested_at": record["tested_at"],
                "nearness": sentences.nearness(certificate, record),
            }
        )
    return rows


def shortened(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows to show at once and the rest. Of many groups, those nearest to their limit come first."""
    if len(rows) <= _MOST_GROUPS:
        return rows, []
    ranked = sorted(rows, key=lambda row: row["nearness"])
    return ranked[:_MOST_GROUPS], ranked[_MOST_GROUPS:]


def chosen(certificate: Certificate) -> tuple[list[Row], int]:
    """The chosen settings with what was measured, best first, and how many more there are."""
    if not certificate:
        return [], 0
    frame = certificate.chosen
    names = [measure.name for measure in measures(certificate)]
    values = frame[names].head(_MOST_CHOSEN).to_numpy(dtype=float).tolist()
    rows = [
        {"rank": index, "setting": in_short(setting), "values": row}
        for index, (setting, row) in enumerate(zip(certificate.configs, values, strict=False), start=1)
    ]
    return rows, len(frame) - len(rows)


def failure(certificate: Certificate) -> Row | None:
    """Why nothing was certified: the limit that failed, how far it was, what would help, and every limit at that setting."""
    if certificate or certificate.diagnosis is None:
        return None
    found = dict(certificate.diagnosis)
    if "limit" not in found:
        return {"message": found["message"], "facts": [], "limits": []}
    limit = next((part for part in certificate.problem.limits if str(part) == found["limit"]), None)
    at = None if limit is None else limit.compared_with
    facts: list[tuple[str, Any]] = [
        ("Limit that failed", found["limit"]),
        ("Setting that came nearest", in_short(found["setting"])),
        ("Measured there", found["measured"]),
        ("Limit", at),
        *_distance(found["measured"], limit),
        ("p-value", found["p_value"]),
        ("p-value it had to reach", found["tested_at"]),
        ("Testing examples behind it", found["examples"]),
        ("Testing examples needed with this mean", _needed(found["examples_at_this_mean"], found["measured"], limit)),
        ("Testing examples a perfect setting would need", _needed(found["examples_if_perfect"], None, limit)),
    ]
    if found["group"] is not None:
        facts.insert(1, ("Group", found["group"]))
    return {"message": found["message"], "facts": facts, "limits": _limits_at(certificate, found["setting"])}


def _distance(measured: float | None, limit: Limit | None) -> list[tuple[str, Any]]:
    """How far the measured value was from the limit, and on which side."""
    if measured is None or limit is None:
        return []
    over = measured - limit.compared_with
    return [("Above the limit by" if over > 0 else "Below the limit by", abs(over))]


def _needed(count: int | None, measured: float | None, limit: Limit | None) -> Any:
    if count is not None:
        return count
    broken = measured is not None and limit is not None and _beyond(measured, limit)
    return "no number would do: what was measured is not within the limit" if broken else "more than can be had"


def _beyond(measured: float, limit: Limit) -> bool:
    at = limit.compared_with
    return measured >= at if limit.at_least is None else measured <= at


def _limits_at(certificate: Certificate, setting: Mapping[str, Any]) -> list[Row]:
    """Every limit with its measured value and p-value at one tested setting."""
    path = certificate.path
    same = np.ones(len(path), dtype=bool)
    for name, column in certificate.setting_columns.items():
        same &= (path[column] == setting[name]).to_numpy(dtype=bool)
    if not same.any():
        return []
    row, names = path[same].iloc[0], certificate.problem.limit_names
    return [
        {
            "what": sentences.limit_name(limit),
            "side": "at most" if limit.at_least is None else "at least",
            "limit": limit.compared_with,
            "measured": row[name],
            "p_value": row[f"p_value {name}" if len(names) > 1 else "p_value"],
        }
        for name, limit in zip(names, certificate.problem.limits, strict=True)
    ]


def steps(certificate: Certificate) -> tuple[list[Row], int]:
    """The first tests of the path, and how many more there are."""
    frame = certificate.path.head(_MOST_STEPS)
    names = [measure.name for measure in measures(certificate)]
    rows = [
        {
            "step": index,
            "setting": in_short(setting),
            "values": values,
            "p_value": p_value,
            "tested_at": tested_at,
            "certified": certified,
        }
        for index, (setting, values, p_value, tested_at, certified) in enumerate(
            zip(
                configs_in(frame, certificate.setting_columns),
                frame[names].to_numpy(dtype=float).tolist(),
                frame["p_value"],
                frame["tested_at"],
                frame["certified"],
                strict=True,
            ),
            start=1,
        )
    ]
    return rows, len(certificate.path) - len(rows)


def tradeoff_tips(data: TradeOff) -> Row:
    """What hovering over each point shows."""
    names = ["", *(data.settings[0] if data.settings else ()), *(measure.label for measure in data.measures)]
    rows = [
        [
            data.names[status] + (f" (step {step})" if step else ", from planning examples"),
            *map(setting_value, setting.values()),
            *map(number, values),
        ]
        for status, step, setting, values in zip(
            data.status.tolist(), data.step.tolist(), data.settings, data.values.tolist(), strict=True
        )
    ]
    return {"names": names, "rows": rows}


def path_tips(data: TestingPath) -> Row:
    by_limit = [f"p-value of {name}" for name in data.limit_names] if len(data.limit_names) > 1 else []
    names = ["", *(data.settings[0] if data.settings else ()), "p-value", *by_limit, "tested at"]
    rows = []
    for index, setting in enumerate(data.settings):
        verdict = "chosen" if data.chosen[index] else "passed" if data.passed[index] else "failed"
        each = [number(float(p)) for p in data.by_limit[index]] if by_limit else []
        row = [f"step {data.step[index]}, {verdict}", *map(setting_value, setting.values())]
        rows.append([*row, number(float(data.p_value[index])), *each, number(float(data.tested_at[index]))])
    return {"names": names, "rows": rows}


def frontier(certificate: Certificate, frame: pd.DataFrame) -> Row:
    """The calibrated frontier: its points, and the alphas at which nothing was certified."""
    count = "n_certified" if "n_certified" in frame else "n_picked"
    if "alpha" not in frame or count not in frame:
        raise InvalidInputError(f"a frontier must be the data frame of riskfront.frontier; got {list(frame.columns)}.")
    shown = [measure for measure in measures(certificate) if measure.name in frame]
    settings = {name: column for name, column in certificate.setting_columns.items() if column in frame}
    passed = frame[frame[count] > 0]
    alphas = [plain(alpha) for alpha in passed["alpha"]]
    values = passed[[measure.name for measure in shown]].to_numpy(dtype=float)
    numeric = all(isinstance(alpha, int | float) for alpha in alphas)
    tips = []
    for alpha, row, record in zip(alphas, values.tolist(), passed.to_dict("records"), strict=True):
        setting = [setting_value(plain(record[column])) for column in settings.values()]
        tips.append([f"limit {_alpha(alpha)}", *setting, *map(number, row)])
    return {
        "measures": shown,
        "words": sentences.frontier_words(certificate.problem, together=True)
        if frame.attrs.get("simultaneous")
        else "The guarantee holds for each limit by itself: choose one for reasons that lie outside these data.",
        "numeric": numeric,
        "alphas": alphas if numeric else [*map(_alpha, alphas)],
        "values": values,
        "first": [index == 0 or alphas[index] != alphas[index - 1] for index in range(len(alphas))],
        "empty": [_alpha(plain(alpha)) for alpha in frame.loc[frame[count] == 0, "alpha"]],
        "tips": {"names": ["", *settings, *(measure.label for measure in shown)], "rows": tips},
    }


def _alpha(alpha: Any) -> str:
    return (
        ", ".join(map(number, alpha)) if isinstance(alpha, Sequence) and not isinstance(alpha, str) else number(alpha)
    )


def mixtures(certificate: Certificate) -> Row | None:
    """Time-sharing weights for a list of targets on each free objective; None when there is nothing to mix."""
    goals = certificate.problem.objectives
    if not certificate or len(goals) < 2 or len(certificate.chosen) < 2:
        return None
    try:
        certificate.mixture({})
    except InvalidInputError:  # limits or objectives that do not mix
        return None
    values = certificate.chosen[[goal.name for goal in goals]].to_numpy(dtype=float)
    found = [
        {"name": sentences.objective_name(goal), "side": "at least" if goal.maximize else "at most", "targets": targets}
        for index, goal in enumerate(goals)
        if (targets := _targets(certificate, values, index))
    ]
    names = [sentences.objective_name(goal) for goal in goals]
    return {"objectives": found, "names": names, "settings": [*map(in_short, certificate.configs)]} if found else None


def _targets(certificate: Certificate, values: Any, index: int) -> list[Row]:
    """From the best that one objective can reach to where the others are at their best."""
    goal = certificate.problem.objectives[index]
    best, worst = values[:, index].min(), values[:, index].max()
    if not (np.isfinite(values).all() and best < worst):
        return []
    if goal.maximize:
        best, worst = worst, best
    rows = []
    for target in np.linspace(best, worst, _TARGETS).tolist():
        weights = certificate.mixture({goal.name: target})["weight"].to_numpy(dtype=float)
        used = [(int(row), float(weights[row])) for row in np.flatnonzero(weights > 1e-9)]
        rows.append(
            {
                "target": number(target),
                "weights": [[row, weight, f"{100 * weight:.4g} %"] for row, weight in used],
                "values": [number(value) for value in (weights @ values).tolist()],
            }
        )
    return rows
