"""The search on planning examples: ask for settings, evaluate them, tell the search how they did."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from riskfront.arrays import Array, IntArray
from riskfront.errors import InvalidInputError
from riskfront.evaluation.evaluation import SKIP_HINT, Bounds, Failures, RowsOf, fill, warn_of
from riskfront.evaluation.workers import Evaluator
from riskfront.evidence.evidence import Evidence
from riskfront.evidence.ranges import tested_range
from riskfront.losses.table import LossTable
from riskfront.problems.limits import Limit
from riskfront.problems.problem import Problem
from riskfront.runtime.progress import ProgressBar
from riskfront.search import LimitTarget, Remembering, Search, make_search
from riskfront.spaces.space import Config, Space, config_id
from riskfront.tuning.opt_test_parts import Part, Parts

_TRIED = 5  # settings whose evaluation tells how long the others take
_SECONDS = 5.0  # in which a whole space may be evaluated instead of being searched
_REPEATS = 100  # rounds in a row without a new setting, after which a search is taken to have no more


def start_search(
    search: str | Search,
    space: Space,
    problem: Problem,
    parts: Parts,
    bounds: Bounds,
    seed: int,
    budget: int,
    options: Mapping[str, Any],
    identity: Callable[[], Mapping[str, str]],
) -> Search:
    """The search by its name, or as it is. One that shares its memory with others must share the task and the split with
    them: what others were told of their planning examples may be testing examples here.
    """
    if search == "guided":
        pairs = zip(problem.limit_names, problem.limits, strict=True)
        options = {"targets": [_target(*pair, parts, bounds) for pair in pairs], "delta": problem.delta, **options}
    made = make_search(search, space, told_names(problem), seed=seed, budget=budget, **options)
    if isinstance(made, Remembering):
        made.belong_to(lambda: {**identity(), "objectives": ", ".join(told_names(problem))})
    return made


def search_settings(
    search: Search,
    space: Space,
    problem: Problem,
    rows: RowsOf,
    workers: Evaluator,
    bar: ProgressBar,
    budget: int,
    bounds: Bounds | None = None,
    failures: Failures | None = None,
    all_if_cheap: bool = False,
) -> list[Config]:
    """Ask, evaluate, tell, until the budget is spent or the search has no more; the settings in the order they were told.

    Settings that an earlier run left in the store cost nothing and count. As long as the search asks what it asked then, it
    goes the same way; when it first asks for something else, it is told all that is known. A search with a memory of its own
    goes on from there, and its order counts: to repeat a call that was finished changes nothing.

    Args:
        rows: evaluated settings, on planning examples.
        failures: where settings go at which the user's function fails, to be left out; they count too. None: stop at the first.
        all_if_cheap: in a small space, evaluate every setting once the first ones have shown that this takes seconds.
    """
    failed: Failures = {} if failures is None else failures
    tell = partial(_tell, search, problem, rows, bounds)
    told = {config_id(config): config for config in _remembered(search) if config in rows}
    if told:
        tell([c for c in rows.configs if config_id(c) not in told], told)
    repeats, seconds, evaluated = 0, 0.0, 0
    while (left := budget - len(told) - len(failed)) > 0 and repeats < _REPEATS:
        batch = _ask(search, space, min(workers.count, left))
        if not batch:
            break
        missing = [config for name, config in batch.items() if config not in rows and name not in failed]
        if missing:
            known = told.keys() | batch.keys()
            tell([c for c in rows.configs if config_id(c) not in known], told)
            begun = time.monotonic()
            fill(rows, workers, missing[: max(0, budget - len(told) - len(failed))], bar, failures, SKIP_HINT)
            seconds, evaluated = seconds + time.monotonic() - begun, evaluated + len(missing)
        tell([config for config in batch.values() if config in rows], told)
        repeats = repeats + 1 if budget - len(told) - len(failed) == left else 0
        if all_if_cheap and evaluated >= _TRIED and space.size is not None:
            all_if_cheap = False
            if seconds / evaluated * space.size <= _SECONDS:
                budget = space.size
                rest = [c for c in map(space.at, range(space.size)) if c not in rows and config_id(c) not in failed]
                bar.say(f"all {space.size:,} settings are quickly evaluated: no search", total=budget)
                fill(rows, workers, rest, bar, failures, SKIP_HINT)
                told |= {config_id(config): config for config in map(space.at, range(space.size)) if config in rows}
    if failed:
        warn_of(failed, len(told) + len(failed))
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


def _tell(
    search: Search,
    problem: Problem,
    rows: RowsOf,
    bounds: Bounds | None,
    configs: Sequence[Config],
    told: dict[str, Config],
) -> None:
    if not configs:
        return
    table = rows.table(configs, bounds=bounds)
    evidence = Evidence.of_planning(problem, table)
    values = np.hstack([evidence.risks(), _finite(evidence.objectives(), problem, table)])
    for config, row in zip(configs, values, strict=True):
        search.tell(config, {name: float(value) for name, value in zip(told_names(problem), row, strict=True)})
        told[config_id(config)] = config


def _finite(objectives: Array, problem: Problem, table: LossTable) -> Array:
    """Objectives that no example speaks of take the worst value that a loss of these settings had."""
    for column, objective in zip(objectives.T, problem.objectives, strict=True):
        if np.isinf(column).any():
            values = table.losses(objective.loss)
            column[np.isinf(column)] = -values.min() if objective.maximize else values.max()
    return objectives


def told_names(problem: Problem) -> list[str]:
    """What a search is told: the badness of each limit, then each objective."""
    limits = problem.limit_names
    return [*limits, *(f"{o.name} (free)" if o.name in limits else o.name for o in problem.objectives)]


def _target(name: str, limit: Limit, parts: Parts, bounds: Bounds) -> LimitTarget:
    """A limit as a guided search needs it; where it speaks of groups, by the one with the fewest planning examples.

    Testing examples of a group are taken to be as frequent as planning examples: nothing of them is looked at, not even groups,
    for a plan that depends on how many hard examples were drawn to be tested is no longer independent of the test.
    """
    if limit.quantile is not None:
        alpha = 1 - limit.quantile
    else:
        low, high, at = tested_range(limit, lambda name: bounds.get(name, (0.0, 1.0)))
        upper = limit.at_least is None or limit.worst is not None
        alpha = (at - low if upper else high - at) / (high - low)
    n_opt, n_test = len(parts.opt.examples), len(parts.test.examples)
    smallest = int(_group_sizes(limit, parts.opt).min())
    return LimitTarget(name, alpha, max(1, smallest), max(1, round(smallest / n_opt * n_test)))


def _group_sizes(limit: Limit, part: Part) -> IntArray:
    """(groups,): the examples a limit speaks of. A condition that is a loss is not known yet and counts as met."""
    met = np.ones(len(part.examples), dtype=np.bool_)
    if limit.given is not None and limit.given in part.groups:
        condition = part.groups[limit.given]
        met = np.isin(condition.codes, [i for i, level in enumerate(condition.levels) if level == 1])
    name = limit.per or limit.gap_per
    if name is None or name not in part.groups:
        return np.array([met.sum()])
    groups = part.groups[name]
    return np.bincount(groups.codes[met], minlength=len(groups.levels))
