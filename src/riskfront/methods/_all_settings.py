"""Methods that look at every setting at once: two that correct for it, and two baselines that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront.methods._plan import Plan
from riskfront.statistics._procedures import Bonferroni, Holm, Uncorrected


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
