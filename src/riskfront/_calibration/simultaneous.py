"""One confidence for a whole frontier: limits that may be chosen after looking.

The statements are triples (limit, value, setting): "this setting keeps this limit at this value". With probability at least
1 - delta all that are certified are true, so that values may be picked by what came out. A setting is certified for a
combination of values if it is certified for each of them: the price grows with the number of values of all limits, not with the
number of combinations.

(1 - h) delta goes to sequences of tests that share it (``statistics/_nested_sequences.py`` has the proof), h delta to the
fallback test, of all settings on all examples. There every setting has h delta / (m limits) for each limit that varies. It
passes at a value if the p-values of that value and of all looser ones are at most that. If any false statement about a setting
and a limit passes, then so does the loosest false one, which is one hypothesis: probability at most h delta / (m limits), and
at most h delta over all settings and limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskfront._calibration.decision import Decision, chosen_of
from riskfront._calibration.frontier_plan import ValueGrid, plan_frontier
from riskfront._data.table import LossTable
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.ranges import with_thresholds
from riskfront.statistics._nested_sequences import TestSequence, reject_along

_BATCH_SIZE = 32  # settings at one value whose p-values are computed together


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """What was certified at every value of every limit that varies.

    certified, by_holm, levels: (values, settings), values of one limit after those of another, loosest first. by_holm: whether
    the test of all settings certified it at the tightest value of the limit at which it is certified. levels: the level at
    which it was certified. aim: the level that bets on the path aim at. tests: one evidence a value, on testing examples;
    holm_tests: the same on all examples, empty without a fallback test. sure_levels: (values,) the level that a value has for
    sure, whatever becomes of the others. stopped_at: (values,) the setting at which the sequence with that level ended, -1 if
    it came to its end or if there is none.
    """

    grid: ValueGrid
    opt: LossTable
    test: LossTable
    certified: BoolArray
    by_holm: BoolArray
    levels: FloatArray
    aim: float
    holm_level: float
    tests: list[Evidence]
    holm_tests: list[Evidence]
    everything: LossTable | None
    sure_levels: FloatArray
    stopped_at: IntArray

    def value_rows(self, places: Sequence[int]) -> list[int]:
        """The rows of a combination of values, one for each limit that varies."""
        counts = [len(one.values) for one in self.grid.varying]
        return [sum(counts[:which]) + place for which, place in enumerate(places)]

    def evidence(self, places: Sequence[int]) -> tuple[Evidence, Evidence | None]:
        """The evidence for a combination of values, on testing examples and on all."""
        problem = self.grid.at(places)
        on_all = None if self.everything is None else Evidence(problem, self.everything)
        return Evidence(with_thresholds(problem, self.opt), self.test), on_all

    def decision(self, places: Sequence[int]) -> tuple[Evidence, Evidence | None, Decision]:
        """The settings that are certified for a combination of values, and the best of them."""
        evidence, on_all = self.evidence(places)
        at = self.value_rows(places)
        rows = np.flatnonzero(self.certified[at].all(axis=0))
        p_values, levels = np.zeros((len(rows), len(evidence.tests))), np.zeros((len(at), len(rows)))
        by_holm = self.by_holm[at][:, rows]
        for which, row in enumerate(at):
            found = self.tests[row].p_values(rows, np.full(len(rows), self.aim))
            caught = by_holm[which]
            if caught.any():
                target_levels = np.full(int(caught.sum()), self.holm_level)
                found[caught] = self.holm_tests[row].p_values(rows[caught], target_levels)
            self._put(p_values, found, which)
            levels[which] = self.levels[row, rows]
        decisive = levels.min(axis=0) if len(rows) else np.zeros(0)
        in_holm: BoolArray = np.asarray(by_holm.all(axis=0) if len(rows) else np.zeros(0, dtype=bool))
        combined = p_values.max(axis=1) if len(rows) else np.empty(0)
        chosen = chosen_of(evidence, on_all, rows, in_holm, combined)
        target_levels = np.where(in_holm, self.holm_level, self.aim)
        everyone = np.ones(len(rows), dtype=bool)
        return evidence, on_all, Decision(rows, p_values, decisive, everyone, chosen, in_holm, target_levels)

    def _put(self, p_values: FloatArray, found: FloatArray, which: int) -> None:
        """p-values of one varying limit and of those that do not vary, into the columns of the problem."""
        varying = [one.index for one in self.grid.varying]
        others = [place for place in range(p_values.shape[1]) if place not in varying]
        p_values[:, varying[which]] = found[:, 0]
        p_values[:, others] = np.maximum(p_values[:, others], found[:, 1:])


def certify_together(planner: Method, opt: LossTable, test: LossTable, grid: ValueGrid, seed: int = 0) -> Together:
    """Test all values of all limits that vary so that all statements hold together."""
    plan = plan_frontier(planner, opt, grid, test.n_examples, seed)
    places = [(which, place) for which, one in enumerate(grid.varying) for place in range(len(one.values))]
    problems = [grid.alone(which, place) for which, place in places]
    evidence = [Evidence(with_thresholds(problem, opt), test) for problem in problems]
    delta, m = grid.problem.delta, test.n_configs
    held, holm_level = np.zeros((len(places), m), dtype=bool), plan.holm_share * delta / (m * len(grid.varying))
    holm_tests, everything = list[Evidence](), None
    if plan.holm_share > 0:
        everything = opt.joined_with(test)
        holm_tests = [Evidence(problem, everything) for problem in problems]
        for which in range(len(grid.varying)):
            mine = [row for row, (of, _) in enumerate(places) if of == which]
            held[mine] = in_holm([holm_tests[row] for row in mine], holm_level)
    level = (1 - plan.holm_share) * delta
    lazily = [_Lazily(seen, _settings_at(row, plan.sequences), level * plan.aim) for row, seen in enumerate(evidence)]
    loosest = np.array([row - place for row, (_, place) in enumerate(places)])
    certified, levels = reject_along(
        plan.sequences, lambda row, setting: lazily[row].p_value(setting), level, held, loosest, plan.pooled
    )
    levels, by_holm = np.where(held, holm_level, levels), held.copy()
    _as_at_the_tightest(certified, by_holm, levels, loosest)
    of_value = [_of_one_value(row, plan.sequences) for row in range(len(places))]
    sure_levels = np.array([holm_level if one is None else level * one.share for one in of_value])
    stopped_at = np.array([_stopped_at(row, one, certified) for row, one in enumerate(of_value)])
    return Together(
        *(grid, opt, test, certified, by_holm, levels, level * plan.aim, holm_level, evidence, holm_tests, everything),
        sure_levels=sure_levels,
        stopped_at=stopped_at,
    )


def in_holm(everything: Sequence[Evidence], level: float) -> BoolArray:
    """(values, settings): all settings on all examples; what fails a loose value is not asked about a tighter one."""
    m = everything[0].table.n_configs
    passed, alive = np.zeros((len(everything), m), dtype=bool), np.arange(m)
    for value, evidence in enumerate(everything):
        found = evidence.p_values(alive, np.full(len(alive), level)).max(axis=1)
        alive = alive[found <= level]
        passed[value, alive] = True
    return passed


def _as_at_the_tightest(certified: BoolArray, by_holm: BoolArray, levels: FloatArray, loosest: IntArray) -> None:
    """Say of every setting, at all values of a limit, that it was certified by what certified it at the tightest. Its costs are
    measured on the examples of that test: on others at other values, a looser limit could seem to cost more."""
    for row in range(len(loosest) - 2, -1, -1):
        if loosest[row] == loosest[row + 1]:
            on_path = certified[row + 1] & ~by_holm[row + 1] & by_holm[row]
            by_holm[row, on_path] = False
            levels[row, on_path] = levels[row + 1, on_path]


def _of_one_value(row: int, sequences: Sequence[TestSequence]) -> TestSequence | None:
    """Of the sequences through a value the one through the fewest pairs: others end where another value fails."""
    return min((one for one in sequences if (one.values == row).any()), key=lambda one: len(one.values), default=None)


def _stopped_at(row: int, one: TestSequence | None, certified: BoolArray) -> int:
    settings = np.zeros(0, dtype=np.int64) if one is None else one.settings[one.values == row]
    failed = settings[~certified[row, settings]]
    return int(failed[0]) if failed.size else -1


def _settings_at(row: int, sequences: Sequence[TestSequence]) -> IntArray:
    """The settings that are tested at a value, in the order of the first sequence that holds them all."""
    holding = [one.settings[one.values == row] for one in sequences]
    return max(holding, key=len, default=np.zeros(0, dtype=np.int64))


class _Lazily:
    """The p-values of the settings at one value, computed a few at a time, as testing comes to them."""

    def __init__(self, evidence: Evidence, rows: IntArray, level: float) -> None:
        self._evidence, self._rows, self._level = evidence, rows, level
        self._place = {int(row): place for place, row in enumerate(rows)}
        self._known: dict[int, float] = {}
        self._batch_size = _BATCH_SIZE if evidence.is_costly else max(len(rows), 1)

    def p_value(self, row: int) -> float:
        if row not in self._known:
            start = self._place[row]
            block = self._rows[start : start + self._batch_size] if self._batch_size == _BATCH_SIZE else self._rows
            found = self._evidence.p_values(block, np.full(len(block), self._level)).max(axis=1)
            self._known |= dict(zip(block.tolist(), found.tolist(), strict=True))
        return self._known[row]
