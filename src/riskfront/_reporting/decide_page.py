"""One self-contained HTML page to decide on: a slider a limit, and what each combination of limits buys."""

from __future__ import annotations

import html
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._calibration.certificates.uses_of_test_set import delta_of_all
from riskfront._calibration.certificates.verdict import confidence, in_words, not_covered
from riskfront._calibration.frontier_plan import with_value
from riskfront._calibration.frontier_result import COMBINATION, Frontier
from riskfront._problems.limits import Limit
from riskfront._reporting import sentences
from riskfront._reporting.page import _environment, _json
from riskfront._reporting.page_values import setting_json
from riskfront._support.files import write_text
from riskfront._support.values import plain
from riskfront._support.version import __version__

_HEIGHT = 900  # of the cell in a notebook, in pixels


def write_decide_page(
    frontier: Frontier, path: str | os.PathLike[str], *, file: str | None = "frontier.json", command: str | None = None
) -> None:
    """Write a page on which people choose the limits. It opens from a file and makes no request to the network.

    Args:
        frontier: the result of ``riskfront.frontier`` with values by the names of limits.
        path: the HTML file to write.
        file: the saved frontier, for the command that the page copies; or the folder of an accelerated classifier, which takes
            the certificate in. None: the frontier is not saved, and the command makes it again first.
        command: the command that makes the frontier again.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> import riskfront as rf
        >>> table = rf.LossTable([{"k": 0}], {"error": np.zeros((1, 200), bool), "cost": np.ones((1, 200))})
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> frontier = rf.frontier(table, problem, {"error": [0.05, 0.1]}, simultaneous=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rf.write_decide_page(frontier, f"{folder}/decide.html")
    """
    write_text(path, decide_html(frontier, file=file, command=command))


def decide_html(
    frontier: Frontier,
    *,
    file: str | None = "frontier.json",
    command: str | None = None,
    options: str = "",
    python: bool = False,
) -> str:
    """The page as text.

    Args:
        options: more options of ``riskfront choose``.
        python: it copies Python, for a frontier that is at hand, instead of a command.
    """
    before = ""
    if file is None:
        file, before = "frontier.json", "" if command is None else f"{command} --out frontier.json && "
    # of the loosest limits, for what all certificates of the frontier have in common
    first = frontier.choose({one.name: one.values[0] for one in frontier.grid.varying})
    made = {name: fact for name, fact in sentences.how_made(first).items() if name != "Guarantee"}
    limits = [_limit(frontier, one.index, one.values) for one in frontier.grid.varying]
    data = {
        "limits": limits,
        "fixed": [_in_words(frontier, limit) for limit in frontier.grid.fixed],
        "objectives": [
            {"name": one.name, "label": sentences.objective_name(one), "maximize": one.maximize}
            for one in frontier.problem.objectives
        ],
        "measures": [sentences.limit_name(limit) for limit in frontier.problem.limits],
        **_combinations(frontier),
        "covered": " ".join(not_covered(frontier.problem, frontier.groups)),
        "python": python,
        "choose": f"{before}riskfront choose {shlex.quote(file)}{options}",
        "into": " --out certificate.json" if file.endswith(".json") else "",
        "confidence": confidence(delta_of_all(frontier.problem.delta, frontier.earlier_looks)),
        "guaranteed": frontier.guaranteed,
    }
    return (
        _environment()
        .get_template("decide.html.jinja")
        .render(
            title="Choose the limits",
            version=__version__,
            guarantee=frontier.guarantee(),
            guaranteed=frontier.guaranteed,
            limits=limits,
            objectives=data["objectives"],
            measures=data["measures"],
            rows=_rows(frontier, limits),
            facts={"Combinations of limits": f"{len(frontier.counts):,}", **made},
            intake=sentences.intake(first),
            notes=[*frontier.notes, *sentences.unlabelled_words(first)],
            assumptions=sentences.assumptions(first),
            looks=sentences.earlier_looks(first),
            command=command,
            python=python,
            data=_json(data),
        )
    )


def in_notebook(frontier: Frontier) -> str:
    """The page as an output cell of a notebook."""
    page = html.escape(decide_html(frontier, python=True), quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="Choose the limits" '
        f'style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'
    )


def _in_words(frontier: Frontier, limit: Limit) -> str:
    return in_words(limit, frontier.loss_bounds.get(limit.loss), frontier.groups)


def _limit(frontier: Frontier, index: int, values: Sequence[float]) -> dict[str, Any]:
    """A slider, from the tightest value to the loosest: its values, how they are shown, and the sentence of each."""
    limit, name = frontier.problem.limits[index], frontier.problem.limit_names[index]
    listed = list(reversed(values))
    words = [_in_words(frontier, with_value(limit, value)) for value in listed]
    percent = all(text.endswith(" %") for text in words)
    return {
        "name": name,
        "index": index,
        "side": "at most" if limit.at_least is None else "at least",
        "sign": "<=" if limit.at_least is None else ">=",
        "values": listed,
        "shown": [f"{100 * value:.10g} %" if percent else f"{value:.10g}" for value in listed],
        "percent": percent,
        "words": words,
    }


def _combinations(frontier: Frontier) -> dict[str, Any]:
    """For every combination, tightest values first, the chosen settings with what was measured, or why there is none."""
    names, objectives = frontier.problem.limit_names, [one.name for one in frontier.problem.objectives]
    columns = list(frontier.setting_columns.values())
    settings: dict[str, int] = {}
    shown: list[dict[str, Any]] = []
    chosen: dict[int, list[list[Any]]] = {}
    for record in frontier.path.sort_values([COMBINATION, "chosen"]).to_dict("records"):
        config = {name: plain(record[column]) for name, column in zip(frontier.setting_columns, columns, strict=True)}
        key = setting_json(config)
        if key not in settings:
            settings[key] = len(shown)
            rows = [[str(name), sentences.setting_value(value)] for name, value in config.items()]
            shown.append({"json": key, "rows": rows, "rule": frontier.rules.get(key, "")})
        values = [_finite(record[name]) for name in (*objectives, *names)]
        chosen.setdefault(int(record[COMBINATION]), []).append([settings[key], *values])
    counts = [len(one.values) for one in frontier.grid.varying]
    # the frontier counts from the loosest, the sliders from the tightest: reversing every axis reverses the flat order
    order = range(int(np.prod(counts)) - 1, -1, -1)
    why = [_why(frontier.failures.get(str(place))) for place in order]
    reasons = list(dict.fromkeys(why))
    place_of = {reason: place for place, reason in enumerate(reasons)}
    return {
        "settings": shown,
        "chosen": [chosen.get(place, []) for place in order],
        "counts": [int(frontier.counts[place]) for place in order],
        "reasons": reasons,
        "why": [place_of[reason] for reason in why],
    }


def _finite(value: Any) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None


def _why(failure: Mapping[str, Any] | None) -> str:
    """Why nothing is certified, and how many examples it would take."""
    if failure is None:
        return ""
    needed = failure.get("examples_at_this_mean") or failure.get("examples_if_perfect")
    have = failure.get("examples")
    if needed and have and needed > have:
        perfect = failure.get("examples_at_this_mean") is None
        like = "Even a perfect setting would need" if perfect else "The setting that came nearest would need"
        return f"{like} about {needed:,} testing examples for '{failure['limit']}'; there are {have:,}."
    return str(failure["message"])


def _rows(frontier: Frontier, limits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A table of all combinations, for print and for readers without pictures; at most 500 rows."""
    frame = frontier.frame.iloc[::-1].head(500)
    columns = list(frontier.setting_columns.values())
    rows = []
    for record in frame.to_dict("records"):
        held = record["n_certified"] > 0
        values = [record[f"limit on {one['name']}"] for one in limits]
        shown = [one["shown"][one["values"].index(value)] for one, value in zip(limits, values, strict=True)]
        config = ", ".join(f"{c} = {sentences.setting_value(plain(record[c]))}" for c in columns) if held else ""
        numbers = [sentences.number(record[o.name]) if held else "" for o in frontier.problem.objectives]
        rows.append({"values": shown, "setting": config or "nothing certified", "objectives": numbers})
    return rows
