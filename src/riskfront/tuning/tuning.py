"""tune: the paper's Algorithm 1 with a real optimiser. Search on planning examples, plan, test lazily, certify."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np

from riskfront.calibration.calibration import certify
from riskfront.certificates.certificate import Certificate
from riskfront.certificates.looks import ASKED, Look
from riskfront.errors import EvaluationError, InvalidInputError, SpentExamplesError
from riskfront.evaluation.evaluation import Bounds, Failures, GroupsGiven, RowsOf, check_examples, check_on_error
from riskfront.evaluation.outcome import Losses
from riskfront.evaluation.workers import Evaluator, Workers
from riskfront.evidence.ranges import tested_range
from riskfront.identity.array_digest import fingerprint
from riskfront.losses.columns import declared_bounds
from riskfront.losses.table import LossTable
from riskfront.losses.values import whole_number
from riskfront.methods import Method, Plan, make_method, parameters
from riskfront.problems.problem import Problem
from riskfront.runtime.progress import ProgressBar
from riskfront.search import Search
from riskfront.spaces.space import Config, Space, config_id
from riskfront.stores.open_storage import open_storage
from riskfront.stores.storage import Storage
from riskfront.stores.task import Task
from riskfront.tuning.looks import look_once, searched_before
from riskfront.tuning.opt_test_parts import Part, Parts, split
from riskfront.tuning.planned_losses import PlannedRows
from riskfront.tuning.search_loop import search_settings, start_search

_BUDGET = 200
_SMALL = 4096  # a space up to here may be evaluated whole


def tune(
    losses: Losses,
    examples: Any,
    space: Space,
    problem: Problem,
    *,
    search: str | Search = "guided",
    budget: int | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    seed: int = 0,
    groups: GroupsGiven = None,
    bounds: Bounds | None = None,
    method: str | Method = "pareto-testing",
    on_error: Literal["raise", "skip"] = "raise",
    search_options: Mapping[str, Any] | None = None,
    again: bool = False,
    looks: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Certificate:
    """Search settings on one part of the examples, and certify the best of them on the other.

    Args:
        losses: ``losses(config, examples)`` returns name -> one loss for each example.
        examples: a list, an array, a data frame, or any sequence; split at random into planning and testing examples.
        space: the settings to choose from.
        problem: limits, objectives and delta.
        search: "guided", "optuna", "parego", "random", "grid" (``riskfront.search`` says how good each is), or an object with
            ask and tell. It is told, for each limit, the badness in [0, 1] on planning examples and, for each objective, the
            value to minimise. A search that goes on proposing settings it was told of is ended.
        budget: how many settings to evaluate on planning examples; those of earlier runs in the store count. By default 200,
            or every setting of a space of at most 4,096 if the first ones show that this takes seconds.
        n_jobs: settings evaluated at a time, as in joblib; a Dask or Ray cluster by ``joblib.parallel_config``.
        store: a path or an fsspec URL; the same call later goes on where this one was stopped.
        seed: of the split and of the search.
        groups: name -> (n_examples,), or a data frame, for limits that hold in every group.
        bounds: name -> (low, high), (0, 1) by default.
        method: how to plan the tests; it must use planning examples.
        on_error: "raise" stops at the first setting at which ``losses`` fails; "skip" leaves it out of the search. A failure on
            testing examples always stops: to leave a setting out there would make the plan depend on them.
        search_options: of a search given by its name, such as {"sampler": "tpe"} or {"storage": "sqlite:///study.db",
            "study_name": "run"}, by which several machines search together with the same seed: each evaluates ``budget``
            settings and knows those of the others. Certify with one of them.
        again: ask testing examples that have answered another question before. The deltas of all questions add up, and the
            certificate states the confidence that is left.
        looks: a path or URL where looks at the testing examples are recorded; by default the store.
        progress: show progress bars; by default on a terminal only.

    The testing examples are spent by the first question they answer. With a larger budget, another limit or another method the
    same store is refused (SpentExamplesError), because to go on until something passes gives false certificates; a run that was
    stopped goes on, and a question that is repeated gives its answer again. Before anything is tested, a search may be
    stopped and gone on with as often as one likes.

    On testing examples only settings of the plan are evaluated, in testing order, and a fixed sequence stops paying at its
    first failure, at most one batch of ``n_jobs`` settings late. Search never sees anything of the testing examples.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> def losses(config, examples):
        ...     return {"error": examples < config["level"], "cost": np.full(len(examples), 1 - config["level"])}
        >>> space = rf.Space(level=rf.Choice([0.02, 0.05, 0.1, 0.2]))
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> rf.tune(losses, np.random.default_rng(0).random(1000), space, problem, search="grid").config
        {'level': 0.05}
    """
    planner = make_method(method)
    _check(examples, groups, space, problem, planner, bounds or {})
    check_on_error(on_error)
    seed = whole_number("seed", seed, 0)
    all_if_cheap = budget is None and search == "guided" and space.size is not None and space.size <= _SMALL
    budget = _BUDGET if budget is None else whole_number("budget", budget, 1)

    @cache
    def task() -> Task:
        return Task.of(
            losses, examples, groups, bounds, space=space.to_dict(), split=[seed, planner.opt_fraction, "contents"]
        )

    parts = split(examples, groups, bounds, planner.opt_fraction, seed, store, task)
    searcher = start_search(
        search, space, problem, parts, bounds or {}, seed, budget, search_options or {}, lambda: task().identity
    )
    failures: Failures | None = {} if on_error == "skip" else None
    record = None if looks is None and store is None else open_storage(looks or store or "")
    call = _call(search, search_options, budget, problem, planner)
    known = None if record is None else searched_before(record, task().identity, call)
    with (
        Workers(losses, parts.opt.examples, n_jobs) as workers,
        ProgressBar("searching", budget, min(len(parts.opt.rows), budget), progress) as bar,
    ):
        if known is None or not all(config in parts.opt.rows for config in known):
            known = search_settings(
                searcher, space, problem, parts.opt.rows, workers, bar, budget, bounds, failures, all_if_cheap
            )
    configs = known
    opt = parts.opt.rows.table(configs, bounds=bounds)
    plan = planner.plan(opt, problem)
    earlier = _looks_before(plan, problem, parts, configs, record, task, call, again)
    with (
        Workers(losses, parts.test.examples, n_jobs) as workers,
        ProgressBar("testing", len(plan), 0, progress) as bar,
    ):
        try:
            return replace(certify_along(plan, configs, parts.test, problem, workers, bar), earlier_looks=earlier)
        except EvaluationError as error:
            raise _of_test(error, opt if store is None else None) from error.__cause__


def _call(
    search: str | Search, options: Mapping[str, Any] | None, budget: int, problem: Problem, planner: Method
) -> str:
    """A digest of what was asked for, so that a call that is made again finds what it found; a search object is its own."""
    named = search if isinstance(search, str) else f"{type(search).__qualname__} {id(search)} {os.getpid()}"
    asked = [named, dict(options or {}), budget, problem.to_dict(), planner.name, parameters(planner)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=repr).encode()).hexdigest()


def look_of(plan: Plan, problem: Problem) -> Look:
    """The question that a plan puts to testing examples."""
    said = f"{plan.opt.n_configs} settings searched"
    return Look.of(problem, plan.method.name, parameters(plan.method), decided_by=plan.configs(), said=said)


def _looks_before(
    plan: Plan,
    problem: Problem,
    parts: Parts,
    configs: Sequence[Config],
    record: Storage | None,
    task: Callable[[], Task],
    call: str,
    again: bool,
) -> tuple[Look, ...]:
    """Earlier questions to the testing examples; this one is written down before it is asked."""
    look = look_of(plan, problem)
    elsewhere = _asked_elsewhere(look, task)
    if record is None:
        return elsewhere
    used = parameters(plan.method)
    earlier = look_once(record, task().identity, look, call, configs, again=again, parameters=used)
    if not earlier and not again:
        _refuse_unplanned(parts.test.rows, plan)
    recorded = {_with_split(seen, task().identity).question for seen in earlier}
    return (*earlier, *(seen for seen in elsewhere if seen.question not in recorded))


def _asked_elsewhere(look: Look, task: Callable[[], Task]) -> tuple[Look, ...]:
    """What this process asked of the same examples before, in whatever store, with whatever seed or space."""
    try:
        identity = task().identity
    except InvalidInputError:  # a task whose content cannot be read can only be recorded in a store
        return ()
    same = json.dumps({name: identity[name] for name in ("examples", "groups")}, sort_keys=True)
    return ASKED.before(same, _with_split(look, identity))


def _with_split(look: Look, identity: Mapping[str, str]) -> Look:
    """Another seed puts the same question to other testing examples, of which some are the same."""
    return replace(look, question=f"{look.question} {identity['split'][:16]}")


def _refuse_unplanned(tested: RowsOf, plan: Plan) -> None:
    """Settings that were tested and are not on the plan were on another one, of a version that kept no record."""
    planned = {config_id(config) for config in plan.configs()}
    others = [config for config in tested.configs if config_id(config) not in planned]
    if others:
        raise SpentExamplesError(
            f"the testing examples must not be spent; they were evaluated at {len(others)} settings that this plan does not "
            f"test, such as {others[0]}, so they have answered another question. Use new examples in another store, or "
            "set again=True (--again)."
        )


def certify_along(
    plan: Plan,
    configs: Sequence[Config],
    test: Part,
    problem: Problem,
    workers: Evaluator,
    bar: ProgressBar,
) -> Certificate:
    """Test along the plan; settings that the rows of the test part lack are evaluated when their turn comes."""
    planned = PlannedRows(plan, configs, test.rows, workers, problem, bar)
    certificate = certify(plan, planned.table(test.rows.n_examples, test.groups), problem)
    return replace(certificate, data_sha256=_data_sha256(certificate, plan, configs, test.rows))


def _of_test(error: EvaluationError, searched: LossTable | None) -> EvaluationError:
    """An error on testing examples, with what to do about it, and with what was searched if no store has it."""
    n = error.n_evaluated if searched is None else searched.n_configs
    advice = (
        "It was searched without an error and fails on testing examples, where no setting may be left out: return the worst "
        "losses for examples that cannot be processed."
    )
    kept = (
        "All that was evaluated is in the store"
        if searched is None
        else f"The {n} settings searched are in 'evaluated'"
    )
    more = EvaluationError(f"{error.problem} {advice}", error.config, f"{kept}.")
    more.n_evaluated, more.evaluated, more.in_store = n, searched, error.in_store
    return more


def _data_sha256(certificate: Certificate, plan: Plan, configs: Sequence[Config], rows: RowsOf) -> str:
    """The fingerprint of all that was looked at: every setting on planning examples, the tested ones on testing examples."""
    tested = [configs[row] for row in plan.rows[: len(certificate.path)]]
    return fingerprint({"opt": plan.opt.sha256, "test": rows.table(tested).sha256 if tested else None}, {})


def _check(
    examples: Any,
    groups: GroupsGiven,
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
            f"tune needs a method that plans on planning examples, such as pareto-testing; {planner.name} uses none. "
            "For it, use evaluate and calibrate."
        )
    _check_bounds(problem, bounds)


def _check_bounds(problem: Problem, bounds: Bounds) -> None:
    """Limits that no losses could fit are refused before the first evaluation is paid for."""
    declared = declared_bounds(bounds, dict.fromkeys(bounds, (np.nan, np.nan)))  # of no losses yet
    for limit in problem.limits:
        low, high = declared.get(limit.loss, (0.0, 1.0))
        if limit.gap_per is not None or limit.term.is_ratio or limit.worst is not None:
            tested_range(limit, lambda name: declared.get(name, (0.0, 1.0)))
            continue
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
