"""How many examples? Before the first label by arithmetic, with a pilot table by drawing from it.

By arithmetic: a setting with the risks that you expect must pass every limit with the probability that you want. It is tested
on what planning leaves of the examples, at what the safety net leaves of delta, as the default method would; limits are
taken to be independent of each other, and the settings before it on the path to pass.

With a pilot table: its examples are drawn with replacement, as many as you might have, and calibrated. That takes what the
pilot measured as the truth. Of many settings on few pilot examples some are lucky, so read it as what can be hoped for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from riskfront.errors import InvalidInputError
from riskfront.experiments.expectations import Expectation, Expected, Shares, expectations
from riskfront.experiments.repeated_splits import run
from riskfront.losses.values import is_number, whole_number
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.methods.shares import net_share, planning_share
from riskfront.problems.limits import Limit
from riskfront.problems.problem import Problem
from riskfront.reading.sources import Bounds, Data, as_table
from riskfront.statistics.sample_size import smallest, teeth

_CURVE = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)


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
    bounds: Mapping[str, tuple[float, float]] | None = None,
    method: str | Method = "pareto-testing",
    named: bool = False,
) -> SamplePlan:
    """How many labelled examples it takes to certify a setting with risks such as you expect.

    Args:
        limits: the limits, or their texts; a Problem brings its own delta.
        expected: the value of each limit that you expect of a good setting, by the name of the limit or of its loss; one
            number for one limit; for a quantile the share above it. Guess from a pilot, and rather too high.
        settings: how many settings there will be to choose from. They cost little: the safety net shares its part of delta.
        chance: the probability with which such a setting shall be certified.
        spread: the standard deviation of losses that are not 0/1, by name or one for one limit; without it, the largest that
            there can be.
        shares: the share of the examples that a limit speaks of, for ``given``; for ``per`` that of the rarest group or, to
            count the chance that every group passes, of all of them: {"error": [0.6, 0.3, 0.1]}.
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
    tests = expectations(known.limits, expected, spread, shares, bounds or {})
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


def forecast(
    pilot: Data,
    problem: Problem,
    *,
    factors: Sequence[float] = (1, 2, 10),
    method: str | Method = "pareto-testing",
    trials: int = 40,
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
) -> pd.DataFrame:
    """What more labels would bring, from a pilot table: one row for each multiple of its examples.

    Args:
        pilot: as the table of ``calibrate``, and so are ``bounds`` and ``clusters``.
        problem: limits, objectives and delta.
        factors: how many times the examples of the pilot.
        method: a method or its name.
        trials: how often to draw and calibrate for each.
        seed: of the draws.

    Returns:
        ``examples``; ``certified``, the share of draws that certified something; and the mean of every limit and objective of
        the chosen setting over these draws. What the pilot measured is taken as the truth, which flatters lucky settings.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> random = np.random.default_rng(0)
        >>> error = random.random((20, 300)) < np.linspace(0.01, 0.2, 20)[:, None]
        >>> cost = np.linspace(1, 0, 20)[:, None] + 0.01 * random.random((20, 300))
        >>> pilot = rf.LossTable([{"k": k} for k in range(20)], {"error": error, "cost": cost})
        >>> found = forecast(pilot, rf.Problem("error <= 0.1", minimize="cost"), trials=10)
        >>> bool(found["cost"].is_monotonic_decreasing)
        True
    """
    if not factors or not all(is_number(factor) and factor > 0 for factor in factors):
        raise InvalidInputError(f"factors must be numbers above 0, such as (1, 2, 10); got {factors!r}.")
    table = as_table(pilot, problem, bounds, clusters)
    rows = []
    names = [*problem.limit_names, *(objective.name for objective in problem.objectives)]
    for factor in factors:
        size = max(2, round(factor * table.n_examples))
        found = run(table, problem, methods=[method], trials=trials, calibration=size, seed=seed)
        row: dict[str, Any] = {"examples": size, "certified": float((found["n_certified"] > 0).mean())}
        rows.append(row | {name: float(found[name].mean()) for name in names})
    return pd.DataFrame(rows)


def forecast_words(found: pd.DataFrame, problem: Problem) -> str:
    """The forecast in a sentence."""
    goal = problem.objectives[0].name
    parts = [
        f"{row['examples']:,.0f} examples certify something in {100 * row['certified']:.0f} % of draws"
        + (f", with {goal} {row[goal]:.4g}" if row["certified"] > 0 else "")
        for _, row in found.iterrows()
    ]
    return "; ".join(parts) + ". This takes what the pilot measured as the truth: read it as what can be hoped for."


#: (examples, settings) -> how many of the examples test, and the net's share of delta
_Parts = Callable[[int, int], tuple[int, float]]


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
    return lambda n, settings: (n - round(planning_share(n, settings, alike) * n), net_share(n, settings, alike))


def _chance(tests: Sequence[Expectation], settings: int, delta: float, parts: _Parts, examples: int) -> float:
    """The probability that the path, on testing examples, or the net, on all, certifies a setting with these risks."""
    testing, net = parts(examples, settings)
    on_path = np.prod([test.chance(testing, (1 - net) * delta) for test in tests])
    in_net = np.prod([test.chance(examples, net * delta / settings) for test in tests]) if net else 0.0
    return float(max(on_path, in_net))
