"""Whether examples to calibrate on are those that a model was trained on, where the model itself shows it.

Five kinds of models show it: those that keep their training rows (neighbours, support vectors, Gaussian processes), trees
that count how many training rows reached each leaf, scalers that keep their means, linear models, whose fit solves
equations that only its own training rows fulfil, and isotonic calibration, whose probabilities are shares of them. Other
models, and a part of the training rows, cannot be recognised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats
from sklearn.frozen import FrozenEstimator

from riskfront._data.identity.fingerprints import ExampleFingerprints
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray
from riskfront.errors import DependentRowsWarning, InvalidInputError

_KEPT = ("_fit_X", "support_vectors_", "X_train_")
_LEAST_ROWS, _LEAST_SHARE = 20, 0.1
_MOST_TREES = 5
_SELDOM = 1e-3
_SOLVED = 0.02  # of a standard deviation of the sum, of which other examples are off by about one


def refuse_training_rows(model: Any, X: Any, y: Any) -> None:
    """Raise an error where the model was trained on these examples; nothing where that cannot be recognised."""
    found = None
    with suppress(Exception):  # foreign models: whatever they do not have shows nothing
        found = _how_known(model, X, y)
    if found is not None:
        raise InvalidInputError(
            f"calibration examples must be others than the model was trained on; {found}. On rows that a model has seen it is "
            "right more often than on new ones. Hold examples back for calibration, or give a model that is not fitted and "
            "train_fraction."
        )


def _how_known(model: Any, X: Any, y: Any) -> str | None:
    if y is not None and _says_their_shares(model, X, np.asarray(y)):
        return "each of its calibrated probabilities is exactly the share of positives among the examples that have it"
    for one, rows in _steps(model, X):
        if len(rows) < _LEAST_ROWS:
            return None
        name = type(one).__name__
        if (share := _share_kept(one, rows)) >= _LEAST_SHARE:
            return f"{name} keeps its training rows, and {share:.0%} of these examples are among them"
        if _fills_every_leaf(one, rows):
            return f"as many of these examples reach each leaf of {name} as training rows did"
        if _has_these_means(one, rows):
            return f"{name} keeps the means of its training rows, and they are those of these examples"
        if y is not None and _solves_its_equations(one, rows, np.asarray(y)):
            return f"the equations that {name} solves on its training rows hold on these examples"
    return None


def _steps(model: Any, X: Any) -> Iterable[tuple[Any, Array]]:
    """Each fitted part of a model, and the rows that it gets: the steps of a pipeline, what a wrapper wraps."""
    while isinstance(model, FrozenEstimator):
        model = model.estimator
    if not hasattr(model, "steps"):
        yield model, _array(X)
        return
    for _, step in model.steps[:-1]:
        if hasattr(step, "transform"):
            with suppress(Exception):
                yield step, _array(X)
            X = step.transform(X)
    yield from _steps(model.steps[-1][1], X)


def _array(X: Any) -> Array:
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    return rows.reshape(len(rows), -1)


def _share_kept(model: Any, rows: Array) -> float:
    """The share of the rows that the model keeps as training rows; 0 where rows hold so little that they come by chance."""
    kept = next((getattr(model, name) for name in _KEPT if getattr(model, name, None) is not None), None)
    if kept is None:
        return 0.0
    kept = _array(kept)
    dtype = np.float32 if kept.dtype == np.float32 else np.float64
    both = ExampleFingerprints.of(np.concatenate([rows.astype(dtype), kept.astype(dtype)]))
    mine = ExampleFingerprints.of(rows.astype(dtype))
    if both is None or mine is None or not mine.are_rich:
        return 0.0
    return float(np.isin(both.numbers[: len(rows)], both.numbers[len(rows) :]).mean())


def _fills_every_leaf(model: Any, rows: Array) -> bool:
    """Whether each leaf of each tree gets at least as many rows as it had training rows, and there are many leaves."""
    trees = [model] if hasattr(model, "tree_") else list(np.ravel(getattr(model, "estimators_", [])))
    trees = [tree for tree in trees[:_MOST_TREES] if hasattr(tree, "tree_")]
    if not trees or sum(tree.get_n_leaves() for tree in trees) < _LEAST_ROWS:
        return False
    for tree in trees:
        leaf = tree.tree_.children_left == -1
        reached = np.bincount(tree.apply(rows), minlength=tree.tree_.node_count)
        if (reached[leaf] < tree.tree_.n_node_samples[leaf]).any():
            return False
    return True


def _has_these_means(model: Any, rows: Array) -> bool:
    means, seen = getattr(model, "mean_", None), getattr(model, "n_samples_seen_", None)
    if means is None or seen is None or int(np.max(seen)) != len(rows):
        return False
    numbers = rows.astype(np.float64)
    varying = numbers.std(axis=0) > 0
    off = np.abs(numbers.mean(axis=0) - means)
    return bool(varying.any() and (off[varying] <= 1e-9 * numbers.std(axis=0)[varying]).all())


def _solves_its_equations(model: Any, rows: Array, y: Array) -> bool:
    """Whether the gradient of a linear model's training loss is 0, beside how far it is off on other examples."""
    if not (hasattr(model, "coef_") and hasattr(model, "intercept_")) or np.ndim(model.coef_) > 2:
        return False
    kind, coef = type(model).__name__, np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    numbers = np.asarray(rows, dtype=np.float64)
    penalty = np.zeros_like(coef)
    if kind == "LogisticRegression":
        scores = model.decision_function(rows)
        classes = np.asarray(model.classes_)
        if len(classes) == 2:
            residual = (special.expit(scores) - (y == classes[1]))[None, :]
        else:
            residual = (special.softmax(scores, axis=1) - (y[:, None] == classes)).T
        penalty = coef / model.C
    elif kind in ("LinearRegression", "Ridge"):
        residual = np.atleast_2d((model.predict(rows) - y).T)
        penalty = (model.alpha if kind == "Ridge" else 0.0) * coef
    else:
        return False
    sums, spread = _equations(residual, numbers, penalty)
    # of one feature there are two equations, which other examples fulfil by chance more often than three
    solved = _SOLVED if sums.size > 2 else _SOLVED / 10
    return sums.size >= 2 and bool((np.abs(sums) <= solved * spread).all())


def _says_their_shares(model: Any, X: Any, y: Array) -> bool:
    """Whether ``CalibratedClassifierCV`` says probabilities that are exactly what came true among these rows, by isotonic
    regression on them; other rows agree in all probabilities with a chance of one in a thousand at most, mostly far less."""
    while isinstance(model, FrozenEstimator):
        model = model.estimator
    if not hasattr(model, "calibrated_classifiers_") or len(model.classes_) != 2:
        return False
    said, of_each = np.unique(np.asarray(model.predict_proba(X))[:, 1].round(9), return_inverse=True)
    rows = np.bincount(of_each)
    positive = np.bincount(of_each, y == model.classes_[1])
    chance = np.prod(stats.binom.pmf(positive, rows, said))
    return bool((np.abs(positive / rows - said) < 1e-6).all() and chance < _SELDOM)


def _equations(residual: FloatArray, numbers: FloatArray, penalty: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each output and feature, the sum that is 0 on training rows, and by how much it varies from sample to sample."""
    with_constant = np.column_stack([numbers, np.ones(len(numbers))])
    sums = residual @ with_constant
    sums[:, :-1] += penalty
    spread = np.sqrt(np.square(residual) @ np.square(with_constant))
    kept = spread > 0
    return sums[kept], spread[kept]


_LEAST_NEIGHBOURS, _LAGS, _CLEARLY = 100, (1, 5, 25), 5.0


def warn_of_dependent_rows(table: LossTable, problem: Problem, y: Any) -> None:
    """Warn where losses of neighbouring rows are so alike that independent rows would be so once in a million files.

    Where the file is sorted by class, losses are compared within each class. No result depends on the warning.
    """
    limit = problem.limits[0]
    if table.n_examples < _LEAST_NEIGHBOURS or limit.loss not in table.loss_names:
        return
    loss = pd.Series(np.asarray(table.losses(limit.loss), dtype=np.float64).mean(axis=0))
    if is_sorted(np.asarray(y), len(loss)):
        ranks = loss.groupby(np.asarray(y)).rank(pct=True)
        ranks = ranks - ranks.groupby(np.asarray(y)).transform("mean")
    else:
        ranks = loss.rank(pct=True)
    z = resemblance(ranks.to_numpy())  # of ranks, so that single large values do not decide
    if z > _CLEARLY:
        warnings.warn(
            f"neighbouring rows are alike: their '{limit.name}' goes together {z:.0f} standard errors more than that of "
            "independent rows. A limit is proven for independent rows only. Of rows in time order, or several of one person, "
            "say which belong together: fit(X, y, clusters=day). If the file is only sorted, shuffle it to be sure.",
            DependentRowsWarning,
            stacklevel=5,
        )


def is_sorted(y: Array, n: int) -> bool:
    """Whether rows come class by class."""
    if y.shape != (n,) or y.dtype.kind not in "biuOUS":
        return False
    return int(np.count_nonzero(y[1:] != y[:-1])) < 2 * len(np.unique(y)) <= n / 10


def resemblance(values: FloatArray) -> float:
    """How far the autocorrelation is above 0, in standard errors: the largest over sums of the first 1, 5 and 25 lags.

    Among independent rows each is about standard normal.
    """
    n, centred = len(values), np.asarray(values, dtype=np.float64)
    centred = centred - centred.mean()
    total = float(centred @ centred)
    if total <= 1e-18 * float(values @ values):  # all equal, up to rounding
        return 0.0
    at = [float(centred[:-lag] @ centred[lag:]) / total for lag in range(1, max(_LAGS) + 1)]
    return max(sum(at[:lags]) * np.sqrt(n / lags) for lags in _LAGS if lags < n / 4)
