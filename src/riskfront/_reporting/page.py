"""One self-contained HTML page that explains a certificate: it opens from a file, offline, and asks nobody for anything."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.verdict import listed
from riskfront._reporting import certificate_charts, chart_views, page_charts, page_values, sentences
from riskfront._support.files import remembered, write_text
from riskfront.methods import make_method


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page that is not the certificate's own: a title, a sentence, a table and notes.

    Args:
        title: its heading.
        lead: what the table shows, in a sentence or two.
        header: of the columns; the first names what a row is about.
        rows: texts, or numbers, which the page rounds.
        notes: sentences below the table.
    """

    title: str
    lead: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    notes: Sequence[str] = ()


def write_report(
    certificate: Certificate,
    path: str | os.PathLike[str],
    *,
    frontier: pd.DataFrame | None = None,
    command: str | None = None,
) -> None:
    """Write a page that explains a certificate to the people who must approve it.

    Args:
        certificate: what to explain.
        path: the HTML file to write.
        frontier: the result of ``riskfront.frontier``, to be drawn too.
        command: the command that repeats the certificate; by default the Python that does.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> import riskfront as rf
        >>> table = rf.LossTable([{"k": 0}], {"error": np.zeros((1, 200), bool), "cost": np.ones((1, 200))})
        >>> certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rf.write_report(certificate, f"{folder}/report.html")
    """
    write_text(path, report_html(certificate, frontier=frontier, command=command))


def report_html(
    certificate: Certificate,
    *,
    frontier: pd.DataFrame | None = None,
    command: str | None = None,
    sections: Sequence[Section] = (),
) -> str:
    """The page as text; ``sections`` come after the limits."""
    cloud, tests = certificate_charts.tradeoff_data(certificate), certificate_charts.path_data(certificate)
    charts = {"tradeoff": _tradeoff(cloud)}
    if len(tests.step) and not tests.by_mean:
        charts["path"] = _path(certificate, tests)
    front = None if frontier is None else page_values.frontier(certificate, frontier)
    if front is not None and len(front["alphas"]):
        charts["frontier"] = _frontier(certificate, front)
    mixture = page_values.mixtures(certificate)
    shown, more = page_values.shortened(page_values.limits(certificate) if certificate else [])
    best, others = page_values.chosen(certificate)
    steps, later = page_values.steps(certificate)
    template = _environment().get_template("report.html.jinja")
    return template.render(
        title=_title(certificate),
        certificate=certificate,
        sentences=[sentence.replace(" %", "\N{NO-BREAK SPACE}%") for sentence in sentences.verdict(certificate)],
        no_guarantee=sentences.no_guarantee(certificate),
        looks=sentences.earlier_looks(certificate),
        setting=certificate.config if certificate else None,
        setting_json=page_values.setting_json(certificate.config) if certificate else "",
        measures=certificate_charts.measures(certificate),
        chosen=best,
        more_chosen=others,
        failure=page_values.failure(certificate),
        limits=shown,
        more_limits=more,
        what_holds=sentences.what_holds(certificate),
        on_how_many=sentences.on_how_many(certificate),
        near_misses=sentences.near_misses(certificate),
        unlabelled=sentences.unlabelled_words(certificate),
        sections=sections,
        cloud=cloud,
        symbols=_symbols(cloud),
        zoomed=any(view.near != view.all for view in chart_views.of_tradeoff(cloud)),
        tests=tests,
        steps=steps,
        more_steps=later,
        front=front,
        mixture=mixture,
        charts={name: chart["text"] for name, chart in charts.items()},
        axes={name: chart["axes"] for name, chart in charts.items()},
        facts=sentences.how_made(certificate),
        intake=sentences.intake(certificate),
        command=command or python_command(certificate),
        assumptions=sentences.assumptions(certificate),
        data=_json({"charts": charts, "mixture": mixture}),
        library=_library(),
    )


def _title(certificate: Certificate) -> str:
    if not certificate:
        return "Nothing certified"
    return "Certified setting" if certificate.guaranteed else "Setting without a guarantee"


def _picture(spec: Any, tips: Any, text: str, axes: Any = None) -> dict[str, Any]:
    """A chart with what it shows at its points, what it says to those who do not see it, and the measures to choose from."""
    return {"spec": spec, "tips": tips, "text": text, "axes": axes}


def _tradeoff(data: certificate_charts.TradeOff) -> dict[str, Any]:
    x, y = page_charts.default_axes(data)
    labels = [measure.label for measure in data.measures]
    counted = listed(
        [f"{count:,} {name}" for name, count in zip(data.names, data.counts, strict=True) if count] or ["none"]
    )
    text = f"Scatter plot of {data.n_settings:,} settings, {labels[y]} against {labels[x]}: {counted}."
    axes = {"labels": labels, "at": {"xaxis": x, "yaxis": y}, "free": len(labels) > 2}
    return _picture(page_charts.tradeoff(data, text), page_values.tradeoff_tips(data), text, axes)


def _path(certificate: Certificate, data: certificate_charts.TestingPath) -> dict[str, Any]:
    passed = int(certificate.path["certified"].sum())
    whole = " It did not stop early." if passed == data.n_steps else ""
    end = f" It stopped at step {data.stopped}." if data.stopped else whole
    shown = f"{len(data.step):,} of {data.n_steps:,}" if data.thinned else f"{data.n_steps:,}"
    text = f"p-values of {shown} tests on a log scale, with delta = {sentences.number(data.delta)}; {passed:,} passed.{end}"
    return _picture(page_charts.testing_path(data, text), page_values.path_tips(data), text)


def _frontier(certificate: Certificate, front: dict[str, Any]) -> dict[str, Any]:
    own = certificate.problem.limits[0].compared_with
    if certificate.problem.limits[0].quantile is not None:
        own = certificate.problem.limits[0].value
    labels = [measure.label for measure in front["measures"]]
    text = f"The chosen settings for {sum(front['first'])} values of the limit, {labels[0]} against the limit."
    spec = page_charts.frontier(front["alphas"], front["values"], front["first"], own, text)
    axes = {"labels": labels, "at": {"yaxis": 0}, "free": len(labels) > 1}
    return _picture(spec, front["tips"], text, axes)


def _symbols(data: certificate_charts.TradeOff) -> list[dict[str, Any]]:
    """The legend: a symbol, its colour, its meaning and how many settings have it."""
    return [
        {
            "code": code,
            "path": page_charts.SYMBOLS[code],
            "colour": page_charts.COLOURS[code],
            "hollow": code in page_charts.HOLLOW,
            "outlined": code == certificate_charts.CHOSEN,
            "name": data.names[code],
            "count": data.counts[code],
        }
        for code in reversed(range(len(certificate_charts.STATUSES)))
        if data.counts[code]
    ]


def _json(value: Any) -> str:
    """JSON that is safe inside a script element: no character of it can end the element or start a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII only, so that no line separator remains
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _library() -> str:
    """Vega, as its Python package ships it. Putting it together takes seconds, so it is kept for later processes."""
    return remembered(f"vega-of-vl-convert-{metadata.version('vl-convert-python')}.js", _bundled)


def _bundled() -> str:
    import vl_convert

    # the bundle's name ``vega`` is null since Vega 6; Vega-Embed has the real one inside
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("riskfront._reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = sentences.number
    environment.filters["setting"] = sentences.setting_value
    environment.filters["exact"] = lambda value: repr(float(value))
    return environment


def python_command(certificate: Certificate) -> str:
    """Python that makes this certificate again from its table."""
    chosen: Any = certificate.method
    with suppress(ValueError):  # a method of the user's own is known by its name only
        chosen = make_method(certificate.method, **certificate.parameters)
    objectives_named = any(
        objective.per or objective.given or objective.said for objective in certificate.problem.objectives
    )
    used = ["Limit", *(["Objective"] if objectives_named else []), "Problem"]
    used += [type(chosen).__name__] if not isinstance(chosen, str) else []
    more = "" if certificate.unlabelled is None else ", unlabelled=unlabelled"
    if certificate.seed is None:
        used, call = [*used, "certify"], f"certify({chosen!r}.plan(opt, problem), test, problem)"
    elif certificate.frontier is not None:
        values, chosen_values = dict(certificate.frontier["values"]), dict(certificate.frontier["chosen"])
        call = (
            f"frontier(table, problem, {values!r}, method={chosen!r}, seed={certificate.seed}, simultaneous=True{more})"
        )
        choice = f", {certificate.choice!r}" if certificate.choice else ""
        used, call = [*used, "frontier"], f"{call}.choose({chosen_values!r}{choice})"
    else:
        call = f"calibrate(table, problem, method={chosen!r}, seed={certificate.seed}{more})"
        used = [*used, "calibrate"]
    lines = [f"problem = {certificate.problem!r}", f"certificate = {call}"]
    return "\n".join([f"from riskfront import {', '.join(sorted(used, key=str.lower))}", "", *lines])
