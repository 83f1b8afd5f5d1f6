"""From a classifier's probabilities and the true classes to a table of losses, everything checked on the way."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import is_outlier_detector
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.multiclass import check_classification_targets

from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.estimators import _decision_thresholds as rule
from riskfront.estimators._calibration_examples import Examples
from riskfront.estimators._costs import Prices
from riskfront.estimators._metrics import unknown_word
from riskfront.estimators._offered import Offered, tells_classes_apart

_SUM_ROUNDING = 0.01  # a class: probabilities may be rounded to per cent
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
    examples: Examples,
    classes: Array,
    problem: Problem,
    offered: Offered,
    positive: int,
    prices: Prices | None = None,
) -> LossTable:
    """What every offered setting loses on every example, from (n, classes) probabilities."""
    truth, two = _positions(examples.y, classes), len(classes) == 2
    groups: dict[str, Any] = {"label": examples.y}
    if two:
        groups |= {"positive": truth == positive, "negative": truth != positive}
    losses = [*rule.COMMON, *(rule.TWO_CLASSES if two else ())]
    for name in examples.groups.keys() & {*groups, *losses}:
        raise InvalidInputError(f"a group must not be called '{name}', which has a meaning here. Rename it.")
    groups |= examples.groups
    _check_labels(problem, truth, classes)
    if two and len(np.unique(truth)) < 2 and tells_classes_apart(problem):
        raise InvalidInputError(
            f"limits or objectives speak of one of two classes, so y must hold both; got {plain(examples.y[0])!r} alone, "
            f"{len(truth):,} times. Draw calibration examples as new ones will come."
        )
    if len(classes) > 1 and len(np.unique(truth)) < 2 and len(truth) > 1:
        warnings.warn(
            f"y holds one class alone: {plain(examples.y[0])!r}, {len(truth):,} times. Limits then say nothing of the others, "
            "unless new examples come of this class alone too.",
            UserWarning,
            stacklevel=5,
        )
    priced = [] if prices is None else [*prices.names]
    # rows of a day differ in them
    conditions = ["positive", "negative"] if examples.clusters is not None and two else []
    names = _named(problem, [*losses, *priced, *conditions], list(groups))
    needed = [name for name in losses if name in names or (prices is not None and name in prices.costs)]
    outcomes = rule.outcomes(probabilities, truth, *offered.grid, positive, needed)
    bounds = None
    if prices is not None:
        outcomes |= {name: values for name, values in prices.columns(outcomes).items() if name in names}
        bounds = {name: bound for name, bound in prices.bounds(two).items() if name in names}
    shape = (len(rule.settings(*offered.grid)), len(truth))
    outcomes |= {name: np.broadcast_to(groups[name], shape) for name in conditions if name in names}
    outcomes = {name: values for name, values in outcomes.items() if name in names}
    groups = {name: values for name, values in groups.items() if name not in conditions}
    groups |= examples.table_groups
    table = examples.describe(LossTable(rule.settings(*offered.grid), outcomes, groups, bounds))
    table.notes = (*table.notes, *offered.notes)
    return table


def is_detector(model: Any) -> bool:
    """Whether a model is one of scikit-learn's outlier detectors; objects of other libraries are not."""
    return hasattr(model, "__sklearn_tags__") and bool(is_outlier_detector(model))


def classes_of(model: Any, y: Array) -> Array:
    """The classes of a model in the order of its probabilities; -1 (outlier) and 1 for outlier detectors."""
    if is_detector(model):
        return np.array([-1, 1])
    return np.asarray(model.classes_) if hasattr(model, "classes_") else np.unique(y)


def probabilities_of(model: Any, X: Any, classes: Array) -> FloatArray:
    """(n, classes) probabilities; for two classes and ``decision_function`` alone 1 / (1 + exp(-score)) of the second class."""
    if not hasattr(model, "predict_proba"):
        return _squashed(np.asarray(model.decision_function(X), dtype=np.float64), classes)
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
    off = np.abs(probabilities.sum(axis=1) - 1).max(initial=0)
    if off > _SUM_ROUNDING * len(classes):
        raise InvalidInputError(
            f"the probabilities of each example must add up to 1; got sums that are off by up to {off:.3g}. For labels that do "
            "not exclude each other use RiskControlledMultiLabel."
        )
    return probabilities


def _squashed(scores: FloatArray, classes: Array) -> FloatArray:
    if scores.ndim != 1 or len(classes) != 2:
        raise InvalidInputError(
            f"a model without predict_proba must have two classes; got {len(classes)} and scores of shape {scores.shape}. "
            "scikit-learn's CalibratedClassifierCV gives it probabilities."
        )
    if not np.isfinite(scores).all():
        raise InvalidInputError("decision_function must return finite numbers; got nan or infinity.")
    second = special.expit(scores)
    return np.stack([1 - second, second], axis=1)


def _positions(y: Array, classes: Array) -> IntArray:
    """The position of each label among the classes; as in scikit-learn, False and True are 0 and 1."""
    numbers = [values.astype(np.int64) if values.dtype.kind == "b" else values for values in (classes, y)]
    found = pd.Index(numbers[0]).get_indexer(pd.Index(numbers[1]))
    if (found < 0).any():
        strange = plain(y[int(np.argmax(found < 0))])
        outliers = " An outlier detector calls outliers -1 and others 1." if list(classes) == [-1, 1] else ""
        raise InvalidInputError(
            f"y must hold only classes of the model, {listed_classes(classes)}; got {strange!r}.{outliers}"
        )
    return found.astype(np.int64)


def _check_labels(problem: Problem, truth: IntArray, classes: Array) -> None:
    """A limit in every class says nothing of a class without examples."""
    for limit in problem.limits:
        if limit.per == "label" and limit.given in ("positive", "negative"):
            raise InvalidInputError(
                f"'{limit}' speaks of one class, and no example of the other has a part in it; a limit per label must speak of "
                "both. The recall of every class is 'correct >= 0.9 per label'."
            )
    absent = np.setdiff1d(np.arange(len(classes)), truth)
    if absent.size and any(limit.per == "label" for limit in problem.limits):
        raise InvalidInputError(
            f"a limit per label needs examples of every class of the model; y has none of {listed_classes(classes[absent])}."
        )


def _named(problem: Problem, losses: list[str], groups: list[str]) -> list[str]:
    """The losses that the problem mentions: only these are computed."""
    every: list[Limit | Objective] = [*problem.limits, *problem.objectives]
    for asked in every:
        for loss in asked.term.losses:
            if loss in ("cost", "amount") and loss not in losses:
                raise InvalidInputError(
                    f"'{loss}' needs to know what outcomes cost: costs={{'false_positive': 1, 'missed_positive': 10}}, with "
                    "'amount' instead of a number for fit(X, y, amounts=...); got no costs."
                )
            if loss not in losses:
                raise unknown_word(asked.said or loss, losses, two="positive" in groups)
        if asked.per is not None and asked.per not in groups:
            raise InvalidInputError(
                f"a limit per {asked.per} needs the {asked.per} of each example: fit(X, y, groups={{'{asked.per}': values}}); "
                f"got {', '.join(groups[3:]) or 'no groups'}."
            )
    problem.check_names(losses, groups)
    used = {name for term in problem.terms for name in (*term.losses, term.given)}
    return [name for name in losses if name in used]


def listed_classes(classes: Array) -> str:
    shown = ", ".join(repr(plain(value)) for value in classes[:10])
    return shown + (", ..." if len(classes) > 10 else "")


_WITHOUT_LABELS = ("answered", "abstained", "predicted_positive")


def deployed_outcomes(
    probabilities: FloatArray, y: Any, classes: Array, positive: int, config: Mapping[str, Any]
) -> dict[str, Array]:
    """Column -> (n,). Where y is None or nan, what needs a label is nan."""
    labels = np.asarray(y, dtype=object).reshape(-1)
    known = ~pd.isna(labels)
    truth = np.zeros(len(labels), dtype=np.int64)
    truth[known] = _positions(np.array(labels[known].tolist()), classes)
    two = len(classes) == 2
    names = [*rule.COMMON, *(rule.TWO_CLASSES if two else ())]
    thresholds = [config["threshold"]] if "threshold" in config else None
    found: dict[str, Array] = {
        name: values[0] if name in _WITHOUT_LABELS else np.where(known, values[0], np.nan)
        for name, values in rule.outcomes(
            probabilities, truth, thresholds, [config["abstain"]], positive, names
        ).items()
    }
    found["label"] = labels
    if two:
        found["positive"] = np.where(known, truth == positive, np.nan)
        found["negative"] = np.where(known, truth != positive, np.nan)
    return found
