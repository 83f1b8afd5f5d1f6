"""A certificate in plain words: the sentences and numbers that the page, the terminal and the notebook share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from numbers import Real
from typing import Any

from riskfront.calibration.certificate import Certificate
from riskfront.methods import make_method
from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective

#: how each method goes about it, in a sentence
METHOD_IN_WORDS: Mapping[str, str] = {
    "pareto-testing": "Planned on one part of the data: the best trade-offs, safest first. Tested them in that order on the "
    "other part, and stopped at the first failure.",
    "split-fst": "Ordered settings by their p-values on one part of the data. Tested them in that order on the other part, "
    "and stopped at the first failure.",
    "constrained-path": "Solved the problem with tighter limits on one part of the data. Tested the solutions on the other "
    "part, strictest first, and stopped at the first failure.",
    "low-risk-path": "Learned a path through the grid of settings on one part of the data. Tested along it on the other part, "
    "and stopped at the first failure.",
    "sgt": "Tested the grid of settings from its safest corner outwards; each success passes its share of delta on to its "
    "neighbours.",
    "fallback": "Shared delta over the values of the first setting, and tested a fixed sequence through the others.",
    "bonferroni": "Tested every setting at delta divided by the number of settings.",
    "holm": "Tested every setting by Holm's procedure.",
    "alpha-constrained": "Took the best setting whose empirical risks are below the limits. No test was made.",
    "alpha-delta-constrained": "Took the best setting with a p-value of at most delta, without a correction for the number "
    "of settings that were looked at.",
}

NO_GUARANTEE = (
    "This setting carries no guarantee. The method does not account for how many settings it looked at: the limits may well "
    "be broken on new data. Do not sign off on this page; use a guaranteed method such as pareto-testing."
)

_ASSUMPTIONS = (
    (
        "The examples were drawn independently of each other, and from the same source as the examples to come. "
        "Near-duplicates, several examples of one person, or a choice of easy examples break this."
    ),
    (
        "The source stays as it was. When users, inputs, or the labelling change, the limits may no longer hold: "
        "calibrate again on recent examples."
    ),
    (
        "The test examples played no part in making the settings: nothing was trained or tuned on them, and limits, delta "
        "and seed were fixed before looking at the result. Running again with other seeds until something passes breaks it."
    ),
    "A limit speaks of the mean over many new examples (in each group, where it says so), not of each single example.",
)

P_VALUE_IN_WORDS: Mapping[str, str] = {
    "auto": "exact binomial for 0/1 losses, betting for others",
    "binomial": "exact binomial",
    "betting": "betting",
    "hoeffding": "Hoeffding",
    "bentkus": "Bentkus",
    "hoeffding-bentkus": "Hoeffding-Bentkus",
}


def number(value: Any) -> str:
    """A number as it is shown everywhere: whole numbers in full, others with four significant digits."""
    if value is None or value != value:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Real):
        as_float = float(value)
        if as_float.is_integer() and abs(as_float) < 1e15:
            return f"{int(as_float):,}"
        return f"{as_float:.4g}"
    return str(value)


def setting_value(value: Any) -> str:
    """The value of a setting: never rounded, since it may be typed in again."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def verdict(certificate: Certificate) -> list[str]:
    """The result in sentences: what holds, how sure it is, of what it speaks, and what the best setting is worth in the free
    objectives."""
    return [certificate.verdict().strip(), *certificate.notes, *objectives(certificate)]


def objectives(certificate: Certificate) -> list[str]:
    """One sentence: the free objectives of the best setting on test data. Empty when nothing was certified."""
    if not certificate:
        return []
    best = certificate.chosen.iloc[0]
    parts = [f"a {objective_name(o)} of {number(best[o.name])}" for o in certificate.problem.objectives]
    return [f"The chosen setting has {listed(parts)} on test data."]


def objective_name(objective: Objective) -> str:
    """ "mean cost", "mean cost in the worst label", "mean cost among examples with answered"."""
    where = f" in the worst {objective.per}" if objective.per else ""
    given = f" among examples with {objective.given}" if objective.given else ""
    return f"mean {objective.loss}{where}{given}"


def limit_name(limit: Limit) -> str:
    """What the risks of a limit measure, in words."""
    if limit.quantile is None:
        return limit.name
    where = (f" per {limit.per}" if limit.per else "") + (f" given {limit.given}" if limit.given else "")
    return f"share of examples with {limit.loss} above {limit.value:g}{where}"


def listed(parts: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def assumptions(certificate: Certificate) -> list[str]:
    """What must be true for the guarantee to hold, and what breaks it."""
    delta = certificate.problem.delta
    sure = (
        "None of this gives a guarantee here: the method is a baseline that skips the correction for choosing."
        if not certificate.guaranteed
        else f"The confidence speaks of this procedure: repeated on fresh data, at most {100 * delta:g} % of its "
        "certificates would break a limit. It holds for all certified settings together, so choosing among them is free."
    )
    return [sure, *_ASSUMPTIONS, *_bounded(certificate)]


def _bounded(certificate: Certificate) -> list[str]:
    if all(limit.quantile is not None for limit in certificate.problem.limits):
        return []
    return ["Losses that are not yes or no stay within the bounds that were declared for them."]


def how_made(certificate: Certificate) -> dict[str, str]:
    """Facts on how the certificate was made, by name."""
    given = {name: value for name, value in certificate.parameters.items() if value is not None}
    options = ", ".join(f"{name} = {setting_value(value)}" for name, value in given.items())
    p_values = certificate.bounds["p_value_used"].tolist() or [limit.p_value for limit in certificate.problem.limits]
    delta, total = certificate.problem.delta, certificate.n_opt + certificate.n_test
    split = (
        f"{number(certificate.n_opt)} examples to plan, {number(certificate.n_test)} to test, {number(total)} in all"
        if certificate.n_opt
        else f"none: all {number(certificate.n_test)} examples to test"
    )
    return {
        "Method": certificate.method + (f" ({options})" if options else ""),
        "In words": METHOD_IN_WORDS.get(certificate.method, "A method of your own."),
        "Guarantee": "yes" if certificate.guaranteed else "NO",
        "Confidence": f"{100 * (1 - delta):g} % (delta = {delta:g})"
        if certificate.guaranteed
        else f"none (delta = {delta:g})",
        "p-value": listed([P_VALUE_IN_WORDS.get(name, name) for name in dict.fromkeys(p_values)]),
        "Split": split,
        "Seed": "none: the parts were given" if certificate.seed is None else str(certificate.seed),
        "SHA-256 of the data": certificate.data_sha256 or "not recorded: the parts were given",
        "riskfront version": certificate.version,
    }


def python_command(certificate: Certificate) -> str:
    """Python that makes this certificate again from its table."""
    chosen: Any = certificate.method
    with suppress(ValueError):  # a method of the user's own is known by its name only
        chosen = make_method(certificate.method, **certificate.parameters)
    objectives_named = any(objective.per or objective.given for objective in certificate.problem.objectives)
    used = ["Limit", *(["Objective"] if objectives_named else []), "Problem"]
    used += [type(chosen).__name__] if not isinstance(chosen, str) else []
    if certificate.seed is None:
        used, call = [*used, "certify"], f"certify({chosen!r}.plan(opt, problem), test, problem)"
    else:
        used, call = [*used, "calibrate"], f"calibrate(table, problem, method={chosen!r}, seed={certificate.seed})"
    lines = [f"problem = {certificate.problem!r}", f"certificate = {call}"]
    return "\n".join([f"from riskfront import {', '.join(sorted(used, key=str.lower))}", "", *lines])
