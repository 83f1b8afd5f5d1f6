"""Two learners of several outputs, fitted by cross-fitting and kept as plain numbers: a linear model and boosted trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray

_PENALTIES = np.geomspace(0.3, 3000, 9)
_FOLDS, _FOLDS_OF_TREES = 5, 3
_ROWS = 2048  # predicted at once: a row is computed alone whatever the block
_TREES = {"max_iter": 40, "learning_rate": 0.06, "max_leaf_nodes": 8, "early_stopping": False}


def folds(n: int, parts: int = _FOLDS) -> IntArray:
    """(n,): which of some parts each learning example belongs to."""
    return np.arange(n) % min(parts, max(n, 1))


# -------------------------------------------------------------------- linear


def fit_linear(x: FloatArray, y: FloatArray) -> tuple[dict[str, Any], FloatArray]:
    """Ridge regression of y (outputs, n) on x (n, columns), and (outputs, n) predicted by fits without the example.

    The penalty is the one with the smallest squared error of these predictions.
    """
    part = folds(len(x))
    unit = np.maximum(y.std(axis=1, keepdims=True), 1e-12)
    guesses = np.empty((len(_PENALTIES), *y.shape))
    for fold in np.unique(part):
        learn = part != fold if len(x) > 1 else part == fold
        for row, (coefficients, start) in enumerate(_ridge(x[learn], y[:, learn], _PENALTIES)):
            guesses[row][:, ~learn] = start[:, None] + coefficients @ x[~learn].T
            if not (~learn).any():
                guesses[row] = start[:, None]
    errors = (((guesses - y) / unit) ** 2).mean(axis=(1, 2))
    best = int(np.argmin(errors))
    coefficients, start = next(iter(_ridge(x, y, _PENALTIES[best : best + 1])))
    fitted = {"linear": {"penalty": float(_PENALTIES[best]), "start": start.tolist(), "weights": coefficients.tolist()}}
    return fitted, guesses[best]


def _ridge(x: FloatArray, y: FloatArray, penalties: FloatArray) -> Any:
    """(weights (outputs, columns), start (outputs,)) for each penalty, from one decomposition."""
    mean, level = x.mean(axis=0), y.mean(axis=1)
    z, target = x - mean, (y - level[:, None]).T
    short = len(z) <= z.shape[1]
    values, vectors = np.linalg.eigh(z @ z.T if short else z.T @ z)
    inner = vectors.T @ (target if short else z.T @ target)
    for penalty in penalties:
        solved = vectors @ (inner / (np.maximum(values, 0.0) + penalty)[:, None])
        weights = ((z.T @ solved) if short else solved).T
        yield weights, level - weights @ mean


# -------------------------------------------------------------------- boosted trees


def fit_boosted(x: FloatArray, y: FloatArray) -> tuple[dict[str, Any], FloatArray]:
    """Boosted regression trees, one ensemble an output; predictions as for ``fit_linear``."""
    part, guesses = folds(len(x), _FOLDS_OF_TREES), np.empty(y.shape)
    for fold in np.unique(part):
        out = part == fold
        learn = ~out if (~out).any() else out
        for row in range(len(y)):
            guesses[row, out] = _trees_at(_grow(x[learn], y[row, learn]), x[out])
    return {"boosted": [_grow(x, target) for target in y]}, guesses


def _grow(x: FloatArray, y: FloatArray) -> dict[str, Any]:
    """The trees as lists: for every node its column, threshold, children and value; a leaf is its own child."""
    if x.shape[1] == 0 or np.ptp(y) == 0:
        return {"start": float(y.mean()), "trees": []}
    from sklearn.ensemble import HistGradientBoostingRegressor

    least = int(np.clip(len(x) // 20, 5, 40))
    model = HistGradientBoostingRegressor(min_samples_leaf=least, **_TREES).fit(x, y)
    trees = []
    for (tree,) in model._predictors:
        nodes, leaf = tree.nodes, tree.nodes["is_leaf"].astype(bool)
        own = np.arange(len(nodes))
        trees.append(
            {
                "column": np.where(leaf, 0, nodes["feature_idx"]).tolist(),
                "threshold": np.where(leaf, 0.0, nodes["num_threshold"]).tolist(),
                "left": np.where(leaf, own, nodes["left"]).tolist(),
                "right": np.where(leaf, own, nodes["right"]).tolist(),
                "value": np.where(leaf, nodes["value"], 0.0).tolist(),
            }
        )
    return {"start": float(np.ravel(model._baseline_prediction)[0]), "trees": trees}


def _trees_at(ensemble: Mapping[str, Any], x: FloatArray) -> FloatArray:
    """(n,): the sum of the leaves that each row falls into."""
    total = np.full(len(x), ensemble["start"])
    rows = np.arange(len(x))
    for tree in ensemble["trees"]:
        column, threshold, left, right = (np.asarray(tree[name]) for name in ("column", "threshold", "left", "right"))
        at = np.zeros(len(x), dtype=np.int64)
        while True:
            below = np.where(x[rows, column[at]] <= threshold[at], left[at], right[at])
            if (below == at).all():
                break
            at = below
        total = total + np.asarray(tree["value"])[at]
    return np.asarray(total)


# -------------------------------------------------------------------- both


def predict(fitted: Mapping[str, Any], x: FloatArray) -> FloatArray:
    """(outputs, n): the same numbers for a row alone as in a matrix."""
    if "boosted" in fitted:
        return np.stack([_trees_at(ensemble, x) for ensemble in fitted["boosted"]])
    weights, start = np.asarray(fitted["linear"]["weights"]), np.asarray(fitted["linear"]["start"])
    found = np.empty((len(weights), len(x)))
    for first in range(0, len(x), _ROWS):
        block = np.ascontiguousarray(x[first : first + _ROWS])
        for row, weight in enumerate(weights):
            # not a matrix product, whose last digits depend on how many rows there are
            found[row, first : first + _ROWS] = start[row] + (block * weight).sum(axis=1)
    return found
