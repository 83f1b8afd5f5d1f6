"""The charts of the page, as Vega specifications. Fields have names of our own (x0, x1, ...): a user's name is only a title.

Written as Vega and not as Vega-Lite, which would have to be compiled: starting its compiler takes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from riskfront._reporting import chart_views
from riskfront._reporting.certificate_charts import CERTIFIED, CHOSEN, EXPLORED, FRONT, TESTED, TestingPath, TradeOff
from riskfront._reporting.sentences import number

Spec = dict[str, Any]

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
_INK = {"value": "currentColor"}
_WHOLE_WIDTH = {"signal": "width"}
_WHOLE_HEIGHT = {"signal": "height"}


def tradeoff(data: TradeOff, text: str) -> Spec:
    """All settings in two measures; the page sets the signals ``xaxis``, ``yaxis``, ``shown`` and ``near``."""
    fields = [f"x{index}" for index in range(len(data.measures))]
    limits = [{"m": f, "at": m.limit} for f, m in zip(fields, data.measures, strict=True) if m.limit is not None]
    x, y = default_axes(data)
    views = chart_views.of_tradeoff(data)
    signals: list[Spec] = [
        {"name": "xaxis", "value": fields[x]},
        {"name": "yaxis", "value": fields[y]},
        {"name": "shown", "value": [True] * len(SYMBOLS)},
        {"name": "near", "value": True},
        {"name": "views", "value": {f: view.all for f, view in zip(fields, views, strict=True)}},
        {"name": "closer", "value": {f: view.near for f, view in zip(fields, views, strict=True)}},
    ]
    scales = [
        _linear(side, {"signal": f"near ? closer[{side}axis] : views[{side}axis]"}, span)
        for side, span in (("x", "width"), ("y", "height"))
    ]
    sources: list[Spec] = [_points(_rows(fields, data.values, data.status))]
    marks: list[Spec] = []
    for side in ("x", "y"):
        kept = {"type": "filter", "expr": f"datum.m === {side}axis"}
        sources.append({"name": f"limits-{side}", "values": limits, "transform": [kept]})
        marks.append(_rule(f"limits-{side}", side, {"scale": side, "field": "at"}))
    for status in np.unique(data.status).tolist():
        kept = {
            "type": "filter",
            "expr": f"datum.s === {status} && shown[{status}] && isValid(datum[xaxis]) && isValid(datum[yaxis])",
        }
        sources.append({"name": f"status-{status}", "source": "points", "transform": [kept]})
        at = {side: {"scale": side, "field": {"signal": f"{side}axis"}} for side in ("x", "y")}
        marks.append(_symbols(f"status-{status}", status, at, clip=True))  # a closer view leaves points out
    return _chart(text, sources, signals, scales, [_axis("x", "bottom"), _axis("y", "left")], marks)


def default_axes(data: TradeOff) -> tuple[int, int]:
    """The first free objective across, the first limit upwards."""
    limited = [index for index, measure in enumerate(data.measures) if measure.limit is not None and index > 0]
    return 0, limited[0] if limited else min(1, len(data.measures) - 1)


def testing_path(data: TestingPath, text: str) -> Spec:
    """p-values by step on a log scale, the share of delta each was tested at, delta, and where testing stopped."""
    status = np.where(data.chosen, CHOSEN, np.where(data.passed, CERTIFIED, TESTED))
    p_values, shares = np.maximum(data.p_value, data.floor), np.maximum(data.tested_at, data.floor)
    sources = [_points(_rows(["n", "p", "l"], np.column_stack([data.step, p_values, shares]), status))]
    scales = [
        _linear("x", [0.5, data.n_steps + 0.5], "width"),
        {"name": "y", "type": "log", "domain": [data.floor / 2, 1], "range": "height", "clamp": True},
    ]
    axes = [
        _axis("x", "bottom", title="step", format=",d", grid=False, **_whole(data.n_steps)),
        _axis("y", "left", format="~g", values=_powers(data.floor)),
    ]
    delta = {"scale": "y", "value": data.delta}
    marks = [
        _rule(None, "y", delta),
        _words(f"delta = {number(data.delta)}", {"x": {"value": 6}, "y": {**delta, "offset": 5}}, "left", "top"),
    ]
    if data.shares_delta:
        kept = {"type": "filter", "expr": "isValid(datum.l)"}
        sources.append({"name": "shares", "source": "points", "transform": [kept]})
        marks.append(_line("shares", "n", "l", COLOURS[FRONT], interpolate="step", strokeWidth=1.5, strokeDash=[2, 3]))
    if data.stopped is not None:
        marks += _stop(data.stopped, data.n_steps)
    for code in (TESTED, CERTIFIED, CHOSEN):
        kept = {"type": "filter", "expr": f"datum.s === {code}"}
        sources.append({"name": f"status-{code}", "source": "points", "transform": [kept]})
        at = {"x": {"scale": "x", "field": "n"}, "y": {"scale": "y", "field": "p"}}
        marks.append(_symbols(f"status-{code}", code, at, size=240 if code == CHOSEN else 85))
    return _chart(text, sources, [], scales, axes, marks)


def _whole(n_steps: int) -> Spec:
    """Ticks at whole steps."""
    return {"values": list(range(1, n_steps + 1))} if n_steps <= 12 else {"tickMinStep": 1, "tickCount": 6}


def _powers(floor: float) -> list[float]:
    """Powers of ten from the floor to 1, at most eight."""
    lowest = math.floor(math.log10(floor))
    return [float(f"1e{power}") for power in range(0, lowest - 1, -math.ceil(-lowest / 7))]


def _stop(stopped: int, n_steps: int) -> list[Spec]:
    at = {"scale": "x", "value": stopped}
    left = stopped > n_steps / 2 and n_steps > 1
    place = {"x": {**at, "offset": -8 if left else 8}, "y": {"value": 12}}
    return [
        _rule(None, "x", at, stroke=COLOURS[TESTED], dash=(2, 2)),
        _words(f"stopped at step {number(stopped)}", place, "right" if left else "left", "middle"),
    ]


def frontier(
    alphas: Sequence[float | str], values: np.ndarray[Any, Any], first: Sequence[bool], own: float | None, text: str
) -> Spec:
    """The chosen settings for each alpha; ``yaxis`` is set by the page. ``own``: the alpha of this certificate."""
    fields = [f"x{index}" for index in range(values.shape[1])]
    rows = _rows(fields, values, [CHOSEN] * len(values))
    for row, alpha, best in zip(rows, alphas, first, strict=True):
        row.update(a=alpha, b=bool(best))
    views = {f: chart_views.around(values[:, index]) for index, f in enumerate(fields)}
    signals: list[Spec] = [{"name": "yaxis", "value": "x0"}, {"name": "views", "value": views}]
    numeric = not any(isinstance(alpha, str) for alpha in alphas)
    upwards = _linear("y", {"signal": "views[yaxis]"}, "height")
    if numeric:
        seen = [float(alpha) for alpha in alphas] + ([] if own is None else [own])
        across = _linear("x", chart_views.around(np.array(seen)), "width")
    else:
        across = {"name": "x", "type": "point", "domain": list(dict.fromkeys(alphas)), "range": "width", "padding": 0.5}
    sources = [
        _points(rows),
        {"name": "drawn", "source": "points", "transform": [{"type": "filter", "expr": "isValid(datum[yaxis])"}]},
        {"name": "best", "source": "drawn", "transform": [{"type": "filter", "expr": "datum.b"}]},
    ]
    place = {"x": {"scale": "x", "field": "a"}, "y": {"scale": "y", "field": {"signal": "yaxis"}}}
    marks = [
        _line("best", "a", {"signal": "yaxis"}, COLOURS[CERTIFIED], strokeWidth=2),
        _symbols("drawn", CHOSEN, place, size=130),
    ]
    if numeric and own is not None:
        marks.insert(0, _rule(None, "x", {"scale": "x", "value": own}))
    return _chart(text, sources, signals, [across, upwards], [_axis("x", "bottom"), _axis("y", "left")], marks)


def _points(rows: list[Spec]) -> Spec:
    return {"name": "points", "values": rows}


def _rows(fields: Sequence[str], values: np.ndarray[Any, Any], status: Any) -> list[Spec]:
    """One record a point; ``i`` is its place in the list of tooltips, ``s`` its status."""
    return [
        {"i": index, "s": int(code), **{f: None if v != v else v for f, v in zip(fields, row, strict=True)}}
        for index, (row, code) in enumerate(zip(values.tolist(), status, strict=True))
    ]


def _linear(name: str, domain: Any, span: str) -> Spec:
    """An axis that need not start at zero."""
    return {"name": name, "type": "linear", "domain": domain, "range": span, "zero": False}


def _axis(scale: str, orient: str, **more: Any) -> Spec:
    style = {"grid": True, "tickCount": 6, "labelOverlap": True, "zindex": 0}
    return {"scale": scale, "orient": orient, **style, **more}


def _symbols(source: str, status: int, at: Spec, size: int | None = None, *, clip: bool = False) -> Spec:
    hollow = status in HOLLOW
    drawn = {
        **at,
        "shape": {"value": SYMBOLS[status]},
        "size": {"value": size or _SIZES[status]},
        "fill": {"value": "transparent" if hollow else COLOURS[status]},
        "stroke": {"value": "currentColor" if status == CHOSEN else COLOURS[status]},
        "strokeWidth": {"value": 1.6 if hollow else 1.2 if status == CHOSEN else 0},
        "opacity": {"value": 0.55 if status == EXPLORED else 0.9},
        "tooltip": {"field": "i"},
    }
    # aria: thousands of labels help nobody; the picture has one, and the tables hold the numbers
    return {"type": "symbol", "from": {"data": source}, "clip": clip, "aria": False, "encode": {"update": drawn}}


def _rule(
    source: str | None, side: str, at: Spec, *, stroke: str = "currentColor", dash: Sequence[int] = (6, 4)
) -> Spec:
    """A line across the picture at a value of one side."""
    across = {"x": at, "y": {"value": 0}, "y2": _WHOLE_HEIGHT} if side == "x" else {"y": at, "x2": _WHOLE_WIDTH}
    drawn = {**across, "stroke": {"value": stroke}, "strokeDash": {"value": list(dash)}}
    mark: Spec = {"type": "rule", "clip": True, "aria": False, "encode": {"update": drawn}}
    return mark if source is None else {**mark, "from": {"data": source}}


def _line(source: str, x: Any, y: Any, colour: str, **style: Any) -> Spec:
    drawn = {"x": {"scale": "x", "field": x}, "y": {"scale": "y", "field": y}, "stroke": {"value": colour}}
    drawn |= {name: {"value": value} for name, value in style.items()}
    return {"type": "line", "from": {"data": source}, "clip": True, "aria": False, "encode": {"update": drawn}}


def _words(text: str, at: Spec, align: str, baseline: str) -> Spec:
    drawn = {**at, "text": {"value": text}, "align": {"value": align}, "baseline": {"value": baseline}, "fill": _INK}
    return {"type": "text", "aria": False, "encode": {"update": {**drawn, "fontSize": {"value": 12}}}}


def _chart(
    text: str, sources: list[Spec], signals: list[Spec], scales: list[Spec], axes: list[Spec], marks: list[Spec]
) -> Spec:
    """Drawn in the colour of the text around it, as wide as its place."""
    width = "isFinite(containerSize()[0]) ? containerSize()[0] : 200"
    ink = {f"{part}Color": "currentColor" for part in ("label", "title", "domain", "tick", "grid")}
    return {
        "$schema": "https://vega.github.io/schema/vega/v6.json",
        "description": text,
        "background": "transparent",
        "padding": 5,
        "height": _HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "signals": [
            {"name": "width", "init": width, "on": [{"update": width, "events": "window:resize"}]},
            *signals,
        ],
        "data": sources,
        "scales": scales,
        "axes": axes,
        "marks": marks,
        "config": {
            "font": "system-ui, -apple-system, 'Segoe UI', sans-serif",
            "axis": {
                **ink,
                "gridOpacity": 0.12,
                "domainOpacity": 0.5,
                "tickOpacity": 0.5,
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": "normal",
            },
        },
    }
