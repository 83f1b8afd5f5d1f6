"""Racing: all settings on a few planning examples, and twice as many for those that still matter.

Only planning examples are looked at, so no guarantee rests on who wins. What must not be lost are the safest settings: a path
of tests begins with them. While a search learns, its proposals run up to a level that is enough to search by; then the best of
all run on together, in a last race.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from riskfront._calibration.sequential.told import Outcomes
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.methods._evidence.ranges import with_thresholds
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._e_processes import Expected

_ANCHORS = 3  # of the safest settings, which always go on
_FEWEST = 16  # settings that go on if as many still matter; more only as long as the race is young
# proposals of a search that run in its last race, a third of them if more, and the safest of them
_LAST, _LAST_ANCHORS = 18, 6
_BORDER = 0.5  # score of settings that are as likely to be the last to pass as the first to fail
_SAFE = 2.5  # score from which a setting is taken to pass
_SURELY, _STEPS = 4.0, 2  # score of settings that are as good as certain to pass, of which the best so many go on


class Race:
    """A race of some settings on the chunks of planning examples.

    Args:
        rows: the settings that race.
        rivals: settings that have run all the way before.
        always: settings that are needed on every example, such as the reference of a drop.
        prices: (settings,) what an evaluation costs; of equally safe settings the cheaper are kept to begin a path with.
        start, stop: the levels between which it is run; by default all. The settings have run up to ``start`` before.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        problem: Problem,
        n_test: int,
        rows: Sequence[int],
        rivals: Sequence[int] = (),
        always: Sequence[int] = (),
        prices: FloatArray | None = None,
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        self._outcomes, self._problem, self._n_test, self._prices = outcomes, problem, n_test, prices
        self._always = list(always)
        self._rivals = [row for row in rivals if row not in rows]
        self.alive, self.level, self._start, self._began = list(rows), start, start, len(rows)
        self._last = len(outcomes.edges) - 1
        self.levels = self._last if stop is None else stop
        if start:
            self._drop()

    @property
    def is_over(self) -> bool:
        return self.level >= self.levels

    def wanted(self) -> list[tuple[int, int]]:
        """The settings and chunks that must be known before the race can go on."""
        if self.is_over:
            return []
        rows = dict.fromkeys([*self._always, *self.alive])
        return [(row, self.level) for row in rows if not self._outcomes.known(row, self.level)]

    def advance(self) -> None:
        """Go on as far as what is known allows."""
        while not self.is_over and not self.wanted():
            self.level += 1
            if self.level < self._last:
                self._drop()

    def _drop(self) -> None:
        """Leave out what no longer matters after this level."""
        rivals = [row for row in self._rivals if all(self._outcomes.known(row, k) for k in range(self.level))]
        rows = list(dict.fromkeys([*self.alive, *rivals, *self._always]))
        found = standing(self._problem, self._outcomes.table(rows, slice(0, self.level)), self._n_test)
        prices = None if self._prices is None else self._prices[rows]
        safest = _LAST_ANCHORS if self._start else _ANCHORS
        keep = matter(found, prices, safest)
        runs = set(self.alive)
        left = np.array([at for at, row in enumerate(rows) if keep[at] and row in runs], dtype=np.int64)
        self.alive = [rows[at] for at in left[nearest_to_front(found.at(left), self._most(), safest)]]

    def _most(self) -> int:
        """How many settings go on."""
        if self._start:
            return max(_LAST, self._began // 3) // 2 ** (self.level - self._start)
        return max(_FEWEST, math.ceil(self._began / 2**self.level))


def matter(found: Standing, prices: FloatArray | None = None, safest: int = _ANCHORS) -> BoolArray:
    """(settings,): those that may hold and are not dearer than one that clearly does; and the safest of all."""
    safe = np.flatnonzero(found.score >= _SAFE)
    values = found.objectives
    keep = found.hopeful.copy()
    for row in safe:
        no_worse = (values[row] <= values).all(axis=1)
        better = (values[row] < values).any(axis=1) | (found.score < found.score[row])
        keep[no_worse & better & (np.arange(len(keep)) != row)] = False
    keep[[*anchors(found, prices, safest), *_steps(found)]] = True
    return keep


def _steps(found: Standing) -> list[int]:
    """The best settings of those that are as good as certain to pass: between the safest and what may yet fail."""
    certain = np.flatnonzero(found.score >= _SURELY)
    return [int(row) for row in certain[np.argsort(found.objectives[certain, 0], kind="stable")[:_STEPS]]]


def nearest_to_front(found: Standing, most: int, safest: int = _ANCHORS) -> IntArray:
    """(settings,): at most so many, in their order: the safest; then the front of score and objectives, that of the others,
    and so on, within a front those first that are nearest to the border between passing and failing."""
    kept = list(dict.fromkeys([*anchors(found, count=safest), *_steps(found)]))
    left = np.setdiff1d(np.arange(len(found.score)), kept)
    while len(left) and len(kept) < most:
        values = np.column_stack([-found.score[left], found.objectives[left]])
        layer = left[fronts.front(values)]
        layer = layer[np.argsort(np.abs(found.score[layer] - _BORDER), kind="stable")]
        kept += layer[: most - len(kept)].tolist()
        left = np.setdiff1d(left, layer)
    return np.array(sorted(kept), dtype=np.int64)


def anchors(found: Standing, prices: FloatArray | None = None, count: int = _ANCHORS) -> list[int]:
    """The safest settings; of those that are as good as certain to pass, the cheapest to evaluate."""
    certain = 3 * _SAFE
    score = np.minimum(found.score, certain)
    price = np.zeros(len(score)) if prices is None else prices
    order = np.lexsort((-found.score, price, -score))
    return [int(row) for row in order[:count]]


_NEVER, _SURE = -50.0, 50.0
_DOUBT = 0.5  # standard errors by which a setting is expected to be worse than it looked
_MOST_EXPECTED = 200.0  # examples that an expectation weighs as much as
_OPTIMISM = 2.0  # standard errors by which a setting may be better than it looks


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Settings after some planning examples.

    score (settings,): the number of standard errors by which a setting is expected to pass its weakest limit on the testing
    examples; above 2 it passes nearly always. hopeful (settings,): whether it would pass if it were better than it looks.
    objectives (settings, objectives): to be minimised. mean, spread, share (settings, bets): normalised loss, its variance,
    and the share of examples that speak of each limit and group; alpha (bets,). sure (settings, bets): what needs no test, the
    drop of a reference from itself. by_limit: how many bets each limit has, one a group.
    """

    score: FloatArray
    hopeful: BoolArray
    objectives: FloatArray
    mean: FloatArray
    spread: FloatArray
    share: FloatArray
    alpha: FloatArray
    sure: BoolArray
    by_limit: tuple[int, ...]

    def at(self, rows: IntArray) -> Standing:
        """The same of some of the settings."""
        by_setting = ("score", "hopeful", "objectives", "mean", "spread", "share", "sure")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_setting})

    def horizons(self, row: int, n_test: int) -> FloatArray:
        """(bets,): how many of the testing examples will speak of each limit and group, as far as planning examples tell."""
        return np.maximum(np.ceil(self.share[row] * n_test), 1.0)

    def expected(self, row: int, n_opt: int) -> Expected:
        """What the planning examples let expect of the losses of a setting; pulled towards the limit, for it was chosen."""
        count = np.maximum(self.share[row] * n_opt, 1.0)
        mean = self.mean[row] + _DOUBT * np.sqrt(self.spread[row] / count)
        return Expected(mean, self.spread[row], np.minimum(count, _MOST_EXPECTED))


def standing(problem: Problem, table: LossTable, n_test: int) -> Standing:
    """How the settings of a table of planning examples stand."""
    evidence = Evidence(with_thresholds(problem, table), table)
    z = NormalDist().inv_cdf(1 - min(problem.delta, 0.5))
    parts = [_moments(test, table) for test in evidence.tests]
    n, mean, spread, known = (np.concatenate([part[i] for part in parts], axis=1) for i in range(4))
    alpha = np.concatenate(
        [np.full(part[0].shape[1], test.alpha) for part, test in zip(parts, evidence.tests, strict=True)]
    )
    share = n / max(table.n_examples, 1)
    tested = np.maximum(share * n_test, 1.0)
    margin = alpha - mean - z * np.sqrt(spread / tested)
    score = margin / np.sqrt(spread / np.maximum(n, 1) + spread / tested)
    best = (margin + _OPTIMISM * np.sqrt(spread / np.maximum(n, 1))) / np.sqrt(spread / tested)
    score = np.where(known, _SURE, np.where(n > 0, score, _NEVER))
    best = np.where(known, _SURE, np.where(n > 0, best, 0.0))
    by_limit = tuple(part[0].shape[1] for part in parts)
    objectives = evidence.objectives()
    return Standing(score.min(axis=1), best.min(axis=1) > -0.5, objectives, mean, spread, share, alpha, known, by_limit)


def _moments(test: LimitTest, table: LossTable) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """(settings, groups) each: examples, mean, variance, pulled a little towards the limit, and whether nothing is to test."""
    rows = np.arange(table.n_configs)
    n, mean, spread = [], [], []
    for losses, kept in test.sequences(table, rows):
        mask = np.ones(losses.shape, dtype=bool) if kept is None else np.broadcast_to(kept, losses.shape)
        count = mask.sum(axis=1)
        total = np.where(mask, losses, 0.0).sum(axis=1)
        centre = (total + 0.5 * test.alpha) / (count + 0.5)
        squares = (np.where(mask, losses - centre[:, None], 0.0) ** 2).sum(axis=1)
        n.append(count.astype(float))
        mean.append(centre)
        spread.append((squares + 0.5 * test.alpha * (1 - test.alpha)) / (count + 1.0))
    known = np.zeros((table.n_configs, len(n)), dtype=bool)
    if test.limit.drop_from is not None and test.limit.holds_for_reference:
        known[table.reference(test.limit.drop_from)] = True
    return np.stack(n, axis=1), np.stack(mean, axis=1), np.stack(spread, axis=1), known
