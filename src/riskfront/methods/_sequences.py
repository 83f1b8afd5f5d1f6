"""Methods that test settings one after the other, or all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskfront._data.splits import permutation
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._plan import Plan, check_fraction
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._procedures import Bonferroni, FixedSequence, Holm, Uncorrected


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFST:
    """Split fixed-sequence testing (Learn then Test): for each beta the setting whose p-values are nearest to beta.

    Args:
        opt_fraction: share of the calibration data that learns the sequence.
        betas: how many values of beta.
        spacing: "log" (0, then 1e-10 to 1 in equal ratios), "linear" (0 to 1 in equal steps), or "every": all settings, by
            the largest of their p-values, as if there were a beta for each. ``betas`` has no effect then.

    Examples:
        >>> SplitFST(betas=50, spacing="linear")
        SplitFST(opt_fraction=0.5, betas=50, spacing='linear')
    """

    opt_fraction: float = 0.5
    betas: int = 200
    spacing: str = "log"

    name: ClassVar[str] = "split-fst"
    words: ClassVar[str] = (
        "Ordered settings by their p-values on the planning examples. Tested them in that order on the "
        "testing examples, and stopped at the first failure."
    )
    guaranteed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self.opt_fraction)
        if self.betas < 2:
            raise InvalidInputError(f"betas must be at least 2; got {self.betas}.")
        if self.spacing not in ("log", "linear", "every"):
            raise InvalidInputError(f"spacing must be 'log', 'linear' or 'every'; got {self.spacing!r}.")

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        p_opt = Evidence.of_planning(problem, opt).p_values(np.arange(opt.n_configs))
        if self.spacing == "every":
            order = permutation(len(p_opt), seed=0)  # between equals, as below
            by_p_value = order[np.argsort(p_opt[order].max(axis=1), kind="stable")]
            return Plan(self, opt, by_p_value, FixedSequence())
        nearest = _nearest(p_opt, self._grid())
        _, first = np.unique(nearest, return_index=True)
        return Plan(self, opt, nearest[np.sort(first)], FixedSequence())

    def _grid(self) -> FloatArray:
        if self.spacing == "linear":
            return np.linspace(0, 1, self.betas)
        return np.concatenate([[0.0], np.geomspace(1e-10, 1, self.betas - 1)])


def _nearest(p_values: FloatArray, betas: FloatArray) -> IntArray:
    """For each beta a setting with the smallest infinity norm of p - beta; p_values is (settings, limits).

    Many settings share a p-value. Their order in the table (a grid starts with its most expensive settings) must not decide
    between them, so ties go to the first in a fixed random order.
    """
    order = permutation(len(p_values), seed=0)
    # max_i |p_i - beta| = max(max_i p_i - beta, beta - min_i p_i): only the extremes count
    low, high = p_values[order].min(axis=1), p_values[order].max(axis=1)
    blocks = np.array_split(betas[:, None], 8)
    return order[np.concatenate([np.maximum(high - b, b - low).argmin(axis=1) for b in blocks])]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstrainedPath:
    """Solutions of the constrained problem with limits alpha_i - eps, eps falling from min alpha to 0.

    Every eps is covered, not a grid of them: a setting solves the problem for some eps exactly if it is on the front of
    (excess risk over the limits, free objectives) and below the limits.

    Examples:
        >>> ConstrainedPath(opt_fraction=0.2)
        ConstrainedPath(opt_fraction=0.2)
    """

    opt_fraction: float = 0.3

    name: ClassVar[str] = "constrained-path"
    words: ClassVar[str] = (
        "Solved the problem with tighter limits on the planning examples. Tested the solutions on the testing "
        "examples, strictest first, and stopped at the first failure."
    )
    guaranteed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self.opt_fraction)

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        evidence = Evidence.of_planning(problem, opt)
        margin = evidence.margin()
        feasible = np.flatnonzero(margin < 0)
        values = np.column_stack([margin, evidence.objectives()])[feasible]
        rows = feasible[fronts.front(values, keep_duplicates=False)]
        return Plan(self, opt, rows[np.argsort(margin[rows], kind="stable")], FixedSequence())


@dataclass(frozen=True, slots=True)
class BonferroniTesting:
    """Every setting at delta divided by their number.

    Examples:
        >>> BonferroniTesting().opt_fraction  # no plan: every example tests
        0.0
    """

    opt_fraction: ClassVar[float] = 0.0
    name: ClassVar[str] = "bonferroni"
    words: ClassVar[str] = "Tested every setting at delta divided by the number of settings."
    guaranteed: ClassVar[bool] = True

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return Plan(self, opt, np.arange(opt.n_configs), Bonferroni())


@dataclass(frozen=True, slots=True)
class HolmTesting:
    """Every setting, by Holm's procedure.

    Examples:
        >>> HolmTesting().opt_fraction  # no plan: every example tests
        0.0
    """

    opt_fraction: ClassVar[float] = 0.0
    name: ClassVar[str] = "holm"
    words: ClassVar[str] = "Tested every setting by Holm's procedure."
    guaranteed: ClassVar[bool] = True

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return Plan(self, opt, np.arange(opt.n_configs), Holm())


@dataclass(frozen=True, slots=True)
class AlphaConstrained:
    """The best setting that measures within the limits. No guarantee: a baseline that breaks limits silently.

    Examples:
        >>> AlphaConstrained().guaranteed
        False
    """

    opt_fraction: ClassVar[float] = 0.0
    name: ClassVar[str] = "alpha-constrained"
    words: ClassVar[str] = "Picked the best setting that measures within the limits. No test was made."
    guaranteed: ClassVar[bool] = False

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return Plan(self, opt, np.arange(opt.n_configs), Uncorrected(), by_mean=True)


@dataclass(frozen=True, slots=True)
class AlphaDeltaConstrained:
    """The best setting with p-value at most delta, not corrected for how many were looked at. No guarantee.

    Examples:
        >>> AlphaDeltaConstrained().guaranteed
        False
    """

    opt_fraction: ClassVar[float] = 0.0
    name: ClassVar[str] = "alpha-delta-constrained"
    words: ClassVar[str] = (
        "Picked the best setting with a p-value of at most delta, without a correction for the number of "
        "settings that were looked at."
    )
    guaranteed: ClassVar[bool] = False

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return Plan(self, opt, np.arange(opt.n_configs), Uncorrected())
