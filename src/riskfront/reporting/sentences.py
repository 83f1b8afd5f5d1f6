"""A certificate in plain words: the sentences and numbers that the page, the terminal and the notebook share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from riskfront.certificates.certificate import Certificate
from riskfront.certificates.verdict import confidence, listed
from riskfront.losses.values import plain
from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective
from riskfront.problems.problem import Problem
from riskfront.reporting.unlabelled_words import unlabelled_assumptions, unlabelled_fact

#: how each method goes about it, in a sentence
METHOD_IN_WORDS: Mapping[str, str] = {
    "pareto-testing": "Planned on the planning examples: the best trade-offs, safest first. Tested them in that order on the "
    "testing examples, and stopped at the first failure.",
    "split-fst": "Ordered settings by their p-values on the planning examples. Tested them in that order on the testing "
    "examples, and stopped at the first failure.",
    "constrained-path": "Solved the problem with tighter limits on the planning examples. Tested the solutions on the testing "
    "examples, strictest first, and stopped at the first failure.",
    "low-risk-path": "Learned a path through the grid of settings on the planning examples. Tested along it on the testing "
    "examples, and stopped at the first failure.",
    "sgt": "Tested the grid of settings from its safest corner outwards; each success passes its share of delta on to its "
    "neighbours.",
    "fallback": "Shared delta over the values of the first setting, and tested a fixed sequence through the others.",
    "ordered-knob": "Tested the values of one knob on all examples, from its declared safest end on, and stopped at the first "
    "failure.",
    "bonferroni": "Tested every setting at delta divided by the number of settings.",
    "holm": "Tested every setting by Holm's procedure.",
    "alpha-constrained": "Picked the best setting that measures within the limits. No test was made.",
    "alpha-delta-constrained": "Picked the best setting with a p-value of at most delta, without a correction for the number "
    "of settings that were looked at.",
}

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

P_VALUE_IN_WORDS: Mapping[str, str] = {
    "none": "none: no test was made",
    "auto": "exact binomial for 0/1 losses, betting for others",
    "binomial": "exact binomial",
    "betting": "betting",
    "hoeffding": "Hoeffding",
    "bentkus": "Bentkus",
    "hoeffding-bentkus": "Hoeffding-Bentkus",
}


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
    return [f"The chosen setting has {listed(parts)} as measured on {_measured_on(certificate)}."]


def _by_net(certificate: Certificate) -> bool:
    """Whether the best setting was certified by the test of all settings on all examples."""
    return bool(certificate) and certificate.chosen["arm"].iloc[0] == "net"


def _measured_on(certificate: Certificate) -> str:
    return "all examples" if _by_net(certificate) else "the testing examples"


def near_misses(certificate: Certificate) -> list[str]:
    """What would have been better and failed by little: for more examples, not for another look at these."""
    if not certificate or not certificate.near_misses:
        return []
    found = certificate.near_misses[0]
    setting = ", ".join(f"{name} = {number(value)}" for name, value in found["setting"].items())
    best = certificate.chosen.iloc[0]
    gains = [f"{name} {number(value)} instead of {number(best[name])}" for name, value in found["objectives"].items()]
    group = f" in {found['group']}" if found["group"] is not None else ""
    more = (
        f"About {number(found['examples_needed'])} testing examples that look like these would let it pass in half of the "
        "cases; they must be new ones."
        if found["examples_needed"] is not None
        else "No number of examples would let it pass if they look like these."
    )
    seen = (
        f"It measures {number(found['measured'])} on {number(found['examples'])} testing examples, with a p-value of "
        f"{number(found['p_value'])} where at most {number(found['tested_at'])} was needed."
    )
    return [
        f"A near miss: {setting} ({listed(gains or ['no objective'])}) failed '{found['limit']}'{group}. {seen} {more}"
    ]


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
    net = (
        ", planning examples too: the test of all settings certified it, which rests on no plan"
        if _by_net(certificate)
        else ""
    )
    return (
        f"Measured on {_measured_on(certificate)}{net}; a limit passes when its p-value is at most the share of delta it was "
        "tested at. What holds on new examples is the limit itself, for all certified settings together."
    )


def earlier_looks(certificate: Certificate) -> list[str]:
    """What the same testing examples were asked before, and what that does to the confidence."""
    said = []
    for counts, meaning in (
        (True, "The confidence counts them: their deltas and that of this answer add up."),
        (
            False,
            "The confidence speaks of one question that was fixed beforehand; choosing among the answers is not covered.",
        ),
    ):
        asked = [look.asked for look in certificate.earlier_looks if look.counts is counts]
        if asked:
            listing = "; ".join(f"({index}) {text}" for index, text in enumerate(asked[:_MOST_LOOKS], start=1))
            more = (
                f"; and {len(asked) - _MOST_LOOKS:,} more, listed in the certificate"
                if len(asked) > _MOST_LOOKS
                else ""
            )
            questions = "1 other question" if len(asked) == 1 else f"{len(asked):,} other questions"
            said.append(f"The same examples have answered {questions} before: {listing}{more}. {meaning}")
    return said if certificate.guaranteed else []


def nearest_groups(certificate: Certificate) -> list[dict[str, Any]]:
    """For each limit what was measured at the best setting; of a limit per group, in the group nearest to failing."""
    best = certificate.measured[certificate.measured["chosen"] == 1].to_dict("records")
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(best, key=lambda row: nearness(certificate, row)):
        found.setdefault(str(row["limit"]), {str(name): value for name, value in row.items()})
    return [found[str(limit)] for limit in certificate.problem.limits]


def nearness(certificate: Certificate, row: Mapping[str, Any]) -> tuple[float, float]:
    """Small for what came near to its limit: by the p-value, or without a test by the distance."""
    upper = {str(limit): limit.at_least is None for limit in certificate.problem.limits}[row["limit"]]
    distance = row["compared_with"] - row["measured"] if upper else row["measured"] - row["compared_with"]
    p_value = row["p_value"]
    return (math.inf if p_value != p_value else -p_value, math.inf if distance != distance else distance)


def objective_name(objective: Objective) -> str:
    """ "mean cost", "mean cost in the worst label", "mean cost among examples with answered"."""
    where = f" in the worst {objective.per}" if objective.per else ""
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
    delta = certificate.problem.delta
    sure = (
        "None of this gives a guarantee here: the method is a baseline that skips the correction for choosing."
        if not certificate.guaranteed
        else f"The confidence speaks of runs: if all of this were repeated on fresh examples, at most {100 * delta:g} % of "
        "the runs would certify any setting that breaks a limit. All runs count, also those that certify nothing, so it is not "
        "a share of the certificates issued. It holds for all certified settings together, so choosing among them is free."
    )
    said = [sure, *_ASSUMPTIONS, *_covered(certificate), *_bounded(certificate), *_of_targets(certificate)]
    return [*said, *unlabelled_assumptions(certificate)]


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


def how_made(certificate: Certificate) -> dict[str, str]:
    """Facts on how the certificate was made, by name."""
    given = {name: value for name, value in certificate.parameters.items() if value is not None}
    options = ", ".join(f"{name} = {setting_value(value)}" for name, value in given.items())
    p_values = certificate.measured["test"].tolist() or [limit.p_value for limit in certificate.problem.limits]
    delta, total = certificate.problem.delta, certificate.n_opt + certificate.n_test
    split = (
        f"{number(certificate.n_opt)} planning examples, {number(certificate.n_test)} testing examples, {number(total)} in all"
        if certificate.n_opt
        else f"none: all {number(certificate.n_test)} are testing examples"
    )
    return {
        "Method": certificate.method + (f" ({options})" if options else ""),
        "In words": METHOD_IN_WORDS.get(certificate.method, "A method of your own.") + _net_in_words(certificate),
        "Guarantee": "yes" if certificate.guaranteed else "NO",
        "Confidence": f"{100 * (1 - delta):g} % (delta = {delta:g})"
        if certificate.guaranteed
        else f"none (delta = {delta:g})",
        "p-value": listed([P_VALUE_IN_WORDS.get(name, name) for name in dict.fromkeys(p_values)]),
        "Split": split,
        **unlabelled_fact(certificate),
        "Seed": "none: the parts were given" if certificate.seed is None else str(certificate.seed),
        "Digest of the data": certificate.data_sha256 or "not recorded: the parts were given",
        "riskfront version": certificate.version,
    }


def _net_in_words(certificate: Certificate) -> str:
    """What was done besides the plan."""
    share = certificate.parameters.get("net") or 0
    if not share:
        return ""
    delta = certificate.problem.delta
    return (
        f" All settings were tested on all examples as well (Holm's procedure), which had {number(share * delta)} of delta = "
        f"{number(delta)}; the plan had the rest."
    )
