"""From a classifier's probabilities and the true classes to a table of losses, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from riskfront.arrays import Array, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.estimators import thresholds as rule
from riskfront.losses.groups import Groups
from riskfront.losses.table import LossTable
from riskfront.losses.values import plain
from riskfront.problems.problem import Problem

_ROUNDING = 1e-3  # by which probabilities in half precision may leave [0, 1]


def checked_examples(X: Any, y: Any, name: str) -> tuple[Any, Array]:
    if y is None:
        raise InvalidInputError(f"{name} requires y to be passed, but the target y is None.")
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    (X,) = indexable(X)
    check_consistent_length(X, y)
    return X, y


def classifier_table(
    probabilities: FloatArray,
    y: Array,
    classes: Array,
    problem: Problem,
    offered: tuple[list[float] | None, list[float]],
    positive: int,
    more_groups: Mapping[str, Groups],
) -> LossTable:
    truth, two = _positions(y, classes), len(classes) == 2
    groups: dict[str, Any] = {"label": y}
    if two:
        groups |= {"positive": truth == positive, "negative": truth != positive}
    losses = [*rule.COMMON, *(rule.TWO_CLASSES if two else ())]
    for name in more_groups.keys() & {*groups, *losses}:
        raise InvalidInputError(f"a group must not be called '{name}', which has a meaning here. Rename it.")
    groups |= more_groups
    _check_labels(problem, truth, classes)
    names = _named(problem, losses, list(groups))
    return LossTable(rule.settings(*offered), rule.outcomes(probabilities, truth, *offered, positive, names), groups)


def probabilities_of(model: Any, X: Any, classes: Array) -> FloatArray:
    probabilities = np.asarray(model.predict_proba(X))
    if probabilities.ndim != 2 or probabilities.shape[1] != len(classes):
        raise InvalidInputError(
            f"predict_proba must return one column for each of {len(classes)} classes; got shape {probabilities.shape}."
        )
    if not np.isfinite(probabilities).all():
        raise InvalidInputError("predict_proba must return finite numbers; got nan or infinity.")
    low, high = probabilities.min(initial=0), probabilities.max(initial=0)
    if low < -_ROUNDING or high > 1 + _ROUNDING:
        raise InvalidInputError(
            f"predict_proba must return probabilities, from 0 to 1; got {low:g} to {high:g}. Divide per cent by 100; turn "
            "scores into probabilities, with scikit-learn's CalibratedClassifierCV say."
        )
    return probabilities


def _positions(y: Array, classes: Array) -> IntArray:
    """The position of each label among the classes; as in scikit-learn, False and True are 0 and 1."""
    numbers = [values.astype(np.int64) if values.dtype.kind == "b" else values for values in (classes, y)]
    found = pd.Index(numbers[0]).get_indexer(pd.Index(numbers[1]))
    if (found < 0).any():
        strange = plain(y[int(np.argmax(found < 0))])
        raise InvalidInputError(f"y must hold only classes of the model, {listed_classes(classes)}; got {strange!r}.")
    return found.astype(np.int64)


def _check_labels(problem: Problem, truth: IntArray, classes: Array) -> None:
    """A limit in every class says nothing of a class without examples."""
    absent = np.setdiff1d(np.arange(len(classes)), truth)
    if absent.size and any(limit.per == "label" for limit in problem.limits):
        raise InvalidInputError(
            f"a limit per label needs examples of every class of the model; y has none of {listed_classes(classes[absent])}."
        )


def _named(problem: Problem, losses: list[str], groups: list[str]) -> list[str]:
    """The losses that the problem mentions: only these are computed."""
    problem.check_names(losses, groups)
    used = {name for term in problem.terms for name in (*term.losses, term.given)}
    return [name for name in losses if name in used]


def listed_classes(classes: Array) -> str:
    shown = ", ".join(repr(plain(value)) for value in classes[:10])
    return shown + (", ..." if len(classes) > 10 else "")
