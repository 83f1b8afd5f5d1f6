"""Testing along a plan: p-values on test data, the procedure, and the best of what was certified."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from riskfront._data.table import LossTable
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.methods import Plan
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._procedures import TwoSequences, target_levels

_FIRST_CHUNK = 32
#: what certified a setting: the plan, or the test of all settings under it
PATH, HOLM = "path", "holm"


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What testing found. All arrays are in testing order and end where testing ended; settings that only the fallback test
    certified come last.

    rows (tested,): settings, by their row in the test table. p_values (tested, limits). levels (tested,): the level at which
    each was judged, nan where none was left. certified (tested,). chosen: positions among the tested, best first.
    by_holm (tested,): whether the fallback test judged it, on all examples, instead of the plan, on test examples.
    target_levels (tested,): the levels for which bets chose their stakes.
    """

    rows: IntArray
    p_values: FloatArray
    levels: FloatArray
    certified: BoolArray
    chosen: IntArray
    by_holm: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    target_levels: FloatArray | None = None

    def __post_init__(self) -> None:
        if len(self.by_holm) != len(self.rows):
            object.__setattr__(self, "by_holm", np.zeros(len(self.rows), dtype=bool))

    @property
    def tested_by(self) -> Array:
        """(tested,): "path" or "holm"."""
        return np.where(self.by_holm, HOLM, PATH)


def decide(plan: Plan, evidence: Evidence, everything: Evidence | None = None) -> Decision:
    """Test the plan on the evidence of the test data.

    Args:
        everything: the evidence of all examples, planning and testing, for a plan that has a fallback test.
    """
    delta = evidence.problem.delta
    rows = plan.rows_in(evidence.table)
    if plan.by_mean:
        return _decide_by_mean(evidence, rows, delta)
    if plan.holm_share > 0 and everything is not None:
        return _decide_with_holm(plan, evidence, everything, rows)
    if plan.procedure.sequential:
        p_values = _until_first_failure(evidence, rows, delta)
        rows = rows[: len(p_values)]
        aimed = np.full(len(rows), delta)
    else:
        # stakes are made for the level that each setting will be judged at, as far as it is known before the data are
        aimed = target_levels(plan.procedure, len(rows), delta)
        p_values = evidence.p_values(rows, aimed if evidence.bets else None)
    combined = p_values.max(axis=1)
    levels = plan.procedure.levels(combined, delta)
    if isinstance(plan.procedure, TwoSequences):  # what lies behind a failure is not tested
        reached = ~np.isnan(levels)
        rows, p_values, combined = rows[reached], p_values[reached], combined[reached]
        levels, aimed = levels[reached], aimed[reached]
    certified = combined <= levels  # what a level means; never true where it is nan
    seen = _Seen(evidence, None, rows, np.zeros(len(rows), dtype=bool))
    return Decision(rows, p_values, levels, certified, _choose(seen, combined, certified), target_levels=aimed)


def _decide_by_mean(evidence: Evidence, rows: IntArray, delta: float) -> Decision:
    """Accept settings that measure within the limits, without any test: no p-value, no guarantee."""
    accepted = np.asarray(evidence.margin(rows) < 0)
    untested = np.full((len(rows), len(evidence.tests)), np.nan)
    seen = _Seen(evidence, None, rows, np.zeros(len(rows), dtype=bool))
    chosen = _choose(seen, np.zeros(len(rows)), accepted)
    return Decision(rows, untested, np.full(len(rows), delta), accepted, chosen)


def _decide_with_holm(plan: Plan, evidence: Evidence, everything: Evidence, path: IntArray) -> Decision:
    """The plan at its share of delta, and all settings on all examples by Holm's procedure at the rest.

    A setting that one of the two tests certified needs no second test: the path goes on past it, and Holm divides its level
    among the settings that are left. Valid by the sequential rejection principle (Goeman and Solari, 2010): once every setting
    that truly holds is certified, the path can err only at its first null, with probability at most (1 - h) delta, and
    Holm's procedure with probability at most h delta over all nulls, however the two depend on each other.
    """
    m, delta = evidence.table.n_configs, evidence.problem.delta
    path_delta, holm_delta = _shares_of(delta, plan.holm_share)
    in_holm = everything.p_values(np.arange(m), np.full(m, holm_delta / m) if everything.bets else None)
    caught, certified = in_holm.max(axis=1), np.zeros(m, dtype=bool)
    along, before = np.empty((0, len(evidence.tests))), -1
    while int(certified.sum()) > before:
        before = int(certified.sum())
        level = holm_delta / max(m - before, 1)
        certified |= caught <= level
        along = _until_first_failure(evidence, path, path_delta, certified[path], along)
        tested = path[: len(along)]
        passed = along.max(axis=1) <= path_delta
        certified[tested[np.logical_and.accumulate(passed | certified[tested])]] = True
    apart = certified.copy()
    apart[tested] = False
    others = np.flatnonzero(apart)
    rows = np.concatenate([tested, others[np.argsort(caught[others], kind="stable")]])
    by_holm = np.concatenate([certified[tested] & ~passed, np.ones(len(others), dtype=bool)])
    p_values = in_holm[rows]
    p_values[: len(tested)][~by_holm[: len(tested)]] = along[~by_holm[: len(tested)]]
    levels = np.where(by_holm, level, path_delta)
    chosen = _choose(_Seen(evidence, everything, rows, by_holm), p_values.max(axis=1), certified[rows])
    aimed = np.where(by_holm, holm_delta / m, path_delta)
    return Decision(rows, p_values, levels, certified[rows], chosen, by_holm, aimed)


def _shares_of(delta: float, holm_share: float) -> tuple[float, float]:
    """The level of the path and the level of the fallback test: together exactly delta."""
    return delta - holm_share * delta, holm_share * delta


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Tested settings with the values of the test that judged each of them."""

    evidence: Evidence
    everything: Evidence | None
    rows: IntArray
    by_holm: BoolArray

    def objectives(self, at: IntArray) -> FloatArray:
        """(positions, objectives)."""
        found = np.empty((len(at), len(self.evidence.problem.objectives)))
        for mine, evidence in self._by_test(at):
            found[mine] = evidence.objectives(self.rows[at[mine]])
        return found

    def silence(self, at: IntArray) -> FloatArray:
        """(positions,): the smaller, the more is answered; 0 where nothing is called so."""
        found = np.zeros(len(at))
        for mine, evidence in self._by_test(at):
            if "answered" in evidence.table.loss_names:
                found[mine] = -evidence.table.means("answered", self.rows[at[mine]])[:, 0]
        return found

    def _by_test(self, at: IntArray) -> list[tuple[BoolArray, Evidence]]:
        tests = [(~self.by_holm[at], self.evidence)]
        return tests if self.everything is None else [*tests, (self.by_holm[at], self.everything)]


def _until_first_failure(
    evidence: Evidence,
    rows: IntArray,
    delta: float,
    excused: BoolArray | None = None,
    known: FloatArray | None = None,
) -> FloatArray:
    """p-values in testing order up to and including the first above delta; what was computed behind it is thrown away.

    Args:
        excused: (rows,) settings that do not end the test, whatever their p-value.
        known: the p-values of the first settings, as far as they were computed before.
    """
    held = np.zeros(len(rows), dtype=bool) if excused is None else excused
    found = [np.empty((0, len(evidence.tests))) if known is None else known]
    start = len(found[0])
    if start and not (found[0][-1].max() <= delta or held[start - 1]):
        return found[0]
    batch_size = evidence.table.batch_size
    # sums are read for all at once; bets and evaluations are paid for one by one, so they grow with success
    size = batch_size or (_FIRST_CHUNK if evidence.is_costly else len(rows))
    while start < len(rows):
        part = slice(start, start + size)
        chunk = evidence.p_values(rows[part], np.full(len(rows[part]), delta))
        failed = np.flatnonzero(~(chunk.max(axis=1) <= delta) & ~held[part])
        if failed.size:
            found.append(chunk[: failed[0] + 1])
            break
        found.append(chunk)
        start, size = start + size, batch_size or 2 * size
    return np.concatenate(found)


def chosen_of(
    evidence: Evidence, everything: Evidence | None, rows: IntArray, by_holm: BoolArray, combined: FloatArray
) -> IntArray:
    """The best of settings that are all certified, by their positions among ``rows``, best first."""
    return _choose(_Seen(evidence, everything, rows, by_holm), combined, np.ones(len(rows), dtype=bool))


def _choose(seen: _Seen, combined: FloatArray, certified: BoolArray) -> IntArray:
    """The certified settings that are non-dominated in the free objectives on test data, best first objective first.

    With one free objective the best setting alone. Of settings that are equal in every objective the one that answers most, if
    there is a loss "answered": abstaining that costs nothing is still no gain. Then the one with the smallest p-value.
    """
    passed = np.flatnonzero(certified)
    if passed.size == 0:
        return passed
    values = seen.objectives(passed)
    best = fronts.front(values)
    silence = seen.silence(passed[best]) if len(best) > 1 else np.zeros(1)
    order = np.lexsort((combined[passed[best]], silence, *values[best].T[::-1]))
    chosen = passed[best[order]]
    return chosen[:1] if values.shape[1] == 1 else chosen


def best_planned(plan: Plan, test: LossTable, decision: Decision) -> int | None:
    """The best setting by its row in the planning table; None without one."""
    if decision.chosen.size == 0 or len(plan) == 0:
        return None
    row = int(decision.rows[decision.chosen[0]])
    return row if test.same_settings(plan.opt) else int(plan.rows[np.argmax(plan.rows_in(test) == row)])
