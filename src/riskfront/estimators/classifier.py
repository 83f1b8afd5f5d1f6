"""RiskControlledClassifier: decision and abstention thresholds of a fitted classifier, chosen under limits."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from riskfront.arrays import Array, FloatArray
from riskfront.errors import InvalidInputError
from riskfront.estimators import thresholds as rule
from riskfront.estimators.calibrated import CalibratedModel, Limits, Objectives, groups_by_name, refuse
from riskfront.estimators.classifier_table import checked_examples, classifier_table, listed_classes, probabilities_of
from riskfront.estimators.metrics import objectives_spelled_out, spelled_out
from riskfront.losses.table import LossTable
from riskfront.losses.values import plain
from riskfront.methods import Method
from riskfront.problems.problem import Problem


def _has_two_classes(classifier: Any) -> bool:
    return len(getattr(classifier, "classes_", ())) == 2


class RiskControlledClassifier(ClassifierMixin, CalibratedModel):  # type: ignore[misc]  # scikit-learn has no types
    """A fitted classifier whose decision and abstention thresholds keep limits with probability at least 1 - delta.

    ``fit(X, y)`` calibrates on examples that the model was not trained on; the model itself stays as it is. Two classes: the
    answer is positive where the positive class has at least probability ``threshold``. More classes: the most probable one.
    Either way there is no answer where the model is less sure than ``abstain``. How sure it is: the probability of its answer,
    for two classes after a shift of the log-odds that moves ``threshold`` to one half.

    Limits and objectives may name, all 0/1 for each example:

    - ``error`` (answered, and wrong), ``correct`` (answered, and right), ``answered``, ``abstained``;
    - with two classes ``false_positive``, ``false_negative``, ``true_positive`` and ``predicted_positive`` (answered, each),
      and ``missed_positive`` (positive, and not answered so);
    - with two classes ``precision``, ``recall`` and ``f1``, such as "precision >= 0.9"; the first two as objectives, too. As in
      scikit-learn, a positive example without an answer is missed;
    - ``per label``: in every true class; ``per`` a group that was given to ``fit``: in every such group;
    - with two classes ``given positive`` and ``given negative``: among the examples that truly are.

    So "error <= 0.02 given answered" is the error of what is answered, "false_negative <= 0.05 given positive" the share of
    positives that are answered wrongly, and "recall >= 0.95" says that few are missed, by an answer or without one.

    The guarantee is for new examples drawn like those of ``fit``, independently. Preprocessing belongs inside ``estimator``: a
    step that a surrounding pipeline fits on the calibration examples is outside the guarantee, unless frozen. So is a model, or
    anything else, that was chosen by its results on the calibration examples, as ``GridSearchCV`` around this class would:
    choose on other examples first, then calibrate.

    Args:
        estimator: a fitted classifier with ``predict_proba``: a pipeline, a ``FrozenEstimator``, any object. One without
            ``classes_`` must have a column of probabilities for each value of ``y``, in ascending order.
        limits: one or several limits, or texts such as "error <= 0.05".
        minimize: objectives to make small, the most important first.
        maximize: objectives to make large.
        delta: the probability with which some limit may be broken.
        method: a calibration method or its name.
        thresholds: decision thresholds to choose from, in (0, 1), for two classes. By default 0.5 alone while limits and
            objectives treat both classes alike (more would only cost power), and 23 from 0.01 to 0.99 when they speak of one
            class or of ``label``. Neither these nor the next may be derived from the calibration examples.
        abstain_thresholds: abstention thresholds to choose from, in [0, 1]; 0 alone to always answer. By default 19 from 0 to
            0.999, to suit probabilities that mean something; give your own for a model that is always almost certain.
        abstain_label: what ``predict`` returns where there is no answer. By default "abstain" when classes are texts and
            otherwise -1, or the smallest class minus one where -1 is a class.
        pos_label: the positive class of two; by default the second of ``classes_``.
        train_fraction: a model that is not fitted is refused unless this share of the examples, drawn at random, is given to
            train a copy of it (``estimator_``); the others calibrate.
        random_state: of the split into examples that plan and examples that test. A plain number makes ``fit`` repeatable.

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
        minimize: Objectives = ("abstained",),
        maximize: Objectives = (),
        delta: float = 0.1,
        method: str | Method = "pareto-testing",
        thresholds: npt.ArrayLike | None = None,
        abstain_thresholds: npt.ArrayLike | None = None,
        abstain_label: Any = None,
        pos_label: Any = None,
        train_fraction: float | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.limits = limits
        self.minimize = minimize
        self.maximize = maximize
        self.delta = delta
        self.method = method
        self.thresholds = thresholds
        self.abstain_thresholds = abstain_thresholds
        self.abstain_label = abstain_label
        self.pos_label = pos_label
        self.train_fraction = train_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, **metadata: Any) -> RiskControlledClassifier:
        """Choose the thresholds on (X, y), examples that the model was not trained on.

        Args:
            X: the examples. y: their classes.
            groups: more groups that limits may name with ``per``: name -> (n,) values, a data frame (which cross-validation can
                route, too), or one (n,) array, then called "group".
        """
        refuse(metadata)
        problem, seed = self._problem(), self._seed()
        X, y = checked_examples(X, y, type(self).__name__)
        if not hasattr(self.estimator, "predict_proba"):
            raise InvalidInputError(
                f"estimator must have predict_proba; got {type(self.estimator).__name__}. "
                "scikit-learn's CalibratedClassifierCV gives it one."
            )
        model, X, y, kept = self._model(seed, X, y, groups_by_name(groups, len(y)))
        classes = np.asarray(model.classes_) if hasattr(model, "classes_") else np.unique(y)
        label = self._chosen_abstain_label(classes)
        offered, positive = self._offered(classes, problem), self._positive(classes)
        table = classifier_table(probabilities_of(model, X, classes), y, classes, problem, offered, positive, kept)
        self._certify(model, table, problem, seed)
        self.classes_, self.abstain_label_, self._at_positive, self._tried = classes, label, positive, offered
        return self

    def loss_table(self, X: Any, y: Any, groups: Any = None) -> LossTable:
        """What every setting loses on every example: the table that ``fit`` calibrates on, say to verify its certificate."""
        check_is_fitted(self, "certificate_")
        X, y = checked_examples(X, y, type(self).__name__)
        probabilities, more = probabilities_of(self.estimator_, X, self.classes_), groups_by_name(groups, len(y))
        problem = self.certificate_.problem
        return classifier_table(probabilities, y, self.classes_, problem, self._tried, self._at_positive, more)

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
        small, large = objectives_spelled_out(self.minimize), objectives_spelled_out(self.maximize)
        return Problem(spelled_out(self.limits), small, large, delta=self.delta)

    def _offered(self, classes: Array, problem: Problem) -> tuple[list[float] | None, list[float]]:
        """The decision thresholds, for two classes, and the abstention thresholds to choose from."""
        least = rule.numbers("abstain_thresholds", self.abstain_thresholds, rule.ABSTAIN, open_=False)
        if len(classes) == 2:
            default = rule.THRESHOLDS if _tells_classes_apart(problem) else (0.5,)
            return rule.numbers("thresholds", self.thresholds, default, open_=True), least
        if self.thresholds is not None:
            raise InvalidInputError(
                f"thresholds are for two classes; the model has {len(classes)}. Leave thresholds out."
            )
        return None, least

    def _positive(self, classes: Array) -> int:
        """The position of the positive class."""
        if self.pos_label is None:
            return 1
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


def _tells_classes_apart(problem: Problem) -> bool:
    used = {name for term in problem.terms for name in (*term.losses, term.per, term.given)}
    return not used <= {*rule.COMMON, None}


def _with_label(classes: Array, label: Any) -> Array:
    """The classes and, behind them, the label of no answer, in a type that holds both as they are."""
    end = np.asarray([label])
    same_kind = (classes.dtype.kind in "biuf" and end.dtype.kind in "biuf") or classes.dtype.kind == end.dtype.kind
    return np.append(classes, end) if same_kind else np.append(classes.astype(object), np.array([label], dtype=object))
