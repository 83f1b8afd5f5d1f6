"""The charts of the page, as Vega specifications. Fields have names of our own (x0, x1, ...): a user's name is only a title."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from riskfront.reporting.certificate_charts import CERTIFIED, CHOSEN, EXPLORED, FRONT, TESTED, TestingPath, TradeOff
from riskfront.reporting.sentences import number

#: a symbol for each status, as an SVG path in the square from -1 to 1, and a colour of Okabe and Ito: told apart by either
SYMBOLS: dict[int, str] = {
    EXPLORED: "M0.8,0A0.8,0.8,0,1,1,-0.8,0A0.8,0.8,0,1,1,0.8,0Z",
    FRONT: "M0,-1L0.85,0L0,1L-0.85,0Z",
    TESTED: "M-.85,-.55L-.55,-.85L0,-.3L.55,-.85L.85,-.55L.3,0L.85,.55L.55,.85L0,.3L-.55,.85L-.85,.55L-.3,0Z",
    CERTIFIED: "M0,-0.9L0.9,0.75L-0.9,0.75Z",
    CHOSEN: "M0,-1L0.24,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31L-0.24,-0.32Z",
}
COLOURS: dict[int, str] = {
    EXPLORED: "#8f959c",
    FRONT: "#0072B2",
    TESTED: "#D55E00",
    CERTIFIED: "#009E73",
    CHOSEN: "#E69F00",
}
HOLLOW = {FRONT}
_SIZES = {EXPLORED: 26, FRONT: 80, TESTED: 90, CERTIFIED: 80, CHOSEN: 340}
_HEIGHT = 360
_POINTS: dict[str, Any] = {"name": "points", "values": []}


def tradeoff(data: TradeOff, text: str) -> dict[str, Any]:
    """All settings in two measures; parameters ``xaxis``, ``yaxis`` and ``shown`` are set by the page."""
    import altair as alt

    fields = [f"x{index}" for index in range(len(data.measures))]
    rows = _rows(fields, data.values, s=data.status)
    limits = [{"m": f, "at": m.limit} for f, m in zip(fields, data.measures, strict=True) if m.limit is not None]
    x, y = default_axes(data)
    parameters = [
        alt.param(name="xaxis", value=fields[x]),
        alt.param(name="yaxis", value=fields[y]),
        alt.param(name="shown", value=[True] * len(SYMBOLS)),
    ]
    layers = [_limit_rule(limits, side) for side in ("x", "y")]
    base = alt.Chart().transform_calculate(x="datum[xaxis]", y="datum[yaxis]")
    for status in np.unique(data.status).tolist():
        kept = f"datum.s === {status} && shown[{status}] && isValid(datum.x) && isValid(datum.y)"
        layers.append(
            base.transform_filter(kept)
            .mark_point(**_mark(status))
            .encode(x=_free(alt.X("x:Q"), None), y=_free(alt.Y("y:Q"), None), tooltip="i:Q")
        )
    chart = alt.layer(*layers, data=_POINTS).add_params(*parameters)
    return _compiled(chart, text, rows)


def default_axes(data: TradeOff) -> tuple[int, int]:
    """The first free objective across, the first limit upwards."""
    limited = [index for index, measure in enumerate(data.measures) if measure.limit is not None]
    upwards = next((index for index in limited if index != 0), min(1, len(data.measures) - 1))
    return 0, upwards


def testing_path(data: TestingPath, text: str) -> dict[str, Any]:
    """p-values by step on a log scale, the level at which each was judged, delta, and where testing stopped."""
    import altair as alt

    status = np.where(data.chosen, CHOSEN, np.where(data.certified, CERTIFIED, TESTED))
    p_values, levels = np.maximum(data.p_value, data.floor), np.maximum(data.level, data.floor)
    rows = _rows(["n", "p", "l"], np.column_stack([data.step, p_values, levels]), s=status)
    scale = alt.Scale(type="log", domain=[data.floor / 2, 1], nice=False, clamp=True)
    across = alt.X("n:Q", title="step", scale=alt.Scale(domain=[0.5, data.n_steps + 0.5], nice=False))
    across = across.axis(format=",d", grid=False, **_whole(data.n_steps))
    upwards = alt.Y("p:Q", title=None, scale=scale).axis(format="~g", values=_powers(data.floor), tickCount=10)
    base = alt.Chart().encode(x=across)
    layers = [
        alt.Chart({"values": [{"p": data.delta}]})
        .mark_rule(color="currentColor", strokeDash=[6, 4], aria=False)
        .encode(y=upwards),
        alt.Chart({"values": [{"p": data.delta, "t": f"delta = {number(data.delta)}"}]})
        .mark_text(align="left", baseline="top", x=6, dy=5, color="currentColor", fontSize=12, aria=False)
        .encode(y=upwards, text="t:N"),
    ]
    if data.level_varies:
        dotted = {
            "interpolate": "step",
            "strokeWidth": 1.5,
            "strokeDash": [2, 3],
            "color": COLOURS[FRONT],
            "aria": False,
        }
        reached = base.transform_filter("isValid(datum.l)").mark_line(**dotted)
        layers.append(reached.encode(y=alt.Y("l:Q", title=None, scale=scale)))
    if data.stopped is not None:
        layers.extend(_stop(data.stopped, data.n_steps, across))
    for code in (TESTED, CERTIFIED, CHOSEN):
        mark = {**_mark(code), "size": 240 if code == CHOSEN else 85}
        layers.append(base.transform_filter(f"datum.s === {code}").mark_point(**mark).encode(y=upwards, tooltip="i:Q"))
    return _compiled(alt.layer(*layers, data=_POINTS), text, rows)


def _whole(n_steps: int) -> dict[str, Any]:
    """Ticks at whole steps."""
    return {"values": list(range(1, n_steps + 1)), "tickCount": 12} if n_steps <= 12 else {"tickMinStep": 1}


def _powers(floor: float) -> list[float]:
    """Powers of ten from the floor to 1, at most eight."""
    lowest = math.floor(math.log10(floor))
    return [float(f"1e{power}") for power in range(0, lowest - 1, -math.ceil(-lowest / 7))]


def _stop(stopped: int, n_steps: int, across: Any) -> list[Any]:
    import altair as alt

    stop = alt.Chart({"values": [{"n": stopped, "t": f"stopped at step {number(stopped)}"}]}).encode(x=across)
    left = stopped > n_steps / 2 and n_steps > 1
    words = {"align": "right" if left else "left", "dx": -8 if left else 8}
    return [
        stop.mark_rule(color=COLOURS[TESTED], strokeDash=[2, 2], aria=False),
        stop.mark_text(**words, y=12, color="currentColor", fontSize=12, aria=False).encode(text="t:N"),
    ]


def frontier(
    alphas: Sequence[float | str], values: np.ndarray[Any, Any], first: Sequence[bool], own: float | None, text: str
) -> dict[str, Any]:
    """The chosen settings for each alpha; ``yaxis`` is set by the page. ``own``: the alpha of this certificate."""
    import altair as alt

    fields = [f"x{index}" for index in range(values.shape[1])]
    rows = _rows(fields, values, s=[CHOSEN] * len(values))
    for row, alpha, best in zip(rows, alphas, first, strict=True):
        row.update(a=alpha, b=bool(best))
    numeric = not any(isinstance(alpha, str) for alpha in alphas)
    across = _free(alt.X("a:Q"), None) if numeric else alt.X("a:O", sort=None, title=None).axis(labelAngle=0)
    base = alt.Chart().transform_calculate(y="datum[yaxis]").transform_filter("isValid(datum.y)").encode(x=across)
    upwards = _free(alt.Y("y:Q"), None)
    mark = {**_mark(CHOSEN), "size": 130}
    layers = [
        base.transform_filter("datum.b")
        .mark_line(color=COLOURS[CERTIFIED], strokeWidth=2, aria=False)
        .encode(y=upwards),
        base.mark_point(**mark).encode(y=upwards, tooltip="i:Q"),
    ]
    if numeric and own is not None:
        rule = alt.Chart({"values": [{"a": own}]})
        layers.insert(0, rule.mark_rule(color="currentColor", strokeDash=[6, 4], aria=False).encode(x=across))
    chart = alt.layer(*layers, data=_POINTS).add_params(alt.param(name="yaxis", value="x0"))
    return _compiled(chart, text, rows)


def _limit_rule(limits: list[dict[str, Any]], side: str) -> Any:
    """A dashed line at the limit of whatever measure is on this axis."""
    import altair as alt

    channel = {"x": alt.X, "y": alt.Y}[side]("at:Q", title=None)
    data = alt.Chart({"values": limits or [{"m": "", "at": 0}]}).transform_filter(f"datum.m === {side}axis")
    return data.mark_rule(color="currentColor", strokeDash=[6, 4], aria=False).encode(**{side: channel})


def _mark(status: int) -> dict[str, Any]:
    hollow = status in HOLLOW
    return {
        "shape": SYMBOLS[status],
        "size": _SIZES[status],
        "fill": "transparent" if hollow else COLOURS[status],
        "stroke": "currentColor" if status == CHOSEN else COLOURS[status],
        "strokeWidth": 1.6 if hollow else 1.2 if status == CHOSEN else 0,
        "opacity": 0.55 if status == EXPLORED else 0.9,
        "aria": False,  # thousands of labels help nobody: the picture has one, and the tables hold the numbers
    }


def _free(channel: Any, title: str | None) -> Any:
    """An axis that need not start at zero."""
    import altair as alt

    return channel.title(title).scale(alt.Scale(zero=False, nice=True))


def _rows(fields: Sequence[str], values: np.ndarray[Any, Any], s: Any) -> list[dict[str, Any]]:
    """One record a point; ``i`` is its place in the list of tooltips, ``s`` its status."""
    return [
        {"i": index, "s": int(code), **{f: None if v != v else v for f, v in zip(fields, row, strict=True)}}
        for index, (row, code) in enumerate(zip(values.tolist(), s, strict=True))
    ]


def _compiled(chart: Any, text: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Vega that needs no Vega-Lite in the page, drawn in the colour of the text around it, as wide as its place."""
    import altair as alt
    import vl_convert

    styled = chart.properties(width="container", height=_HEIGHT, description=text, background="transparent").configure(
        font="system-ui, -apple-system, 'Segoe UI', sans-serif",
        axis=alt.AxisConfig(
            labelColor="currentColor",
            titleColor="currentColor",
            domainColor="currentColor",
            tickColor="currentColor",
            gridColor="currentColor",
            gridOpacity=0.12,
            domainOpacity=0.5,
            tickOpacity=0.5,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            tickCount=6,
        ),
        view=alt.ViewConfig(stroke=None),
    )
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    compiled: dict[str, Any] = vl_convert.vegalite_to_vega(json.dumps(styled.to_dict()), vl_version=version)
    for source in compiled["data"]:
        if source["name"] == _POINTS["name"]:
            source["values"] = rows  # only now: thousands of points need neither checking nor compiling
    return compiled
