"""tune: the paper's Algorithm 1 with a real optimiser. Search on opt examples, plan, test lazily, certify."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront import columns
from riskfront.arrays import Array, IntArray
from riskfront.blobs import open_blobs
from riskfront.calibration import certify
from riskfront.certificate import Certificate
from riskfront.columns import Groups
from riskfront.errors import InvalidInputError, StoreError
from riskfront.evaluation import Bounds, MemoryRows, RowsOf, check_examples, fill
from riskfront.evidence import Evidence
from riskfront.examples import take, take_groups
from riskfront.fingerprint import fingerprint
from riskfront.methods import Method, Plan, make_method
from riskfront.on_demand import PlannedRows
from riskfront.outcome import Losses
from riskfront.problem import Limit, Problem
from riskfront.progress import ProgressBar
from riskfront.search import LimitTarget, Remembering, Search, make_search
from riskfront.space import Config, Space, config_id
from riskfront.splits import split_examples
from riskfront.store import LossStore
from riskfront.table import LossTable
from riskfront.task import Task
from riskfront.workers import Evaluator, Workers

_REPEATS = 100  # rounds in a row without a new setting, after which a search is taken to have no more


def tune(
    losses: Losses,
    examples: Any,
    space: Space,
    problem: Problem,
    *,
    search: str | Search = "optuna",
    budget: int = 200,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    seed: int = 0,
    groups: Mapping[str, npt.ArrayLike] | None = None,
    bounds: Bounds | None = None,
    method: str | Method = "pareto-testing",
    progress: bool | None = None,
) -> Certificate:
    """Search settings on one part of the examples, and certify the best of them on the other.

    Args:
        losses: ``losses(config, examples)`` returns name -> one loss for each example.
        examples: a list, an array, a data frame, or any sequence; split at random into opt and test examples.
        space: the settings to choose from.
        problem: limits, objectives and delta.
        search: "grid", "random", "optuna", "parego", "guided", or an object with ask and tell. It is told, for each limit,
            the badness in [0, 1] on opt examples and, for each objective, the value to minimise. A search that goes on
            proposing settings it was told of is ended.
        budget: how many settings to evaluate on opt examples; those of earlier runs in the store count.
        n_jobs: settings evaluated at a time, as in joblib; a Dask or Ray cluster by ``joblib.parallel_config``.
        store: a path or an fsspec URL; the same call later goes on where this one was stopped.
        seed: of the split and of the search.
        groups: name -> (n_examples,), for limits that hold in every group.
        bounds: name -> (low, high), (0, 1) by default.
        method: how to plan the tests; it must use opt examples.
        progress: show progress bars; by default on a terminal only.

    On test examples only settings of the plan are evaluated, in testing order, and a fixed sequence stops paying at its first
    failure, at most one batch of ``n_jobs`` settings late. Search never sees anything of the test examples.
    """
    planner = make_method(method)
    _check(examples, groups, space, problem, planner, bounds or {})
    budget = _whole_number(budget)
    parts = _split(losses, examples, space, planner, groups, bounds, seed, store)
    searcher = _make_search(search, space, problem, parts, bounds or {}, seed, budget)
    with (
        Workers(losses, parts.opt.examples, n_jobs) as workers,
        ProgressBar("searching", budget, min(len(parts.opt.rows), budget), progress) as bar,
    ):
        configs = _search(searcher, space, problem, parts.opt.rows, workers, bar, budget)
    opt = parts.opt.rows.table(configs, bounds=bounds)
    plan = planner.plan(opt, problem)
    with (
        Workers(losses, parts.test.examples, n_jobs) as workers,
        ProgressBar("testing", len(plan), 0, progress) as bar,
    ):
        return certify_along(plan, configs, parts.test.rows, parts.test.groups, problem, workers, bar)


def certify_along(
    plan: Plan,
    configs: Sequence[Config],
    rows: RowsOf,
    groups: Mapping[str, Groups],
    problem: Problem,
    workers: Evaluator,
    bar: ProgressBar,
) -> Certificate:
    """Test along the plan; settings that ``rows`` of the test examples lack are evaluated when their turn comes."""
    limited = {limit.loss for limit in problem.limits if limit.quantile is None}
    planned = PlannedRows(plan, configs, rows, workers, limited, bar)
    certificate = certify(plan, planned.table(rows.n_examples, groups), problem)
    return replace(certificate, data_sha256=_data_sha256(certificate, plan, configs, rows))


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the examples, their groups, and where their evaluated settings are kept."""

    examples: Any
    groups: Mapping[str, Groups]
    rows: RowsOf


@dataclass(frozen=True, slots=True)
class _Parts:
    opt: _Part
    test: _Part


def _split(
    losses: Losses,
    examples: Any,
    space: Space,
    planner: Method,
    groups: Mapping[str, npt.ArrayLike] | None,
    bounds: Bounds | None,
    seed: int,
    store: str | os.PathLike[str] | None,
) -> _Parts:
    """Opt and test examples, each with rows of its own: what one part lost can never get into the other."""
    task = None
    if store is not None:
        if b"riskfront.losses" in (open_blobs(store).read("zarr.json") or b""):
            raise StoreError(
                f"'{os.fspath(store)}' is a store of evaluate; tune needs one of its own. Give another name."
            )
        split = [seed, planner.opt_fraction]
        task = Task.of(losses, examples, groups, bounds, space=space.to_dict(), split=split)
    found = []
    for name, positions in zip(("opt", "test"), split_examples(len(examples), planner.opt_fraction, seed), strict=True):
        part, part_groups = take(examples, positions), take_groups(groups, len(examples), positions)
        rows: RowsOf = MemoryRows(len(positions), part_groups, bounds)
        if task is not None:
            own = replace(task, n_examples=len(positions), groups=part_groups, identity={**task.identity, "part": name})
            rows = LossStore(f"{os.fspath(store).rstrip('/')}/{name}", own)  # type: ignore[arg-type]
        found.append(_Part(part, part_groups, rows))
    return _Parts(*found)


def _search(
    search: Search, space: Space, problem: Problem, rows: RowsOf, workers: Workers, bar: ProgressBar, budget: int
) -> list[Config]:
    """Ask, evaluate, tell, until the budget is spent or the search has no more; the settings in the order they were told.

    Settings that an earlier run left in the store cost nothing and count. As long as the search asks what it asked then, it
    goes the same way; when it first asks for something else, it is told all that is known. A search with a memory of its own
    goes on from there, and its order counts: to repeat a call that was finished changes nothing.
    """
    told = {config_id(config): config for config in _remembered(search) if config in rows}
    if told:
        _tell(search, problem, rows, [c for c in rows.configs if config_id(c) not in told], told)
    repeats = 0
    while len(told) < budget and repeats < _REPEATS:
        before = len(told)
        batch = _ask(search, space, min(workers.count, budget - len(told)))
        if not batch:
            break
        missing = [config for config in batch.values() if config not in rows]
        if missing:
            known = told.keys() | batch.keys()
            _tell(search, problem, rows, [c for c in rows.configs if config_id(c) not in known], told)
            fill(rows, workers, missing[: max(0, budget - len(told))], bar)
        _tell(search, problem, rows, [config for config in batch.values() if config in rows], told)
        repeats = repeats + 1 if len(told) == before else 0
    if not told:
        raise InvalidInputError("a search must propose at least one setting; it proposed none.")
    order = {config_id(config): place for place, config in enumerate(_remembered(search))}
    return [told[name] for name in sorted(told, key=lambda name: order.get(name, len(order)))]


def _remembered(search: Search) -> list[Config]:
    return search.remembered() if isinstance(search, Remembering) else []


def _ask(search: Search, space: Space, n: int) -> dict[str, Config]:
    """The settings proposed, by name, each once and in the types of the space."""
    found = {}
    for proposal in search.ask(n) or ():
        try:
            config = space.check(proposal)
        except InvalidInputError as error:
            raise InvalidInputError(f"a search must propose settings of the space; got {proposal!r}. {error}") from None
        found[config_id(config)] = config
    return found


def _tell(search: Search, problem: Problem, rows: RowsOf, configs: Sequence[Config], told: dict[str, Config]) -> None:
    if not configs:
        return
    table = rows.table(configs)
    evidence = Evidence(problem, table)
    values = np.hstack([evidence.risks(), _finite(evidence.objectives(), problem, table)])
    names = _told_names(problem)
    for config, row in zip(configs, values, strict=True):
        search.tell(config, {name: float(value) for name, value in zip(names, row, strict=True)})
        told[config_id(config)] = config


def _finite(objectives: Array, problem: Problem, table: LossTable) -> Array:
    """Objectives that no example speaks of take the worst value that a loss of these settings had."""
    for column, objective in zip(objectives.T, problem.objectives, strict=True):
        if np.isinf(column).any():
            values = table.losses(objective.loss)
            column[np.isinf(column)] = -values.min() if objective.maximize else values.max()
    return objectives


def _told_names(problem: Problem) -> list[str]:
    limits = problem.limit_names
    return [*limits, *(f"{o.name} (free)" if o.name in limits else o.name for o in problem.objectives)]


def _make_search(
    search: str | Search, space: Space, problem: Problem, parts: _Parts, bounds: Bounds, seed: int, budget: int
) -> Search:
    options: dict[str, Any] = {}
    if search == "guided":
        pairs = zip(problem.limit_names, problem.limits, strict=True)
        options = {"targets": [_target(name, limit, parts, bounds) for name, limit in pairs], "delta": problem.delta}
    return make_search(search, space, _told_names(problem), seed=seed, budget=budget, **options)


def _target(name: str, limit: Limit, parts: _Parts, bounds: Bounds) -> LimitTarget:
    """A limit as a guided search needs it; where it speaks of groups, by the one with the fewest test examples.

    Groups are known before any loss is: to count those of test examples tells nothing of how settings do on them.
    """
    low, high = bounds.get(limit.loss, (0.0, 1.0))
    alpha = (limit.value - low if limit.at_least is None else high - limit.value) / (high - low)
    if limit.quantile is not None:
        alpha = 1 - limit.quantile
    opt, test = _group_sizes(limit, parts.opt), _group_sizes(limit, parts.test)
    scarcest = int(test.argmin())
    return LimitTarget(name, alpha, max(1, int(opt[scarcest])), max(1, int(test[scarcest])))


def _group_sizes(limit: Limit, part: _Part) -> IntArray:
    """(groups,): the examples a limit speaks of. A condition that is a loss is not known yet and counts as met."""
    met = np.ones(len(part.examples), dtype=np.bool_)
    if limit.given is not None and limit.given in part.groups:
        condition = part.groups[limit.given]
        met = np.isin(condition.codes, [i for i, level in enumerate(condition.levels) if level == 1])
    if limit.per is None or limit.per not in part.groups:
        return np.array([met.sum()])
    groups = part.groups[limit.per]
    return np.bincount(groups.codes[met], minlength=len(groups.levels))


def _data_sha256(certificate: Certificate, plan: Plan, configs: Sequence[Config], rows: RowsOf) -> str:
    """The fingerprint of all that was looked at: every setting on opt examples, the tested ones on test examples."""
    tested = [configs[row] for row in plan.rows[: len(certificate.path)]]
    return fingerprint({"opt": plan.opt.sha256, "test": rows.table(tested).sha256 if tested else None}, {})


def _check(
    examples: Any,
    groups: Mapping[str, npt.ArrayLike] | None,
    space: Space,
    problem: Problem,
    planner: Method,
    bounds: Bounds,
) -> None:
    check_examples(examples, groups)
    if not isinstance(space, Space):
        raise InvalidInputError(f"space must be a Space; got {type(space).__name__}.")
    if not isinstance(problem, Problem):
        raise InvalidInputError(f"problem must be a Problem; got {type(problem).__name__}.")
    if planner.opt_fraction == 0:
        raise InvalidInputError(
            f"tune needs a method that plans on opt examples, such as pareto-testing; {planner.name} uses none. "
            "For it, use evaluate and calibrate."
        )
    _check_bounds(problem, bounds)


def _check_bounds(problem: Problem, bounds: Bounds) -> None:
    """Limits that no losses could fit are refused before the first evaluation is paid for."""
    declared = columns.declared_bounds(bounds, dict.fromkeys(bounds, (np.nan, np.nan)))  # of no losses yet
    for limit in problem.limits:
        low, high = declared.get(limit.loss, (0.0, 1.0))
        if limit.quantile is not None or low < limit.value < high:
            continue
        if limit.loss not in declared:
            raise InvalidInputError(
                f"a limit on '{limit.loss}' needs bounds: {limit.value:g} is not strictly inside the default (0, 1). "
                f"Declare the range it can take, as bounds={{'{limit.loss}': (low, high)}} or --bounds '{limit.loss}=low,high'."
            )
        raise InvalidInputError(
            f"the limit on '{limit.loss}' must lie strictly between its bounds ({low:g}, {high:g}); got {limit.value:g}."
        )


def _whole_number(budget: Any) -> int:
    """numpy's whole numbers too."""
    try:
        number = 0 if isinstance(budget, bool) else operator.index(budget)
    except TypeError:
        number = 0
    if number < 1:
        raise InvalidInputError(f"budget must be a whole number of at least 1; got {budget!r}.")
    return number
