"""Exits only: the order in which thresholds are tested is known before any text is seen.

With the exit threshold 0 nothing leaves early: the pruned model is the full model, and no accuracy is lost in any class. That
end is the safest for certain, so thresholds are tested from there on, all of them, on all calibration texts, until the first
failure, and no text is spent on learning an order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._calibration.calibrate import calibrate
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.thresholds import Thresholds

FROM_THE_FULL_MODEL = OrderedKnob(safest={"tau_layer": "low"})
_DROPS = ("accuracy_drop", "accuracy_drop_clipped")


def has_known_order(method: str | Method, search: Any, thresholds: Thresholds, problem: Problem) -> bool:
    """Whether only exit thresholds are to be chosen, by the default method, under limits on the accuracy that is lost."""
    default = method == ParetoTesting.name or method == ParetoTesting()
    others = (thresholds.tau_head, thresholds.tau_token, thresholds.abstain, thresholds.depth)
    alone = all(len(values) == 1 for values in others) and thresholds.precision == ("float32",)
    several = len(thresholds.tau_layer) > 1 and search == "grid"
    return default and alone and several and all(_is_plain_drop(limit) for limit in problem.limits)


def certify_in_order(
    trace: PruningTrace, configs: Sequence[Mapping[str, Any]], problem: Problem, seed: int
) -> Certificate:
    """Test these exit thresholds from 0 on, on all texts of the trace."""
    found = [trace.losses(config, trace.examples) for config in configs]
    columns = {name: np.stack([losses[name] for losses in found]) for name in found[0]}
    table = LossTable([dict(config) for config in configs], columns, trace.groups, trace.bounds)
    return calibrate(table.with_compared_examples(), problem, method=FROM_THE_FULL_MODEL, seed=seed)


def _is_plain_drop(limit: Limit) -> bool:
    """A limit on the mean drop, over all texts or in every class: 0 where nothing leaves early."""
    plain = Limit(limit.loss, at_most=limit.at_most, per=limit.per, p_value=limit.p_value) if limit.at_most else None
    return limit.loss in _DROPS and limit == plain
