"""Which thresholds a classifier may choose from, and how they are tested."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.estimators import _decision_thresholds as rule
from riskfront.estimators._known_order import (
    Knob,
    KnownOrder,
    known_order,
    second_start_count,
    start_count,
    start_row,
)
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.methods._plan import planning_share

#: the lowest and the highest of the fixed thresholds for which each offered one stands
Ends = tuple[list[float], list[float]]

_ABSTENTION = frozenset({"answered", "abstained"})


@dataclass(frozen=True, slots=True)
class Offered:
    """Decision thresholds (None for more than two classes) and abstention thresholds, and the method that tests them."""

    thresholds: list[float] | None
    abstain: list[float]
    method: str | Method
    notes: tuple[str, ...] = ()

    @property
    def grid(self) -> tuple[list[float] | None, list[float]]:
        return self.thresholds, self.abstain


def offered_thresholds(
    problem: Problem,
    probabilities: FloatArray,
    positive: int,
    *,
    thresholds: npt.ArrayLike | None,
    abstain_thresholds: npt.ArrayLike | None,
    method: str | Method,
    planning: Callable[[float], IntArray] | None = None,
    priced: Collection[str] = (),
) -> Offered:
    """What to choose from, by the problem, the scores (n, classes) and the user's own lists; labels have no part in it.

    Args:
        planning: share -> the positions of the examples on which a method with that share plans; None where they are not
            known beforehand.
        priced: the outcomes that ``cost`` is made of.
    """
    two = probabilities.shape[1] == 2
    if not two and thresholds is not None:
        raise InvalidInputError(
            f"thresholds are for two classes; the model has {probabilities.shape[1]}. Leave thresholds out."
        )
    abstains = abstain_thresholds is not None or not two or not _ABSTENTION.isdisjoint(_names(problem, priced))
    decides = two and (thresholds is not None or tells_classes_apart(problem, priced))
    usual_abstain = rule.ABSTAIN if abstains else (0.0,)
    usual_decision: Sequence[float] = (0.5,) if not decides else rule.FEW_THRESHOLDS if abstains else rule.THRESHOLDS
    given = Offered(
        rule.numbers("thresholds", thresholds, usual_decision, open_=True) if two else None,
        rule.numbers("abstain_thresholds", abstain_thresholds, usual_abstain, open_=False),
        method,
    )
    if method != "auto":
        return given
    own = {"threshold": thresholds is not None, "abstain": abstain_thresholds is not None}
    planned = _on_quantiles(given, own, probabilities, positive, planning)
    several = {"threshold": len(given.thresholds or ()) > 1, "abstain": len(given.abstain) > 1}
    knobs: list[Knob] = [knob for knob in ("threshold", "abstain") if several[knob]]
    if len(knobs) != 1:
        return planned
    (knob,) = knobs
    order = known_order(problem, knob)
    # a start by count is proven for single rows
    if order is None or (order.condition is not None and planning is None):
        return planned
    if own[knob]:
        values = (given.thresholds or []) if knob == "threshold" else given.abstain
        return _from_the_start(given, (values, values), order, problem, probabilities, positive)
    listed, ends = _with_occurring(given, knob, probabilities, positive)
    return _from_the_start(listed, ends, order, problem, probabilities, positive)


def tells_classes_apart(problem: Problem, priced: Collection[str] = ()) -> bool:
    """Whether limits and objectives treat the two classes differently."""
    return not {*rule.TWO_CLASSES, "positive", "negative", "label"}.isdisjoint(_names(problem, priced))


def _names(problem: Problem, priced: Collection[str]) -> set[str | None]:
    found = {name for term in problem.terms for name in (*term.losses, term.per, term.given)}
    return found | set(priced) if "cost" in found else found


def _on_quantiles(
    given: Offered,
    own: Mapping[str, bool],
    probabilities: FloatArray,
    positive: int,
    planning: Callable[[float], IntArray] | None,
) -> Offered:
    """Thresholds at quantiles of the scores of the planning examples, instead of fixed numbers, and the method that plans.

    No safety net: it would test on the planning examples too, which chose the thresholds.
    """
    several = [(given.thresholds or [], own["threshold"]), (given.abstain, own["abstain"])]
    free = [len(values) > 1 and not owned for values, owned in several]
    if planning is None or not any(free):
        return replace(given, method="pareto-testing")
    method = ParetoTesting(opt_fraction=planning_share(len(probabilities), len(rule.THRESHOLDS)), holm_share=0.0)
    scores = probabilities[planning(method.opt_fraction)]
    found = replace(given, method=method, notes=("Thresholds are quantiles of the scores of the planning examples.",))
    if free[0]:
        found = replace(found, thresholds=_quantiles(scores[:, positive], len(given.thresholds or ())))
    if free[1]:
        threshold = 0.5 if given.thresholds else None
        confidence = rule.answers(scores, threshold, positive).confidence
        found = replace(found, abstain=[0.0, *_quantiles(confidence, len(given.abstain) - 1)])
    return found


def _quantiles(scores: FloatArray, count: int) -> list[float]:
    """So many quantiles, in (0, 1), rounded to what a user would type; each once."""
    found = np.quantile(scores.astype(np.float64), np.linspace(0, 1, count + 2)[1:-1])
    return sorted({float(np.clip(round(value, 6), 1e-6, 1 - 1e-6)) for value in found})


def _with_occurring(given: Offered, knob: Knob, probabilities: FloatArray, positive: int) -> tuple[Offered, Ends]:
    """The thresholds of a fixed list that tell the scores apart, and the ends of what each stands for."""
    rounding = rule.rounding_of(probabilities)
    if knob == "threshold":
        scores = probabilities[:, positive].astype(np.float64)
        found, ends = occurring(scores, lambda t: rule.lowest_positive(t, rounding))
        return replace(given, thresholds=found), ends
    threshold = given.thresholds[0] if given.thresholds else None
    confidence = rule.answers(probabilities, threshold, positive).confidence
    found, (lowest, highest) = occurring(confidence, lambda t: rule.below(t, rounding))
    # the first lets all scores pass, as 0 does
    return replace(given, abstain=[0.0, *found[1:]]), ([0.0, *lowest[1:]], highest)


def _from_the_start(
    given: Offered, ends: Ends, order: KnownOrder, problem: Problem, probabilities: FloatArray, positive: int
) -> Offered:
    """The offered values in a known order, without those that too few examples speak of.

    Args:
        ends: of what each value stands for, lowest and highest: the test of a value is that of all values between them.
    """
    method = OrderedKnob(safest={order.knob: order.safest})
    from_high = order.safest == "high"
    end = "highest" if from_high else "lowest"
    said = f"All examples tested, from the {end} {order.knob} on: that it is the safest end is known without any data."
    if order.condition is None:
        return replace(given, method=method, notes=(said,))
    (limit,) = problem.limits
    alpha = limit.value if limit.at_least is None else 1 - limit.value
    most = start_count(alpha, problem.delta, len(probabilities)) if 0 < alpha < 1 else len(probabilities)
    counts = _selected(given, order.condition, probabilities, positive)
    values = (given.thresholds or []) if order.knob == "threshold" else given.abstain
    lowest, highest = ends
    last = lowest if from_high else highest  # of what each stands for, in the order of the test
    if from_high:
        counts, values, last = counts[::-1], values[::-1], last[::-1]
    start = start_row(counts, most)
    # those before the last that the first tested one stands for come before the start: start_row says nothing of them
    tested = [last[start], *values[start + 1 :]]
    said = (
        f"All examples tested, from the {end} {order.knob} on that selects {counts[start]:,} of them: a count that looks at no "
        f"label, and at most {most:,} by a rule fixed beforehand."
    )
    # only among all answers: how many are called positive at most, a rule on their number cannot know beforehand
    again = order.condition == "answered" and 0 < alpha < 1
    later = second_start_count(alpha, problem.delta, len(probabilities)) if again else None
    if later is not None:
        second = start_row(counts, later)
        tested[second - start] = last[second]
        method = replace(method, second_start=last[second])
        said += (
            f" Testing begins once more where {counts[second]:,} are selected (at most {later:,}), with 2/3 of delta."
        )
    knob = "thresholds" if order.knob == "threshold" else "abstain"
    return replace(given, **{knob: sorted(tested)}, method=method, notes=(said,))


def _selected(given: Offered, condition: str, probabilities: FloatArray, positive: int) -> Array:
    """How many examples each offered value selects; what is selected does not depend on labels."""
    no_labels: Any = np.zeros(len(probabilities), dtype=np.int64)
    found = rule.outcomes(probabilities, no_labels, *given.grid, positive, [condition])[condition]
    return np.asarray(found.sum(axis=1))


_STEPS = ((3_000, 1e-4), (10_000, 1e-3), (np.inf, 5e-3))  # up to so many examples: steps of thresholds from .1 on
_DECADES = 6


def occurring(scores: FloatArray, cut: Callable[[FloatArray], FloatArray]) -> tuple[list[float], Ends]:
    """Thresholds in (0, 1), ascending: one for each way in which a threshold of the list divides the (n,) scores.

    The list holds all numbers with four digits (three from 3,000 examples on, every fifth of these from 10,000 on), counted
    from the nearer of 0 and 1: .0831, .5, .9987 are some. Thresholds that divide the scores alike have the same losses, so that
    testing one of them, that in their middle, is testing all: the result is that of a test of the whole list, whichever scores
    occur. Thresholds above all scores, which select nothing, are left out. Second, the ends of what each stands for.

    Args:
        cut: the smallest score that each threshold lets pass.
    """
    listed = _listed(next(step for most, step in _STEPS if len(scores) <= most))
    left_out = np.searchsorted(np.sort(scores), cut(listed), side="left")
    starts = np.flatnonzero(np.diff(left_out, prepend=-1))
    ends = np.append(starts[1:], len(left_out))
    below_all = left_out[starts] < len(scores)
    rows = [(starts + ends - 1) // 2, starts, ends - 1]
    middle, lowest, highest = (
        [float(value) for value in (listed[row[below_all]] if below_all.any() else listed[:1])] for row in rows
    )
    return middle, (lowest, highest)


@cache
def _listed(step: float) -> FloatArray:
    """Numbers in (0, 1): in steps from .1 on, in steps of a tenth of these from .01 on, ..., and one minus these."""
    decades = [np.arange(0.1, 1, step) / 10.0**k for k in range(_DECADES)]
    lower = np.unique(np.concatenate(decades).round(12))
    lower = lower[lower < 0.5 - step / 2]
    return np.concatenate([lower, [0.5], (1 - lower[::-1]).round(12)])
