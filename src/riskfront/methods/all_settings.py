"""Methods that look at every setting at once: two that correct for it, and two baselines that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskfront.losses.table import LossTable
from riskfront.methods.plan import Plan
from riskfront.problems.problem import Problem
from riskfront.statistics.procedures import Bonferroni, Holm, Uncorrected


@dataclass(frozen=True, slots=True)
class BonferroniTesting:
    """Every setting at delta divided by their number.

    Examples:
        >>> BonferroniTesting().opt_fraction  # no plan: every example tests
        0.0
    """

    opt_fraction: ClassVar[float] = 0.0
    name: ClassVar[str] = "bonferroni"
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
    guaranteed: ClassVar[bool] = False

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        return Plan(self, opt, np.arange(opt.n_configs), Uncorrected())
