"""When an answer is trusted: a logged number, or one that is learnt from examples that take no further part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront.arrays import BoolArray, FloatArray
from riskfront.errors import InvalidInputError
from riskfront.logs.runs import Runs
from riskfront.losses.values import plain


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


@dataclass(frozen=True, slots=True)
class LearntConfidence:
    """The probability that an answer is right, by a logistic regression a model, learnt on examples set aside for it.

    Args:
        features: columns of the runs: numbers logged with each answer, and numbers or texts known of each example.
        models: model -> its fitted numbers; empty before ``fit``.

    Examples:
        >>> LearntConfidence(["task", "prompt_chars"]).features  # Cascade(runs, confidence=...) fits it
        ['task', 'prompt_chars']
    """

    features: Sequence[str]
    models: Mapping[str, Mapping[str, Any]] = ()  # type: ignore[assignment]

    def fit(self, runs: Runs, score: str) -> LearntConfidence:
        """Learn from these runs, which must not be planned or tested on."""
        from sklearn.linear_model import LogisticRegression

        fitted: dict[str, Mapping[str, Any]] = {}
        for row, name in enumerate(runs.names):
            levels = {f: _levels(runs, f) for f in self.features if _is_text(runs, f)}
            raw = _matrix(self._values(runs, row), levels)
            mean, scale = raw.mean(axis=0), raw.std(axis=0)
            scale = np.where(scale > 0, scale, 1.0)
            right = np.clip(runs.value(score)[row], 0.0, 1.0)
            # a score between 0 and 1 counts as that share of a right answer
            x, y = np.vstack([raw, raw]), np.repeat([1, 0], len(raw))
            weight = np.concatenate([right, 1 - right])
            if right.min() == right.max():
                start, coefficients = (50.0 if right[0] > 0.5 else -50.0), np.zeros(raw.shape[1])
            else:
                model = LogisticRegression(max_iter=1000).fit((x - mean) / scale, y, sample_weight=weight)
                start, coefficients = float(model.intercept_[0]), model.coef_[0]
            numbers = {"mean": mean, "scale": scale, "coefficients": coefficients}
            fitted[name] = {
                "levels": levels,
                "intercept": start,
                **{key: value.tolist() for key, value in numbers.items()},
            }
        return replace(self, models=fitted)

    def of(self, model: str, features: Mapping[str, Any]) -> FloatArray:
        """(n,): the probability that answers of a model with these features are right."""
        fitted = self.models[model]
        missing = [name for name in self.features if features.get(name) is None]
        if missing:
            raise InvalidInputError(
                f"the confidence in '{model}' rests on {', '.join(self.features)}; '{missing[0]}' was not given."
            )
        raw = _matrix({name: np.atleast_1d(features[name]) for name in self.features}, fitted["levels"])
        z = (raw - np.asarray(fitted["mean"])) / np.asarray(fitted["scale"])
        return np.asarray(1 / (1 + np.exp(-(fitted["intercept"] + z @ np.asarray(fitted["coefficients"])))))

    def matrix(self, runs: Runs) -> FloatArray:
        """(runs, examples)."""
        return np.stack([self.of(name, self._values(runs, row)) for row, name in enumerate(runs.names)])

    def features_of(self, runs: Runs, name: str) -> dict[str, Any]:
        """The features of all answers of a run."""
        return self._values(runs, runs.row(name))

    def _values(self, runs: Runs, row: int) -> dict[str, Any]:
        known = {f: runs.values[f][row] if f in runs.values else _of_examples(runs, f) for f in self.features}
        for name, values in known.items():
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise InvalidInputError(f"a feature must have a value for every answer; '{name}' lacks some.")
        return known

    def to_dict(self) -> dict[str, Any]:
        return {"features": list(self.features), "models": dict(self.models)}


def _of_examples(runs: Runs, name: str) -> Any:
    if name not in runs.examples:
        raise InvalidInputError(
            f"a feature must be a column of the runs; there is no '{name}' among {', '.join([*runs.values, *runs.examples])}."
        )
    return runs.examples[name].to_numpy()


def _is_text(runs: Runs, name: str) -> bool:
    return name not in runs.values and _of_examples(runs, name).dtype.kind not in "biuf"


def _levels(runs: Runs, name: str) -> list[str]:
    return sorted({str(plain(value)) for value in _of_examples(runs, name)})


def _matrix(features: Mapping[str, Any], levels: Mapping[str, Sequence[str]]) -> FloatArray:
    """(n, numbers): numbers as they are, texts as one indicator a level; a level never seen has none."""
    columns: list[FloatArray] = []
    for name, values in features.items():
        if name in levels:
            texts = pd.Series(values).astype(str).to_numpy()
            columns += [(texts == level).astype(np.float64) for level in levels[name]]
        else:
            columns.append(np.asarray(values, dtype=np.float64))
    return np.stack(columns, axis=1)


def quantiles(confidence: FloatArray, count: int) -> list[FloatArray]:
    """For each run, at most ``count`` thresholds that split its confidences, (runs, examples), into equal parts."""
    levels = np.arange(1, count + 1) / (count + 1)
    return [np.unique(np.quantile(row, levels)) for row in confidence]


def trusted(confidence: FloatArray, thresholds: Sequence[FloatArray]) -> BoolArray:
    """(all thresholds of all runs + 1, examples): where a run is trusted at a threshold; the last row trusts always."""
    gates = [confidence[row] >= limit for row, limits in enumerate(thresholds) for limit in limits]
    return np.stack([*gates, np.ones(confidence.shape[1], dtype=bool)])
