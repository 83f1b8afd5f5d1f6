"""A certificate in plain words: the sentences and numbers that the page, the terminal and the notebook share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from riskfront._calibration.certificates.certificate import NEVER_GUARANTEED, Certificate
from riskfront._calibration.certificates.verdict import PRICES, confidence, listed
from riskfront._problems.limits import Limit
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront._support.values import plain
from riskfront.methods import METHODS
from riskfront.statistics._p_values import P_VALUES

_MANY = 1_000_000
_MOST_LOOKS = 3  # earlier questions that are spelled out

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
        "The testing examples played no part in making the settings: nothing was trained or tuned on them, and limits, delta "
        "and seed were fixed before looking at the result. Running again with other seeds until something passes breaks it."
    ),
    "A limit speaks of the mean over many new examples (in each group, where it says so), not of each single example.",
)


def p_value_words(name: str) -> str:
    """A p-value by the words that people read."""
    if name == "none":
        return "none: no test was made"
    return "exact binomial for 0/1 losses, betting for others" if name == "auto" else P_VALUES[name].words


def number(value: Any) -> str:
    """A number as it is shown everywhere: whole numbers and large ones in full, others with four significant digits."""
    if value is None or value != value:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Real):
        as_float = float(value)
        if abs(as_float) < 1e15 and (as_float.is_integer() or abs(as_float) >= 1e4):
            return f"{as_float:,.0f}"
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
    return [*(part for part in certificate.sentences() if part), *certificate.notes, *objectives(certificate)]


def objectives(certificate: Certificate) -> list[str]:
    """One sentence: the free objectives of the best setting as measured. Empty when nothing was certified."""
    if not certificate:
        return []
    best = certificate.chosen.iloc[0]
    parts = [f"a {objective_name(o)} of {number(best[o.name])}" for o in certificate.problem.objectives]
    said = f"The chosen setting has {listed(parts)} as measured on {_measured_on(certificate)}."
    return [*nothing_better(certificate), said]


def nothing_better(certificate: Certificate) -> list[str]:
    """One sentence if the best that passed is the reference, or if only the safest of several settings passed."""
    path = certificate.path
    if not certificate or not certificate.guaranteed or not certificate.problem.objectives:
        return []
    first = certificate.problem.objectives[0]
    better = "cheaper" if first.name in PRICES else f"better in {objective_name(first)}"
    references = {limit.drop_from for limit in certificate.problem.limits} - {None}
    if references:
        own = {text for name, value in certificate.config.items() for text in (str(value), f"{name}={value}")}
        alone = len(certificate.certified) == 1 or len(certificate.problem.objectives) == 1  # the best is the reference
        shared = own & references if alone else set()
        return [f"Nothing {better} than {name} could be certified." for name in sorted(map(str, shared))[:1]]
    if len(path) > 1 and int(path["certified"].sum()) == 1 and bool(path["certified"].iloc[0]):
        return [f"Nothing {better} than the safest setting could be certified."]
    return []


def _by_fallback_test(certificate: Certificate) -> bool:
    """Whether the best setting was certified by the test of all settings on all examples."""
    return bool(certificate) and certificate.chosen["tested_by"].iloc[0] == "holm"


def _measured_on(certificate: Certificate) -> str:
    return "all examples" if _by_fallback_test(certificate) else "the testing examples"


def _by_either_test(certificate: Certificate) -> bool:
    """Whether each limit of the best setting may have been certified by another test, as on frontiers of several limits."""
    several = certificate.frontier is not None and len(certificate.frontier["values"]) > 1
    return several and bool(certificate.parameters.get("holm_share")) and not _by_fallback_test(certificate)


def on_how_many(certificate: Certificate) -> str:
    """The examples that the limits of the best setting were measured on."""
    if _by_either_test(certificate):
        return "On the examples that tested each"
    if _by_fallback_test(certificate):
        return f"On all {number(certificate.n_opt + certificate.n_test)} examples"
    return f"On {number(certificate.n_test)} testing examples"


def _about(n: int) -> str:
    """Digits of a number in the millions would say that it is known."""
    return f"About {number(n)}" if n <= _MANY else "More than a million"


def near_misses(certificate: Certificate) -> list[str]:
    """A better setting that failed by little, and how many new examples it would take."""
    if not certificate or not certificate.near_misses:
        return []
    found = certificate.near_misses[0]
    setting = ", ".join(f"{name} = {number(value)}" for name, value in found["setting"].items())
    best = certificate.chosen.iloc[0]
    gains = [f"{name} {number(value)} instead of {number(best[name])}" for name, value in found["objectives"].items()]
    group = f" in {found['group']}" if found["group"] is not None else ""
    if found["examples_needed"] is None:
        more = "More examples like these would not let it pass."
    elif found["examples_needed"] <= found["examples"] + 1:
        more = f"Another {number(found['examples'])} new testing examples would give it an even chance to pass."
    else:
        more = f"{_about(found['examples_needed'])} new testing examples would give it an even chance to pass."
    seen = (
        f"It measures {number(found['measured'])} on {number(found['examples'])} testing examples, with a p-value of "
        f"{number(found['p_value'])} where at most {number(found['tested_at'])} was needed."
    )
    return [
        f"A near miss: {setting} ({listed(gains or ['no objective'])}) failed '{found['limit']}'{group}. {seen} {more}"
    ]


def why_no_guarantee(method: str) -> str:
    """One sentence on a method without a guarantee."""
    return f"NO GUARANTEE: {method} does not account for luck, and of many settings the best measured one was lucky."


def frontier_words(problem: Problem, *, together: bool) -> str:
    """What a list of limits means: each by itself, or all with one confidence."""
    if not together:
        return "Each row stands by itself: fix the limit before looking, not after."
    return (
        f"All rows hold together with {confidence(problem.delta)} confidence: you may choose the limit after looking. That "
        "covers these rows; another certificate of the same examples is another statement."
    )


def what_holds(certificate: Certificate) -> str:
    """What the numbers next to a limit mean: what was measured, and what holds."""
    if not certificate.guaranteed:
        return "Measured on the testing examples the setting was picked by, so new examples may well be worse."
    fallback = ""
    if _by_fallback_test(certificate):
        fallback = ", planning examples too: the fallback test, which needs no plan, certified it"
    elif _by_either_test(certificate):
        fallback = ", or on all examples where the fallback test certified a limit"
    return (
        f"Measured on {_measured_on(certificate)}{fallback}. A p-value bounds the probability of a result "
        "this good if the limit did not hold. What holds on new examples is the limit, not the measured value, for all "
        "certified settings together."
    )


def earlier_looks(certificate: Certificate) -> list[str]:
    """Earlier uses of the same testing examples, and what they do to the confidence."""
    asked = [use.asked for use in certificate.earlier_looks]
    if not asked or certificate.method in NEVER_GUARANTEED:
        return []
    listing = "; ".join(f"({index}) {text}" for index, text in enumerate(asked[:_MOST_LOOKS], start=1))
    more = f"; and {len(asked) - _MOST_LOOKS:,} more, listed in the certificate" if len(asked) > _MOST_LOOKS else ""
    questions = "1 other question" if len(asked) == 1 else f"{len(asked):,} other questions"
    counted = "The confidence counts them: their deltas and that of this answer add up."
    return [f"The same examples were used for {questions} before: {listing}{more}. {counted}"]


def nearest_groups(certificate: Certificate) -> list[dict[str, Any]]:
    """For each limit what was measured at the best setting; of a limit per group, in the group nearest to failing."""
    best = certificate.measured[certificate.measured["chosen"] == 1].to_dict("records")
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(best, key=lambda row: nearness(certificate, row)):
        found.setdefault(str(row["limit"]), {str(name): value for name, value in row.items()})
    return [found[str(limit)] for limit in certificate.problem.limits]


def measured_cell(certificate: Certificate, row: Mapping[str, Any]) -> Any:
    """The measured value of a limit; for a quantile in words, since the share of examples beyond it was measured."""
    limit = next(limit for limit in certificate.problem.limits if str(limit) == row["limit"])
    if limit.quantile is None:
        return row["measured"]
    return f"{100 * row['measured']:.3g} % above {limit.value:g}"


def nearness(certificate: Certificate, row: Mapping[str, Any]) -> tuple[float, float]:
    """Small for what came near to its limit: by the p-value, or without a test by the distance."""
    upper = {str(limit): limit.at_least is None for limit in certificate.problem.limits}[row["limit"]]
    distance = row["compared_with"] - row["measured"] if upper else row["measured"] - row["compared_with"]
    p_value = row["p_value"]
    return (math.inf if p_value != p_value else -p_value, math.inf if distance != distance else distance)


def objective_name(objective: Objective) -> str:
    """ "mean cost", "mean cost in the worst label", "mean cost among examples with answered"."""
    where = f" in the worst {objective.per}" if objective.per else ""
    if objective.said is not None:
        return f"{objective.said}{where}"
    given = f" among examples with {objective.given}" if objective.given else ""
    weighted = f" weighted by {objective.weights}" if objective.weights else ""
    return f"mean {objective.loss}{where}{given}{weighted}"


def limit_name(limit: Limit) -> str:
    """What a limit compares with its number, in words."""
    if limit.quantile is None:
        return limit.name
    where = (f" per {limit.per}" if limit.per else "") + (f" given {limit.given}" if limit.given else "")
    return f"share of examples with {limit.loss} above {limit.value:g}{where}"


def group_name(limit: Limit, group: Any) -> str | None:
    """Which group, or pair of groups, a measured value speaks of."""
    if limit.gap_per is not None:
        return f"{limit.gap_per}: {group}"
    return None if limit.per is None else f"{limit.per} = {setting_value(plain(group))}"


def assumptions(certificate: Certificate) -> list[str]:
    """What must be true for the guarantee to hold, and what breaks it."""
    delta = certificate.delta_of_all_looks
    sure = (
        f"None of this gives a guarantee here: {_why_none(certificate)}."
        if not certificate.guaranteed
        else f"The confidence speaks of runs: if all of this were repeated on fresh examples, at most {100 * delta:g} % of "
        "the runs would certify any setting that breaks a limit. All runs count, also those that certify nothing, so it is not "
        "a share of the certificates issued. It holds for all certified settings together, so choosing among them is free."
    )
    rests_on: tuple[str, ...] = _ASSUMPTIONS
    if certificate.frontier is not None:
        rests_on = tuple(text.replace("and limits, delta", "and the values of limits, delta") for text in _ASSUMPTIONS)
    said = [sure, *rests_on, *_covered(certificate), *_bounded(certificate), *_of_targets(certificate)]
    return [*said, *unlabelled_assumptions(certificate)]


def no_guarantee(certificate: Certificate) -> str:
    """Why nothing is promised, for people who skip the rest."""
    if certificate.is_used_up:
        return "The testing examples were used for so many questions that no confidence is left. Use new examples."
    return NO_GUARANTEE


def _why_none(certificate: Certificate) -> str:
    if certificate.is_used_up:
        return "the testing examples were used for too many questions"
    return "the method is a baseline that skips the correction for choosing"


def _of_targets(certificate: Certificate) -> list[str]:
    """What limits on more than a mean rest on."""
    said = []
    for limit in certificate.problem.limits:
        if limit.weights is not None:
            said.append(
                f"The weights '{limit.weights}' are known, none is above {limit.largest_weight:g} on any example to come, and "
                "they say how much more often such an example will come than it came here. "
                "Estimated weights carry no guarantee."
            )
        if limit.over:
            said.append(f"'{limit.name}' is the ratio of two means over all new examples, not a mean of ratios.")
        if limit.worst is not None and str(limit) in certificate.thresholds:
            said.append(
                f"'{limit.name}' was tested with the threshold {number(certificate.thresholds[str(limit)])}, which the "
                "planning examples chose."
            )
    return list(dict.fromkeys(said))


def _covered(certificate: Certificate) -> list[str]:
    """Which groups a limit in every group speaks of, all of them by name."""
    return [
        f"A limit in every {name} covers {listed([setting_value(plain(value)) for value in values])}. "
        f"An example with any other {name} is not covered."
        for name, values in certificate.groups.items()
        if values and certificate.guaranteed
    ]


def _bounded(certificate: Certificate) -> list[str]:
    if all(limit.quantile is not None for limit in certificate.problem.limits):
        return []
    return ["Losses that are not yes or no stay within the bounds that were declared for them."]


def _counted(certificate: Certificate) -> str:
    n = len(certificate.earlier_looks)
    return f", and those of {n:,} earlier use{'s' if n > 1 else ''} of the testing examples" if n else ""


_TOGETHER = " So at all values of the limits together, which share delta."


def how_made(certificate: Certificate) -> dict[str, str]:
    """Facts on how the certificate was made, by name."""
    given = {name: value for name, value in certificate.parameters.items() if value is not None}
    options = ", ".join(f"{name} = {setting_value(value)}" for name, value in given.items())
    p_values = certificate.measured["test"].tolist() or [limit.p_value for limit in certificate.problem.limits]
    delta, total = certificate.problem.delta, certificate.n_opt + certificate.n_test
    words = METHODS[certificate.method].words if certificate.method in METHODS else "A method of your own."
    split = (
        f"{number(certificate.n_opt)} planning examples, {number(certificate.n_test)} testing examples, {number(total)} in all"
        if certificate.n_opt
        else f"none: all {number(certificate.n_test)} are testing examples"
    )
    return {
        "Method": certificate.method + (f" ({options})" if options else ""),
        "In words": words
        + (_TOGETHER if certificate.frontier is not None else "")
        + _fallback_test_in_words(certificate),
        "Guarantee": "yes" if certificate.guaranteed else "NO",
        "Confidence": f"{100 * (1 - certificate.delta_of_all_looks):g} % (delta = {delta:g}{_counted(certificate)})"
        if certificate.guaranteed
        else f"none (delta = {delta:g})",
        **({"Chosen from": source} if (source := chosen_from(certificate)) else {}),
        "p-value": listed([p_value_words(name) for name in dict.fromkeys(p_values)]),
        "Split": split,
        **({"Evaluations": made} if (made := evaluations(certificate)) else {}),
        **unlabelled_fact(certificate),
        "Seed": "none: the parts were given" if certificate.seed is None else str(certificate.seed),
        "Digest of the data": certificate.data_sha256 or "not recorded: the parts were given",
        "riskfront version": certificate.version,
    }


def evaluations(certificate: Certificate) -> str:
    """How many outcomes a sequential test paid for, and how many a full table has; empty for other tests."""
    found = certificate.evaluations
    if not found or "made" not in found:
        return ""
    words = f"{number(found['made'])} evaluations were made; a full table has {number(found['full'])}."
    if "spent" in found:
        words += f" They cost {found['spent']:.6g}; a full table costs about {found['full table']:.6g}."
    return words


def chosen_from(certificate: Certificate) -> str:
    """Which limits were looked at before these were chosen; empty where these alone were asked for."""
    if certificate.frontier is None:
        return ""
    values = certificate.frontier["values"]
    shown = listed(
        [f"{len(of)} values of {name} ({number(min(of))} to {number(max(of))})" for name, of in values.items()]
    )
    return f"a frontier of {shown}; all its statements hold together, so these limits were chosen after looking"


def intake(certificate: Certificate) -> dict[str, int]:
    """What became of every row, in words -> how many; the first is the sum of those below it."""
    rows = certificate.intake
    found = {"Rows read": rows.read, "Used as recorded": rows.used, "Counted as the worst: no outcome": rows.worst}
    found |= {f"Left out: {reason}": count for reason, count in rows.left_out.items()}
    if rows.absent:
        found["Besides, outcomes without a row, counted as the worst"] = rows.absent
    return found | {f"Rows that know '{name}': its mean is over these": count for name, count in rows.known.items()}


def _fallback_test_in_words(certificate: Certificate) -> str:
    """What was done besides the plan."""
    share = certificate.parameters.get("holm_share") or 0
    if not share:
        return ""
    delta = certificate.problem.delta
    how = "" if certificate.frontier is not None else " (Holm's procedure)"
    return (
        f" All settings were tested on all examples as well{how}, which had {number(share * delta)} of delta = "
        f"{number(delta)}; the plan had the rest."
    )


_LITTLE = 0.95  # of the variance left: a proxy that takes away less is called useless


def unlabelled_words(certificate: Certificate) -> list[str]:
    """Sentences; none where no unlabelled examples were used."""
    if certificate.unlabelled is None:
        return []
    known = _has_examples(certificate)
    used = f"{certificate.unlabelled['used']:,} unlabelled examples" if known else "Unlabelled examples"
    return [
        f"{used} helped to test, each with a proxy instead of a label; what was measured is the mean over labelled examples.",
        *(_worth(certificate, found) for found in certificate.unlabelled["limits"]),
    ]


def unlabelled_fact(certificate: Certificate) -> dict[str, str]:
    """For the table of how a certificate was made."""
    if certificate.unlabelled is None or not _has_examples(certificate):
        return {}
    proxies = ", ".join(dict.fromkeys(found["proxy"] for found in certificate.unlabelled["limits"]))
    found = certificate.unlabelled
    return {
        "Unlabelled": f"{found['examples']:,} examples, {found['used']:,} of them used; proxy {proxies}; {found['sha256']}"
    }


def unlabelled_assumptions(certificate: Certificate) -> list[str]:
    """What must be true of unlabelled examples for the guarantee to hold."""
    if certificate.unlabelled is None:
        return []
    return [
        (
            "The unlabelled examples come from the same source as the labelled ones, none is among these, and the proxy was "
            "made in the same way for both: it learnt from neither. How good it is does not matter for the guarantee."
        )
    ]


def _has_examples(certificate: Certificate) -> bool:
    return "examples" in (certificate.unlabelled or {})


def _worth(certificate: Certificate, found: dict[str, Any]) -> str:
    left, about = found["variance_left"], f"'{found['limit']}'"
    if left is None:
        return f"What the proxy brought for {about} was not measured: there are too few planning examples, or none."
    alone = f"measured on {certificate.n_opt:,} planning examples; labels alone leave all of it"
    if left > _LITTLE:
        return f"For {about} the proxy brought next to nothing: it leaves {100 * left:.0f} % of the variance ({alone})."
    return (
        f"For {about} the proxy leaves {100 * left:.0f} % of the variance ({alone}): each label counts for about "
        f"{1 / left:.2g}."
    )
