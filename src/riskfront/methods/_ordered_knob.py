"""One knob whose safest end is known, such as a threshold: a plan that needs no planning examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError
from riskfront.methods._plan import Plan
from riskfront.statistics._procedures import FixedSequence, Procedure, TwoSequences

#: the value of a knob in settings that do not have it
WITHOUT = "none"
#: of delta, for the values from the second start on
SECOND_SHARE = 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedKnob:
    """Every value of one knob, from its safest end on, until the first failure; all examples test.

    The order is declared and not learned, so the guarantee holds whatever the losses do along the knob. If risk does not rise
    along it, testing ends early and certifies less.

    Args:
        safest: the knob and its safest end, such as {"threshold": "high"} or {"threshold": "low"}. The values of the knob are
            numbers, one setting each. Know it beforehand: an end that was read off the tested examples is no guarantee.
            Settings whose value is the word "none" have no place in the order: the one that a drop is taken from, which loses
            nothing, is tested first, and the others are not tested.
        start: the value of the knob to begin at; safer ones are skipped. Needed where a limit speaks of few or no examples at
            the safest end, as precision does where nothing is called positive: a sequence that fails at once certifies nothing.
            Choose it beforehand, on other examples, or by the scores of examples that are not tested.
        second_start: a less safe value of the knob, chosen beforehand too, at which testing begins once more, with two thirds
            of delta, whatever came before; the safer values share the other third. For limits on few examples at the first
            values, which may fail by bad luck.

    Examples:
        >>> OrderedKnob(safest={"threshold": "high"}).opt_fraction  # no plan is learned: every example tests
        0.0
    """

    safest: Mapping[str, str] | None = None
    start: float | None = None
    second_start: float | None = None

    opt_fraction: ClassVar[float] = 0.0
    name: ClassVar[str] = "ordered-knob"
    words: ClassVar[str] = (
        "Tested the values of one knob on all examples, from its declared safest end on, and stopped at the "
        "first failure."
    )
    guaranteed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("start", "second_start"):
            value = getattr(self, name)
            if value is not None and not is_number(value):
                raise InvalidInputError(f"{name} must be a value of the knob, a number; got {value!r}.")
        if self.safest is None:
            return
        if not isinstance(self.safest, Mapping) or len(self.safest) != 1:
            raise InvalidInputError(
                f"safest must name one knob and its safest end, such as {{'threshold': 'high'}}; got {self.safest!r}. "
                "For several knobs use sgt or pareto-testing."
            )
        ((knob, end),) = self.safest.items()
        if end not in ("low", "high"):
            raise InvalidInputError(f"safest['{knob}'] must be 'low' or 'high'; got {end!r}.")

    def plan(self, opt: LossTable, problem: Problem) -> Plan:
        """Which settings the table has decides the plan; its losses have no part in it."""
        if self.safest is None:
            name = opt.configs.columns[0]
            raise InvalidInputError(
                f"ordered-knob needs to be told which end of the knob is safest: OrderedKnob(safest={{'{name}': 'high'}}), "
                f"or --safest {name}=high. Which end that is cannot be learned from the examples that are tested."
            )
        ((knob, end),) = self.safest.items()
        outside = opt.configs[known(knob, opt.configs.columns, "knob")].astype(object).eq(WITHOUT).to_numpy()
        rows = np.flatnonzero(~outside)
        values = np.full(len(outside), np.nan)
        values[rows] = _numbers_along(knob, opt.configs.iloc[rows])
        ascending = rows[np.argsort(values[rows], kind="stable")]
        order = ascending[::-1] if end == "high" else ascending
        if self.start is not None:
            order = order[values[order] <= self.start] if end == "high" else order[values[order] >= self.start]
            if not order.size:
                raise InvalidInputError(
                    f"start must leave values of '{knob}' to test; got {self.start:g}, and they lie in "
                    f"{np.nanmin(values):g} to {np.nanmax(values):g}."
                )
        compared_with = {limit.drop_from for limit in problem.limits} - {None}
        first = [row for row in map(opt.reference, sorted(map(str, compared_with))) if outside[row]]
        return Plan(
            self, opt, np.array([*first, *order], dtype=np.int64), self._procedure(values[order], len(first), end)
        )

    def _procedure(self, values: FloatArray, before: int, end: str) -> Procedure:
        """One sequence, or two after each other that share delta; ``values`` in testing order, ``before`` settings ahead."""
        if self.second_start is None:
            return FixedSequence()
        later = np.flatnonzero(values <= self.second_start if end == "high" else values >= self.second_start)
        if not later.size:
            raise InvalidInputError(
                f"second_start must leave values of the knob to test; got {self.second_start:g}, and they lie in "
                f"{values.min():g} to {values.max():g}."
            )
        # where nothing is safer, too: a level that depends on where the values lie could depend on the examples
        return TwoSequences(before + int(later[0]), SECOND_SHARE)


def _numbers_along(knob: str, configs: pd.DataFrame) -> FloatArray:
    """The values of the knob, which must be numbers that tell all settings apart."""
    values = configs[knob].infer_objects()
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"an ordered knob must have numbers as values; '{knob}' has {values.iloc[0]!r}. Number its values in a column of "
            "the settings, and name that column."
        )
    if values.nunique() < len(values):
        others = [name for name in configs.columns if name != knob and configs[name].nunique() > 1]
        raise InvalidInputError(
            f"an ordered knob must have another value in every setting; '{knob}' has {values.nunique():,} values in "
            f"{len(values):,} settings, which differ in {', '.join(map(str, others))} too. Keep one value of these, or use a "
            "method for several knobs, such as pareto-testing or sgt."
        )
    return values.to_numpy(dtype=np.float64)
