"""Limits on more than a mean: ratios, gaps between groups, means of the worst cases, weighted means.

What each of them must fulfil, and the texts that say so:

    cost / solved <= 0.02                          ratio of two means
    tp / (tp + 0.5 fp + 0.5 fn) >= 0.8             the denominator may be a sum
    error gap between country <= 0.05              largest difference between two groups
    worst 5 % of latency <= 300                    mean of the worst cases
    error weighted by w up to 10 <= 0.05           mean after a known shift
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError
from riskfront.statistics._p_values import P_VALUES

if TYPE_CHECKING:
    from riskfront._problems.limits import Limit

Over = tuple[tuple[str, float], ...]

_RATIO = re.compile(r"^(?P<loss>.+?)\s+/\s+(?:\((?P<sum>.+)\)|(?P<only>.+?))$")
_PART = re.compile(r"^(?:(?P<factor>\d*\.?\d+(?:e-?\d+)?)\s+)?(?P<name>.+)$")
_GAP = re.compile(r"^(?P<loss>.+?)\s+gap\s+between\s+(?P<gap_per>.+)$")
_WORST = re.compile(r"^worst\s+(?P<share>\d*\.?\d+)\s*%\s+of\s+(?P<loss>.+)$")
_WEIGHTED = re.compile(r"^(?P<loss>.+?)\s+weighted\s+by\s+(?P<weights>.+?)\s+up\s+to\s+(?P<largest>[\d.e+]+)$")


def parsed_name(text: str) -> dict[str, Any]:
    """What the left side of a limit asks for: at least its loss."""
    found: dict[str, Any] = {}
    if weighted := _WEIGHTED.match(text):
        found |= {"weights": weighted["weights"], "largest_weight": float(weighted["largest"])}
        text = weighted["loss"]
    if worst := _WORST.match(text):
        return found | {"loss": worst["loss"], "worst": round(float(worst["share"]) / 100, 12)}
    if gap := _GAP.match(text):
        return found | {"loss": gap["loss"], "gap_per": gap["gap_per"]}
    if ratio := _RATIO.match(text):
        parts = ratio["sum"].split(" + ") if ratio["sum"] else [ratio["only"]]
        matches = [match for part in parts if (match := _PART.match(part.strip())) is not None]
        return found | {"loss": ratio["loss"], "over": {m["name"]: float(m["factor"] or 1) for m in matches}}
    return found | {"loss": text}


def parsed_weights(text: str) -> tuple[str, float]:
    """ "w <= 10" -> ("w", 10.0)."""
    match = re.match(r"^\s*(?P<name>.+?)\s*(?:<=|≤)\s*(?P<largest>[\d.e+]+)\s*$", text)
    if match is None:
        raise InvalidInputError(
            f"weights must name a column and the largest that a weight can be, as 'w <= 10'; got {text!r}."
        )
    return match["name"], float(match["largest"])


def as_over(given: Any) -> Over:
    """The columns of a denominator, each with its factor; given by name, by names, or with factors."""
    if given is None or given == ():
        return ()
    if isinstance(given, str):
        listed: list[Any] = [(given, 1.0)]
    elif isinstance(given, Mapping):
        listed = list(given.items())
    elif isinstance(given, Iterable):
        listed = [(part, 1.0) if isinstance(part, str) else tuple(part) for part in given]
    else:
        listed = [given]
    named: dict[str, float] = {}
    for part in listed:
        pair = part if isinstance(part, tuple) and len(part) == 2 else (part, 0)
        if not isinstance(pair[0], str) or not pair[0] or not is_number(pair[1]) or pair[1] <= 0 or pair[0] in named:
            raise InvalidInputError(
                f"over must name the columns of a denominator once each, with factors above 0 if they differ, as 'solved', "
                f"('tp', 'fp') or {{'tp': 1, 'fp': 0.5}}; got {given!r}."
            )
        named[pair[0]] = float(pair[1])
    return tuple(named.items())


def name_of(limit: Limit) -> str:
    """What a limit speaks of, before groups and conditions."""
    name = limit.loss
    if limit.worst is not None:
        name = f"worst {100 * limit.worst:.10g} % of {name}"
    if limit.gap_per is not None:
        name += f" gap between {limit.gap_per}"
    if over := limit.term.over:
        parts = [column if factor == 1 else f"{factor:.10g} {column}" for column, factor in over]
        name += f" / {parts[0]}" if over[0][1] == 1 and len(parts) == 1 else f" / ({' + '.join(parts)})"
    if limit.weights is not None:
        name += f" weighted by {limit.weights} up to {limit.largest_weight:.10g}"
    return name


def asked_for(limit: Limit, *options: str) -> list[str]:
    """Those of the options that a limit asks for."""
    given = {name: getattr(limit, name) for name in options}
    return [name for name, value in given.items() if value is not None and value is not False and value != ()]


def check(limit: Limit) -> None:
    """Raise a clear error if a limit asks for what cannot be, or for two things that have no meaning together."""
    asked = asked_for(limit, "over", "gap_per", "worst", "weights", "drop_from", "quantile", "padded")
    new = [name for name in asked if name in ("over", "gap_per", "worst", "weights")]
    if not new:
        if limit.largest_weight is not None or limit.threshold is not None:
            raise InvalidInputError("largest_weight belongs to weights, threshold to worst; the limit has neither.")
        return
    if len(asked) > 1 and asked != ["over", "weights"]:
        raise InvalidInputError(f"a limit on '{limit.loss}' must ask for one thing; got {', '.join(asked)}.")
    needs = "sequence" if limit.p_value == "auto" else P_VALUES[limit.p_value].needs
    if needs == "count" or (limit.gap_per is not None and needs != "sequence"):
        raise InvalidInputError(
            f"a limit on '{name_of(limit)}' is no share of yes and no; use p_value='auto', which bets; got '{limit.p_value}'."
        )
    _check_gap(limit)
    _check_worst(limit)
    _check_weights(limit)


def _check_gap(limit: Limit) -> None:
    if limit.gap_per is not None and (limit.per is not None or limit.at_most is None or limit.value <= 0):
        raise InvalidInputError(
            f"a gap between groups must have at_most above 0 and no per; got {limit.value:g}, per={limit.per!r}."
        )


def _check_worst(limit: Limit) -> None:
    if limit.threshold is not None and limit.worst is None:
        raise InvalidInputError("threshold belongs to a limit on the worst cases; got no worst.")
    if limit.worst is None:
        return
    if not is_number(limit.worst) or not 0 < limit.worst < 1:
        raise InvalidInputError(f"worst must be a share in (0, 1), as 0.05 for the worst 5 %; got {limit.worst!r}.")
    if limit.threshold is not None and not is_number(limit.threshold):
        raise InvalidInputError(f"threshold must be a finite number; got {limit.threshold!r}.")


def _check_weights(limit: Limit) -> None:
    if (limit.weights is None) != (limit.largest_weight is None):
        raise InvalidInputError(
            "weights need the largest that a weight can be, on new examples too: weights='w', largest_weight=10; got "
            f"weights={limit.weights!r}, largest_weight={limit.largest_weight!r}."
        )
    if limit.largest_weight is not None and not (is_number(limit.largest_weight) and limit.largest_weight > 0):
        raise InvalidInputError(f"largest_weight must be a number above 0; got {limit.largest_weight!r}.")
