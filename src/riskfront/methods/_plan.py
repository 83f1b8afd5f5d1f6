"""A plan: which settings to test, in which order, by which procedure. Made without a look at the data that is tested."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError, RiskfrontError
from riskfront.methods._similarity import similarity
from riskfront.statistics._procedures import Procedure


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The settings ``rows`` of the planning table, in testing order.

    Args:
        by_mean: accept a setting when its measured risks are below the limits, instead of testing (no guarantee).
        holm_share: the share of delta for Holm's procedure over all settings on all examples, where there is a table of
            them; the plan itself gets the rest.
    """

    method: Method
    opt: LossTable
    rows: IntArray
    procedure: Procedure
    by_mean: bool = False
    holm_share: float = 0.0

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows)
        whole = rows.ndim == 1 and (rows.dtype.kind in "iu" or rows.size == 0)
        if not whole or (rows.size and not (rows.min() >= 0 and rows.max() < self.opt.n_configs)):
            raise InvalidInputError(
                f"the rows of a plan must be whole numbers from 0 to {self.opt.n_configs - 1}, the settings of its planning "
                f"table; {self.method.name} gave {self.rows!r}."
            )

    def __len__(self) -> int:
        return len(self.rows)

    def configs(self) -> list[dict[str, Any]]:
        """The settings in testing order."""
        return [self.opt.config(row) for row in self.rows]

    def rows_in(self, table: LossTable) -> IntArray:
        """Where the planned settings are in a table that was measured for testing."""
        if table.same_settings(self.opt):
            return self.rows
        found = {tuple(sorted(table.config(row).items())): row for row in range(table.n_configs)}
        rows = [found.get(tuple(sorted(config.items()))) for config in self.configs()]
        if None in rows:
            missing = self.configs()[rows.index(None)]
            raise InvalidInputError(f"the test table must hold every setting of the plan; {missing} is missing.")
        return np.asarray(rows, dtype=np.int64)


class Method(Protocol):
    """A way to plan. Implementations are frozen dataclasses that hold parameters and no run state."""

    name: ClassVar[str]
    #: how it goes about it, in one or two sentences for the report; optional for a method of your own
    words: ClassVar[str]
    guaranteed: ClassVar[bool]

    @property
    def opt_fraction(self) -> float:
        """The share of the calibration data to plan with; the rest is tested."""

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        """Decide what to test, from planning examples only. A plan that draws at random takes a third argument, ``seed``."""


def check_method(method: Method, named: str) -> None:
    """Raise an error that says what is missing if this is no method; ``named`` is what its user calls it."""
    lacks = [part for part in ("name", "guaranteed", "opt_fraction", "plan") if not hasattr(method, part)]
    if lacks or isinstance(method, type):
        raise InvalidInputError(
            f"{named} must be a method: an object with name, guaranteed, opt_fraction and plan(opt, problem); it lacks "
            f"{', '.join(lacks) or 'being made: it is a class'}. riskfront.methods.Method says what they are."
        )
    share = method.opt_fraction
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share < 1:
        raise InvalidInputError(f"the opt_fraction of {named} must be a number from 0 to below 1; got {share!r}.")
    if not isinstance(method.name, str) or not method.name:
        raise InvalidInputError(f"the name of {named} must be a text; got {method.name!r}.")


def make_plan(method: Method, opt: LossTable, problem: Problem, seed: int = 0) -> Plan:
    """The plan of a method, which may be the user's: what goes wrong there is said to have gone wrong there."""
    try:
        drawn = {"seed": seed} if "seed" in inspect.signature(method.plan).parameters else {}
        made: object = method.plan(opt, problem, **drawn)
    except RiskfrontError:
        raise
    except Exception as error:
        if type(method).__module__.split(".")[0] == "riskfront":
            raise
        raise InvalidInputError(
            f"the method '{method.name}' must make a plan; its plan(opt, problem) raised {type(error).__name__}: {error}."
        ) from error
    if not isinstance(made, Plan):
        raise InvalidInputError(
            f"the plan(opt, problem) of the method '{method.name}' must return a riskfront.methods.Plan; it returned "
            f"{type(made).__name__}."
        )
    return made


def resolve_defaults(method: Method, table: LossTable, n_examples: int) -> Method:
    """The method with every share that it leaves open decided: by the number of examples and the settings, never by losses."""
    decide = getattr(method, "resolve_defaults", None)
    if decide is None:
        return method
    like = table.shared("similarity", lambda: similarity(table.configs))
    return decide(n_examples, table.n_configs, 1 if like is None else like.together)


def parameters(method: Method) -> dict[str, Any]:
    """The parameters of a method, to write down and to make it again; none of one that is no dataclass."""
    held: object = method
    parts = fields(held) if is_dataclass(held) else ()
    return {part.name: getattr(method, part.name) for part in parts if part.init}


def check_fraction(value: float, name: str = "opt_fraction") -> None:
    if not 0 < value < 1:
        raise InvalidInputError(f"{name} must lie in (0, 1); got {value!r}.")


#: where the numbers are not known: for those who split by hand
USUAL_PLANNING_SHARE, USUAL_HOLM_SHARE = 0.2, 0.05

_HANDFUL, _FEW, _MANY, _HUGE = 100, 400, 5_000, 20_000  # settings
_LEAST_EXAMPLES = 50  # fewer tell no setting from another


def planning_share(n_examples: int, n_settings: int, alike: int | None = None) -> float:
    """The share of the examples that plan: .3 where few settings are alike, falling to .15 for thousands; more if examples are
    few.

    Args:
        alike: how many settings are alike, usually; None for all of them.
    """
    together = n_settings if alike is None else alike
    between = math.log(max(together, _FEW) / _FEW) / math.log(_MANY / _FEW)
    share = 0.3 - 0.15 * min(between, 1.0)
    return round(max(share, min(0.3, _LEAST_EXAMPLES / max(n_examples, 1))), 3)


def default_holm_share(n_examples: int, n_settings: int, alike: int | None = None) -> float:
    """The share of delta that goes to a test of all settings on all examples.

    .5 where no two settings are alike; else .05 for up to a hundred settings, .01 for more. None beyond 20,000, where a test of
    every single one takes minutes and each gets next to nothing of delta.
    """
    if n_settings > _HUGE:
        return 0.0
    if alike == 1:
        return 0.5
    return 0.05 if n_settings <= _HANDFUL else 0.01
