"""Precision, recall and F1 of two classes, spelled out in the 0/1 outcomes of a classifier.

As in scikit-learn, an example without an answer is no positive answer: a positive one is missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective

#: outcome and condition whose mean is the metric; F1 is a ratio of means and has none
_CONDITIONAL = {"precision": ("true_positive", "predicted_positive"), "recall": ("true_positive", "positive")}
_F1 = {"true_positive": 1.0, "false_positive": 0.5, "missed_positive": 0.5}


def spelled_out(limits: str | Limit | Sequence[str | Limit]) -> list[Limit]:
    """The limits, with those on precision, recall or f1 in terms of outcomes."""
    # what is no limit at all is left for the problem to refuse
    listed = [limits] if isinstance(limits, str | Limit) or not isinstance(limits, Iterable) else list(limits)
    return [_limit(Limit.parse(limit) if isinstance(limit, str) else limit) for limit in listed]


def objectives_spelled_out(objectives: str | Objective | Sequence[str | Objective]) -> list[str | Objective]:
    """The same for precision and recall as objectives."""
    listed = [objectives] if isinstance(objectives, str | Objective) else list(objectives)
    return [_objective(objective) for objective in listed]


def _limit(limit: Limit) -> Limit:
    if not isinstance(limit, Limit) or limit.given is not None or limit.over:
        return limit
    if limit.loss in _CONDITIONAL:
        loss, given = _CONDITIONAL[limit.loss]
        return replace(limit, loss=loss, given=given)
    return replace(limit, loss="true_positive", over=_F1) if limit.loss == "f1" else limit


def _objective(objective: str | Objective) -> str | Objective:
    made = Objective(objective) if isinstance(objective, str) else objective
    if not isinstance(made, Objective) or made.loss not in _CONDITIONAL or made.given is not None:
        return objective
    loss, given = _CONDITIONAL[made.loss]
    return replace(made, loss=loss, given=given)
