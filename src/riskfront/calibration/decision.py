"""Testing along a plan: p-values on test data, the procedure, and the best of what was certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskfront.arrays import BoolArray, FloatArray, IntArray
from riskfront.evidence.evidence import Evidence
from riskfront.methods import Plan
from riskfront.statistics import fronts
from riskfront.statistics.procedures import aims

_FIRST_CHUNK = 32


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What testing found. All arrays are in testing order and end where testing ended.

    rows (tested,): settings, by their row in the test table. p_values (tested, limits). levels (tested,): the level at which
    each was judged, nan where none was left. certified (tested,). chosen: positions among the tested, best first.
    """

    rows: IntArray
    p_values: FloatArray
    levels: FloatArray
    certified: BoolArray
    chosen: IntArray


def decide(plan: Plan, evidence: Evidence) -> Decision:
    """Test the plan on the evidence of the test data."""
    delta = evidence.problem.delta
    rows = plan.rows_in(evidence.table)
    if plan.by_mean:
        return _decide_by_mean(evidence, rows, delta)
    if plan.procedure.sequential:
        p_values = _until_first_failure(evidence, rows, delta)
        rows = rows[: len(p_values)]
    else:
        # bets aim at the level that each setting will be judged at, as far as it is known before the data are
        p_values = evidence.p_values(rows, aims(plan.procedure, len(rows), delta) if evidence.bets else None)
    combined = p_values.max(axis=1)
    levels = plan.procedure.levels(combined, delta)
    certified = combined <= levels  # what a level means; never true where it is nan
    return Decision(rows, p_values, levels, certified, _choose(evidence, rows, combined, certified))


def _decide_by_mean(evidence: Evidence, rows: IntArray, delta: float) -> Decision:
    """Accept what looks good, without any test: no p-value, no guarantee."""
    accepted = np.asarray(evidence.excess(rows) < 0)
    untested = np.full((len(rows), len(evidence.tests)), np.nan)
    chosen = _choose(evidence, rows, np.zeros(len(rows)), accepted)
    return Decision(rows, untested, np.full(len(rows), delta), accepted, chosen)


def _until_first_failure(evidence: Evidence, rows: IntArray, delta: float) -> FloatArray:
    """p-values in testing order up to and including the first above delta; what was computed behind it is thrown away."""
    found: list[FloatArray] = []
    at_once = evidence.table.at_once
    # sums are read for all at once; bets and evaluations are paid for one by one, so they grow with success
    start, size = 0, at_once or (_FIRST_CHUNK if evidence.is_costly else len(rows))
    while start < len(rows):
        chunk = evidence.p_values(rows[start : start + size], np.full(len(rows[start : start + size]), delta))
        failed = np.flatnonzero(~(chunk.max(axis=1) <= delta))
        if failed.size:
            found.append(chunk[: failed[0] + 1])
            break
        found.append(chunk)
        start, size = start + size, at_once or 2 * size
    return np.concatenate(found) if found else np.empty((0, len(evidence.tests)))


def _choose(evidence: Evidence, rows: IntArray, combined: FloatArray, certified: BoolArray) -> IntArray:
    """The certified settings that are non-dominated in the free objectives on test data, best first objective first.

    With one free objective the best setting alone; among equals the one with the smallest p-value.
    """
    passed = np.flatnonzero(certified)
    if passed.size == 0:
        return passed
    values = evidence.objectives(rows[passed])
    best = fronts.front(values)
    order = np.lexsort((combined[passed[best]], *values[best].T[::-1]))
    chosen = passed[best[order]]
    return chosen[:1] if values.shape[1] == 1 else chosen
