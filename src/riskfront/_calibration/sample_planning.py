"""How many examples? Before the first label, by arithmetic.

A setting with the risks that you expect must pass every limit with the probability that you want. It is tested
on what planning leaves of the examples, at what the fallback test leaves of delta, as the default method would; limits are
taken to be independent of each other, and the settings before it on the path to pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.values import is_number, known, whole_number
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.methods._plan import default_holm_share, planning_share
from riskfront.statistics._sample_size import examples_for, power, smallest, teeth

_CURVE = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
#: (examples, settings) -> how many of the examples test, and the fallback test's share of delta
_Parts = Callable[[int, int], tuple[int, float]]


@dataclass(frozen=True, slots=True, eq=False)
class SamplePlan:
    """How many examples it takes.

    Attributes:
        examples: in all, planning and testing; None if no number does.
        testing: how many of them test.
        chance: the probability of a certificate that was asked for.
        limits: one row a limit: what is expected, whether that keeps the limit, and the testing examples it needs by itself.
        curve: ``examples`` and the ``chance`` that a setting with the expected risks is certified with so many or more. (The
            chance of an exact test falls a little wherever one more example allows no further loss.)
    """

    examples: int | None
    testing: int | None
    chance: float
    limits: pd.DataFrame
    curve: pd.DataFrame

    def __str__(self) -> str:
        beyond = self.limits.loc[~self.limits["keeps"], "limit"].tolist()
        if beyond:
            return f"No number of examples is enough: the expected values break {', '.join(map(repr, beyond))}."
        if self.examples is None:
            return "It would take more than a million million examples: the expected values are too near to the limits."
        hardest = self.limits.sort_values("testing_examples", kind="stable").iloc[-1]
        return (
            f"About {self.examples:,} examples, {self.testing:,} of them for testing, certify such a setting with probability "
            f"{self.chance:g}; '{hardest['limit']}' needs most of them."
        )


def plan_sample(
    limits: Problem | Limit | str | Sequence[Limit | str],
    expected: Expected,
    *,
    settings: int = 100,
    delta: float = 0.1,
    chance: float = 0.8,
    spread: Expected | None = None,
    shares: Shares | None = None,
    prevalence: float | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    method: str | Method = "pareto-testing",
    named: bool = False,
) -> SamplePlan:
    """How many labelled examples it takes to certify a setting with risks such as you expect.

    Args:
        limits: the limits, or their texts; a Problem brings its own delta.
        expected: the value of each limit that you expect of a good setting, by the name of the limit or of its loss; one
            number for one limit; for a quantile the share above it. Guess from a pilot, and rather too high.
        settings: how many settings there will be to choose from. They cost little: the fallback test shares its part of delta.
        chance: the probability with which such a setting shall be certified.
        spread: the standard deviation of losses that are not 0/1, by name or one for one limit; without it, the largest that
            there can be.
        shares: the share of the examples that a limit speaks of, for ``given``; for ``per`` that of the rarest group or, to
            count the chance that every group passes, of all of them: {"error": [0.6, 0.3, 0.1]}.
        prevalence: the share of positive examples, for limits on recall, sensitivity, specificity, fpr or fnr, which speak of
            one class alone; the answer is in examples of both classes.
        bounds: the ranges of losses outside (0, 1).
        method: "pareto-testing", or "ordered-knob", which needs no planning examples.
        named: settings are names, as of prompts or models, and not numbers on a scale: nothing can be smoothed over them, and
            half of delta goes to the test of all settings.

    Not for ratios, gaps and worst cases: their spread is best seen in a pilot table (``forecast``).

    Examples:
        >>> plan = plan_sample("error <= 0.05", 0.03, settings=500)
        >>> plan.examples
        724
        >>> print(plan)  # doctest: +ELLIPSIS
        About 724 examples, ... of them for testing, certify such a setting with probability 0.8; 'error <= 0.05' needs most ...
    """
    known = limits if isinstance(limits, Problem) else Problem(limits, minimize="cost", delta=delta)
    if not is_number(chance) or not 0 < chance < 1:
        raise InvalidInputError(f"chance must lie in (0, 1); got {chance!r}.")
    m = whole_number("settings", settings, 1)
    shares, ranges = _with_prevalence(known.limits, shares, prevalence), bounds or {}
    for option, given in (("expected", expected), ("spread", spread), ("shares", shares), ("bounds", ranges)):
        _check_names(option, given, known.limits)
    tests = [_expectation(limit, expected, spread, shares, ranges) for limit in known.limits]
    parts = _parts(method, named)
    certain = partial(_chance, tests, m, known.delta, parts)
    ahead = max((teeth(test.alpha * min(test.shares)) for test in tests if test.spread is None), default=0)
    examples = smallest(lambda n: certain(n) >= chance, 2, ahead) if all(test.keeps for test in tests) else None
    level = known.delta * (1 - parts(examples or 1000, m)[1])
    needed = [test.needed(level, chance) for test in tests]
    about = pd.DataFrame(
        {
            "limit": [str(test.limit) for test in tests],
            "expected": [test.expected for test in tests],
            "keeps": [test.keeps for test in tests],
            "testing_examples": pd.Series(needed, dtype="float"),
        }
    )
    # one fewer, too: the chance may jump at the number that is named
    sizes = sorted({max(1, round(factor * (examples or 1000))) for factor in _CURVE} | {max(1, (examples or 1000) - 1)})
    chances = [min(certain(k) for k in range(n, n + ahead + 1, max(1, n // 1000))) for n in sizes]
    curve = pd.DataFrame({"examples": sizes, "chance": np.minimum.accumulate(chances[::-1])[::-1]})
    testing = None if examples is None else parts(examples, m)[0]
    return SamplePlan(examples, testing, float(chance), about, curve)


def _parts(method: str | Method, named: bool = False) -> _Parts:
    """How a method divides examples and delta."""
    name = method if isinstance(method, str) else method.name
    if name == OrderedKnob.name:
        return lambda examples, settings: (examples, 0.0)
    if name != ParetoTesting.name:
        raise InvalidInputError(
            f"a plan can be made for {ParetoTesting.name} and {OrderedKnob.name}; got '{name}'. For other methods use a pilot "
            "table, forecast(table, problem, method=...)."
        )
    alike = 1 if named else None
    return lambda n, settings: (
        n - round(planning_share(n, settings, alike) * n),
        default_holm_share(n, settings, alike),
    )


def _chance(tests: Sequence[Expectation], settings: int, delta: float, parts: _Parts, examples: int) -> float:
    """The probability that the path or the fallback test certifies a setting with these risks."""
    testing, share = parts(examples, settings)
    on_path = np.prod([test.chance(testing, (1 - share) * delta) for test in tests])
    in_holm = np.prod([test.chance(examples, share * delta / settings) for test in tests]) if share else 0.0
    return float(max(on_path, in_holm))


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


def _check_names(option: str, given: object, limits: Sequence[Limit]) -> None:
    """Every name that was given must be that of a limit or of its loss."""
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
        raise InvalidInputError(
            f"the spread of '{limit}' must be measured on a pilot table; use forecast(table, problem)."
        )
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
                    f"'{limit}' speaks of {'positive' if word in _OF_POSITIVES else 'negative'} examples alone: give the "
                    "share of positive examples, as prevalence=0.1 or --prevalence 0.1 (1 where every example has its own "
                    f"{limit.loss}). The answer is then in examples of both kinds."
                )
            if prevalence < 1:
                found[limit.loss] = prevalence if word in _OF_POSITIVES else 1 - prevalence
        elif word in _OF_ANSWERS and prevalence != 1:
            raise InvalidInputError(
                f"'{limit}' speaks of the examples with one answer alone, however many are positive: give their share, as "
                f"shares={{'{limit.loss}': 0.2}} or --share '{limit.loss}=0.2' (1 where every example has its own "
                f"{limit.loss})."
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
