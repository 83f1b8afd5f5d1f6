"""What is expected of a good setting at one limit, checked, in units of [0, 1]; and how likely it is to pass."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from riskfront._problems.limits import Limit
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError
from riskfront.statistics._sample_size import examples_for, power

#: one number for one limit, or numbers by the name of a limit or of its loss
Expected = float | Mapping[str, float]
#: the share of the examples that a limit speaks of, or one share a group
Shares = float | Sequence[float] | Mapping[str, float | Sequence[float]]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A limit in units of [0, 1] with the risk that is expected, and the share of the examples in each group it speaks of."""

    limit: Limit
    expected: float
    risk: float
    alpha: float
    spread: float | None
    shares: tuple[float, ...]

    @property
    def keeps(self) -> bool:
        """Whether what is expected keeps the limit at all."""
        return self.risk < self.alpha

    def needed(self, level: float, chance: float) -> float:
        """How many testing examples the rarest group needs by itself; nan if no number does."""
        found = examples_for(self.risk, self.alpha, level, chance, self.spread)
        return float("nan") if found is None else np.ceil(found / min(self.shares))

    def chance(self, testing: int, level: float) -> float:
        """The probability that every group passes, each with the risk that is expected."""
        counts = [round(share * testing) for share in self.shares]
        return math.prod(power(n, self.risk, self.alpha, level, self.spread) for n in counts)


def expectations(
    limits: Sequence[Limit],
    expected: Expected,
    spread: Expected | None,
    shares: Shares | None,
    bounds: Mapping[str, tuple[float, float]],
    prevalence: float | None = None,
) -> list[Expectation]:
    """One for each limit; every name that was given must be that of a limit or of its loss."""
    shares = _with_prevalence(limits, shares, prevalence)
    for option, given in (("expected", expected), ("spread", spread), ("shares", shares), ("bounds", bounds)):
        _check_names(option, given, limits)
    return [_expectation(limit, expected, spread, shares, bounds) for limit in limits]


def _check_names(option: str, given: object, limits: Sequence[Limit]) -> None:
    if isinstance(given, Mapping):
        names = list(dict.fromkeys(name for limit in limits for name in (limit.name, limit.loss)))
        for name in given:
            known(name, names, f"limit or loss for {option}")
    elif given is not None and len(limits) > 1:
        named = ", ".join(f"'{limit.name}': ..." for limit in limits)
        raise InvalidInputError(f"{option} must name each of several limits, {{{named}}}; got {given!r} alone.")


def _expectation(
    limit: Limit,
    expected: Expected,
    spread: Expected | None,
    shares: Shares | None,
    bounds: Mapping[str, tuple[float, float]],
) -> Expectation:
    if limit.over or limit.gap_per or limit.worst or limit.weights:
        raise InvalidInputError(f"'{limit}' has a spread of its own: use a pilot table, forecast(table, problem).")
    low, high = _range(limit, bounds)
    value = _of(limit, expected)
    if not is_number(value):
        raise InvalidInputError(
            f"expected must have a number for '{limit.name}', as {{'{limit.name}': 0.03}}; got {expected!r}."
        )
    if not low <= value <= high:
        what = "the share of examples above it" if limit.quantile is not None else f"a mean in [{low:g}, {high:g}]"
        raise InvalidInputError(f"expected must have, for '{limit}', {what}; got {value!r}.")
    width, at = high - low, limit.compared_with
    upper = limit.at_least is None
    risk, alpha = (
        ((value - low) / width, (at - low) / width) if upper else ((high - value) / width, (high - at) / width)
    )
    return Expectation(limit, value, risk, alpha, _spread(limit, spread, risk, width), _shares(limit, shares))


def _range(limit: Limit, bounds: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """What the mean of a limit may be; the limit itself must lie inside."""
    low, high = (0.0, 1.0) if limit.quantile is not None else bounds.get(limit.loss, (0.0, 1.0))
    if limit.drop_from is not None:
        low, high = low - high, high - low
    if not low < limit.compared_with < high:
        raise InvalidInputError(
            f"'{limit}' must lie strictly between its bounds ({low:g}, {high:g}). Give the range of the loss: "
            f"bounds={{'{limit.loss}': (low, high)}}, or --bounds '{limit.loss}=low,high'."
        )
    return low, high


def _spread(limit: Limit, spread: Expected | None, risk: float, width: float) -> float | None:
    """The standard deviation in units of [0, 1]; a mean leaves room for no more than that of 0/1 losses."""
    value = _of(limit, spread)
    if value is None:
        return None
    largest = width * math.sqrt(risk * (1 - risk))
    if not is_number(value) or not 0 <= value <= largest * (1 + 1e-9):
        raise InvalidInputError(
            f"spread must be a standard deviation from 0 to {largest:.4g}, the largest that losses with the expected mean of "
            f"'{limit.name}' can have; got {value!r}."
        )
    return float(value) / width


_OF_POSITIVES = ("recall", "sensitivity", "tpr", "fnr", "false_negative_rate")
_OF_NEGATIVES = ("specificity", "tnr", "fpr", "false_positive_rate")
_OF_ANSWERS = ("precision", "ppv", "npv")


def _with_prevalence(limits: Sequence[Limit], shares: Shares | None, prevalence: float | None) -> Shares | None:
    """The shares, with those of limits on one of two classes from the share of positive examples."""
    if prevalence is not None and not (is_number(prevalence) and 0 < prevalence <= 1):
        raise InvalidInputError(f"prevalence must be the share of positive examples, in (0, 1]; got {prevalence!r}.")
    found: dict[str, Any] = {}
    for limit in limits:
        word, plain_mean = limit.loss.lower(), limit.given is None and limit.per is None and not limit.over
        if not plain_mean or _of(limit, shares) is not None:
            continue
        if word in (*_OF_POSITIVES, *_OF_NEGATIVES):
            if prevalence is None:
                raise InvalidInputError(
                    f"'{limit}' speaks of {'positive' if word in _OF_POSITIVES else 'negative'} examples alone: give "
                    f"the share of "
                    "positive examples, as prevalence=0.1 or --prevalence 0.1 (1 where every example has a "
                    f"{limit.loss} of its own). The answer is then in examples of both kinds."
                )
            if prevalence < 1:
                found[limit.loss] = prevalence if word in _OF_POSITIVES else 1 - prevalence
        elif word in _OF_ANSWERS and prevalence is None:
            raise InvalidInputError(
                f"'{limit}' speaks of the examples that are answered so: give their share, as "
                f"shares={{'{limit.loss}': 0.2}} or "
                f"--share '{limit.loss}=0.2' (1 where every example has a {limit.loss} of its own)."
            )
    return {**(shares if isinstance(shares, Mapping) else {}), **found} if found else shares


def _shares(limit: Limit, shares: Shares | None) -> tuple[float, ...]:
    value = _of(limit, shares)
    if value is None and (limit.per is not None or limit.given is not None):
        which = "of the rarest group, or of every group" if limit.per is not None else "that it speaks of"
        raise InvalidInputError(
            f"'{limit}' does not speak of all examples: give the share {which}, as shares={{'{limit.loss}': 0.2}} or "
            f"--share '{limit.loss}=0.2'."
        )
    found = [1.0] if value is None else [value] if is_number(value) else list(value)
    if not found or not all(is_number(share) and 0 < share <= 1 for share in found) or sum(found) > 1 + 1e-9:
        raise InvalidInputError(
            f"shares must be numbers above 0 that make at most 1 together; got {value!r} for '{limit}'."
        )
    return tuple(float(share) for share in found)


def _of(limit: Limit, given: Any) -> Any:
    """What was given for a limit: by its name, or by that of its loss, or as the only one."""
    return given.get(limit.name, given.get(limit.loss)) if isinstance(given, Mapping) else given
