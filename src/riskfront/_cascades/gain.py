"""LearntGain: what a dearer model would add to the score, and what it would cost more, learnt on examples set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from riskfront._cascades import features as columns
from riskfront._cascades import learners
from riskfront._cascades.comparison import compare, price_levels
from riskfront._cascades.confidence import same_for_all
from riskfront._data.logs.runs import Runs
from riskfront._support.arrays import FloatArray
from riskfront._support.values import known as known_name
from riskfront.errors import InvalidInputError

PRICES = ("cost", "cost_usd", "total_cost", "price")
LEARNERS = ("linear", "boosted")
_LEAST_FOR_TREES = 500  # learning examples; with fewer, trees lose to a line and take their time
_MOST_STARTS = 20  # models that a cascade may begin with: the cheapest


def price_column(runs: Runs) -> str | None:
    """The column of prices, if models differ in it."""
    for name in PRICES:
        if name in runs.values:
            with np.errstate(invalid="ignore"):
                known = ~np.isnan(runs.values[name])
                means = [
                    float(row[mask].mean()) for row, mask in zip(runs.values[name], known, strict=True) if mask.any()
                ]
            return name if len(means) == len(runs) and len(set(means)) > 1 else None
    return None


@dataclass(frozen=True, slots=True)
class LearntGain:
    """The predicted score and price of every model, and so the gain a dollar of each over a cheaper one.

    A prompt goes to the model whose predicted score is best once ``level`` times its predicted price is taken off: a dearer
    model gets it exactly if it is predicted to add at least ``level`` of score for each unit of price. The levels are the
    thresholds that are certified. A cascade asks one model first and decides with what its answer says of itself.

    Everything is learnt by cross-fitting on examples that are set aside: predictions that choose the learner, the penalty and
    the levels are those of fits that did not see the example.

    Args:
        features: columns of the runs. Without any, all that are known before a call (numbers, levels, texts as hashed words,
            vectors such as embeddings), and for a cascade what an answer says of itself; never gold labels or outcomes.
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

    # ---------------------------------------------------------------- what was learnt

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
        """The gains a unit of price that are offered as thresholds, with this model asked first."""
        return list(self.fitted["levels"][start or ""])

    def chain(self, start: str | None) -> list[str]:
        """The order of the models: the one asked first, then the others by price."""
        return self.models if start is None else [start, *(name for name in self.models if name != start)]

    # ---------------------------------------------------------------- learning

    def fit(self, runs: Runs, score: str, *, kind: str, levels: int | Sequence[float] = 20) -> LearntGain:
        """Learn from these runs, which must not be planned or tested on."""
        before, after, left_out = self._columns(runs, score, kind)
        price = self._price(runs)
        order = np.argsort(np.nanmean(runs.value(price), axis=1), kind="stable")
        runs = runs.only([runs.names[row] for row in order])
        scores, prices = _known_scores(runs.value(score)), _known_prices(runs.value(price))
        known = columns.of_examples(runs, before)
        encoder = columns.learn_encoder(known)
        dense, words = _encoded(encoder, known, runs.n_examples)
        matrix = {"linear": columns.joined(dense, words), "boosted": dense}
        fitted_prices, guessed_prices = learners.fit_linear(matrix["linear"], prices)
        bounds = np.stack([prices.min(axis=1), prices.max(axis=1)], axis=1)
        guessed_prices = np.clip(guessed_prices, bounds[:, :1], bounds[:, 1:])
        found: dict[str, Any] = {}
        for name in self._learners(runs.n_examples):
            fit = learners.fit_linear if name == "linear" else learners.fit_boosted
            fitted, guesses = fit(matrix[name], scores)
            found[name] = {"scores": fitted, "guesses": guesses, "after": {}}
            if kind == "cascade":
                for row, model in enumerate(runs.names[:_MOST_STARTS]):
                    found[name]["after"][model] = _fit_after(runs, row, after, scores, guesses, name)
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

    # ---------------------------------------------------------------- predictions

    def before(self, known: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
        """(models, n) scores and prices, predicted from what is known of n prompts."""
        n = len(next(iter(known.values()))) if known else 1
        dense, words = _encoded(self.fitted["before"], known, n)
        full = columns.joined(dense, words)
        scores = learners.predict(self.fitted["scores"], full if self.fitted["learner"] == "linear" else dense)
        bounds = np.asarray(self.fitted["price_bounds"])
        prices = np.clip(learners.predict(self.fitted["prices"], full), bounds[:, :1], bounds[:, 1:])
        return np.clip(scores, *self.fitted["score_bounds"]), prices

    def after(self, start: str, scores: FloatArray, said: Mapping[str, Any]) -> FloatArray:
        """(models, n) scores, once a model has answered and said this of its answers; nan where something is missing."""
        part = self.fitted["after"][start]
        row = self.models.index(start)
        matrix = _after_matrix(part["encoder"], said, scores, row)
        found = scores.copy()
        if "boosted" in part["scores"]:
            found[row] = learners.predict(part["scores"], matrix)[0]
        else:
            found = learners.predict(part["scores"], matrix)
        found = np.clip(found, *self.fitted["score_bounds"])
        lacks = np.zeros(scores.shape[1], dtype=bool)
        for name in part["encoder"]:
            lacks |= ~np.isfinite(np.asarray(said[name], dtype=np.float64))
        return np.asarray(np.where(lacks, np.nan, found))

    def known_of(self, runs: Runs) -> dict[str, Any]:
        """What a route rests on before any call, of all prompts of some runs."""
        return columns.of_examples(runs, list(self.fitted["before"]))

    def said_by(self, runs: Runs, start: str) -> dict[str, Any]:
        """What all answers of a model say of themselves."""
        return {name: runs.value(name)[runs.row(start)] for name in self.fitted["after"][start]["encoder"]}

    # ---------------------------------------------------------------- files

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


def _known_prices(values: FloatArray) -> FloatArray:
    return np.where(np.isnan(values), np.nanmean(values, axis=1, keepdims=True), values)


def _encoded(encoder: Mapping[str, Any], known: Mapping[str, Any], n: int) -> tuple[FloatArray, FloatArray]:
    return columns.encode(encoder, known) if encoder else (np.zeros((n, 0)), np.zeros((n, 0)))


def _fit_after(
    runs: Runs, row: int, names: Sequence[str], scores: FloatArray, guesses: FloatArray, learner: str
) -> dict[str, Any]:
    """What an answer of a model adds to what the prompt says; boosted trees learn the score of that model alone."""
    said = {name: runs.value(name)[row] for name in names}
    encoder = columns.learn_encoder(said)
    matrix = _after_matrix(encoder, said, guesses, row)
    if learner == "linear":
        fitted, found = learners.fit_linear(matrix, scores)
    else:
        fitted, own = learners.fit_boosted(matrix, scores[row : row + 1])
        found = guesses.copy()
        found[row] = own[0]
    return {"encoder": encoder, "scores": fitted, "guesses": found}


def _after_matrix(encoder: Mapping[str, Any], said: Mapping[str, Any], scores: FloatArray, row: int) -> FloatArray:
    """(n, columns): predicted scores of all models, what the answer says, and the products of that with its own score."""
    dense, _ = _encoded(encoder, said, scores.shape[1])
    return np.ascontiguousarray(np.concatenate([scores.T, dense, dense * scores[row][:, None]], axis=1))
