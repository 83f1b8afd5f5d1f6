"""tune(adaptive=True): racing on planning examples, early acceptance and giving up on testing examples."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.sequential.certificates import sequential_certificate
from riskfront._calibration.sequential.course import Testing, check_adaptive, raced, references
from riskfront._calibration.sequential.told import race_edges, search_level, test_edges
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.task import Task
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront._running.evaluation.failing_examples import Failures
from riskfront._running.evaluation.outcome import Bounds, MemoryRows, RowsOf
from riskfront._running.evaluation.workers import Workers
from riskfront._running.tuning.chunked_outcomes import Cell, ChunkedOutcomes, Price
from riskfront._running.tuning.opt_and_test_rows import Part, Parts
from riskfront._running.tuning.search_loop import told_names, told_risks
from riskfront._support.arrays import FloatArray
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.search import GridSearch, RandomSearch, Search

Evaluate = Callable[[Sequence[Cell]], None]  # settings on chunks of planning examples
_LARGEST = 4096  # settings of a space in which a reference is looked for
_REPEATS = 100  # rounds in a row without a new setting, after which a search is taken to have no more


@dataclass(slots=True)
class AdaptiveRun:
    """A search by racing and a test with early acceptance.

    Args:
        opt, test: outcomes on planning and on testing examples; they share ``configs``.
        finalists: settings that raced all the way, by row; while a search learns, those that may yet do so.
    """

    problem: Problem
    method: Method
    configs: list[Config]
    opt: ChunkedOutcomes
    test: ChunkedOutcomes
    price: str | Price | None = None
    finalists: list[int] = field(default_factory=list)
    _rows: dict[str, int] = field(default_factory=dict)

    @property
    def n_test(self) -> int:
        return int(self.test.edges[-1])

    def row(self, config: Config) -> int:
        """The row of a setting; a new one if it is new."""
        name = config_id(config)
        if name not in self._rows:
            self._rows[name] = len(self.configs)
            self.configs.append(config)
        return self._rows[name]

    def search(self, searcher: Search, space: Space, budget: int, batch: int, evaluate: Evaluate) -> None:
        """Ask for settings, race them, tell the search how they stand, until the budget is spent."""
        self._add_references(space)
        if space.size is not None and space.size <= budget:
            self._race([self.row(space.at(at)) for at in range(space.size)], evaluate)
            return
        at_once = isinstance(searcher, GridSearch | RandomSearch)
        size = budget if at_once else max(batch, 1)
        stop = None if at_once else search_level(int(self.opt.edges[-1]))
        told: set[int] = set()
        idle = 0
        while len(told) < budget and idle < _REPEATS:
            asked = [self.row(space.check(config)) for config in searcher.ask(min(size, budget - len(told))) or ()]
            if not asked:
                break
            new = [row for row in dict.fromkeys(asked) if row not in told]
            idle = 0 if new else idle + 1
            self._race(new, evaluate, stop=stop)
            for row in new:
                self._tell(searcher, row)
            told |= set(new)
        if not told:
            raise InvalidInputError("a search must propose at least one setting; it proposed none.")
        if stop is not None and stop < len(self.opt.edges) - 1:
            left, self.finalists = self.finalists, []
            self._race(left, evaluate, start=stop)

    def _add_references(self, space: Space) -> None:
        """The settings that drops are measured from come first, whatever a search proposes."""
        names = dict.fromkeys(limit.drop_from for limit in self.problem.limits if limit.drop_from is not None)
        if not names:
            return
        if space.size is None or space.size > _LARGEST:
            raise InvalidInputError(
                f"a reference must be a setting of a space of at most {_LARGEST:,} settings, so that it can be found; "
                f"'{next(iter(names))}' is looked for in a larger one. Use Choice or Int dimensions."
            )
        every = [space.at(at) for at in range(space.size)]
        for row in references(every, self.problem):
            self.row(every[row])

    def _race(self, rows: Sequence[int], evaluate: Evaluate, start: int = 0, stop: int | None = None) -> None:
        if not rows:
            return
        if needed := references(self.configs, self.problem):  # which must be among the settings
            evaluate([(row, 0) for row in needed])
        prices = None
        if self.price is not None:
            evaluate([(row, 0) for row in rows])
            prices = self._prices(self.price)
        race = raced(self.opt, self.configs, self.problem, self.n_test, rows, self.finalists, prices, start, stop)
        while not race.is_over:
            evaluate(race.wanted())
            race.advance()
        self.finalists += [row for row in race.alive if row not in self.finalists]

    def _prices(self, price: str | Price) -> FloatArray:
        """(settings,): the mean price of an evaluation; 0 where it is not known yet."""
        rows = range(len(self.configs))
        return np.array([self.opt.price_of(price, row) if self.opt.known(row, 0) else 0.0 for row in rows])

    def _tell(self, searcher: Search, row: int) -> None:
        rows = list(dict.fromkeys([row, *references(self.configs, self.problem)]))
        level = min(self.opt.level(one) for one in rows)
        evidence = Evidence.of_planning(self.problem, self.opt.table(rows, slice(0, level)))
        values = np.concatenate([told_risks(evidence, self.problem)[0], evidence.objectives(np.array([0]))[0]])
        if np.isfinite(values).all():
            searcher.tell(self.configs[row], dict(zip(told_names(self.problem), map(float, values), strict=True)))

    @property
    def finalist_configs(self) -> list[Config]:
        return [self.configs[row] for row in self.finalists]

    def goes_on_with(self, known: Sequence[Config] | None) -> bool:
        """Take the finalists of the same call that was made before, if the store has all of their outcomes."""
        before = self.opt.stored_configs
        if not known or not all(config_id(config) in {config_id(one) for one in before} for config in known):
            return False
        for config in before:
            self.row(config)
        self.finalists = [self.row(config) for config in known]
        return all(self.opt.level(row) == len(self.opt.edges) - 1 for row in self.finalists)

    def unplanned(self) -> list[Config]:
        """Settings that were evaluated on testing examples and are no reference."""
        needed = {config_id(self.configs[row]) for row in references(self.configs, self.problem)}
        return [config for config in self.test.stored_configs if config_id(config) not in needed]

    def testing(self) -> Testing:
        """The path that the planning examples planned, and its test, before any testing example is looked at."""
        self.test.like(self.opt)
        return Testing(self.configs, self.problem, self.method, self.opt, self.test, self.finalists)

    def certify(self, testing: Testing, workers: Workers, bar: ProgressBar, failures: Failures | None) -> Certificate:
        """Evaluate along the path until the sequence has ended; what is certified then."""
        testing.path.advance()
        while cells := testing.path.wanted(workers.count):
            self.test.evaluate(cells, workers, bar, failures)
            before = len(testing.path.certified)
            testing.path.advance()
            if (now := len(testing.path.certified)) != before:
                most = len(testing.path.path) * self.n_test
                bar.say(f"testing, {now} setting{'s' if now > 1 else ''} certified", total=most)
        return self.certificate(testing)

    def certificate(self, testing: Testing, notes: Sequence[str] = ()) -> Certificate:
        levels = {row: level for row in range(len(self.configs)) if (level := self.opt.level(row))}
        needed = references(self.configs, self.problem)
        return sequential_certificate(
            testing, self.method, self.opt, self.test, levels, needed, self.evaluations(), notes
        )

    def evaluations(self) -> dict[str, Any]:
        """How many outcomes were paid for, and how many a table of all settings on all examples has."""
        planning, testing = self.opt.evaluated(), self.test.evaluated()
        full = len(self.configs) * (int(self.opt.edges[-1]) + self.n_test)
        found: dict[str, Any] = {"planning": planning, "testing": testing, "made": planning + testing, "full": full}
        if self.price is not None:
            spent = self.opt.spent(self.price) + self.test.spent(self.price)
            each = self._prices(self.price).sum() * (int(self.opt.edges[-1]) + self.n_test)
            found |= {"spent": spent, "full table": float(each)}
        return found


def adaptive_run(
    parts: Parts,
    problem: Problem,
    method: Method,
    bounds: Bounds | None,
    price: str | Price | None,
    store: str | os.PathLike[str] | None,
    task: Callable[[], Task],
    storage_options: Mapping[str, Any] | None,
) -> AdaptiveRun:
    """A run that begins, or goes on with what a store holds."""
    check_adaptive(problem, method)
    configs: list[Config] = []

    def outcomes(part: Part, name: str) -> ChunkedOutcomes:
        edges = (race_edges if name == "opt" else test_edges)(len(part.examples))
        groups, rows = dict(part.groups), list[RowsOf]()
        for k, (start, stop) in enumerate(itertools.pairwise(edges)):
            own = {group: of.at(slice(int(start), int(stop))) for group, of in groups.items()}
            if store is None:
                rows.append(MemoryRows(int(stop - start), own, bounds))
                continue
            identity = {**task().identity, "part": name, "chunk": str(k)}
            of_chunk = replace(task(), n_examples=int(stop - start), groups=own, identity=identity)
            url = f"{os.fspath(store).rstrip('/')}/{name}/{k}"
            rows.append(LossStore(url, of_chunk, storage_options=storage_options))
        return ChunkedOutcomes(part.examples, edges, groups, rows, configs, bounds)

    return AdaptiveRun(problem, method, configs, outcomes(parts.opt, "opt"), outcomes(parts.test, "test"), price)
