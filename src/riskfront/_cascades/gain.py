"""LearntGain: what a dearer model would add to the score, and what it would cost more, learnt on examples set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from riskfront._calibration.certificates.verdict import PRICES
from riskfront._cascades import features as columns
from riskfront._cascades.comparison import compare, price_levels
from riskfront._cascades.confidence import same_for_all
from riskfront._data.logs.runs import Runs
from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.values import known as known_name
from riskfront.errors import InvalidInputError

LEARNERS = ("linear", "boosted")
_LEAST_FOR_TREES = 500  # learning examples; with fewer, trees lose to a line and take their time
_MOST_STARTS = 20  # models that a cascade may begin with: the cheapest


def price_column(runs: Runs) -> str | None:
    """The column of prices, if models differ in it."""
    name = next((name for name in PRICES if name in runs.values), None)
    if name is None:
        return None
    known = [row[~np.isnan(row)] for row in runs.values[name]]
    return name if all(map(len, known)) and len({float(row.mean()) for row in known}) > 1 else None


@dataclass(frozen=True, slots=True)
class LearntGain:
    """The predicted score and price of every model, and so the gain a dollar of each over a cheaper one.

    A prompt goes to the model whose predicted score is best once ``level`` times its predicted price is taken off: a dearer
    model gets it exactly if it is predicted to add at least ``level`` of score for each unit of price. The levels are the
    thresholds that are certified. A cascade asks one model first and decides by the features of its answer, too.

    Everything is learnt by cross-fitting on examples that are set aside: predictions that choose the learner, the penalty and
    the levels are those of fits that did not see the example.

    Args:
        features: columns of the runs. Without any, all that are known before a call (numbers, levels, texts as hashed words,
            vectors such as embeddings), and for a cascade the features of an answer; never gold labels or outcomes.
        price: the column of prices; found by itself among "cost", "cost_usd", "total_cost" and "price".
        learner: "linear" (ridge regression), "boosted" (trees), or "auto" for the one that does better by cross-fitting; trees
            are tried from 500 learning examples on.
        fitted: plain numbers; empty before ``fit``.

    Examples:
        >>> LearntGain(["task", "prompt"]).learner  # Cascade(runs, confidence=...) and Router fit it
        'auto'
    """

    features: Sequence[str] = ()
    price: str | None = None
    learner: str = "auto"
    fitted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        """All models, the cheapest first."""
        return list(self.fitted["models"])

    @property
    def starts(self) -> list[str | None]:
        """The models that a cascade may begin with; of a router, None."""
        return [None] if self.fitted["kind"] == "router" else list(self.fitted["after"])

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are not learnt from, and why."""
        return dict(self.fitted["left_out"])

    @property
    def comparison(self) -> dict[str, dict[str, float]]:
        """Rule -> drop -> price, relative to the best model, on the examples learnt from, by cross-fitting."""
        return {rule: dict(prices) for rule, prices in self.fitted["comparison"].items()}

    def levels(self, start: str | None) -> list[float]:
        """The thresholds on offer if this model is asked first: gains in score per unit of price."""
        return list(self.fitted["levels"][start or ""])

    def chain(self, start: str | None) -> list[str]:
        """The order of the models: the one asked first, then the others by price."""
        return self.models if start is None else [start, *(name for name in self.models if name != start)]

    def fit(self, runs: Runs, score: str, *, kind: str, levels: int | Sequence[float] = 20) -> LearntGain:
        """Learn from these runs, which must not be planned or tested on."""
        before, after, left_out = self._columns(runs, score, kind)
        price = self._price(runs)
        order = np.argsort(np.nanmean(runs.value(price), axis=1), kind="stable")
        runs = runs.only([runs.names[row] for row in order])
        scores, paid = _known_scores(runs.value(score)), runs.value(price)
        prices = np.where(np.isnan(paid), np.nanmean(paid, axis=1, keepdims=True), paid)
        known = columns.of_examples(runs, before)
        encoder = columns.learn_encoder(known)
        dense, words = columns.encode(encoder, known, runs.n_examples)
        matrix = {"linear": columns.joined(dense, words), "boosted": dense}
        fitted_prices, guessed_prices = fit_linear(matrix["linear"], prices)
        bounds = np.stack([prices.min(axis=1), prices.max(axis=1)], axis=1)
        guessed_prices = np.clip(guessed_prices, bounds[:, :1], bounds[:, 1:])
        found: dict[str, Any] = {}
        starts = list(enumerate(runs.names[:_MOST_STARTS])) if kind == "cascade" else []
        for name in self._learners(runs.n_examples):
            fitted, guesses = (fit_linear if name == "linear" else fit_boosted)(matrix[name], scores)
            own = {model: _fit_after(runs, row, after, scores, guesses, name) for row, model in starts}
            found[name] = {"scores": fitted, "guesses": guesses, "after": own}
        options = {
            name: (one["guesses"], {model: part["guesses"] for model, part in one["after"].items()})
            for name, one in found.items()
        }
        rows, best = compare(kind, options, scores, prices, guessed_prices, runs.names)
        return replace(
            self,
            features=(*before, *after),
            price=price,
            fitted={
                "kind": kind,
                "score": score,
                "models": list(runs.names),
                "learner": best,
                "before": encoder,
                "scores": found[best]["scores"],
                "prices": fitted_prices,
                "price_bounds": bounds.tolist(),
                "score_bounds": [float(scores.min()), float(scores.max())],
                "after": {
                    model: {"encoder": part["encoder"], "scores": part["scores"]}
                    for model, part in found[best]["after"].items()
                },
                "levels": price_levels(kind, options[best], guessed_prices, runs.names, levels),
                "left_out": left_out,
                "comparison": rows,
                "n": runs.n_examples,
            },
        )

    def _columns(self, runs: Runs, score: str, kind: str) -> tuple[list[str], list[str], dict[str, str]]:
        before, after, left_out = columns.choose_columns(runs, answers=kind == "cascade", score=score)
        if not self.features:
            return before, after, left_out
        if score in self.features:
            raise InvalidInputError(
                f"a feature must be known before the outcome; '{score}' is the outcome itself. Leave it out."
            )
        after = [name for name in self.features if name in runs.values and not same_for_all(runs.values[name])]
        if after and kind == "router":
            raise InvalidInputError(
                f"a router decides before any model is called; '{after[0]}' is only known with an answer. Use a Cascade, or "
                "columns of the prompt."
            )
        before = [name for name in self.features if name not in after]
        named = {*map(str, runs.examples.columns), *runs.values} - set(self.features)
        return before, after, {name: left_out.get(name, "not named") for name in sorted(named)}

    def _learners(self, n: int) -> list[str]:
        if self.learner != "auto":
            return [known_name(self.learner, LEARNERS, "learner")]
        return list(LEARNERS) if n >= _LEAST_FOR_TREES else ["linear"]

    def _price(self, runs: Runs) -> str:
        name = self.price or price_column(runs)
        if name is None or name not in runs.values or np.isnan(runs.values[name]).all(axis=1).any():
            raise InvalidInputError(
                "a gain a dollar needs prices, of every model and not the same for all; the runs hold "
                f"{', '.join(runs.values)}. Add prices (runs.priced, --prices), or use LearntConfidence."
            )
        return name

    def before(self, known: Mapping[str, Any], n: int = 1) -> tuple[FloatArray, FloatArray]:
        """(models, n) scores and prices, predicted from what is known of the prompts; n of them if nothing is known."""
        n = len(next(iter(known.values()))) if known else n
        dense, words = columns.encode(self.fitted["before"], known, n)
        full = columns.joined(dense, words)
        scores = predict(self.fitted["scores"], full if self.fitted["learner"] == "linear" else dense)
        bounds = np.asarray(self.fitted["price_bounds"])
        prices = np.clip(predict(self.fitted["prices"], full), bounds[:, :1], bounds[:, 1:])
        return np.clip(scores, *self.fitted["score_bounds"]), prices

    def after(self, start: str, scores: FloatArray, said: Mapping[str, Any]) -> FloatArray:
        """(models, n) scores, predicted from the features of a model's answers; nan where one is missing."""
        part = self.fitted["after"][start]
        row = self.models.index(start)
        found = predict(part["scores"], _after_matrix(part["encoder"], said, scores, row))
        if "boosted" in part["scores"]:  # these predict the score of that model alone
            found = np.concatenate([scores[:row], found, scores[row + 1 :]])
        found = np.clip(found, *self.fitted["score_bounds"])
        lacks = np.zeros(scores.shape[1], dtype=bool)
        for name in part["encoder"]:
            lacks |= ~np.isfinite(np.asarray(said[name], dtype=np.float64))
        return np.asarray(np.where(lacks, np.nan, found))

    def known_of(self, runs: Runs) -> dict[str, Any]:
        """The features of all prompts of some runs that are known before a call."""
        return columns.of_examples(runs, list(self.fitted["before"]))

    def said_by(self, runs: Runs, start: str) -> dict[str, Any]:
        """The features of all answers of a model."""
        return {name: runs.value(name)[runs.row(start)] for name in self.fitted["after"][start]["encoder"]}

    def only(self, start: str | None, level: float) -> LearntGain:
        """What one certified setting needs."""
        after = {name: part for name, part in self.fitted["after"].items() if name == start}
        return replace(self, fitted={**self.fitted, "after": after, "levels": {start or "": [level]}})

    def to_dict(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "price": self.price,
            "learner": self.learner,
            "fitted": dict(self.fitted),
        }


def _known_scores(values: FloatArray) -> FloatArray:
    """Scores with what is missing as the worst that was seen."""
    known = values[~np.isnan(values)]
    return np.where(np.isnan(values), min(float(known.min()), 0.0) if len(known) else 0.0, values)


def _fit_after(
    runs: Runs, row: int, names: Sequence[str], scores: FloatArray, guesses: FloatArray, learner: str
) -> dict[str, Any]:
    """What an answer of a model adds to what the prompt says; boosted trees learn the score of that model alone."""
    said = {name: runs.value(name)[row] for name in names}
    encoder = columns.learn_encoder(said)
    matrix = _after_matrix(encoder, said, guesses, row)
    if learner == "linear":
        fitted, found = fit_linear(matrix, scores)
    else:
        fitted, own = fit_boosted(matrix, scores[row : row + 1])
        found = guesses.copy()
        found[row] = own[0]
    return {"encoder": encoder, "scores": fitted, "guesses": found}


def _after_matrix(encoder: Mapping[str, Any], said: Mapping[str, Any], scores: FloatArray, row: int) -> FloatArray:
    """(n, columns): predicted scores of all models, what the answer says, and the products of that with its own score."""
    dense, _ = columns.encode(encoder, said, scores.shape[1])
    return np.ascontiguousarray(np.concatenate([scores.T, dense, dense * scores[row][:, None]], axis=1))


_PENALTIES = np.geomspace(0.3, 3000, 9)
_FOLDS, _FOLDS_OF_TREES = 5, 3
_ROWS = 2048  # predicted at once: a row is computed alone whatever the block
_TREES = {"max_iter": 40, "learning_rate": 0.06, "max_leaf_nodes": 8, "early_stopping": False}


def folds(n: int, parts: int = _FOLDS) -> IntArray:
    """(n,): which of some parts each learning example belongs to."""
    return np.arange(n) % min(parts, max(n, 1))


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


def fit_boosted(x: FloatArray, y: FloatArray) -> tuple[dict[str, Any], FloatArray]:
    """Boosted regression trees, one ensemble an output; predictions as for ``fit_linear``."""
    import sklearn.ensemble  # noqa: F401 - loads the OpenMP that is limited below
    from threadpoolctl import threadpool_limits

    part, guesses = folds(len(x), _FOLDS_OF_TREES), np.empty(y.shape)
    # trees of so few rows grow no faster on several threads, and on busy cores these wait for each other
    with threadpool_limits(1, user_api="openmp"):
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
