"""frontier: the best certified settings for whole lists of limits, each by itself or all together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import pandas as pd

from riskfront._calibration.calibrate import path_frame, setting_columns
from riskfront._calibration.certificates.known_examples import data_digests
from riskfront._calibration.certificates.uses_of_test_set import ASKED, UseOfTestSet
from riskfront._calibration.decision import Decision, decide
from riskfront._calibration.frontier_making import make_frontier
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._calibration.frontier_result import Frontier
from riskfront._calibration.simultaneous import certify_together
from riskfront._data.contents import refuse_repeats
from riskfront._data.problem_fit import (
    check_fit,
    limited_losses,
    refuse_means,
    refuse_measured_order,
    warn_of_missing,
)
from riskfront._data.reading.sources import Bounds, Data, as_table, as_unlabelled, notes_of
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, make_method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.prediction_powered import with_unlabelled
from riskfront.methods._evidence.ranges import with_thresholds
from riskfront.methods._plan import make_plan, parameters, resolve_defaults

#: where a frame says that its rows hold together
TOGETHER = "simultaneous"

Alphas = Sequence[float | Sequence[float]]
Values = Mapping[str, Sequence[float]]
_Decided = list[tuple[Evidence, Evidence | None, Decision]]


@overload
def frontier(
    table: Data,
    problem: Problem,
    alphas: Values,
    *,
    method: str | Method = ...,
    seed: int = ...,
    bounds: Bounds | None = ...,
    clusters: str | None = ...,
    simultaneous: bool = ...,
    unlabelled: Data | None = ...,
) -> Frontier: ...
@overload
def frontier(
    table: Data,
    problem: Problem,
    alphas: Alphas,
    *,
    method: str | Method = ...,
    seed: int = ...,
    bounds: Bounds | None = ...,
    clusters: str | None = ...,
    simultaneous: bool = ...,
    unlabelled: Data | None = ...,
) -> pd.DataFrame: ...
def frontier(
    table: Data,
    problem: Problem,
    alphas: Alphas | Values,
    *,
    method: str | Method = "pareto-testing",
    seed: int = 0,
    bounds: Bounds | None = None,
    clusters: str | None = None,
    simultaneous: bool = False,
    unlabelled: Data | None = None,
) -> pd.DataFrame | Frontier:
    """The calibrated Pareto frontier: the chosen settings for many values of the limits.

    With a mapping, limit -> values, everything holds together with one confidence, and the result is a ``Frontier``: look at
    it, then ``choose`` the values of any limit. With a list of numbers for the first limit the result is a data frame.

    Args:
        table: as for ``calibrate``, and so are ``method``, ``seed``, ``bounds`` and ``clusters``.
        problem: limits, objectives and delta.
        alphas: limit -> its values, as {"error": [0.03, 0.05, 0.1], "error per label": [0.1, 0.2]}; limits that are not named
            keep their numbers. Or numbers for the first limit, or tuples with one for each limit.
        simultaneous: all rows hold together with probability at least 1 - delta, so that alpha may be chosen after looking.
            A mapping needs it. The values share delta, and what keeps a tight limit keeps the looser ones: each value may be a
            little worse than by itself (``benchmarks/results/decide.md``). Not worth it for an alpha that is known beforehand.
            For methods that test in a sequence, and bonferroni; several limits at once for pareto-testing.
        unlabelled: as for ``calibrate``.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> random = np.random.default_rng(0)
        >>> error = random.random((30, 2000)) < np.linspace(0.01, 0.3, 30)[:, None]
        >>> cost = np.linspace(1, 0, 30)[:, None] + 0.01 * random.random((30, 2000))
        >>> table = rf.LossTable([{"k": k} for k in range(30)], {"error": error, "cost": cost})
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> found = rf.frontier(table, problem, {"error": [0.05, 0.1, 0.2]}, simultaneous=True)
        >>> bool(found.frame["cost"].is_monotonic_increasing)  # from the loosest limit to the tightest
        True
        >>> bool(found.choose({"error": 0.05}))
        True
    """
    if len(alphas) == 0:
        raise InvalidInputError("a frontier must have at least one alpha; got none.")
    if isinstance(alphas, Mapping) and not simultaneous:
        raise InvalidInputError(
            "a mapping from limits to values needs simultaneous=True; got simultaneous=False. Add it, or give a list of "
            "numbers for the first limit."
        )
    notes = notes_of(table)
    table = as_table(table, problem, bounds, clusters)
    refuse_repeats(table, limited_losses(problem))
    grid = ValueGrid.of(problem, alphas) if isinstance(alphas, Mapping) else None
    others = None if unlabelled is None else as_unlabelled(unlabelled, problem, table)
    if others is not None:
        refuse_repeats(others)
    elif grid is not None:  # with unlabelled examples, columns of theirs are added first
        check_fit(grid.at([0] * len(grid.varying)), table)
    refuse_means(problem, table, table.n_examples)
    planner = resolve_defaults(make_method(method), table, table.n_examples)
    refuse_measured_order(getattr(planner, "safest", None) or (), table, problem)
    if grid is None:
        return _frame(table, problem, alphas, planner, seed, others, simultaneous=simultaneous)
    found = make_frontier(table, grid, planner, seed, unlabelled=others)
    warn_of_missing(found.intake)
    use = UseOfTestSet.of_frontier(problem, found, found.values)
    earlier = ASKED.before(data_digests(table, problem, table.fingerprint), use)
    return replace(found, notes=(*notes, *found.notes), earlier_looks=tuple(earlier))


def _frame(
    table: LossTable,
    problem: Problem,
    alphas: Collection[Any],
    planner: Method,
    seed: int,
    others: LossTable | None,
    *,
    simultaneous: bool,
) -> pd.DataFrame:
    """The chosen settings for each of a list of alphas."""
    if others is not None:
        table, _ = with_unlabelled(table, problem, others, seed)
    opt, test = table.split(planner.opt_fraction, seed=seed)
    stricter = [problem.at(alpha) for alpha in alphas]
    decided = (_together if simultaneous else _one_by_one)(planner, opt, test, stricter, seed)
    by = seed if others is None else [seed, others.fingerprint]
    _record(table, problem, stricter, planner, by, together=simultaneous)
    count = "n_certified" if planner.guaranteed else "n_picked"
    rows = [_rows(alpha, *one, count) for alpha, one in zip(alphas, decided, strict=True)]
    frame = pd.concat(rows, ignore_index=True)
    frame.attrs[TOGETHER] = simultaneous
    return frame


def _together(planner: Method, opt: LossTable, test: LossTable, problems: Sequence[Problem], seed: int) -> _Decided:
    """Numbers of the first limit that hold together."""
    first = problems[0]
    if any(problem.limits[1:] != first.limits[1:] for problem in problems):
        raise InvalidInputError(
            "with simultaneous=True a list may change the first limit only; got different numbers for the others too. Name the "
            'limits that vary: {"error": [...], "error per label": [...]}.'
        )
    numbers = [problem.limits[0].value for problem in problems]
    grid = ValueGrid.of(first, {first.limit_names[0]: numbers})
    found = certify_together(planner, opt, test, grid, seed)
    return [found.decision((grid.varying[0].place(number),)) for number in numbers]


def _one_by_one(planner: Method, opt: LossTable, test: LossTable, problems: Sequence[Problem], seed: int) -> _Decided:
    everything, decided = opt.joined_with(test), []
    for one in problems:
        plan, evidence = make_plan(planner, opt, one, seed), Evidence(with_thresholds(one, opt), test)
        on_all = Evidence(one, everything) if plan.holm_share > 0 else None
        decided.append((evidence, on_all, decide(plan, evidence, on_all)))
    return decided


def _record(
    table: LossTable, problem: Problem, stricter: Sequence[Problem], planner: Method, decided_by: Any, *, together: bool
) -> None:
    """The questions that a list of alphas puts to the testing examples; together they are one."""
    of_frontier = f"{len(stricter)} limits of a frontier"
    seed = decided_by[0] if isinstance(decided_by, list) else decided_by
    asked: list[tuple[Problem, Any, str]] = [
        (one, decided_by, f"seed {seed}, one of {of_frontier}") for one in stricter
    ]
    if together:
        decides = [decided_by, [[limit.value for limit in one.limits] for one in stricter]]
        asked = [(problem, decides, f"seed {seed}, {of_frontier} that hold together")]
    data = data_digests(table, problem, table.fingerprint)
    for one, by, said in asked:
        ASKED.before(data, UseOfTestSet.of(one, planner.name, parameters(planner), by, said))


def _rows(
    alpha: float | Sequence[float], evidence: Evidence, on_all: Evidence | None, decision: Decision, count: str
) -> pd.DataFrame:
    """The chosen settings of one alpha; one row without a setting where there is none."""
    columns = setting_columns(evidence.table, evidence.problem, ("alpha", "n_certified", "n_picked"))
    frame = path_frame(evidence, decision, columns, on_all)
    frame = frame[frame["chosen"] > 0].sort_values("chosen").drop(columns=["certified", "chosen"])
    frame.insert(0, "alpha", [alpha] * len(frame))
    frame.insert(1, count, int(decision.certified.sum()))
    return frame if len(frame) else pd.DataFrame({"alpha": [alpha], count: [0]})
