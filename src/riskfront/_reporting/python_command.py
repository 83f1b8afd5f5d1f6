"""Python that makes a certificate again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from riskfront._calibration.certificates.certificate import Certificate
from riskfront.methods import make_method


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
    if certificate.seed is None:
        used, call = [*used, "certify"], f"certify({chosen!r}.plan(opt, problem), test, problem)"
    elif certificate.frontier is not None:
        values, chosen_values = dict(certificate.frontier["values"]), dict(certificate.frontier["chosen"])
        call = f"frontier(table, problem, {values!r}, method={chosen!r}, seed={certificate.seed}, simultaneous=True)"
        used, call = [*used, "frontier"], f"{call}.choose({chosen_values!r})"
    else:
        more = "" if certificate.unlabelled is None else ", unlabelled=unlabelled"
        call = f"calibrate(table, problem, method={chosen!r}, seed={certificate.seed}{more})"
        used = [*used, "calibrate"]
    lines = [f"problem = {certificate.problem!r}", f"certificate = {call}"]
    return "\n".join([f"from riskfront import {', '.join(sorted(used, key=str.lower))}", "", *lines])
