"""Repeated random splits: how often each method breaks a limit, and how good its settings are.

Each trial draws calibration examples and holds out the rest. Every method sees the same calibration examples in the same
order and splits them by its own ``opt_fraction``. Sums over all settings are computed for all trials together, by one matrix
product for each loss, and are shared by all methods and alphas that use the same part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront.arrays import IntArray
from riskfront.calibration.decision import Decision, decide
from riskfront.errors import InvalidInputError
from riskfront.evidence.evidence import Evidence
from riskfront.losses.sums import SINGLE_THREADED
from riskfront.losses.table import LossTable
from riskfront.losses.values import is_number
from riskfront.methods import METHODS, Method, make_method, parameters, settled
from riskfront.problems.problem import Problem
from riskfront.reading.sources import Data, as_table

_STREAM = 0x74726961  # the draws are independent of data that someone simulated with the same seed
_BATCH = 100  # trials whose sums are computed together


def run(
    table: Data,
    problem: Problem,
    *,
    methods: Sequence[str | Method] = tuple(METHODS),
    alphas: Sequence[float | Sequence[float]] | None = None,
    p_values: Sequence[str] = ("as given",),
    trials: int = 100,
    calibration: int | float = 0.5,
    replace: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Calibrate again and again on random parts of a table, and look at the rest.

    Args:
        table: losses of all settings on all examples: a LossTable, a LossStore, or the path of a file or store.
        problem: limits, objectives and delta.
        methods: methods or their names.
        alphas: numbers for the first limit, or tuples with one for each limit; by default those of the problem.
        p_values: p-values to use in every limit, each a run of its own; by default those of the problem.
        trials: number of random splits.
        calibration: how many examples to calibrate on, or which share of them.
        replace: draw the calibration examples with replacement and judge on the whole table. The table is then the exact
            population: every true risk is known, and the violation rate has no noise from held-out data.
        seed: of the splits.

    Returns:
        One row for each method, p-value, alpha and trial. Risks and objectives are those of the best chosen setting on
        held-out data, nan when nothing was certified. ``violated``: whether that setting breaks a limit there (never when
        nothing was certified). ``any_violated``: whether any certified setting does; of many settings some will by the noise of
        held-out data alone, so read it with ``replace=True``, where it is the exact event that delta bounds.
    """
    if not methods or (alphas is not None and len(alphas) == 0) or not p_values or trials < 1:
        raise InvalidInputError(
            "an experiment must have at least one method, alpha, p-value and trial; got none of one of them."
        )
    table = as_table(table, problem)
    size = _calibration_size(table, calibration, replace)
    planners = [settled(make_method(method), table, size) for method in methods]
    labels = _labels(planners)
    problems = [
        (p_value, alpha, _variant(problem, p_value, alpha))
        for p_value in p_values
        for alpha in ([None] if alphas is None else alphas)
    ]
    rows: list[dict[str, Any]] = []
    with SINGLE_THREADED:
        for start in range(0, trials, _BATCH):
            numbers = range(start, min(start + _BATCH, trials))
            for trial, parts in zip(numbers, _draw(table, numbers, size, planners, replace, seed), strict=True):
                for p_value, alpha, variant in problems:
                    shown = alpha if alpha is None or isinstance(alpha, float | int) else tuple(alpha)
                    about = {"p_value": p_value, "alpha": shown, "trial": trial}
                    found = _outcomes(parts, variant, planners)
                    rows += [{"method": label, **about, **row} for label, row in zip(labels, found, strict=True)]
    return pd.DataFrame(rows)


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Means over trials of what ``run`` returned: violation rate, share of trials with a certificate, risks, objectives."""
    keys = ["method", "p_value", "alpha"]
    numbers = results.drop(columns="trial").copy()
    numbers["certified_something"] = numbers["n_certified"] > 0
    order = {name: position for position, name in enumerate(dict.fromkeys(results["method"]))}
    # risks and objectives are means over the trials with a certificate only: read them next to certified_something
    means = numbers.groupby(keys, sort=False, dropna=False).mean().reset_index()
    return means.sort_values("method", key=lambda names: names.map(order), kind="stable", ignore_index=True)


def _labels(planners: Sequence[Method]) -> list[str]:
    """The names of the methods; where one is given more than once, with the parameters that tell them apart."""
    labels = []
    for planner in planners:
        twins = [parameters(other) for other in planners if other.name == planner.name]
        own = parameters(planner)
        apart = [f"{key}={own[key]}" for key in own if any(twin[key] != own[key] for twin in twins)]
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
        """All calibration examples of the trial, for a plan that has a safety net."""
        opt, test = self.split(method)
        return self._whole.setdefault(method.opt_fraction, opt.joined_with(test))


def _draw(
    table: LossTable, trials: range, size: int, planners: Sequence[Method], replace: bool, seed: int
) -> Iterator[_Trial]:
    samples: list[IntArray] = []
    rests: list[npt.ArrayLike] = []
    for trial in trials:
        random = np.random.default_rng([_STREAM, seed, trial])
        if replace:
            samples.append(random.integers(0, table.n_examples, size))
        else:
            order = random.permutation(table.n_examples)
            samples.append(order[:size])
            rests.append(order[size:])
    judges = table.batch(rests) if rests else [table] * len(trials)
    halves = {}
    for fraction in {planner.opt_fraction for planner in planners}:
        cut = round(fraction * size)
        cut = min(max(cut, 1), size - 1) if fraction > 0 else 0
        opts = table.batch([sample[:cut] for sample in samples])
        halves[fraction] = (opts, table.batch([sample[cut:] for sample in samples]))
    for index in range(len(trials)):
        yield _Trial({fraction: (opt[index], test[index]) for fraction, (opt, test) in halves.items()}, judges[index])


def _outcomes(parts: _Trial, problem: Problem, planners: Sequence[Method]) -> Iterator[dict[str, Any]]:
    """What each method does in one trial."""
    judge = Evidence(problem, parts.judge)
    for planner in planners:
        opt, test = parts.split(planner)
        plan = planner.plan(opt, problem)
        for term in problem.terms:  # one read of the planned settings serves every alpha
            LossTable.read_together([test, parts.judge], term, plan.rows)
        net = Evidence(problem, parts.everything(planner)) if plan.net > 0 else None
        yield _judged(decide(plan, Evidence(problem, test), net), judge)


def _judged(decision: Decision, judge: Evidence) -> dict[str, Any]:
    """What the held-out data say about the certified and the chosen settings."""
    certified = decision.rows[decision.certified]
    names = [*judge.problem.limit_names, *(objective.name for objective in judge.problem.objectives)]
    found: dict[str, Any] = {
        "n_tested": len(decision.rows),
        "n_certified": len(certified),
        "n_chosen": len(decision.chosen),
    }
    if len(certified) == 0:
        return found | {"violated": False, "any_violated": False} | dict.fromkeys(names, np.nan)
    best = decision.rows[decision.chosen[:1]]
    means = [test.worst_mean(judge.table, certified) for test in judge.tests]
    broken = np.any([mean > test.alpha + 1e-12 for mean, test in zip(means, judge.tests, strict=True)], axis=0)
    at = int(np.argmax(certified == best[0]))
    found |= {"violated": bool(broken[at]), "any_violated": bool(broken.any())}
    for name, test, mean in zip(judge.problem.limit_names, judge.tests, means, strict=True):
        found[name] = float(test.shown(mean[at]))
    for objective, value in zip(judge.problem.objectives, judge.objectives(best)[0], strict=True):
        found[objective.name] = float(-value if objective.maximize else value) if np.isfinite(value) else np.nan
    return found


def _variant(problem: Problem, p_value: str, alpha: float | Sequence[float] | None) -> Problem:
    variant = problem if p_value == "as given" else problem.using(p_value)
    return variant if alpha is None else variant.at(alpha)


def _calibration_size(table: LossTable, calibration: int | float, replace: bool) -> int:
    if not is_number(calibration):
        raise InvalidInputError(f"calibration must be a number of examples or a share of them; got {calibration!r}.")
    size = round(calibration * table.n_examples if calibration < 1 else calibration)
    most = table.n_examples - (0 if replace else 1)
    if not 2 <= size <= (size if replace else most):
        raise InvalidInputError(
            f"calibration must take at least 2 of {table.n_examples} examples and leave at least one to judge on; "
            f"got {calibration}."
        )
    return size
