"""Who takes part: the paper's methods with the paper's options, and riskfront's own, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.spaces.grid import Grid
from riskfront.methods import (
    SGT,
    AlphaConstrained,
    AlphaDeltaConstrained,
    ConstrainedPath,
    LowRiskPath,
    Method,
    ParetoTesting,
    SplitFST,
)
from riskfront.methods._pareto_testing import PAPER_P_VALUE

DELTA = 0.1
ALPHAS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2)
#: examples that the paper calibrates on
CALIBRATION = {"ag_news": 5000, "imdb": 5000, "qnli": 3400, "qqp": 5000, "mnli": 10_000}


@dataclass(frozen=True)
class FromCorner:
    """A method that walks over the grid from the corner where every threshold is at this end."""

    method: type[Any]
    end: str

    def on(self, table: LossTable) -> Method:
        made: Method = self.method(safest=dict.fromkeys(Grid.of(table.configs).axes, self.end))
        return made


@dataclass(frozen=True)
class Lineup:
    """Methods that face the same limits.

    Args:
        form: stands behind the names of the methods; empty for the paper's form.
        limits: with the p-value that the form uses.
        methods: as they are, or made for the grid of a table.
    """

    form: str
    limits: tuple[Limit, ...]
    methods: tuple[Method | FromCorner, ...]

    def made_for(self, table: LossTable) -> list[Method]:
        return [method.on(table) if isinstance(method, FromCorner) else method for method in self.methods]

    def label(self, method: str) -> str:
        return f"{method}, {self.form}" if self.form else method


PARETO = ParetoTesting.as_in_the_paper()
UNGUARDED: tuple[Method, ...] = (AlphaConstrained(), AlphaDeltaConstrained())


def paper(
    *limits: Limit, corner: str | None = "low", paths: bool = True, unguarded: Sequence[Method] = UNGUARDED
) -> Lineup:
    """The paper's form: Hoeffding-Bentkus p-values, half of the examples plan, conditional limits are padded.

    Args:
        corner: where methods on the grid start; None leaves them out.
        paths: whether the low-risk path takes part where the grid does.
    """
    tested = tuple(
        replace(limit, p_value=PAPER_P_VALUE, padded=limit.per is not None or limit.given is not None)
        for limit in limits
    )
    on_grid = () if corner is None else (FromCorner(SGT, corner), *([FromCorner(LowRiskPath, corner)] if paths else []))
    split = SplitFST(
        spacing="every"
    )  # section 7 orders all settings by their p-values; a grid of betas would skip most
    return Lineup("", tested, (PARETO, split, *on_grid, ConstrainedPath(opt_fraction=0.5), *unguarded))


def exact(*limits: Limit) -> Lineup:
    """The paper's plan with riskfront's p-values: exact binomial tests, conditional limits on the examples they speak of."""
    return Lineup("exact p-values", limits, (PARETO,))


def default(*limits: Limit, form: str = "riskfront's default") -> Lineup:
    """Everything as riskfront does it when nothing is said."""
    return Lineup(form, limits, (ParetoTesting(),))
