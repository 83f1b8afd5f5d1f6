"""tune: the paper's Algorithm 1 with a real optimiser. Search on planning examples, plan, test lazily, certify."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from riskfront._calibration.calibrate import certified
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.certificates.uses_of_test_set import ASKED, UseOfTestSet
from riskfront._calibration.sequential.told import race_edges, search_level
from riskfront._data.columns import declared_bounds
from riskfront._data.groups import all_groups
from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.stores.loss_store import write_notes
from riskfront._data.stores.open_storage import open_storage
from riskfront._data.stores.storage import Storage
from riskfront._data.stores.task import Task
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem, check_problem
from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront._running.evaluation.evaluate import check_on_error
from riskfront._running.evaluation.example_parts import examples_that_count
from riskfront._running.evaluation.failing_examples import Failures, warn_of
from riskfront._running.evaluation.outcome import Bounds, GroupsGiven, Losses, RowsOf, check_examples
from riskfront._running.evaluation.workers import Evaluator, Workers
from riskfront._running.tuning.adaptive import adaptive_run
from riskfront._running.tuning.chunked_outcomes import Price
from riskfront._running.tuning.opt_and_test_rows import Part, shuffles, split
from riskfront._running.tuning.planned_losses import PlannedRows
from riskfront._running.tuning.recorded_uses import UsedExamples, record_use, searched_before
from riskfront._running.tuning.search_loop import search_settings, start_search
from riskfront._support.array_digest import fingerprint
from riskfront._support.progress import ProgressBar
from riskfront._support.values import whole_number
from riskfront.errors import EvaluationError, InvalidInputError, SpentExamplesError
from riskfront.methods import Method, Plan, make_method
from riskfront.methods._evidence.ranges import tested_range, warn_of_small_groups
from riskfront.methods._plan import parameters
from riskfront.search import Search

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
    batch_size: int | None = None,
    store: str | os.PathLike[str] | None = None,
    seed: int = 0,
    groups: GroupsGiven = None,
    bounds: Bounds | None = None,
    method: str | Method = "pareto-testing",
    on_error: Literal["raise", "skip"] = "raise",
    search_options: Mapping[str, Any] | None = None,
    again: bool = False,
    repeats: Repeats = "refuse",
    looks: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    adaptive: bool = False,
    price: str | Price | None = None,
) -> Certificate:
    """Search settings on one part of the examples, and certify the best of them on the other.

    Args:
        losses: ``losses(config, examples)`` returns name -> one loss for each example.
        examples: a list, an array, a data frame, or any sequence; split at random into planning and testing examples.
        space: the settings to choose from.
        problem: limits, objectives and delta.
        search: "guided", "optuna", "parego", "random", "grid" (``riskfront.search`` says how good each is), or an object with
            ask and tell. It is told, on planning examples, the normalised loss in [0, 1] of each limit and the value
            to minimise of each objective. A search that goes on proposing settings it was told of is ended.
        budget: how many settings to evaluate on planning examples; those of earlier runs in the store count. By default 200,
            or every setting of a space of at most 4,096 if the first ones show that this takes seconds.
        n_jobs: settings evaluated at a time, as in joblib; a Dask or Ray cluster by ``joblib.parallel_config``.
        batch_size: settings that the search proposes at a time, before it is told of any of them; by default as many as there
            are workers. A search that learns proposes other settings in batches of another size: give the number to get the
            same certificate on any number of workers. A store keeps the number, and a run that is gone on with uses it.
        store: a path or an fsspec URL; the same call later goes on where this one was stopped. Two processes with one store do
            not share the work.
        seed: of the split and of the search.
        groups: name -> (n_examples,), or a data frame, for limits that hold in every group.
        bounds: name -> (low, high), (0, 1) by default.
        method: how to plan the tests; it must use planning examples.
        on_error: "raise" stops at the first setting at which ``losses`` fails; "skip" goes on, on planning and on testing
            examples. Outcomes of the examples on which it fails are missing, and count as the worst there can be
            (``evaluate`` says how they are found). No setting is left out.
        search_options: of a search given by its name, such as {"sampler": "tpe"} or {"storage": "sqlite:///study.db",
            "study_name": "run"}, by which several machines search together with the same seed: each evaluates ``budget``
            settings and knows those of the others. Certify with one of them.
        again: ask testing examples that were used for another question before. The deltas of all questions add up, and the
            certificate states the confidence that is left.
        repeats: what to do with copies of examples. "refuse" is an error where examples, with their groups, are equal more
            often than independent draws could be; "keep-one" keeps one of each content, so that each counts once in the
            guarantee; "independent" declares that equal examples were drawn independently.
        looks: a path or URL where uses of the testing examples are recorded; by default the store.
        storage_options: for fsspec, of a store behind a URL, such as {"key": ..., "secret": ..., "endpoint_url": ...}.
        progress: show progress bars; by default on a terminal only.
        adaptive: evaluate only what matters. Settings race on planning examples: all on a few, more for those that still
            matter. Along the path each setting is tested until it passes or is hopeless, by bets that may be looked at after
            every outcome. ``certificate.evaluations`` says how many outcomes were paid for. ``losses`` is then called on parts
            of the examples.
        price: with ``adaptive``, what an evaluation costs: the name of a loss, or a function of a setting and examples that
            returns a number, or one for each example. Of settings that are as safe, the cheaper are tested first.

    Testing examples serve one question. With a larger budget, another limit or another method the same store is refused
    (SpentExamplesError), because to go on until something passes gives false certificates; a run that was stopped goes on, and
    a question that is repeated gives its answer again. Before anything is tested, a search may be stopped and gone on with as
    often as one likes. Without a store, and with another one, the deltas of all questions that this process put to the same
    examples add up, whatever code asks them.

    On testing examples only settings of the plan are evaluated, in testing order, and a fixed sequence stops paying at its
    first failure, at most one batch of ``n_jobs`` settings late. Search never sees anything of the testing examples.

    Examples:
        >>> import numpy as np
        >>> import riskfront as rf
        >>> def losses(config, examples):
        ...     return {"error": examples < config["level"], "cost": np.full(len(examples), 1 - config["level"])}
        >>> space = rf.Space(level=rf.Choice([0.02, 0.05, 0.15, 0.2]))
        >>> problem = rf.Problem("error <= 0.1", minimize="cost")
        >>> rf.tune(losses, np.random.default_rng(0).random(1000), space, problem, search="grid").config
        {'level': 0.05}
    """
    planner = make_method(method)
    _check(examples, groups, space, problem, planner, bounds or {})
    check_on_error(on_error)
    examples, groups, kept = examples_that_count(examples, groups, repeats)
    _warn_of_small_groups(problem, bounds or {}, groups, len(examples))
    seed = whole_number("seed", seed, 0)
    all_if_cheap = budget is None and search == "guided" and space.size is not None and space.size <= _SMALL
    budget = _BUDGET if budget is None else whole_number("budget", budget, 1)
    batch_size = None if batch_size is None else whole_number("batch_size", batch_size, 1)

    if price is not None and not adaptive:
        raise InvalidInputError("price is for tune(..., adaptive=True), which chooses what to evaluate.")
    if price is not None and not isinstance(price, str) and not callable(price):
        raise InvalidInputError(f"price must name a loss, or be a function of a setting and examples; got {price!r}.")
    split_by, salt = shuffles(examples, groups, seed, store, looks, storage_options=storage_options)

    @cache
    def task() -> Task:
        named = [seed, planner.opt_fraction, split_by, *(["adaptive"] if adaptive else [])]
        return Task.of(losses, examples, groups, bounds, space=space.to_dict(), split=named)

    share = planner.opt_fraction
    parts = split(examples, groups, bounds, share, seed, salt, store, task, kept, storage_options, in_chunks=adaptive)
    if adaptive and store is not None and kept.notes:
        write_notes(f"{os.fspath(store).rstrip('/')}/test/0", kept.notes, storage_options)
    n_opt = len(parts.opt.examples)
    n_told = int(race_edges(n_opt)[search_level(n_opt)]) if adaptive else None
    options, identity = search_options or {}, lambda: task().identity
    searcher = start_search(search, space, problem, parts, bounds or {}, seed, budget, options, identity, n_told)
    failures: Failures | None
    failures_of_test: Failures | None
    failures, failures_of_test = ({}, {}) if on_error == "skip" else (None, None)
    workers_on = partial(Workers, losses, n_jobs=n_jobs, gaps=on_error == "skip")
    record = None if looks is None and store is None else open_storage(looks or store or "", storage_options)
    used = UsedExamples(examples, losses)
    asked = [] if store is None else sorted(task().identity.items())
    call = _call(search, search_options, budget, problem, planner, [seed, space.to_dict(), asked])
    known = None if record is None else searched_before(record, used.identity, call)
    decided_by = [seed, planner.opt_fraction, used.code, split_by]
    tested: Callable[[], Sequence[Config]]
    certify: Callable[[Workers, ProgressBar], Certificate]
    if adaptive:
        run = adaptive_run(parts, problem, planner, bounds, price, store, task, storage_options)
        with (
            workers_on(parts.opt.examples) as workers,
            ProgressBar("racing", None, run.opt.evaluated(), progress) as bar,
        ):
            if not run.goes_on_with(known):
                evaluate = partial(run.opt.evaluate, workers=workers, bar=bar, failures=failures)
                run.search(searcher, space, budget, batch_size or workers.count, evaluate)
        testing = run.testing()
        plan, opt, configs, tested = testing.plan, testing.opt, run.finalist_configs, run.unplanned
        n_searched, to_test, done = len(run.configs), None, run.test.evaluated()
        decided_by.append("adaptive")
        certify = partial(run.certify, testing, failures=failures_of_test)
    else:
        rows = parts.opt.rows
        with (
            workers_on(parts.opt.examples) as workers,
            ProgressBar("searching", budget, min(len(rows), budget), progress) as bar,
            rows.writing_together(),
        ):
            if known is None or not all(config in rows for config in known):
                known = search_settings(
                    searcher, space, problem, rows, workers, bar, budget, bounds, failures, all_if_cheap, batch_size
                )
        configs, opt, tested = known, rows.table(known, bounds=bounds), lambda: parts.test.rows.configs
        plan = planner.plan(opt, problem)
        n_searched, to_test, done = len(configs), len(plan), 0
        certify = partial(certify_along, plan, configs, parts.test, problem, failures=failures_of_test)
    use = use_of(plan, problem, decided_by)
    earlier = _uses_before(use, plan, configs, record, used, call, again, tested)
    with (
        workers_on(parts.test.examples) as workers,
        ProgressBar("testing", to_test, done, progress) as bar,
        parts.test.rows.writing_together(),
    ):
        try:
            certificate = certify(workers, bar)
        except EvaluationError as error:
            raise _of_test(error, opt if store is None else None) from error.__cause__
        finally:
            used.called()
    if failures or failures_of_test:
        warn_of({**(failures_of_test or {}), **(failures or {})}, n_searched)
    return replace(certificate, notes=(*certificate.notes, *kept.notes), split_by=split_by).after(earlier)


def _call(
    search: str | Search, options: Mapping[str, Any] | None, budget: int, problem: Problem, planner: Method, more: Any
) -> str:
    """A digest of the arguments, by which the same call finds its earlier result. A search object equals only itself."""
    named = search if isinstance(search, str) else f"{type(search).__qualname__} {id(search)} {os.getpid()}"
    asked = [named, dict(options or {}), budget, problem.to_dict(), planner.name, parameters(planner), more]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=repr).encode()).hexdigest()


def use_of(plan: Plan, problem: Problem, decided_by: Any = None) -> UseOfTestSet:
    """The question that a plan puts to testing examples.

    Another model asks another question, even if the plan is the same: it is known by what it lost on planning examples, and
    ``decided_by`` says what else is known of it and of the split.
    """
    said = f"{plan.opt.n_configs} settings searched"
    planned = plan.opt.select(plan.rows)
    limited = {loss: planned.losses(loss) for limit in problem.limits for loss in limit.term.losses}
    decides = [plan.configs(), fingerprint({}, limited), decided_by]
    return UseOfTestSet.of(problem, plan.method.name, parameters(plan.method), decided_by=decides, said=said)


def _uses_before(
    new: UseOfTestSet,
    plan: Plan,
    configs: Sequence[Config],
    record: Storage | None,
    used: UsedExamples,
    call: str,
    again: bool,
    tested: Callable[[], Sequence[Config]],
) -> tuple[UseOfTestSet, ...]:
    """Earlier questions to the same examples; this one is recorded before it is asked."""
    recorded: tuple[UseOfTestSet, ...] = ()
    if record is not None:
        recorded = record_use(
            record, used.identity, new, call, configs, again=again, parameters=parameters(plan.method)
        )
        if not recorded and not again:
            _refuse_unplanned(tested(), plan)
    known = {use.question for use in recorded}
    return (*recorded, *(use for use in ASKED.before(used.digests, new) if use.question not in known))


def _refuse_unplanned(tested: Sequence[Config], plan: Plan) -> None:
    """Settings that were tested and are not on the plan were on another one, whose record is gone."""
    planned = {config_id(config) for config in plan.configs()}
    others = [config for config in tested if config_id(config) not in planned]
    if others:
        raise SpentExamplesError(
            f"testing examples must be new to a question; they were evaluated at {len(others)} settings that this plan does "
            f"not test, such as {others[0]}, so they have already been used for another question. Use new examples in another "
            "store, or set again=True (--again)."
        )


def certify_along(
    plan: Plan,
    configs: Sequence[Config],
    test: Part,
    problem: Problem,
    workers: Evaluator,
    bar: ProgressBar,
    failures: Failures | None = None,
) -> Certificate:
    """Test along the plan; settings that the rows of the test part lack are evaluated when their turn comes."""
    planned = PlannedRows(plan, configs, test.rows, workers, problem, bar, failures)
    table = planned.table(test.rows.n_examples, test.groups)
    return certified(plan, table, problem, lambda tested: _data_sha256(tested, plan, configs, test.rows))


def _of_test(error: EvaluationError, searched: LossTable | None) -> EvaluationError:
    """An error on testing examples, with what to do about it, and with what was searched if no store has it."""
    n = error.n_evaluated if searched is None else searched.n_configs
    advice = (
        "It was searched without an error and fails on testing examples: return the worst losses for examples that cannot be "
        "processed, or count failures as the worst outcome with on_error='skip'."
    )
    kept = (
        "All that was evaluated is in the store"
        if searched is None
        else f"The {n} settings searched are in 'evaluated'"
    )
    more = EvaluationError(f"{error.problem} {advice}", error.config, f"{kept}.")
    more.n_evaluated, more.evaluated, more.in_store = n, searched, error.in_store
    return more


def _data_sha256(n_tested: int, plan: Plan, configs: Sequence[Config], rows: RowsOf) -> str:
    """The fingerprint of all that was used: every setting on planning examples, the tested ones on testing examples."""
    tested = [configs[row] for row in plan.rows[:n_tested]]
    return fingerprint({"opt": plan.opt.sha256, "test": rows.table(tested).sha256 if tested else None}, {})


def _check(examples: Any, groups: GroupsGiven, space: Space, problem: Problem, planner: Method, bounds: Bounds) -> None:
    check_examples(examples, groups)
    if not isinstance(space, Space):
        raise InvalidInputError(f"space must be a Space; got {type(space).__name__}.")
    check_problem(problem)
    if planner.opt_fraction == 0:
        raise InvalidInputError(
            f"tune needs a method that plans on planning examples, such as pareto-testing; {planner.name} uses none. "
            "For it, use evaluate and calibrate."
        )
    _check_bounds(problem, bounds)


def _warn_of_small_groups(problem: Problem, bounds: Bounds, groups: GroupsGiven, n_examples: int) -> None:
    """Say before anything is evaluated that a limit cannot be certified in some group."""
    known = all_groups(groups, n_examples)
    if all(limit.per in known for limit in problem.limits if limit.per is not None):
        declared = declared_bounds(bounds, dict.fromkeys(bounds, (np.nan, np.nan)))
        warn_of_small_groups(problem, lambda name: declared.get(name, (0.0, 1.0)), known.__getitem__)


def _check_bounds(problem: Problem, bounds: Bounds) -> None:
    """Limits that no losses could fit are refused before the first evaluation is paid for."""
    declared = declared_bounds(bounds, dict.fromkeys(bounds, (np.nan, np.nan)))  # of no losses yet
    for limit in problem.limits:
        low, high = declared.get(limit.loss, (0.0, 1.0))
        if limit.gap_per is not None or limit.term.is_ratio or limit.threshold is not None:
            tested_range(limit, lambda name: declared.get(name, (0.0, 1.0)))
            continue
        if limit.drop_from is not None:  # a difference of values in [low, high]
            low, high = low - high, high - low
        if limit.quantile is not None or low < limit.value < high:
            continue
        if limit.loss not in declared:
            raise InvalidInputError(
                f"a limit on '{limit.loss}' needs bounds: {limit.value:g} is not strictly inside the default (0, 1). "
                f"Declare the range it can take, as bounds={{'{limit.loss}': (low, high)}} or --bounds '{limit.loss}=low,high'."
            )
        raise InvalidInputError(
            f"the limit on '{limit.loss}' must lie strictly between its bounds ({low:g}, {high:g}); got {limit.value:g}."
            f"{limit.meant_percentage(low, high)}"
        )
