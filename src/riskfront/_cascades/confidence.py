"""When an answer is trusted: a logged number, or one that is learnt from examples that take no further part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.logs.runs import Runs
from riskfront._support.arrays import BoolArray, FloatArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


def column(runs: Runs, name: str) -> FloatArray:
    """(runs, examples): a number that was logged with each answer, or that is known of each example."""
    if name in runs.values:
        return runs.value(name)
    if name in runs.examples and runs.examples[name].dtype.kind in "iuf":
        return np.tile(runs.examples[name].to_numpy(dtype=np.float64), (len(runs), 1))
    numbers = [*runs.values, *(c for c in runs.examples if runs.examples[c].dtype.kind in "iuf")]
    raise InvalidInputError(
        f"a confidence must be a column of numbers in the runs; there is no '{name}' among {', '.join(map(str, numbers))}. "
        "Log it, or learn it: LearntConfidence([...])."
    )


def matrix(confidence: str | LearntConfidence, runs: Runs) -> FloatArray:
    """(runs, examples): how sure every answer is."""
    return confidence.matrix(runs) if isinstance(confidence, LearntConfidence) else column(runs, confidence)


def known_of_prompts(runs: Runs, confidence: str | LearntConfidence) -> Runs:
    """The runs for a router: what is known of a prompt is known whichever model failed on it."""
    names = confidence.features if isinstance(confidence, LearntConfidence) else [confidence]
    filled = {name: np.tile(first_known(runs.values[name]), (len(runs), 1)) for name in names if name in runs.values}
    return replace(runs, values={**runs.values, **filled})


def same_for_all(values: FloatArray) -> bool:
    """Whether a column, (runs, examples), says the same of an example whichever model it stands beside; what is logged of the
    answers of one model alone is not known of the prompt."""
    known = (~np.isnan(values)).sum(axis=0)
    shared = 2 * (known > 1).sum() >= (known > 0).sum() > 0
    return bool(shared and (np.isnan(values) | (values == first_known(values))).all())


def first_known(values: FloatArray) -> FloatArray:
    """(examples,): of a column, (runs, examples), that says the same whichever model it stands beside."""
    return np.asarray(np.fmax.reduce(values, axis=0))


@dataclass(frozen=True, slots=True)
class LearntConfidence:
    """The probability that an answer is right, by a logistic regression a model, learnt on examples set aside for it.

    Numbers enter as piecewise linear functions, so that the direction and the shape of each are learnt.

    Args:
        features: columns of the runs: numbers logged with each answer, and numbers or texts known of each example.
        models: model -> its fitted numbers; empty before ``fit``.
        of_answers: the features that are known with an answer, each of its own model, and not of the example; found by ``fit``.

    Examples:
        >>> LearntConfidence(["task", "prompt_chars"]).features  # Cascade(runs, confidence=...) fits it
        ['task', 'prompt_chars']
    """

    features: Sequence[str]
    models: Mapping[str, Mapping[str, Any]] = ()  # type: ignore[assignment]
    of_answers: Sequence[str] = ()

    def fit(self, runs: Runs, score: str) -> LearntConfidence:
        """Learn from these runs, which must not be planned or tested on."""
        from sklearn.linear_model import LogisticRegression

        fitted: dict[str, Mapping[str, Any]] = {}
        for row, name in enumerate(runs.names):
            texts = {f: of_example(runs, f) for f in self.features if f not in runs.values}
            levels = {
                f: sorted({str(plain(value)) for value in column})
                for f, column in texts.items()
                if column.dtype.kind not in "biuf"
            }
            known = self._values(runs, row)
            knots = {f: _knots(known[f]) for f in self.features if f not in levels}
            raw = _matrix(known, levels, knots)
            complete = ~np.isnan(raw).any(axis=1)  # of an answer without its features nobody is ever sure
            raw = raw[complete]
            mean, scale = (raw.mean(axis=0), raw.std(axis=0)) if len(raw) else np.zeros((2, raw.shape[1]))
            scale = np.where(scale > 0, scale, 1.0)
            right = np.clip(np.nan_to_num(runs.value(score)[row][complete]), 0.0, 1.0)
            # a score between 0 and 1 counts as that share of a right answer
            x, y = np.vstack([raw, raw]), np.repeat([1, 0], len(raw))
            weight = np.concatenate([right, 1 - right])
            if len(right) == 0 or right.min() == right.max():
                sure = len(right) > 0 and right[0] > 0.5
                start, coefficients = (50.0 if sure else -50.0), np.zeros(raw.shape[1])
            else:
                model = LogisticRegression(max_iter=1000).fit((x - mean) / scale, y, sample_weight=weight)
                start, coefficients = float(model.intercept_[0]), model.coef_[0]
            fitted[name] = {
                "levels": levels,
                "knots": knots,
                "intercept": start,
                "mean": mean.tolist(),
                "scale": scale.tolist(),
                "coefficients": coefficients.tolist(),
            }
        said = [f for f in self.features if f in runs.values and not same_for_all(runs.values[f])]
        return replace(self, models=fitted, of_answers=said)

    def of(self, model: str, features: Mapping[str, Any]) -> FloatArray:
        """(n,): the probability that answers of a model with these features are right; nan where a feature is."""
        fitted = self.models[model]
        missing = [name for name in self.features if features.get(name) is None]
        if missing:
            raise InvalidInputError(
                f"the confidence in '{model}' rests on {', '.join(self.features)}; '{missing[0]}' was not given."
            )
        raw = _matrix(
            {name: np.atleast_1d(features[name]) for name in self.features}, fitted["levels"], fitted["knots"]
        )
        z = (raw - np.asarray(fitted["mean"])) / np.asarray(fitted["scale"])
        # not a matrix product, whose last digits depend on how many answers there are
        logit = fitted["intercept"] + (z * np.asarray(fitted["coefficients"])).sum(axis=1)
        return np.asarray(1 / (1 + np.exp(-logit)))

    def matrix(self, runs: Runs) -> FloatArray:
        """(runs, examples)."""
        return np.stack([self.of(name, self._values(runs, row)) for row, name in enumerate(runs.names)])

    def features_of(self, runs: Runs, name: str) -> dict[str, Any]:
        """The features of all answers of a run."""
        return self._values(runs, runs.row(name))

    def _values(self, runs: Runs, row: int) -> dict[str, Any]:
        return {f: runs.values[f][row] if f in runs.values else of_example(runs, f) for f in self.features}

    def to_dict(self) -> dict[str, Any]:
        return {"features": list(self.features), "models": dict(self.models), "of_answers": list(self.of_answers)}


def of_example(runs: Runs, name: str) -> Any:
    """(examples,): a column that is known of each example."""
    if name not in runs.examples:
        listed = ", ".join([*runs.values, *map(str, runs.examples)])
        raise InvalidInputError(f"a feature must be a column of the runs; there is no '{name}' among {listed}.")
    return runs.examples[name].to_numpy()


def _knots(values: Any) -> list[float]:
    """Three quantiles, above each of which the slope of a number may change."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    return np.unique(np.quantile(numbers, [0.25, 0.5, 0.75])).tolist() if len(numbers) else []


def _matrix(
    features: Mapping[str, Any], levels: Mapping[str, Sequence[str]], knots: Mapping[str, Sequence[float]]
) -> FloatArray:
    """(n, numbers): numbers as they are and by how much they are above each knot, so that more may be better or worse; texts
    as one indicator a level; a level never seen has none."""
    columns: list[FloatArray] = []
    for name, values in features.items():
        if name in levels:
            texts = pd.Series(values).astype(str).to_numpy()
            columns += [(texts == level).astype(np.float64) for level in levels[name]]
        else:
            numbers = numbers_of(name, values)
            columns += [numbers, *(np.maximum(numbers - knot, 0.0) for knot in knots[name])]
    return np.stack(columns, axis=1)


def numbers_of(name: str, values: Any) -> FloatArray:
    """(n,): a feature as numbers; people give it with a request, so that it may be anything."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros((0, 0))
    if numbers.ndim != 1:
        raise InvalidInputError(f"'{name}' must be a number, as in the logs; got {str(next(iter(values)))!r:.60}.")
    return numbers


def quantiles(confidence: FloatArray, count: int) -> list[FloatArray]:
    """For each run, at most ``count`` thresholds that split its confidences, (runs, examples), into equal parts.

    They lie between the confidences that were seen: one that is computed alone may be rounded otherwise than in a matrix.
    """
    levels = np.arange(1, count + 1) / (count + 1)
    known = [row[np.isfinite(row)] for row in confidence]
    return [_between(np.quantile(row, levels), row) if len(row) else row for row in known]


def _between(thresholds: FloatArray, seen: FloatArray) -> FloatArray:
    """Thresholds, each moved down to half of its way to the next value that is smaller than all it keeps."""
    values = np.unique(seen)
    values = values[np.append(True, np.diff(values) > 1e-9 * np.ptp(values))]  # others differ by rounding
    first = values[0] - (values[1] - values[0] if len(values) > 1 else 1.0)
    values = np.concatenate([[first], values])
    above = np.clip(np.searchsorted(values, thresholds - 1e-9 * np.ptp(values)), 1, len(values) - 1)
    return np.unique((values[above] + values[above - 1]) / 2)


def trusted(confidence: FloatArray, thresholds: Sequence[FloatArray]) -> BoolArray:
    """(all thresholds of all runs + 1, examples): where a run is trusted at a threshold, never where its confidence is
    missing; the last row trusts always."""
    gates = [confidence[row] >= limit for row, limits in enumerate(thresholds) for limit in limits]
    return np.stack([*gates, np.ones(confidence.shape[1], dtype=bool)])


def must_be_known(confidence: FloatArray, name: str) -> None:
    """A confidence that no answer has decides nothing."""
    if np.isnan(confidence).all():
        raise InvalidInputError(f"the confidence '{name}' must be known for some answers; all lack it.")
