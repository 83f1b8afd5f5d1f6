"""Calibrating again and again: how often each method breaks a limit, and how good its settings are.

The table is the population. Each trial draws calibration examples from it, with replacement, and does with them what
``calibrate`` does. The true risks are the means of the whole table, so whether a limit was broken is known exactly. With
``held_out`` a trial splits the table instead and looks at the examples that are left, which tell the truth only up to
their noise; the columns are then called by other names.

Every method sees the same calibration examples. Sums over all settings are computed for all trials together, by one
matrix product for each loss, and are shared by all methods and alphas that use the same part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.decision import Decision, decide
from riskfront._data.reading.sources import Bounds, Data, as_table
from riskfront._data.splits import split_examples
from riskfront._data.sums import SINGLE_THREADED
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront._support.values import is_number
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, make_method
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.methods._evidence.ranges import with_thresholds
from riskfront.methods._plan import make_plan, parameters, resolve_defaults
from riskfront.methods._registry import BY_NAME
from riskfront.statistics import binomial, hoeffding_bentkus
from riskfront.statistics._bounds import HELD_OUT_LEVEL, wilson

_STREAM = 0x74726961  # the draws are independent of data that someone simulated with the same seed
_BATCH = 100  # trials whose sums are computed together


def run(
    table: Data,
    problem: Problem,
    *,
    methods: Sequence[str | Method] = BY_NAME,
    alphas: Sequence[float | Sequence[float]] | None = None,
    p_values: Sequence[str] = ("as given",),
    trials: int | range = 100,
    calibration: int | float = 0.5,
    held_out: bool = False,
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
) -> pd.DataFrame:
    """Calibrate again and again on examples drawn from a table, and say how often a limit was truly broken.

    Args:
        table: losses of all settings on all examples: a LossTable, a LossStore, or the path of a file or store.
        problem: limits, objectives and delta.
        methods: methods or their names.
        alphas: numbers for the first limit, or tuples with one for each limit; by default those of the problem.
        p_values: p-values to use in every limit, each a run of its own; by default those of the problem.
        trials: how often to draw and calibrate; or a range, the numbers of the trials to make of all.
        calibration: how many examples to calibrate on, or a share: as many as that share of the table.
        held_out: split the table at random instead, calibrate on one part and look at the other.
        seed: of the draws.
        bounds: as for ``calibrate``.
        clusters: as for ``calibrate``.

    Returns:
        One row for each method, p-value, alpha and trial. Risks and objectives are those of the best chosen setting in the
        whole table, nan when nothing was certified. ``violated``: whether that setting breaks a limit; ``any_violated``:
        whether any certified setting does, the event that delta bounds. Neither has any noise: the examples are independent
        draws from the table, and its means are their true risks.

        With ``held_out``, risks and objectives are those on the held-out examples, and two other columns take their place.
        ``held_out_above``: whether the setting measures above a limit there. A setting that keeps its limits often does, by the
        noise of the held-out examples, so its mean says nothing about delta. ``held_out_shown``: whether the held-out
        examples show, by a test at level .05, that the setting breaks a limit.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> error = np.random.default_rng(0).random((20, 2000)) < np.linspace(0.01, 0.2, 20)[:, None]
        >>> cost = np.linspace(1, 0.05, 20)[:, None].repeat(2000, axis=1)
        >>> table = rf.LossTable([{"level": k} for k in range(20)], {"error": error, "cost": cost})
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> found = rf.experiment.run(table, problem, methods=["holm", "alpha-constrained"], trials=20, calibration=500)
        >>> found.groupby("method")["any_violated"].mean().round(1).to_dict()
        {'alpha-constrained': 0.2, 'holm': 0.0}
    """
    asked = trials if isinstance(trials, range) else range(trials)
    if not methods or (alphas is not None and len(alphas) == 0) or not p_values or len(asked) < 1:
        raise InvalidInputError(
            "an experiment must have at least one method, alpha, p-value and trial; got none of one of them."
        )
    table = as_table(table, problem, bounds, clusters)
    size = _calibration_size(table, calibration, held_out)
    planners = [resolve_defaults(make_method(method), table, size) for method in methods]
    labels = _labels(planners)
    problems = [
        (p_value, alpha, _variant(problem, p_value, alpha))
        for p_value in p_values
        for alpha in ([None] if alphas is None else alphas)
    ]
    rows: list[dict[str, Any]] = []
    with SINGLE_THREADED:
        for numbers in (asked[start : start + _BATCH] for start in range(0, len(asked), _BATCH)):
            for trial, parts in zip(numbers, _draw(table, numbers, size, planners, held_out, seed), strict=True):
                found = _outcomes(parts, [variant for _, _, variant in problems], planners, held_out)
                for (p_value, alpha, _), outcomes in zip(problems, found, strict=True):
                    shown = alpha if alpha is None or isinstance(alpha, float | int) else tuple(alpha)
                    about = {"p_value": p_value, "alpha": shown, "trial": trial}
                    rows += [{"method": label, **about, **row} for label, row in zip(labels, outcomes, strict=True)]
    return pd.DataFrame(rows)


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Means over trials of what ``run`` returned.

    ``violated`` is a share of all trials, ``violated_low`` to ``violated_high`` its 95 % interval, for a finite number of
    trials is a sample too. ``certified_something`` is the share of trials with a certified setting (a picked one, for
    methods without a guarantee); risks and objectives are means over those trials only.

    Examples:
        >>> trials = pd.DataFrame({"trial": [0, 1], "n_certified": [3, 0], "violated": [False, False], "cost": [0.4, np.nan]})
        >>> results = trials.assign(method="holm", p_value="as given", alpha=None, any_violated=False)
        >>> summarize(results)[["method", "cost", "certified_something"]].to_dict("records")
        [{'method': 'holm', 'cost': 0.4, 'certified_something': 0.5}]
    """
    keys = ["method", "p_value", "alpha"]
    numbers = results.drop(columns="trial").copy()
    numbers["certified_something"] = numbers["n_certified"] > 0
    order = {name: position for position, name in enumerate(dict.fromkeys(results["method"]))}
    groups = numbers.groupby(keys, sort=False, dropna=False)
    means = groups.mean().assign(trials=groups.size()).reset_index()
    if "violated" in means:
        low, high = wilson(means["violated"].to_numpy(dtype=float), means["trials"].to_numpy(dtype=float))
        means = means.assign(violated_low=low, violated_high=high)
    return means.sort_values("method", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def _labels(planners: Sequence[Method]) -> list[str]:
    """The names of the methods; where one is given more than once, with the parameters that tell them apart."""
    labels = []
    for planner in planners:
        twins = [parameters(other) for other in planners if other.name == planner.name]
        own = parameters(planner)
        apart = [f"{key}={own[key]}" for key in own if any(twin.get(key) != own[key] for twin in twins)]
        labels.append(f"{planner.name} ({', '.join(apart)})" if apart else planner.name)
    return labels


class _Trial:
    """The parts of one trial: what each share of opt data leaves to plan and to test, and what judges the outcome."""

    def __init__(self, splits: Mapping[float, tuple[LossTable, LossTable]], judge: LossTable) -> None:
        self._splits = splits
        self._whole: dict[float, LossTable] = {}
        self.judge = judge

    def split(self, method: Method) -> tuple[LossTable, LossTable]:
        return self._splits[method.opt_fraction]

    def everything(self, method: Method) -> LossTable:
        """All calibration examples of the trial, for a plan that has a fallback test."""
        if method.opt_fraction not in self._whole:
            opt, test = self.split(method)
            self._whole[method.opt_fraction] = opt.joined_with(test)
        return self._whole[method.opt_fraction]


def calibration_examples(
    n_examples: int, size: int, trial: int, held_out: bool = False, seed: int = 0
) -> tuple[IntArray, IntArray]:
    """The examples that a trial calibrates on, and those it holds out: none when it draws with replacement."""
    random = np.random.default_rng([_STREAM, seed, trial])
    if not held_out:
        return random.integers(0, n_examples, size), np.empty(0, dtype=np.int64)
    order = random.permutation(n_examples)
    return order[:size], order[size:]


def _draw(
    table: LossTable, trials: range, size: int, planners: Sequence[Method], held_out: bool, seed: int
) -> Iterator[_Trial]:
    drawn = [calibration_examples(table.n_examples, size, trial, held_out, seed) for trial in trials]
    judges = table.batch([rest for _, rest in drawn]) if held_out else [table] * len(trials)
    halves = {}
    for fraction in {planner.opt_fraction for planner in planners}:
        # the split that calibrate makes of these examples with the number of the trial as its seed
        cuts = [split_examples(size, fraction, trial) for trial in trials]
        pairs = list(zip(drawn, cuts, strict=True))
        opts = table.batch([sample[opt] for (sample, _), (opt, _) in pairs])
        halves[fraction] = (opts, table.batch([sample[test] for (sample, _), (_, test) in pairs]))
    for index in range(len(trials)):
        yield _Trial({fraction: (opt[index], test[index]) for fraction, (opt, test) in halves.items()}, judges[index])


def _outcomes(
    parts: _Trial, problems: Sequence[Problem], planners: Sequence[Method], held_out: bool
) -> Iterator[tuple[dict[str, Any], ...]]:
    """For each problem, what each method does in one trial."""
    judges = [Evidence.of_planning(problem, parts.judge) for problem in problems]
    found = []
    for planner in planners:
        decisions = _decisions(parts, problems, planner)
        found.append([_judged(*made, held_out) for made in zip(decisions, judges, strict=True)])
    return zip(*found, strict=True)


def _decisions(parts: _Trial, problems: Sequence[Problem], planner: Method) -> list[Decision]:
    """What one method certifies under each problem."""
    opt, test = parts.split(planner)
    plans = []
    for problem in problems:
        plans.append(make_plan(planner, opt, problem))
        for term in problem.terms:  # one read of the planned settings serves every alpha
            LossTable.read_together([test, parts.judge], term, plans[-1].rows)
    decisions = []
    for plan, problem in zip(plans, problems, strict=True):
        on_all = Evidence(problem, parts.everything(planner)) if plan.holm_share > 0 else None
        decisions.append(decide(plan, Evidence(with_thresholds(problem, opt), test), on_all))
    return decisions


def _judged(decision: Decision, judge: Evidence, held_out: bool) -> dict[str, Any]:
    """What the whole table, or the held-out part of it, says about the certified and the chosen settings."""
    certified = decision.rows[decision.certified]
    found: dict[str, Any] = {
        "n_tested": len(decision.rows),
        "n_certified": len(certified),
        "n_chosen": len(decision.chosen),
    }
    best = decision.rows[decision.chosen[:1]]
    found |= by_held_out(judge, best) if held_out else by_population(judge, certified, best)
    if len(best) == 0:
        names = [*judge.problem.limit_names, *(objective.name for objective in judge.problem.objectives)]
        return found | dict.fromkeys(names, np.nan)
    for name, test in zip(judge.problem.limit_names, judge.tests, strict=True):
        found[name] = float(true_value(test, judge.table, best)[0])
    for objective, value in zip(judge.problem.objectives, judge.objectives(best)[0], strict=True):
        found[objective.name] = float(-value if objective.maximize else value) if np.isfinite(value) else np.nan
    return found


def _variant(problem: Problem, p_value: str, alpha: float | Sequence[float] | None) -> Problem:
    variant = problem if p_value == "as given" else problem.using(p_value)
    return variant if alpha is None else variant.at(alpha)


def _calibration_size(table: LossTable, calibration: int | float, held_out: bool) -> int:
    if not is_number(calibration):
        raise InvalidInputError(f"calibration must be a number of examples or a share of them; got {calibration!r}.")
    size = round(calibration * table.n_examples if calibration < 1 else calibration)
    if size < 2 or (held_out and size >= table.n_examples):
        left = " and leave at least one to look at" if held_out else ""
        raise InvalidInputError(
            f"calibration must take at least 2 examples{left}; got {calibration} of {table.n_examples}."
        )
    return size


_ROUNDING = 1e-12


def by_population(judge: Evidence, certified: IntArray, best: IntArray) -> dict[str, bool]:
    """Which limits are truly broken: the judge is the whole population, its means are the true risks."""
    broken = _above(judge, certified)
    return {"violated": bool(broken[np.isin(certified, best)].any()), "any_violated": bool(broken.any())}


def by_held_out(judge: Evidence, best: IntArray) -> dict[str, bool]:
    """Whether the chosen setting measures above a limit on held-out examples, and whether that is more than their noise."""
    if len(best) == 0:
        return {"held_out_above": False, "held_out_shown": False}
    p = np.concatenate([_p_of_excess(test, judge.table, best).ravel() for test in judge.tests])
    # one limit or group may show it by chance, so they share the level
    return {"held_out_above": bool(_above(judge, best)[0]), "held_out_shown": bool(p.min() <= HELD_OUT_LEVEL / p.size)}


def true_value(test: LimitTest, table: LossTable, rows: IntArray) -> FloatArray:
    """(rows,): the true value that the limit bounds, without the padding that some tests add."""
    return replace(test, limit=replace(test.limit, padded=False)).worst_measured(table, rows)


def _above(judge: Evidence, rows: IntArray) -> BoolArray:
    """(rows,): whether the mean of a setting is above one of its limits; groups without examples say nothing."""
    return np.any([_beyond(test, judge.table, rows) for test in judge.tests], axis=0)


def _beyond(test: LimitTest, table: LossTable, rows: IntArray) -> BoolArray:
    if test.limit.worst is None:
        return np.asarray(test.worst_mean(table, rows) > test.alpha + _ROUNDING)
    # what a threshold says is only a bound on the mean of the worst cases, which is known here
    distance = test.worst_measured(table, rows) - test.limit.value
    return np.asarray((distance if test.limit.at_most is not None else -distance) > _ROUNDING)


def _p_of_excess(test: LimitTest, table: LossTable, rows: IntArray) -> FloatArray:
    """(rows, groups): the p-value of "the limit holds", small when the mean is too far above it.

    The mean of x is at most alpha exactly if that of 1 - x is at least 1 - alpha, so the p-values of the package serve.
    """
    sums = test.sums(table, rows)
    if test.limit.worst is not None:  # one threshold that fails shows nothing
        return np.ones(sums.total.shape)
    if test.limit.gap_per is not None:
        return test.opposite.p_values(table, rows)
    p_value = binomial if test.kind.needs == "count" else hoeffding_bentkus
    return p_value(sums.n - sums.total, sums.n, 1 - test.alpha)
