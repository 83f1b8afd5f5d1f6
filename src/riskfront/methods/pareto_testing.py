"""Pareto Testing: the paper's method (Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskfront.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.evidence.evidence import Evidence
from riskfront.losses.table import LossTable
from riskfront.methods.plan import Plan, check_fraction
from riskfront.problems.problem import Problem
from riskfront.statistics import fronts
from riskfront.statistics.procedures import FixedSequence


@dataclass(frozen=True, slots=True)
class ParetoTesting:
    """Test along the Pareto front of all risks and objectives on planning examples, from the lowest p-value to the highest.

    Args:
        opt_fraction: share of the calibration data that finds the front. The paper takes half; a smaller share leaves more
            examples to the test and certifies cheaper settings (see ``benchmarks/power.py``).
        max_settings: the largest front that is tested (B in the paper); a longer one is thinned.
        prune: with several limits, keep only the front of (largest p-value, free objectives).
    """

    opt_fraction: float = 0.3
    max_settings: int = 500
    prune: bool = True

    name: ClassVar[str] = "pareto-testing"
    guaranteed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self.opt_fraction)
        if self.max_settings < 1:
            raise InvalidInputError(f"max_settings must be at least 1; got {self.max_settings}.")

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        evidence = Evidence(problem, opt)
        # the front does not depend on alpha unless the losses do, so one front serves a whole list of alphas
        shape = tuple(
            (test.limit.term, test.limit.at_least is None, test.alpha * test.limit.padded) for test in evidence.tests
        )
        found = opt.remember(("front", shape, problem.objectives, self.max_settings), lambda: self._front(evidence))
        rows, risks, objectives = found.rows, found.risks, found.objectives
        p_opt = evidence.combined(rows)
        if self.prune and len(problem.limits) > 1:
            kept = fronts.front(np.column_stack([p_opt, objectives]), keep_duplicates=False)
            rows, risks, p_opt = rows[kept], risks[kept], p_opt[kept]
        # p-values of very safe settings underflow to ties; the excess risk goes on ordering them
        return Plan(self, opt, rows[np.lexsort((evidence.excess_of(risks), p_opt))], FixedSequence())

    def _front(self, evidence: Evidence) -> _Front:
        risks, objectives = evidence.risks(), evidence.objectives()
        values = np.hstack([risks, objectives])
        rows = fronts.front(values, keep_duplicates=False)
        rows = rows[fronts.thin(values[rows], self.max_settings)]
        return _Front(rows, risks[rows], objectives[rows])


@dataclass(frozen=True, slots=True, eq=False)
class _Front:
    """Settings on the front with their risks, (settings, limits), and objectives, on planning examples."""

    rows: IntArray
    risks: FloatArray
    objectives: FloatArray
