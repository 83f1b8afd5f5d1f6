"""The search on planning examples: ask for settings, evaluate them, tell the search how they did; kept for later runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._data.stores.loss_store import LossStore
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront._running.evaluation.evaluate import fill
from riskfront._running.evaluation.failing_examples import Failures, all_failed
from riskfront._running.evaluation.outcome import Bounds, RowsOf
from riskfront._running.evaluation.workers import Evaluator
from riskfront._running.tuning.opt_and_test_rows import Part, Parts
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront._support.checked_json import from_bytes, to_bytes
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError, StoreError
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.ranges import tested_range
from riskfront.search import LimitTarget, Search, make_search
from riskfront.search._ledger import Remembering

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
    n_told: int | None = None,
) -> Search:
    """The search by its name, or as it is. One that shares its memory with others must share the task and the split with
    them: what others were told of their planning examples may be testing examples here.

    Args:
        n_told: of how many planning examples it is told; by default of all.
    """
    if search == "guided":
        pairs = zip(problem.limit_names, problem.limits, strict=True)
        options = {
            "targets": [_target(*pair, parts, bounds, n_told) for pair in pairs],
            "delta": problem.delta,
            **options,
        }
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
    given_batch_size: int | None = None,
) -> list[Config]:
    """Ask, evaluate, tell, until the budget is spent or the search has no more; the settings in the order they were told.

    Settings that an earlier run left in the store cost nothing and count. As long as the search asks what it asked then, it
    goes the same way; when it first asks for something else, it is told all that is known. A search with a memory of its own
    goes on from there, and its order counts: to repeat a call that was finished changes nothing.

    Args:
        rows: evaluated settings, on planning examples.
        failures: where failures of the user's function go; their outcomes are missing. None: stop at the first.
        all_if_cheap: in a small space, evaluate every setting once the first ones have shown that this takes seconds.
        given_batch_size: how many settings the search is asked for at a time; by default one a worker, or as many as in the
            first run into the store.
    """
    failed: Failures = {} if failures is None else failures
    record = RunRecord(rows)
    n = batch_size(record, given_batch_size, workers.count)
    teller = Teller(search, problem, rows, bounds)
    remembered = [config for config in _remembered(search) if config in rows]
    if remembered:
        teller.has_told(remembered)
        teller.tell(rows.configs)
    repeats, seconds, evaluated = 0, 0.0, 0
    while (left := budget - teller.count) > 0 and repeats < _REPEATS:
        batch = _ask(search, space, min(n, left))
        if not batch:
            break
        missing = [config for name, config in batch.items() if config not in rows and name not in failed]
        if missing:
            teller.tell([config for config in rows.configs if config_id(config) not in batch])
            begun = time.monotonic()
            fill(rows, workers, missing[: max(0, budget - teller.count)], bar, failures)
            seconds, evaluated = seconds + time.monotonic() - begun, evaluated + len(missing)
        teller.tell([config for name, config in batch.items() if config in rows or name in failed])
        repeats = repeats + 1 if budget - teller.count == left else 0
        if all_if_cheap and space.size is not None and teller.count >= _TRIED:
            all_of_them = record.known("all_settings")
            if all_of_them is None and evaluated >= _TRIED:
                all_of_them = record.settle("all_settings", int(seconds / evaluated * space.size <= _SECONDS))
            all_if_cheap = all_of_them is None
            if all_of_them:
                budget = space.size
                every = [space.at(position) for position in range(space.size)]
                rest = [config for config in every if config not in rows and config_id(config) not in failed]
                bar.say(f"all {space.size:,} settings are quickly evaluated: no search", total=budget)
                fill(rows, workers, rest, bar, failures)
                teller.has_told([config for config in every if config in rows])
    teller.end()
    if failed and not len(rows):
        raise all_failed(failed)
    if not teller.told:
        raise InvalidInputError("a search must propose at least one setting; it proposed none.")
    order = {config_id(config): place for place, config in enumerate(_remembered(search))}
    return [teller.told[name] for name in sorted(teller.told, key=lambda name: order.get(name, len(order)))]


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


def _target(name: str, limit: Limit, parts: Parts, bounds: Bounds, n_told: int | None) -> LimitTarget:
    """A limit as a guided search needs it; where it speaks of groups, by the one with the fewest planning examples.

    Testing examples of a group are taken to be as frequent as planning examples: nothing of them is looked at, not even groups,
    for a plan that depends on how many hard examples were drawn to be tested is no longer independent of the test.
    """
    low, high = bounds.get(limit.loss, (0.0, 1.0))
    if limit.quantile is not None:
        alpha = 1 - limit.quantile
    elif limit.worst is not None and limit.threshold is None:  # what ``told_risks`` tells
        alpha = (limit.value - low if limit.at_least is None else high - limit.value) / (high - low)
    else:
        low, high, at = tested_range(limit, lambda name: bounds.get(name, (0.0, 1.0)))
        upper = limit.at_least is None or limit.worst is not None
        alpha = (at - low if upper else high - at) / (high - low)
    n_opt, n_test = len(parts.opt.examples), len(parts.test.examples)
    smallest = int(_group_sizes(limit, parts.opt).min() * (limit.worst or 1.0))
    told = smallest if n_told is None else round(smallest / n_opt * n_told)
    return LimitTarget(name, alpha, max(1, told), max(1, round(smallest / n_opt * n_test)))


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


class RunRecord:
    """Decisions by name, in the store of the planning examples; forgotten at the end of the run where there is no store."""

    def __init__(self, rows: RowsOf) -> None:
        self._storage = rows.storage if isinstance(rows, LossStore) else None

    def known(self, name: str) -> int | None:
        """What was decided before, if anything was."""
        text = None if self._storage is None else self._storage.read(f"search/{name}.json")
        if self._storage is None or text is None:
            return None
        try:
            return int(from_bytes(text)[name])
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"'{self._storage.url}/search/{name}.json' must hold a number; it was damaged ({error}). "
                "Restore it from a copy."
            ) from None

    def settle(self, name: str, value: int) -> int:
        """What was decided first: this value, unless another one was before, or at the same moment by another process."""
        if self._storage is not None:
            self._storage.create(f"search/{name}.json", to_bytes({name: value}))
        known = self.known(name)
        return value if known is None else known


def batch_size(record: RunRecord, given: int | None, workers: int) -> int:
    """How many settings the search proposes at a time: as in the first run into the store, else as given, else one a worker."""
    chosen = record.settle("batch_size", workers if given is None else given)
    if given is not None and chosen != given:
        raise InvalidInputError(
            f"batch_size must be {chosen}, as in the run that this store was made by; got {given}. What a search proposes "
            "depends on it: leave it out, or use another store."
        )
    return chosen


def told_names(problem: Problem) -> list[str]:
    """What a search is told: the normalised loss of each limit, then each objective."""
    limits = problem.limit_names
    return [*limits, *(f"{o.name} (free)" if o.name in limits else o.name for o in problem.objectives)]


def told_risks(evidence: Evidence, problem: Problem) -> FloatArray:
    """(settings, limits): the normalised loss of each limit, of all settings of the evidence.

    A threshold of worst cases that is chosen on the settings told so far changes with them. The search is then told the mean of
    the worst cases itself, between the bounds of its loss, so that values told at different times are comparable.
    """
    risks, table = evidence.risks().copy(), evidence.table
    for column, limit in enumerate(problem.limits):
        if limit.worst is not None and limit.threshold is None:
            low, high = table.bounds(limit.loss)
            measured = evidence.tests[column].worst_measured(table, None)
            from_best = measured - low if limit.at_least is None else high - measured
            risks[:, column] = np.nan_to_num(from_best / (high - low), nan=1.0)
    return risks


class Teller:
    """Tells a search each setting once.

    The search is told the worst value found so far where a setting has no value of an objective, as one that failed on every
    example. Where none was found yet the setting waits, so that a run that is gone on with tells the search the same.
    """

    def __init__(self, search: Search, problem: Problem, rows: RowsOf, bounds: Bounds | None) -> None:
        self._search, self._problem, self._rows, self._bounds = search, problem, rows, bounds
        self._names = told_names(problem)
        self._worst = np.full(len(problem.objectives), -np.inf)
        self._waiting: dict[str, Config] = {}
        self.told: dict[str, Config] = {}

    @property
    def count(self) -> int:
        """Settings that were told, or will be."""
        return len(self.told) + len(self._waiting)

    def has_told(self, configs: Iterable[Config]) -> None:
        """Count these settings as told."""
        self.told |= {config_id(config): config for config in configs}

    def tell(self, configs: Sequence[Config]) -> None:
        """Tell the search these settings, except those that it was told before; then those that waited."""
        waited = list(self._waiting.values())
        known = self.told.keys() | self._waiting.keys()
        new = [config for config in configs if config_id(config) not in known]
        self._waiting |= {config_id(config): config for config in new}
        self._tell_ready(new)
        self._tell_ready(waited)

    def end(self) -> None:
        """Count settings that still wait, for no setting has a value of some objective, as told."""
        self.has_told(config for config in self._waiting.values() if config in self._rows)
        self._waiting = {}

    def _tell_ready(self, configs: Sequence[Config]) -> None:
        ready = [config for config in configs if config in self._rows]
        if not ready:
            return
        table = self._rows.table(ready, bounds=self._bounds)
        evidence = Evidence.of_planning(self._problem, table)
        risks, objectives = told_risks(evidence, self._problem), evidence.objectives()
        self._worst = np.maximum(self._worst, self._worst_of(table, np.asarray(np.isfinite(objectives).any(axis=0))))
        objectives = np.where(np.isfinite(objectives), objectives, self._worst)
        for config, values in zip(ready, np.hstack([risks, objectives]), strict=True):
            if np.isfinite(values).all():
                self._search.tell(config, dict(zip(self._names, map(float, values), strict=True)))
                self.told[config_id(config)] = config
                self._waiting.pop(config_id(config), None)

    def _worst_of(self, table: LossTable, known: BoolArray) -> FloatArray:
        """(objectives,): the worst loss of these settings, to be minimised; -inf where none is known."""
        found = np.full(len(known), -np.inf)
        for column in np.flatnonzero(known):
            objective = self._problem.objectives[column]
            low, high = table.observed_range(objective.loss)
            found[column] = -low if objective.maximize else high
        return found
