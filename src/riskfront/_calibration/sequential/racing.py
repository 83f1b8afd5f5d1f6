"""Racing: all settings on a few planning examples, and twice as many for those that still matter.

Only planning examples are looked at, so no guarantee rests on who wins. What must not be lost are the safest settings: a path
of tests begins with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from riskfront._calibration.sequential.outcomes import Outcomes
from riskfront._calibration.sequential.standing import Standing, standing
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.statistics import _fronts as fronts

_ANCHORS = 3  # of the safest settings, which always go on
_FEWEST = 16  # settings that go on if as many still matter; more only as long as the race is young
_BORDER = 0.5  # score of settings that are as likely to be the last to pass as the first to fail
_SAFE = 2.5  # score from which a setting is taken to pass
_SURELY, _STEPS = 4.0, 2  # score of settings that are as good as certain to pass, of which the best so many go on


class Race:
    """A race of some settings on the chunks of planning examples.

    Args:
        outcomes: what is known on planning examples.
        problem: limits and objectives.
        n_test: how many testing examples there will be.
        rows: the settings that race.
        rivals: settings that have run all the way before.
        always: settings that are needed on every example, such as the reference of a drop.
        prices: (settings,) what an evaluation costs; of equally safe settings the cheaper are kept to begin a path with.
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
    ) -> None:
        self._outcomes, self._problem, self._n_test, self._prices = outcomes, problem, n_test, prices
        self._always = list(always)
        self._rivals = [row for row in rivals if row not in rows]
        self.alive, self.level, self._began = list(rows), 0, len(rows)
        self.levels = len(outcomes.edges) - 1

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
            if not self.is_over:
                self._drop()

    def _drop(self) -> None:
        """Leave out what no longer matters after this level."""
        rivals = [row for row in self._rivals if all(self._outcomes.known(row, k) for k in range(self.level))]
        rows = list(dict.fromkeys([*self.alive, *rivals, *self._always]))
        found = standing(self._problem, self._outcomes.table(rows, slice(0, self.level)), self._n_test)
        prices = None if self._prices is None else self._prices[rows]
        keep = matter(found, prices)
        runs = set(self.alive)
        left = np.array([at for at, row in enumerate(rows) if keep[at] and row in runs], dtype=np.int64)
        most = max(_FEWEST, math.ceil(self._began / 2**self.level))
        self.alive = [rows[at] for at in left[nearest_to_front(found.at(left), most)]]


def matter(found: Standing, prices: FloatArray | None = None) -> BoolArray:
    """(settings,): those that may hold and are not dearer than one that clearly does; and the safest of all."""
    safe = np.flatnonzero(found.score >= _SAFE)
    values = found.objectives
    keep = found.hopeful.copy()
    for row in safe:
        no_worse = (values[row] <= values).all(axis=1)
        better = (values[row] < values).any(axis=1) | (found.score < found.score[row])
        keep[no_worse & better & (np.arange(len(keep)) != row)] = False
    keep[[*anchors(found, prices), *_steps(found)]] = True
    return keep


def _steps(found: Standing) -> list[int]:
    """The best settings of those that are as good as certain to pass: between the safest and what may yet fail."""
    certain = np.flatnonzero(found.score >= _SURELY)
    return [int(row) for row in certain[np.argsort(found.objectives[certain, 0], kind="stable")[:_STEPS]]]


def nearest_to_front(found: Standing, most: int) -> IntArray:
    """(settings,): at most so many, in their order: the safest; then the front of score and objectives, that of the others,
    and so on, within a front those first that are nearest to the border between passing and failing."""
    kept = list(dict.fromkeys([*anchors(found), *_steps(found)]))
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
