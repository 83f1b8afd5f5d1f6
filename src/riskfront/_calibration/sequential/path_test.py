"""Testing along a path with early acceptance: a fixed sequence of e-processes.

Each setting bets on testing examples until every limit has passed, and the next one begins, at the same level. A setting that
runs out of examples, or whose bets are hopeless, is given up. Where something was certified before, the sequence ends there.
Where nothing was, the next setting begins with what is left of the level: delta c, with c = min(1, W) for the wealth W that the
setting before was given up with (the smallest over its limits), multiplied over all that were given up. It begins, as do all
after it, on examples that none of those given up has bet on.

Validity. The order is fixed before any testing outcome that it concerns. Follow c times the wealth of a broken limit, at
the first setting of the path that breaks one: it starts at c <= 1 and is a supermartingale. When that setting is given up,
the next one that breaks a limit goes on with at most what was left, on later examples, so the product stays a supermartingale.
On the same examples it would not: what one setting lost tells what another wins there. Settings that keep their limits
never raise c. So the chance that a setting that breaks a limit is ever certified is at most delta, however often one looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from riskfront._calibration.sequential.racing import Standing
from riskfront._calibration.sequential.told import Outcomes
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray
from riskfront.methods._evidence.limit_tests import ROUNDING, Evidence, LimitTest
from riskfront.statistics._e_processes import EProcesses

_HOPELESS = 2.5  # standard errors beyond which a setting is given up, once it has
_FEWEST = 16  # examples
_ATTEMPTS = 3  # settings that may be given up before one has passed


@dataclass(slots=True)
class SettingTest:
    """The bets of one setting: one for each limit and group.

    Args:
        sure: (bets,) what needs no test: the drop of a reference from itself.
        start: the first chunk that it bets on; those before were bet on by settings that were given up.
    """

    row: int
    bets: EProcesses
    sure: BoolArray
    by_limit: tuple[int, ...]  # how many bets each limit has
    start: int = 0
    chunks: int = 0  # where it has come to: the next one to bet on
    given_up: bool = False

    @property
    def passed(self) -> bool:
        """Whether every limit has passed at some time, and measures within its number now."""
        won = self.bets.best >= -np.log(self.bets.level)
        within = self.bets.total <= (self.bets.alpha + ROUNDING) * self.bets.seen
        return self.chunks > self.start and bool(((won & within) | self.sure).all())

    @property
    def p_values(self) -> FloatArray:
        """(bets,): 1 wherever the mean is above the limit, whatever had been won before."""
        within = self.bets.total <= (self.bets.alpha + ROUNDING) * self.bets.seen
        return np.where(self.sure, 0.0, np.where(within, self.bets.p_values, 1.0))

    @property
    def limit_p_values(self) -> FloatArray:
        """(limits,): the largest p-value of each limit over its groups."""
        ends = np.cumsum(self.by_limit)
        return np.array([part.max() for part in np.split(self.p_values, ends[:-1])])


class PathTest:
    """The fixed sequence of a path.

    Args:
        problem: limits, with thresholds chosen.
        spares: settings to go on with where one was given up before any has passed, safest first.
        planned: how the settings of the path, then the spares, stood on planning examples.
        n_test: how many testing examples may come; by default those that the chunks hold.
        open_ended: more chunks may come: no setting is given up, the sequence waits for them.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        problem: Problem,
        path: Sequence[int],
        spares: Sequence[int],
        planned: Standing,
        n_opt: int,
        needed: Sequence[int] = (),
        n_test: int | None = None,
        open_ended: bool = False,
    ) -> None:
        self._outcomes, self._problem, self._needed = outcomes, problem, list(needed)
        self.path, self._spares = list(path), list(spares)
        self._planned = {row: (planned, place) for place, row in enumerate([*path, *spares])}
        self.n_test = int(outcomes.edges[-1]) if n_test is None else n_test
        self._open_ended, self._n_opt = open_ended, n_opt
        self.capital, self._start = 1.0, 0
        self.tests: list[SettingTest] = []

    @property
    def _chunks(self) -> int:
        return len(self._outcomes.edges) - 1

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be tested: the path has ended, or a setting was given up after others had passed."""
        if not self.path:
            return True
        if not self.tests or not (self.tests[-1].passed or self.tests[-1].given_up):
            return False
        last = len(self.tests) == len(self.path) and not (self._spares and not self.certified)
        given_up = sum(test.given_up for test in self.tests)
        tried = bool(self.certified) or given_up >= _ATTEMPTS or self._start >= self._chunks
        return last or (self.tests[-1].given_up and tried)

    @property
    def certified(self) -> list[SettingTest]:
        return [test for test in self.tests if test.passed]

    def see(self, outcomes: Outcomes) -> None:
        """More chunks have come: from now on these are the outcomes, with the same ones first."""
        self._outcomes = outcomes

    def wanted(self, count: int = 1) -> list[tuple[int, int]]:
        """The settings and chunks to evaluate next; the first decides how to go on, the others keep workers busy."""
        if self.is_over:
            return []
        at = len(self.tests) if not self.tests or self.tests[-1].given_up else len(self.tests) - 1
        found: list[tuple[int, int]] = []
        waits = self._spares and bool(self.tests) and self.tests[-1].given_up  # advance puts a spare there first
        for place in range(at, at if waits else len(self.path)):
            chunk = self.tests[place].chunks if place < len(self.tests) else self._start
            rows = dict.fromkeys([*self._needed, self.path[place]])
            while chunk < self._chunks and all(self._outcomes.known(row, chunk) for row in rows):
                chunk += 1
            if chunk < self._chunks:
                found += [(row, chunk) for row in rows if not self._outcomes.known(row, chunk)]
            if len(found) >= count:
                break
        return list(dict.fromkeys(found))

    def advance(self) -> None:
        """Bet on what is known, as far as the sequence has come."""
        while not self.is_over:
            if not self.tests or self.tests[-1].passed or self.tests[-1].given_up:
                # after a setting was given up and none has passed, the safest of the others comes next, not what is riskier
                if self.tests and self.tests[-1].given_up and not self.certified and self._spares:
                    self.path.insert(len(self.tests), self._spares.pop(0))
                self.tests.append(self._begun(len(self.tests)))
            if not self._bet(self.tests[-1]):
                return

    def _give_up(self, test: SettingTest) -> None:
        test.given_up = True
        self.capital *= float(np.exp(np.where(test.sure, 0.0, np.minimum(test.bets.log_wealth, 0.0)).min()))
        self._start = max(self._start, test.chunks)

    def _bet(self, test: SettingTest) -> bool:
        """Bet on the next chunk of a setting; False where it is not known yet."""
        if test.passed:
            return True
        if test.chunks >= self._chunks:
            return False
        rows = list(dict.fromkeys([test.row, *self._needed]))
        if not all(self._outcomes.known(row, test.chunks) for row in rows):
            return False
        table = self._outcomes.table(rows, slice(test.chunks, test.chunks + 1))
        test.bets.add(*_test_inputs(Evidence(self._problem, table).tests, table))
        test.chunks += 1
        if not test.passed and not self._open_ended:
            hopeless = test.bets.hopeless(_HOPELESS) & ~test.sure & (test.bets.seen >= _FEWEST)
            if test.chunks >= self._chunks or hopeless.any():
                self._give_up(test)
        return True

    def _begun(self, place: int) -> SettingTest:
        row, level = self.path[place], self._problem.delta * self.capital
        planned, at = self._planned[row]
        before = int(self._outcomes.edges[self._start])
        horizons = planned.horizons(at, max(self.n_test - before, 1))
        bets = EProcesses(planned.alpha, level, horizons, planned.expected(at, self._n_opt))
        return SettingTest(row, bets, planned.sure[at], planned.by_limit, self._start, self._start)


def _test_inputs(tests: Sequence[LimitTest], table: LossTable) -> tuple[FloatArray, BoolArray]:
    """(bets, longest) losses of the first setting of a table, a row for each limit and group, and which of them count."""
    found = [
        (losses[0], np.ones(losses.shape[1], dtype=bool) if kept is None else np.broadcast_to(kept, losses.shape)[0])
        for test in tests
        for losses, kept in test.sequences(table, np.array([0]))
    ]
    longest = max(len(losses) for losses, _ in found)
    values, kept = np.zeros((len(found), longest)), np.zeros((len(found), longest), dtype=bool)
    for place, (losses, counts) in enumerate(found):
        values[place, : len(losses)], kept[place, : len(losses)] = losses, counts
    return values, kept
