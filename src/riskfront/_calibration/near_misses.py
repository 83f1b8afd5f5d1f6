"""What would have been chosen and failed by little: which limit stopped it, and about how many examples it would take.

It is named for the next calibration, on new examples: those that failed it cannot be asked again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._calibration.decision import Decision
from riskfront._support.arrays import IntArray
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.methods._evidence.prediction_powered import spread_with_proxy
from riskfront.statistics._sample_size import examples_for

_EVEN = 0.5  # the power at the number of examples that is named


def near_misses(evidence: Evidence, decision: Decision) -> list[dict[str, Any]]:
    """The best setting in the free objectives of those that were tested and failed although they measure within the limits,
    if it would have been chosen. Empty where there is none."""
    failed = np.flatnonzero(~decision.certified & ~np.isnan(decision.levels) & ~decision.by_holm)
    if failed.size == 0 or decision.chosen.size == 0 or np.isnan(decision.p_values).any():
        return []
    within = failed[evidence.margin(decision.rows[failed]) < 0]
    if within.size == 0:
        return []
    chosen, values = evidence.objectives(decision.rows[decision.chosen]), evidence.objectives(decision.rows[within])
    better = [at for at in range(len(within)) if not (chosen <= values[at]).all(axis=1).any()]
    if not better:
        return []
    best = within[min(better, key=lambda at: tuple(values[at]))]
    return [_miss(evidence, decision, int(best))]


def _miss(evidence: Evidence, decision: Decision, at: int) -> dict[str, Any]:
    """The limit with the largest p-value at a setting that failed, and what would have let it pass."""
    row, level = decision.rows[at : at + 1], float(decision.levels[at])
    test = evidence.tests[int(np.argmax(decision.p_values[at]))]
    groups = test.groups(evidence.table)
    worst = int(np.argmax(test.p_values(evidence.table, row)[0])) if len(groups) > 1 else 0
    sums = test.sums(evidence.table, row)
    n, mean = int(np.broadcast_to(sums.n, sums.total.shape)[0, worst]), float(sums.means()[0, worst])
    needed = _examples_needed(test, evidence, row, worst, mean, level) if mean < test.alpha else None
    return {
        "setting": evidence.table.config(int(row[0])),
        "limit": str(test.limit),
        "group": groups[worst],
        "examples": n,
        "measured": float(test.measured(evidence.table, row)[0, worst]),
        "p_value": float(decision.p_values[at].max()),
        "tested_at": level,
        "examples_needed": None if needed is None else max(needed, n + 1),
        "objectives": {
            objective.name: float(-value if objective.maximize else value)
            for objective, value in zip(evidence.problem.objectives, evidence.objectives(row)[0], strict=True)
            if np.isfinite(value)
        },
    }


def _examples_needed(
    test: LimitTest, evidence: Evidence, row: IntArray, group: int, mean: float, level: float
) -> int | None:
    """With how many examples a setting such as this one passes in half of the cases."""
    if test.kind.needs == "count":  # its power is known exactly
        return examples_for(mean, test.alpha, level, _EVEN)
    if test.limit.proxy is not None:
        return examples_for(mean, test.alpha, level, _EVEN, spread_with_proxy(test, evidence.table, row, group))
    losses = None if test.kind.of_totals else test.losses_of(evidence.table, row, group)
    if losses is not None and test.kind.needs == "sequence":
        return examples_for(mean, test.alpha, level, _EVEN, float(np.std(losses)))
    # half of the samples have a sum below the expected one, and a test of sums passes all of those
    return test.kind.examples_like(mean, losses, test.alpha, level)
