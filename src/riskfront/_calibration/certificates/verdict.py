"""The result of a calibration in sentences of plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from riskfront._calibration.certificates.uses_of_test_set import uses_in_words
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem

#: names under which logs keep prices
PRICES = ("cost", "cost_usd", "total_cost", "price")
#: a loss with one of these words in its name is money or time, and never shown in per cent
_AMOUNTS = re.compile(
    "costs?|prices?|fees?|money|dollars?|usd|euros?|eur|pounds|gbp|spend|spending|latency|latencies|durations?|ms|"
    "milliseconds|seconds|secs|minutes|hours"
)

_MOST_GROUPS = 10  # a sentence names so many groups; the certificate and its page list them all

Groups = Mapping[str, Sequence[Any]]


def certified_sentences(
    problem: Problem, loss_bounds: Mapping[str, Sequence[float]], groups: Groups, delta: float, uses: int
) -> list[str]:
    """What holds, with which confidence, and which groups it speaks of. ``delta`` is that of all ``uses`` of the testing
    examples together."""
    counted = f", counting {uses_in_words(uses)} of the same testing examples" if uses > 1 else ""
    limits = _limits(problem, loss_bounds, groups)
    return [f"With {confidence(delta)} confidence{counted}, {limits}.", *not_covered(problem, groups)]


def no_confidence(uses: int, problem: Problem, loss_bounds: Mapping[str, Sequence[float]], groups: Groups) -> list[str]:
    """What is left when the deltas of all uses of the testing examples add up to 1."""
    limits = _limits(problem, loss_bounds, groups)
    counted = f"counting {uses_in_words(uses)} of the same testing examples"
    return [
        f"NO GUARANTEE: no confidence is left, {counted}, that {limits}.",
        "Use new examples. To see many limits at the price of one question: frontier(..., simultaneous=True).",
    ]


def picked_sentences(
    method: str, problem: Problem, loss_bounds: Mapping[str, Sequence[float]], groups: Groups
) -> list[str]:
    """The same for a method without a guarantee."""
    limits = _limits(problem, loss_bounds, groups)
    return [f"NO GUARANTEE: the method {method} only picked a setting that looks as if {limits}."]


def not_covered(problem: Problem, groups: Groups) -> list[str]:
    """One sentence when a limit speaks of groups: those it does not name may be anything."""
    named = dict.fromkeys(limit.per or limit.gap_per for limit in problem.limits)
    names = [name for name in named if name is not None]
    known = [name for name in names if groups.get(name)]
    return [f"No other {' or '.join(known)} is covered."] if known else []


def confidence(delta: float) -> str:
    """1 - delta in words, never rounded up to certainty."""
    percent = f"{100 * (1 - delta):.12g}"
    return f"{percent} %" if percent != "100" else f"1 - {delta:g}"


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _limits(problem: Problem, loss_bounds: Mapping[str, Sequence[float]], groups: Groups) -> str:
    return listed([in_words(limit, loss_bounds.get(limit.loss), groups) for limit in problem.limits])


def in_words(limit: Limit, bounds: Sequence[float] | None, groups: Groups) -> str:
    """What a limit says of new examples: "error stays at or below 5 %"."""
    side = "stays at or below" if limit.at_least is None else "stays at or above"
    share = bounds is not None and bounds[0] in (0, -1) and bounds[1] == 1 and limit.quantile is None
    share = share and not _is_amount(limit.loss)  # bounds of (0, 1) may only mean that none were declared
    if limit.over:  # recall and its like, or a part of what it is divided by, are shares; anything else is a number
        share = limit.said is not None or dict(limit.term.over).get(limit.loss) == 1
    value = f"{100 * limit.value:.10g} %" if share else f"{limit.value:.10g}"
    if limit.said is not None:
        return f"{limit.said}{_in_every(limit, groups)} {side} {value}"
    name = (
        f"the mean of the worst {100 * limit.worst:.10g} % of {limit.loss}" if limit.worst is not None else limit.loss
    )
    name = f"the largest difference in {name} between two values of {limit.gap_per}" if limit.gap_per else name
    name += f"{_named(groups.get(limit.gap_per, ()))}" if limit.gap_per else ""
    name = replace(limit, per=None, weights=None, largest_weight=None).name if limit.over else name
    name += f" weighted by {limit.weights}" if limit.weights is not None else ""
    name += f" drop from {limit.drop_from}" if limit.drop_from is not None else ""
    signed = limit.drop_from is not None or (bounds is not None and bounds[0] < 0 and limit.quantile is None)
    signed = signed and not limit.over
    name += " (gains offset losses)" if signed else ""
    name += _in_every(limit, groups)
    name += f" given {limit.given}" if limit.given and not limit.over else ""
    on = "" if limit.quantile is None else f" for at least {100 * limit.quantile:.10g} % of examples"
    return f"{name} {side} {value}{on}"


def _is_amount(loss: str) -> bool:
    """Whether a name speaks of money or time: "dollars", "cost_usd", "latency (ms)"; a "relative_cost" is a share."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", loss)]
    return loss == "time" or ("relative" not in words and any(map(_AMOUNTS.fullmatch, words)))


def _in_every(limit: Limit, groups: Groups) -> str:
    return f" in every {limit.per}{_named(groups.get(limit.per, ()))}" if limit.per else ""


def _named(groups: Sequence[Any]) -> str:
    """ " (a, b and c)"; of many the first, and how many more there are."""
    if not groups:
        return ""
    shown = [str(group) for group in groups[:_MOST_GROUPS]]
    rest = len(groups) - len(shown)
    return f" ({listed([*shown, f'{rest:,} more'] if rest else shown)})"
