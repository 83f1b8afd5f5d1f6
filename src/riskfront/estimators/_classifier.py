"""RiskControlledClassifier: decision and abstention thresholds of a fitted classifier, chosen under limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, FloatArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.estimators import _decision_thresholds as rule
from riskfront.estimators._calibration_examples import Examples
from riskfront.estimators._classifier_table import (
    checked_examples,
    classes_of,
    classifier_table,
    deployed_outcomes,
    is_detector,
    listed_classes,
    probabilities_of,
)
from riskfront.estimators._costs import Prices
from riskfront.estimators._metrics import default_objectives, objectives_spelled_out, of_clusters, spelled_out
from riskfront.estimators._offered import offered_thresholds
from riskfront.estimators._risk_controlled import CalibratedModel, Limits, Objectives
from riskfront.methods import Method


def _has_two_classes(classifier: Any) -> bool:
    return len(getattr(classifier, "classes_", ())) == 2


class RiskControlledClassifier(ClassifierMixin, CalibratedModel):  # type: ignore[misc]  # scikit-learn has no types
    """A fitted classifier whose decision and abstention thresholds keep limits with probability at least 1 - delta.

    ``fit(X, y)`` calibrates on examples that the model was not trained on; the model itself stays as it is. Two classes: the
    answer is positive where the positive class has at least probability ``threshold``. More classes: the most probable one.
    Either way there is no answer where the model is less sure than ``abstain``. How sure it is: the probability of its answer;
    with two classes and a threshold t, the larger of q and 1 - q, where q = p (1 - t) / (p (1 - t) + (1 - p) t) is
    one half at p = t.

    Limits and objectives may name, all 0/1 for each example:

    - ``error`` (answered, and wrong), ``correct`` (answered, and right), ``answered``, ``abstained``;
    - with two classes ``false_positive``, ``false_negative``, ``true_positive``, ``true_negative``, ``predicted_positive``,
      ``predicted_negative`` (answered, each) and ``missed_positive`` (positive, and not answered so);
    - ``accuracy`` (right among the answered), ``coverage`` (answered), ``abstention``;
    - with two classes ``precision``, ``recall`` (or ``sensitivity``), ``specificity``, ``npv``, ``fpr``, ``fnr`` and ``f1``,
      such as "precision >= 90 %"; all but the last as objectives, too. As in scikit-learn, recall counts a positive example
      that gets no answer as missed;
    - ``per label``: in every true class; ``per`` a group that was given to ``fit``: in every such group;
    - with two classes ``given positive`` and ``given negative``: among the examples that truly are.

    - with ``costs``: ``cost`` of each example, and ``amount``, such as "cost / amount <= 2 %".

    Several limits: a list, or "recall >= 0.9 and precision >= 0.5". "<" and "at most" are read as "<=".

    So "error <= 0.02 given answered" is the error of what is answered, "false_negative <= 0.05 given positive" the share of
    positives that are answered wrongly, and "recall >= 0.95" says that few are missed, by an answer or without one.

    The guarantee is for new examples drawn like those of ``fit``, independently. Preprocessing belongs inside ``estimator``: a
    step that a surrounding pipeline fits on the calibration examples is outside the guarantee, unless frozen. So is a model, or
    anything else, that was chosen by its results on the calibration examples, as ``GridSearchCV`` around this class would:
    choose on other examples first, then calibrate.

    Args:
        estimator: a fitted classifier with ``predict_proba``: a pipeline, a ``FrozenEstimator``, any object. One without
            ``classes_`` must have a column of probabilities for each value of ``y``, in ascending order. With two classes
            ``decision_function`` alone will do, of an outlier detector too (y is then 1 or, for outliers, -1, which
            are positive): thresholds are on 1 / (1 + exp(-score)).
        limits: one or several limits, or texts such as "error <= 0.05".
        minimize: objectives to make small, the most important first. By default none where ``maximize`` names some. Where
            neither does: the share without an answer; for limits on one of two classes precision, recall or, where these limits
            disagree on the safest end, the error.
        maximize: objectives to make large.
        delta: the probability with which some limit may be broken.
        method: a calibration method or its name. "auto": where one threshold is to be chosen and it is known without data
            which of its ends is safest (recall falls as the threshold rises, so do false alarms), all examples test in that
            order; elsewhere "pareto-testing", which plans on some of the examples.
        thresholds: decision thresholds to choose from, in (0, 1), for two classes. By default 0.5 alone while limits and
            objectives treat both classes alike. When they speak of one class or of ``label``: the numbers with four digits
            (three from 3,000 examples on) that tell the examples' scores apart, where the order of thresholds is known, and
            109 fixed numbers elsewhere. Neither these nor the next may be derived from the labels of the calibration examples.
        abstain_thresholds: abstention thresholds to choose from, in [0, 1]; 0 alone to always answer. By default a model with
            two classes always answers unless a limit or an objective speaks of ``answered`` or ``abstained``; then,
            as with more classes, likewise: what tells the scores apart, or 19 from 0 to 0.999.
        costs: what outcomes cost, for the word ``cost``: {"false_positive": 5, "missed_positive": "amount"}, each a number
            or the text "amount" for the amount of the example, which ``fit`` takes. ``minimize="cost"`` needs nothing else; a
            limit on a mean of amounts needs ``largest_amount`` too.
        largest_amount: the largest that an amount can ever be: an amount above it is an error. A number that is made true by
            a rule, such as a cap on exposure, and not the largest amount of the calibration examples.
        abstain_label: what ``predict`` returns where there is no answer. By default "abstain" when classes are texts and
            otherwise -1, or the smallest class minus one where -1 is a class.
        pos_label: the positive class of two; by default the second of ``classes_``, of an outlier detector -1.
        train_fraction: a model that is not fitted is refused unless this share of the examples, drawn at random, is given to
            train a copy of it (``estimator_``); the others calibrate. All copies of an example go to the same side.
        repeats: what to do with copies of examples. "refuse" is an error where X, y and groups are equal more often than
            independent draws could be; "keep-one" keeps one of each content, so that each counts once in the guarantee;
            "independent" declares that equal examples were drawn independently.
        random_state: of the split into examples that plan and examples that test. A plain number makes ``fit`` repeatable.
            Where examples hold little and are sorted by outcome, use None, which draws another split for every data set.

    Attributes:
        certificate_: the certificate; false when nothing could be certified.
        config_: the setting in use, such as {"threshold": 0.4, "abstain": 0.8}; None when nothing could be certified. Then
            ``fit`` gives a NotCertifiedWarning and ``predict`` raises NotCertifiedError: no setting is known to be safe.
        classes_: the classes of the model. abstain_label_: the label in use. estimator_: the model.

    Examples:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.linear_model import LogisticRegression
        >>> X, y = make_classification(10_000, n_informative=5, n_clusters_per_class=1, class_sep=0.5, random_state=0)
        >>> model = LogisticRegression().fit(X[:1000], y[:1000])
        >>> safe = RiskControlledClassifier(model, limits="error <= 0.05 given answered")
        >>> safe = safe.fit(X[1000:3000], y[1000:3000])  # the model stays as it is
        >>> bool(safe.certificate_)
        True
        >>> labels = safe.predict(X[3000:])
        >>> answered = labels != safe.abstain_label_
        >>> bool((labels != y[3000:])[answered].mean() <= 0.05), bool(answered.mean() > 0.5)
        (True, True)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        limits: Limits = ("error <= 0.1 given answered",),
        minimize: Objectives | None = None,
        maximize: Objectives = (),
        delta: float = 0.1,
        method: str | Method = "auto",
        thresholds: npt.ArrayLike | None = None,
        abstain_thresholds: npt.ArrayLike | None = None,
        costs: Mapping[str, float | str] | None = None,
        largest_amount: float | None = None,
        abstain_label: Any = None,
        pos_label: Any = None,
        train_fraction: float | None = None,
        repeats: Repeats = "refuse",
        random_state: Any = 0,
    ) -> None:
        super().__init__(estimator, limits, minimize, maximize, delta, method, train_fraction, repeats, random_state)
        self.thresholds = thresholds
        self.abstain_thresholds = abstain_thresholds
        self.costs = costs
        self.largest_amount = largest_amount
        self.abstain_label = abstain_label
        self.pos_label = pos_label

    def fit(
        self, X: Any, y: Any, groups: Any = None, clusters: Any = None, amounts: Any = None, **metadata: Any
    ) -> RiskControlledClassifier:
        """Choose the thresholds on (X, y), examples that the model was not trained on.

        Args:
            X: the examples. y: their classes.
            groups: more groups that limits may name with ``per``: name -> (n,) values, a data frame (which cross-validation can
                route, too), or one (n,) array, then called "group".
            clusters: (n,) values that say which rows belong together, such as the day or the patient. Rows of one cluster are
                averaged to one, and limits speak of the mean over clusters.
            amounts: (n,) numbers, what is at stake in each example, for ``costs``. As ``groups`` and ``clusters``, they can be
                routed to ``fit`` as metadata: ``set_fit_request(amounts=True)``.
        """
        return self._calibrated(X, y, metadata, groups=groups, clusters=clusters, amounts=amounts)

    def _prepared(
        self, X: Any, y: Any, method: str | Method, groups: Any = None, clusters: Any = None, amounts: Any = None
    ) -> tuple[Any, LossTable, Problem, int, str | Method]:
        problem, seed = self._problem(), self._seed()
        X, y = checked_examples(X, y, type(self).__name__)
        if not (hasattr(self.estimator, "predict_proba") or hasattr(self.estimator, "decision_function")):
            raise InvalidInputError(
                f"estimator must have predict_proba or decision_function; got {type(self.estimator).__name__}. For a regressor "
                "use RiskControlledIntervals, for anything else RiskControlledEstimator."
            )
        given = Examples.of(X, y, groups, self.repeats, clusters=clusters, amounts=amounts)
        prices = Prices.of(self.costs, self.largest_amount, problem, given.amounts)
        model, kept = self._model(seed, given)
        classes = classes_of(model, kept.y)
        label = self._chosen_abstain_label(classes)
        positive = self._positive(classes)
        probabilities = probabilities_of(model, kept.X, classes)
        offered = offered_thresholds(
            problem,
            probabilities,
            positive,
            thresholds=self.thresholds,
            abstain_thresholds=self.abstain_thresholds,
            method=method,
            planning=None if clusters is not None else partial(kept.planning_rows, seed=seed),
            priced=() if prices is None else prices.costs,
        )
        if clusters is not None:
            problem = of_clusters(problem)
        table = classifier_table(probabilities, kept, classes, problem, offered, positive, prices)
        self.classes_, self.abstain_label_, self._at_positive, self._tried = classes, label, positive, offered
        self._costs = self.costs, self.largest_amount  # the certificate speaks of these, whatever is set later
        return model, table, problem, seed, offered.method

    def loss_table(self, X: Any, y: Any, groups: Any = None, clusters: Any = None, amounts: Any = None) -> LossTable:
        """What every setting loses on every example: the table that ``fit`` calibrates on, say to verify its certificate."""
        check_is_fitted(self, "certificate_")
        X, y = checked_examples(X, y, type(self).__name__)
        given = Examples.of(X, y, groups, self.repeats, clusters=clusters, amounts=amounts)
        problem = self.certificate_.problem
        prices = Prices.of(*self._costs, problem, given.amounts)
        probabilities = probabilities_of(self.estimator_, given.X, self.classes_)
        return classifier_table(probabilities, given, self.classes_, problem, self._tried, self._at_positive, prices)

    def outcomes(self, X: Any, y: Any, amounts: Any = None) -> dict[str, Array]:
        """What the certified setting lost on new examples, for ``monitor().update``; nan where y is None or nan."""
        config = self._certified_config()
        probabilities = probabilities_of(self.estimator_, X, self.classes_)
        found = deployed_outcomes(probabilities, y, self.classes_, self._at_positive, config)
        amounts = None if amounts is None else np.asarray(amounts, dtype=np.float64)
        prices = Prices.of(*self._costs, self.certificate_.problem, amounts)
        return found if prices is None else {**found, **prices.columns(found)}

    def predict(self, X: Any) -> Array:
        """The class of each example, and ``abstain_label_`` where there is no answer."""
        config = self._certified_config()
        probabilities = probabilities_of(self.estimator_, X, self.classes_)
        said = rule.answers(probabilities, config.get("threshold"), self._at_positive)
        if not config["abstain"]:
            return self.classes_[said.classes]
        answered = said.sure(config["abstain"])
        labels = _with_label(self.classes_, self.abstain_label_)
        return labels[np.where(answered, said.classes, len(self.classes_))]

    def predict_proba(self, X: Any) -> FloatArray:
        """(n, classes): the model's probabilities, unchanged."""
        check_is_fitted(self, "certificate_")
        return probabilities_of(self.estimator_, X, self.classes_)

    @available_if(_has_two_classes)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """(n,), for two classes: above 0 for the second class, below for the first; no answer within 2 ``abstain`` - 1 of 0."""
        config = self._certified_config()
        q = rule.tilt(probabilities_of(self.estimator_, X, self.classes_)[:, self._at_positive], config["threshold"])
        return 2 * q - 1 if self._at_positive == 1 else 1 - 2 * q

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator).classifier_tags
            tags.classifier_tags.multi_class = inner is None or inner.multi_class
        return tags

    def _problem(self) -> Problem:
        limits, large = spelled_out(self.limits), objectives_spelled_out(self.maximize)
        if self.minimize is not None:
            small = objectives_spelled_out(self.minimize)
        else:
            small, large = default_objectives(limits, large)
        return Problem(limits, small, large, delta=self.delta)

    def _positive(self, classes: Array) -> int:
        """The position of the positive class."""
        if self.pos_label is None:
            return 0 if is_detector(self.estimator) else 1
        if len(classes) != 2:
            raise InvalidInputError(f"pos_label is for two classes; the model has {len(classes)}. Leave pos_label out.")
        found = np.flatnonzero(pd.Index(classes) == self.pos_label)
        if len(found) == 0:
            raise InvalidInputError(f"pos_label must be one of {listed_classes(classes)}; got {self.pos_label!r}.")
        return int(found[0])

    def _chosen_abstain_label(self, classes: Array) -> Any:
        known = [plain(value) for value in classes]
        if self.abstain_label is not None:
            if not isinstance(self.abstain_label, str | bytes | Number | np.generic):
                raise InvalidInputError(f"abstain_label must be a text or a number; got {self.abstain_label!r}.")
            if self.abstain_label in known:
                raise InvalidInputError(f"abstain_label must not be a class; got {self.abstain_label!r}.")
            return self.abstain_label
        if all(isinstance(value, str) for value in known):
            if "abstain" in known:
                raise InvalidInputError("abstain_label must be given, because 'abstain' is a class here.")
            return "abstain"
        return min(known) - 1 if -1 in known else -1


def _with_label(classes: Array, label: Any) -> Array:
    """The classes and, behind them, the label of no answer, in a type that holds both as they are."""
    end = np.asarray([label])
    same_kind = (classes.dtype.kind in "biuf" and end.dtype.kind in "biuf") or classes.dtype.kind == end.dtype.kind
    return np.append(classes, end) if same_kind else np.append(classes.astype(object), np.array([label], dtype=object))
