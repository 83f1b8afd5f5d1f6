"""Testing along a plan: p-values on test data, the procedure, and the best of what was certified."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from riskfront.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.evidence.evidence import Evidence
from riskfront.losses.table import LossTable
from riskfront.methods import Plan
from riskfront.statistics import fronts
from riskfront.statistics.procedures import aims

_FIRST_CHUNK = 32
#: what certified a setting: the plan, or the test of all settings under it
PATH, NET = "path", "net"


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What testing found. All arrays are in testing order and end where testing ended; what the net alone caught comes last.

    rows (tested,): settings, by their row in the test table. p_values (tested, limits). levels (tested,): the level at which
    each was judged, nan where none was left. certified (tested,). chosen: positions among the tested, best first.
    by_net (tested,): whether the safety net judged it, on all examples, instead of the plan, on test examples.
    aims (tested,): the levels that bets aimed at.
    """

    rows: IntArray
    p_values: FloatArray
    levels: FloatArray
    certified: BoolArray
    chosen: IntArray
    by_net: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    aims: FloatArray | None = None

    def __post_init__(self) -> None:
        if len(self.by_net) != len(self.rows):
            object.__setattr__(self, "by_net", np.zeros(len(self.rows), dtype=bool))

    @property
    def arms(self) -> Array:
        """(tested,): "path" or "net"."""
        return np.where(self.by_net, NET, PATH)


def decide(plan: Plan, evidence: Evidence, everything: Evidence | None = None) -> Decision:
    """Test the plan on the evidence of the test data.

    Args:
        everything: the evidence of all examples, planning and testing, for a plan that has a net.
    """
    delta = evidence.problem.delta
    rows = plan.rows_in(evidence.table)
    if plan.by_mean:
        return _decide_by_mean(evidence, rows, delta)
    if plan.net > 0 and everything is not None:
        return _decide_with_net(plan, evidence, everything, rows)
    if plan.procedure.sequential:
        p_values = _until_first_failure(evidence, rows, delta)
        rows = rows[: len(p_values)]
        aimed = np.full(len(rows), delta)
    else:
        # bets aim at the level that each setting will be judged at, as far as it is known before the data are
        aimed = aims(plan.procedure, len(rows), delta)
        p_values = evidence.p_values(rows, aimed if evidence.bets else None)
    combined = p_values.max(axis=1)
    levels = plan.procedure.levels(combined, delta)
    certified = combined <= levels  # what a level means; never true where it is nan
    seen = _Seen(evidence, None, rows, np.zeros(len(rows), dtype=bool))
    return Decision(rows, p_values, levels, certified, _choose(seen, combined, certified), aims=aimed)


def _decide_by_mean(evidence: Evidence, rows: IntArray, delta: float) -> Decision:
    """Accept what looks good, without any test: no p-value, no guarantee."""
    accepted = np.asarray(evidence.excess(rows) < 0)
    untested = np.full((len(rows), len(evidence.tests)), np.nan)
    seen = _Seen(evidence, None, rows, np.zeros(len(rows), dtype=bool))
    chosen = _choose(seen, np.zeros(len(rows)), accepted)
    return Decision(rows, untested, np.full(len(rows), delta), accepted, chosen)


def _decide_with_net(plan: Plan, evidence: Evidence, everything: Evidence, path: IntArray) -> Decision:
    """The plan at its share of delta, and all settings on all examples by Holm's procedure at the rest.

    Each arm counts what the other certified as done: the path goes on past a setting that the net holds, and the net shares
    its part among the settings that are left. Valid by the sequential rejection principle (Goeman and Solari, 2010): when all
    that truly holds is certified, the path can still err only at its first null, with probability at most (1 - net) delta,
    and the net with probability at most net delta over all nulls, whatever the two have to do with each other.
    """
    m, delta = evidence.table.n_configs, evidence.problem.delta
    path_delta, net_delta = _shares_of(delta, plan.net)
    in_net = everything.p_values(np.arange(m), np.full(m, net_delta / m) if everything.bets else None)
    caught, certified = in_net.max(axis=1), np.zeros(m, dtype=bool)
    along, before = np.empty((0, len(evidence.tests))), -1
    while int(certified.sum()) > before:
        before = int(certified.sum())
        level = net_delta / max(m - before, 1)
        certified |= caught <= level
        along = _until_first_failure(evidence, path, path_delta, certified[path], along)
        tested = path[: len(along)]
        passed = along.max(axis=1) <= path_delta
        certified[tested[np.logical_and.accumulate(passed | certified[tested])]] = True
    apart = certified.copy()
    apart[tested] = False
    others = np.flatnonzero(apart)
    rows = np.concatenate([tested, others[np.argsort(caught[others], kind="stable")]])
    by_net = np.concatenate([certified[tested] & ~passed, np.ones(len(others), dtype=bool)])
    p_values = in_net[rows]
    p_values[: len(tested)][~by_net[: len(tested)]] = along[~by_net[: len(tested)]]
    levels = np.where(by_net, level, path_delta)
    chosen = _choose(_Seen(evidence, everything, rows, by_net), p_values.max(axis=1), certified[rows])
    aimed = np.where(by_net, net_delta / m, path_delta)
    return Decision(rows, p_values, levels, certified[rows], chosen, by_net, aimed)


def _shares_of(delta: float, net: float) -> tuple[float, float]:
    """What is left to the path, and what the net gets: together delta and no more."""
    return delta - net * delta, net * delta


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """Tested settings as the arm that judged each of them saw them."""

    evidence: Evidence
    everything: Evidence | None
    rows: IntArray
    by_net: BoolArray

    def objectives(self, at: IntArray) -> FloatArray:
        """(positions, objectives)."""
        found = np.empty((len(at), len(self.evidence.problem.objectives)))
        for mine, evidence in self._arms(at):
            found[mine] = evidence.objectives(self.rows[at[mine]])
        return found

    def silence(self, at: IntArray) -> FloatArray:
        """(positions,): the smaller, the more is answered; 0 where nothing is called so."""
        found = np.zeros(len(at))
        for mine, evidence in self._arms(at):
            if "answered" in evidence.table.loss_names:
                found[mine] = -evidence.table.means("answered", self.rows[at[mine]])[:, 0]
        return found

    def _arms(self, at: IntArray) -> list[tuple[BoolArray, Evidence]]:
        arms = [(~self.by_net[at], self.evidence)]
        return arms if self.everything is None else [*arms, (self.by_net[at], self.everything)]


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
    at_once = evidence.table.at_once
    # sums are read for all at once; bets and evaluations are paid for one by one, so they grow with success
    size = at_once or (_FIRST_CHUNK if evidence.is_costly else len(rows))
    while start < len(rows):
        part = slice(start, start + size)
        chunk = evidence.p_values(rows[part], np.full(len(rows[part]), delta))
        failed = np.flatnonzero(~(chunk.max(axis=1) <= delta) & ~held[part])
        if failed.size:
            found.append(chunk[: failed[0] + 1])
            break
        found.append(chunk)
        start, size = start + size, at_once or 2 * size
    return np.concatenate(found)


def chosen_of(
    evidence: Evidence, everything: Evidence | None, rows: IntArray, by_net: BoolArray, combined: FloatArray
) -> IntArray:
    """The best of settings that are all certified, by their positions among ``rows``, best first."""
    return _choose(_Seen(evidence, everything, rows, by_net), combined, np.ones(len(rows), dtype=bool))


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
