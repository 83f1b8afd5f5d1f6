"""Bets of several problems on the same examples, computed side by side: many alphas for little more than the price of one.

A bet walks through the examples one by one, and each step is about as fast for a thousand bets as for a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from riskfront._data.table import LossTable
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.methods._evidence.limit_tests import BLOCK_SIZE, ROUNDING, Evidence, LimitTest


class KnownPValues(Evidence):
    """Evidence that knows the p-values of some settings, for bets with one target level; others it computes."""

    def __init__(self, evidence: Evidence, rows: IntArray, level: float, found: FloatArray) -> None:
        self.problem, self.table, self.tests = evidence.problem, evidence.table, evidence.tests
        self._level, self._place = level, np.full(evidence.table.n_configs, -1)
        self._place[rows] = np.arange(len(rows))
        self._found = found

    def p_values(self, rows: IntArray, target_levels: FloatArray | None = None) -> FloatArray:
        places = self._place[rows]
        levels = self.problem.delta if target_levels is None else target_levels
        if (places < 0).any() or np.any(levels != self._level):
            return super().p_values(rows, target_levels)
        return self._found[places]


def bet_together(
    evidences: Sequence[Evidence], rows: Sequence[IntArray], target_levels: Sequence[float]
) -> list[Evidence]:
    """Evidences with the p-values of these settings computed beforehand, one set of rows and one level for each evidence.

    All speak of one table, under problems that differ in the numbers of their limits only; without bets nothing is gained.
    """
    if len(evidences) < 2 or not evidences[0].bets or evidences[0].table.is_lazy:
        return list(evidences)
    table, columns = evidences[0].table, []
    for tests in zip(*(evidence.tests for evidence in evidences), strict=True):
        if _walk_together(tests):
            columns.append(_bets(table, tests, rows, target_levels))
        else:
            columns.append(
                [
                    test.p_values(table, asked, np.full(len(asked), level)).max(axis=1)
                    for test, asked, level in zip(tests, rows, target_levels, strict=True)
                ]
            )
    found = [np.stack(limits, axis=1) for limits in zip(*columns, strict=True)]
    return [KnownPValues(*known) for known in zip(evidences, rows, target_levels, found, strict=True)]


def _walk_together(tests: Sequence[LimitTest]) -> bool:
    """Whether these tests bet on the same losses in the same order, so that only alpha tells them apart."""
    plain = all(
        test.kind.needs == "sequence"
        and not (test.limit.padded or test.limit.gap_per or test.limit.drop_from or test.limit.proxy)
        for test in tests
    )
    return plain and len({(test.p_value, test.term, test.low, test.high, test.upper) for test in tests}) == 1


def _bets(
    table: LossTable, tests: Sequence[LimitTest], rows: Sequence[IntArray], target_levels: Sequence[float]
) -> list[FloatArray]:
    """For each test (its rows,): the p-value, the largest over groups."""
    setting, test = np.concatenate(rows), np.repeat(np.arange(len(tests)), [len(asked) for asked in rows])
    alpha = np.array([one.alpha for one in tests])[test]
    level = np.asarray(target_levels, dtype=np.float64)[test]
    found = np.zeros(len(setting))
    some = np.unique(setting)
    step = max(1, BLOCK_SIZE // max(1, table.n_examples))
    for block in (some[start : start + step] for start in range(0, len(some), step)):
        mine = np.flatnonzero((setting >= block[0]) & (setting <= block[-1]))
        of = np.searchsorted(block, setting[mine])
        for losses, kept in tests[0].sequences(table, block):
            found[mine] = np.maximum(found[mine], _group(tests[0], losses, kept, of, alpha[mine], level[mine]))
    return np.split(found, np.cumsum([len(asked) for asked in rows])[:-1])


def _group(
    test: LimitTest,
    losses: FloatArray,
    kept: BoolArray | None,
    of: IntArray,
    alpha: FloatArray,
    level: FloatArray,
) -> FloatArray:
    """(bets,): p-values of bets on rows ``of`` of the losses; 1 where the mean is above alpha, as ``LimitTest.bet`` has it."""
    if kept is None:
        total, n = losses.sum(axis=1), np.full(len(losses), losses.shape[1])
    else:
        n = np.broadcast_to(kept.sum(axis=1), len(losses))
        total = losses.sum(axis=1, where=kept)
    result = np.ones(len(of))
    hopeful = np.flatnonzero(total[of] <= (alpha + ROUNDING) * n[of])
    result[hopeful] = test.kind.function(losses, alpha[hopeful], level[hopeful], kept, of[hopeful])
    return result
