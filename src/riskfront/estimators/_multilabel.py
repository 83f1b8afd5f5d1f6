"""RiskControlledMultiLabel: the thresholds of a fitted model of many labels, chosen under limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, indexable
from sklearn.utils.validation import check_is_fitted

from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.problem_fit import check_fit
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, BoolArray, FloatArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.estimators import _decision_thresholds as rule
from riskfront.estimators._calibration_examples import Examples
from riskfront.estimators._known_order import is_on_mean
from riskfront.estimators._risk_controlled import CalibratedModel, Limits, Objectives
from riskfront.methods import Method, OrderedKnob

_OUTCOMES = ("recall", "missed", "missed_any", "precision", "labels", "false_labels")
_LEVEL, _PLANNING_SHARE, _FEW = "found", 0.3, 10
_RISE = {"missed": 1, "missed_any": 1, "recall": -1}  # with the threshold


class RiskControlledMultiLabel(ClassifierMixin, CalibratedModel):  # type: ignore[misc]  # scikit-learn has no types
    """A fitted model of labels that do not exclude each other, whose threshold keeps limits with probability at
    least 1 - delta.

    ``fit(X, y)`` calibrates on examples that the model was not trained on, and asks the model once. A label is given where its
    probability is at least a threshold: the same for all labels, or with ``per_label`` one for each. Limits and objectives may
    name, for each example:

    - ``recall``: the share of its true labels that are given, 1 where it has none; ``missed``: one minus that; ``missed_any``:
      whether any is missed;
    - ``precision``: the share of given labels that are true, 1 where none is given;
    - ``labels``: how many are given; ``false_labels``: how many of them are wrong. Both as objectives only;
    - "recall >= 0.8 per label": of every single label, the share of examples with that label that are given it. All labels
      together keep it with probability at least 1 - delta.

    A lower threshold gives every label that a higher one gives: limits on recall and on what is missed are tested
    from the lowest threshold on, on all examples. Where precision is limited, some examples plan ("pareto-testing").

    With ``per_label``, some of the examples plan: they say for each label which threshold finds a given share of its
    examples, from 99.9 % down to 1 %. The others test these lists of thresholds, from the one that finds most on; thresholds
    only rise along it, so the same limits have a known order. Rare labels, which a common threshold serves badly, gain most.

    Args:
        estimator: a fitted model with ``predict_proba`` that returns (n, labels), or a list with (n, 2) for each label, as
            scikit-learn's forests and ``MultiOutputClassifier`` do.
        limits: one or several limits, or texts such as "recall >= 0.8".
        minimize: objectives to make small. Where neither this nor ``maximize`` names any: few labels, or under a limit on
            precision much recall.
        maximize: objectives to make large.
        delta: the probability with which some limit may be broken.
        method: a calibration method or its name; "auto" as said above.
        thresholds: those to choose from, in (0, 1); by default 207 fixed numbers from 0.001 to 0.999. Not with ``per_label``.
        per_label: choose a threshold for each label.
        train_fraction: a model that is not fitted is refused unless this share of the examples is given to train a copy of it.
        repeats: what to do with copies of examples, as in ``RiskControlledClassifier``.
        random_state: of the split where a method plans, and of ``train_fraction``.

    Attributes:
        certificate_: the certificate; false when nothing could be certified.
        config_: {"threshold": ...}, or with ``per_label`` {"found": ..., "threshold 0": ..., "threshold 1": ...}, where
            ``found`` is the share that the planning examples said; None when nothing could be certified. Then
            ``predict`` raises NotCertifiedError.
        estimator_: the model.

    Examples:
        >>> from sklearn.datasets import make_multilabel_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.multiclass import OneVsRestClassifier
        >>> X, y = make_multilabel_classification(4000, n_classes=6, random_state=0)
        >>> model = OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(X[:1000], y[:1000])
        >>> safe = RiskControlledMultiLabel(model, limits="recall >= 80 %").fit(X[1000:2000], y[1000:2000])
        >>> safe.certificate_.verdict()
        'With 90 % confidence, recall stays at or above 80 %.'
        >>> safe.predict(X[2000:]).shape
        (2000, 6)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        limits: Limits = "recall >= 0.8",
        minimize: Objectives | None = None,
        maximize: Objectives = (),
        delta: float = 0.1,
        method: str | Method = "auto",
        thresholds: npt.ArrayLike | None = None,
        per_label: bool = False,
        train_fraction: float | None = None,
        repeats: Repeats = "refuse",
        random_state: Any = 0,
    ) -> None:
        super().__init__(estimator, limits, minimize, maximize, delta, method, train_fraction, repeats, random_state)
        self.thresholds = thresholds
        self.per_label = per_label

    def fit(
        self, X: Any, y: Any, groups: Any = None, clusters: Any = None, **metadata: Any
    ) -> RiskControlledMultiLabel:
        """Choose the thresholds on (X, y), examples that the model was not trained on.

        Args:
            X: the examples. y: (n, labels) of 0 and 1. groups: those that limits may name with ``per``.
            clusters: (n,) values that say which rows belong together, such as the day or the patient. Rows of one cluster are
                averaged to one, and limits speak of the mean over clusters.
        """
        return self._calibrated(X, y, metadata, groups=groups, clusters=clusters)

    def _prepared(
        self, X: Any, y: Any, method: str | Method, groups: Any = None, clusters: Any = None
    ) -> tuple[Any, LossTable, Problem, int, str | Method]:
        problem, seed = self._problem(), self._seed()
        X, y = indexable(X, _checked_labels(y))
        check_consistent_length(X, y)
        if self.per_label and (self.thresholds is not None or clusters is not None or self.method != "auto"):
            raise InvalidInputError(
                "per_label chooses thresholds and their order itself; leave out thresholds, clusters and method."
            )
        model, kept = self._model(seed, Examples.of(X, y, groups, self.repeats, clusters=clusters))
        values = label_values(model, kept.y)
        problem = _of_single_labels(problem, len(values))
        if self.per_label:
            plan, kept = _divided(kept, seed)
            levels, tried = _lists_of_thresholds(scores_of(model, plan.X), _is_given(plan.y, values))
            settings: list[dict[str, float]] = [
                {_LEVEL: level, **{f"threshold {at}": float(one) for at, one in enumerate(row)}}
                for level, row in zip(levels, tried, strict=True)
            ]
            order = {_LEVEL: "high"}
        else:
            chosen = rule.numbers("thresholds", self.thresholds, _THRESHOLDS, open_=True)
            settings, order = [{"threshold": one} for one in chosen], {"threshold": "low"}
            tried = np.repeat(np.asarray(chosen)[:, None], len(values), axis=1)
        table = _table(scores_of(model, kept.X), kept, problem, settings, tried, values)
        check_fit(problem, table)
        if method == "auto":
            method = OrderedKnob(safest=order) if _lowest_is_safest(problem) else "pareto-testing"
        self._settings, self._tried, self._values, self._planned = settings, tried, values, seed
        return model, table, problem, seed, method

    def _frontier_method(self, alphas: Mapping[str, Sequence[float]]) -> str | Method:
        """One order serves all values of one limit; several limits need a plan."""
        return self.method if len(alphas) == 1 else super()._frontier_method(alphas)

    def loss_table(self, X: Any, y: Any, groups: Any = None, clusters: Any = None) -> LossTable:
        """What every setting loses on every example: the table that ``fit`` calibrates on, say to verify its certificate."""
        check_is_fitted(self, "certificate_")
        given = Examples.of(X, _checked_labels(y), groups, self.repeats, clusters=clusters)
        if _LEVEL in self._settings[0]:
            given = _divided(given, self._planned)[1]
        problem = self.certificate_.problem
        return _table(scores_of(self.estimator_, given.X), given, problem, self._settings, self._tried, self._values)

    def predict(self, X: Any) -> Array:
        """(n, labels) of 0 and 1: the labels that are given. In other classes where the model has other two for a label."""
        config = self._certified_config()
        at = [
            config["threshold"] if "threshold" in config else config[f"threshold {k}"] for k in range(len(self._values))
        ]
        given = _given(scores_of(self.estimator_, X), np.asarray(at))
        return np.stack([pair[column.astype(int)] for pair, column in zip(self._values, given.T, strict=True)], axis=1)

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, labels): the model's probabilities, unchanged."""
        check_is_fitted(self, "certificate_")
        return scores_of(self.estimator_, X)

    def _problem(self) -> Problem:
        small, large = self.minimize, self.maximize
        if not small and not large:
            asked = Problem(self.limits, "labels", delta=self.delta)
            by_precision = any(limit.loss == "precision" for limit in asked.limits)
            small, large = ((), "recall") if by_precision else ("labels", ())
        return Problem(self.limits, small or (), large, delta=self.delta)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label, tags.classifier_tags.multi_class = True, False
        tags.target_tags.single_output, tags.target_tags.multi_output = False, True
        return tags


_THRESHOLDS = (
    *(round(0.001 * step, 3) for step in range(1, 10)),
    *(round(0.005 * step, 3) for step in range(2, 199)),
    0.999,
)


def scores_of(model: Any, X: Any) -> FloatArray:
    """(n, labels): the probability of each label."""
    if not hasattr(model, "predict_proba"):
        raise InvalidInputError(f"estimator must have predict_proba; got {type(model).__name__}, which has none.")
    found = model.predict_proba(X)
    if isinstance(found, list):
        found = np.stack([np.asarray(one)[:, 1] for one in found], axis=1)
    scores = np.asarray(found)
    if (
        scores.ndim != 2
        or not np.isfinite(scores).all()
        or scores.min(initial=0) < -1e-3
        or scores.max(initial=0) > 1.001
    ):
        raise InvalidInputError(
            f"predict_proba must return a probability for each example and label; got shape {scores.shape}, or numbers outside "
            "of 0 to 1."
        )
    return scores


def _given(scores: FloatArray, thresholds: FloatArray) -> BoolArray:
    """(n, labels): where each label's score reaches its threshold."""
    return np.asarray(scores >= rule.below(thresholds, rule.rounding_of(scores)))


def _divided(examples: Examples, seed: int) -> tuple[Examples, Examples]:
    """Those that plan the thresholds of each label, and those that test."""
    plan, rest = examples.split(_PLANNING_SHARE, seed)
    return plan, replace(
        rest, notes=(*rest.notes, f"{len(plan):,} other examples planned the thresholds of each label.")
    )


def label_values(model: Any, y: Array) -> list[Array]:
    """For each label, the two classes that say no and yes: 0 and 1, unless the model has others for it."""
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list) and len(classes) == y.shape[1] and all(len(pair) == 2 for pair in classes):
        return [np.asarray(pair) for pair in classes]
    return [np.array([0, 1])] * y.shape[1]


def _is_given(y: Array, values: list[Array]) -> BoolArray:
    for column, pair in zip(y.T, values, strict=True):
        if not np.isin(column, pair).all():
            raise InvalidInputError(
                f"y must be (examples, labels) of 0 and 1; got {plain(column[~np.isin(column, pair)][0])!r}. scikit-learn's "
                "MultiLabelBinarizer makes it."
            )
    return np.stack([column == pair[1] for column, pair in zip(y.T, values, strict=True)], axis=1)


def _checked_labels(y: Any) -> Array:
    if y is None:
        raise InvalidInputError("RiskControlledMultiLabel requires y to be passed, but the target y is None.")
    array = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    if array.dtype.kind == "f" and not (array == np.round(array)).all():
        raise InvalidInputError("Unknown label type: y must be (examples, labels) of 0 and 1; got continuous numbers.")
    if array.ndim != 2:
        raise InvalidInputError(
            f"y must be (examples, labels) of 0 and 1; got shape {array.shape}. scikit-learn's MultiLabelBinarizer makes it."
        )
    return array


def _lists_of_thresholds(scores: FloatArray, truth: BoolArray) -> tuple[list[float], FloatArray]:
    """Shares to find, descending, and (shares, labels): the threshold of each label that found the share of its examples.

    A label with few planning examples gets the thresholds of all labels together.
    """
    levels = np.unique(np.concatenate([[0.999, 0.995, 0.99], np.linspace(0.01, 0.98, 98)]).round(3))[::-1]
    together = scores[truth] if truth.any() else scores.ravel()
    columns = []
    for column, true in zip(scores.T, truth.T, strict=True):
        found = column[true] if true.sum() >= _FEW else together
        columns.append(np.quantile(found.astype(np.float64), 1 - levels, method="lower"))
    thresholds = np.clip(np.stack(columns, axis=1), 1e-9, 1.0)
    return [float(level) for level in levels], np.maximum.accumulate(thresholds, axis=0)


def _of_single_labels(problem: Problem, labels: int) -> Problem:
    """Limits on recall in every label, spelled out: one for each label."""
    if not any(limit.per == "label" for limit in problem.limits):
        return problem
    limits = []
    for limit in problem.limits:
        if limit.per != "label":
            limits.append(limit)
        elif limit.loss in ("recall", "missed"):
            name = "found" if limit.loss == "recall" else "lost"
            limits += [
                replace(limit, loss=f"{name} {at}", given=f"true {at}", per=None, said=f"{limit.loss} of label {at}")
                for at in range(labels)
            ]
        else:
            raise InvalidInputError(f"in every label, recall or missed may be limited; got '{limit}'.")
    return problem.with_limits(limits)


def _table(
    scores: FloatArray,
    examples: Examples,
    problem: Problem,
    settings: list[dict[str, float]],
    tried: FloatArray,
    values: list[Array],
) -> LossTable:
    """(settings, n) of every outcome that the problem names; labels are counted a setting at a time."""
    truth = _is_given(examples.y, values)
    if scores.shape != truth.shape:
        raise InvalidInputError(
            f"y must have a column for each label of the model; got {truth.shape}, model {scores.shape}."
        )
    true, shape = truth.sum(axis=1), (len(tried), len(truth))
    losses: dict[str, Array] = {name: np.empty(shape) for name in _OUTCOMES}
    single = [name for name in problem.losses if name.startswith(("found ", "lost "))]
    losses |= {name: np.empty(shape, dtype=bool) for name in ("missed_any", *single)}
    for row, thresholds in enumerate(tried):
        given = _given(scores, thresholds)
        labels, hits = given.sum(axis=1), (given & truth).sum(axis=1)
        recall = np.where(true > 0, hits / np.maximum(true, 1), 1.0)
        losses["recall"][row], losses["missed"][row] = recall, 1 - recall
        losses["missed_any"][row] = hits < true
        losses["precision"][row] = np.where(labels > 0, hits / np.maximum(labels, 1), 1.0)
        losses["labels"][row], losses["false_labels"][row] = labels, labels - hits
        for name in single:
            kind, at = name.split()
            losses[name][row] = given[:, int(at)] == (kind == "found")
    groups: dict[str, Any] = {
        **examples.table_groups,
        **({f"true {at}": truth[:, at] for at in range(truth.shape[1])} if single else {}),
    }
    problem.check_names(list(losses), list(groups))
    named = {name: found for name, found in losses.items() if name in problem.losses}
    return examples.describe(LossTable(settings, named, groups))


def _lowest_is_safest(problem: Problem) -> bool:
    def rises(limit: Limit) -> int:
        if limit.loss.startswith(("found ", "lost ")) and limit.given == "true " + limit.loss.split()[1]:
            return 1 if limit.loss.startswith("lost ") else -1
        return _RISE.get(limit.loss, 0) if limit.given is None else 0

    return all(
        rises(limit) != 0 and (limit.at_least is None) == (rises(limit) > 0) and is_on_mean(limit)
        for limit in problem.limits
    )
