"""Pareto Testing: the paper's method (Algorithm 1), planned better and with a fallback test under its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods._denoising import PlannedLimit, planned_limits, sums_rest_on
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.ranges import open_thresholds
from riskfront.methods._plan import (
    USUAL_HOLM_SHARE,
    USUAL_PLANNING_SHARE,
    Plan,
    check_fraction,
    default_holm_share,
    planning_share,
)
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._procedures import FixedSequence

#: the p-value of the paper; ``problem.using(PAPER_P_VALUE)`` with ``ParetoTesting.as_in_the_paper()`` is the paper's own form
PAPER_P_VALUE = "hoeffding-bentkus"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoTesting:
    """Test along the Pareto front of risks and free objectives on planning examples, from the lowest p-value to the highest.

    Args:
        opt_fraction: share of the calibration data that plans. None: by the number of examples and settings
            (``riskfront.methods._plan`` has the measurements); a fifth where these are not known.
        max_settings: the longest front that is tested (B in the paper); a longer one is thinned.
        prune: with several limits, keep only the front of (largest p-value, free objectives).
        smooth: average risks over similar settings before planning, as far as the planning examples show that it helps.
        holm_share: share of delta for the fallback test, Holm's procedure over all settings on all examples, which needs no
            plan; 0 for none, None by the number of settings and of those that are alike. ``tune`` and ``certify`` have no
            fallback test: they have no table of all settings on all examples.
        by_p_value: take the front of (p-value, free objectives) instead of (risks, free objectives). They differ where
            settings differ in their number of examples or in variance: selective, per class, signed limits.

    Examples:
        >>> ParetoTesting(holm_share=0.2).in_words()
        'Pareto testing planned on risks smoothed over similar settings, with a fallback test that gets 20 % of delta'
        >>> ParetoTesting.as_in_the_paper().opt_fraction
        0.5
    """

    # None stands for "left open" until __post_init__ has put the usual value in its place
    opt_fraction: float = None  # type: ignore[assignment]
    max_settings: int = 500
    prune: bool = True
    smooth: bool = True
    holm_share: float = None  # type: ignore[assignment]
    by_p_value: bool = True
    _open: tuple[str, ...] = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "pareto-testing"
    words: ClassVar[str] = (
        "Planned on the planning examples: the best trade-offs, safest first. Tested them in that order on "
        "the testing examples, and stopped at the first failure."
    )
    guaranteed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        usual = {"opt_fraction": USUAL_PLANNING_SHARE, "holm_share": USUAL_HOLM_SHARE}
        object.__setattr__(self, "_open", tuple(name for name in usual if getattr(self, name) is None))
        for name in self._open:
            object.__setattr__(self, name, usual[name])
        check_fraction(self.opt_fraction)
        if not 0 <= self.holm_share < 1:
            raise InvalidInputError(
                f"holm_share must lie in [0, 1), the share of delta that it gets; got {self.holm_share!r}."
            )
        if self.max_settings < 1:
            raise InvalidInputError(f"max_settings must be at least 1; got {self.max_settings}.")

    @classmethod
    def as_in_the_paper(
        cls, *, opt_fraction: float = 0.5, max_settings: int = 500, prune: bool = True
    ) -> ParetoTesting:
        """The paper's own form: half of the examples plan, on their risks as they are, and the path stands alone.

        With ``problem.using(PAPER_P_VALUE)`` it is the paper's method to the letter; every comparison with it uses these two.
        """
        plain = cls(smooth=False, holm_share=0.0, by_p_value=False)
        return replace(plain, opt_fraction=opt_fraction, max_settings=max_settings, prune=prune)

    def resolve_defaults(self, n_examples: int, n_settings: int, alike: int | None = None) -> ParetoTesting:
        """A copy with every open share decided, by the numbers of examples, of settings and of similar settings."""
        shares: Mapping[str, Any] = {"opt_fraction": planning_share, "holm_share": default_holm_share}
        return replace(self, **{name: shares[name](n_examples, n_settings, alike) for name in self._open})

    def in_words(self) -> str:
        """Which form of the method this is."""
        if not (self.smooth or self.holm_share or self.by_p_value):
            return "Pareto testing as in the paper"
        planned = "on risks smoothed over similar settings" if self.smooth else "on risks as measured"
        fallback = f", with a fallback test that gets {100 * self.holm_share:g} % of delta" if self.holm_share else ""
        return f"Pareto testing planned {planned}{fallback}"

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        evidence = Evidence.of_planning(problem, opt)
        limits = planned_limits(evidence, self.smooth)
        if self.by_p_value and not all(limit.risk_tells_all for limit in limits):
            rows = self._front_of_p_values(evidence, limits)
        else:
            rows = self._front_of_risks(evidence, limits)
        # the fallback test uses all examples: it must not rest on what some of them chose
        share = 0.0 if open_thresholds(problem) else self.holm_share
        return Plan(self, opt, rows, FixedSequence(), holm_share=share)

    def _front_of_p_values(self, evidence: Evidence, limits: list[PlannedLimit]) -> IntArray:
        p_opt = np.stack([limit.p_values() for limit in limits], axis=1).max(axis=1)
        if p_opt.min() >= 1:  # as below
            risks = np.stack([limit.risks() for limit in limits], axis=1)
            return np.array([np.argmin(evidence.margin_of(risks))])
        values = np.column_stack([p_opt, evidence.objectives()])
        rows = fronts.front(values, keep_duplicates=False)
        rows = rows[fronts.thin(values[rows], self.max_settings)]
        risks = np.stack([limit.risks()[rows] for limit in limits], axis=1)
        return _in_order(rows, p_opt[rows], evidence.margin_of(risks))

    def _front_of_risks(self, evidence: Evidence, limits: list[PlannedLimit]) -> IntArray:
        """The paper's front; in one limit with one number of examples it is that of p-values too."""
        # the front does not depend on alpha unless the losses or the smoothing do, so one front serves a list of alphas
        shape = tuple((part.scales, *sums_rest_on(part.test), part.test.limit.at_least is None) for part in limits)
        key = ("front", shape, evidence.problem.objectives, self.max_settings)
        rows, risks, objectives = evidence.table.remember(key, lambda: self._front(evidence, limits))
        p_opt = self._p_values(evidence, limits, rows)
        # where no setting looks certifiable, all p-values are 1, and pruning would leave what is best without the limits
        if self.prune and len(limits) > 1 and p_opt.min(initial=1.0) < 1:
            kept = fronts.front(np.column_stack([p_opt, objectives]), keep_duplicates=False)
            rows, risks, p_opt = rows[kept], risks[kept], p_opt[kept]
        return _in_order(rows, p_opt, evidence.margin_of(risks))

    def _p_values(self, evidence: Evidence, limits: list[PlannedLimit], rows: IntArray) -> FloatArray:
        if len(limits) == 1 and limits[0].risk_tells_all and self.by_p_value:
            return np.zeros(len(rows))  # the margin alone orders them as p-values would
        if not any(any(limit.scales) for limit in limits):
            return evidence.combined(rows)
        return np.stack([limit.p_values(rows) for limit in limits], axis=1).max(axis=1)

    def _front(self, evidence: Evidence, limits: list[PlannedLimit]) -> tuple[IntArray, FloatArray, FloatArray]:
        """Settings on the front with their risks, (settings, limits), and objectives, on planning examples."""
        smoothed = any(any(limit.scales) for limit in limits)
        risks = np.stack([limit.risks() for limit in limits], axis=1) if smoothed else evidence.risks()
        objectives = evidence.objectives()
        values = np.hstack([risks, objectives])
        rows = fronts.front(values, keep_duplicates=False)
        rows = rows[fronts.thin(values[rows], self.max_settings)]
        return rows, risks[rows], objectives[rows]


def _in_order(rows: IntArray, p_opt: FloatArray, margin: FloatArray) -> IntArray:
    """From the lowest p-value to the highest. Very safe settings underflow to ties, which the margin goes on ordering."""
    return rows[np.lexsort((margin, p_opt))]
