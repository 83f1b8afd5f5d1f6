"""How many examples? Before the first label, by arithmetic.

A setting with the risks that you expect must pass every limit with the probability that you want. It is tested
on what planning leaves of the examples, at what the fallback test leaves of delta, as the default method would; limits are
taken to be independent of each other, and the settings before it on the path to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from riskfront._calibration.expectations import Expectation, Expected, Shares, expectations
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.values import is_number, whole_number
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.methods._shares import default_holm_share, planning_share
from riskfront.statistics._sample_size import smallest, teeth

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
        curve: ``examples`` and the ``chance`` that a setting with the expected risks is certified.
    """

    examples: int | None
    testing: int | None
    chance: float
    limits: pd.DataFrame
    curve: pd.DataFrame

    def __str__(self) -> str:
        beyond = self.limits.loc[~self.limits["keeps"], "limit"].tolist()
        if beyond:
            return f"No number of examples would do: what is expected does not keep {', '.join(map(repr, beyond))}."
        if self.examples is None:
            return "It would take more than a million million examples: what is expected hardly keeps the limits."
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
    tests = expectations(known.limits, expected, spread, shares, bounds or {}, prevalence)
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
    sizes = sorted({max(1, round(factor * (examples or 1000))) for factor in _CURVE})
    curve = pd.DataFrame({"examples": sizes, "chance": [certain(n) for n in sizes]})
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
