"""RiskControlledIntervals: prediction intervals of a fitted regressor that hold the wanted share of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, is_classifier, is_outlier_detector
from sklearn.utils import check_consistent_length, column_or_1d, indexable
from sklearn.utils.validation import check_is_fitted

from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.problem_fit import check_fit
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit, split_limits
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray
from riskfront.errors import InvalidInputError
from riskfront.estimators._calibration_examples import Examples
from riskfront.estimators._known_order import is_on_mean
from riskfront.estimators._risk_controlled import CalibratedModel, Limits, Objectives
from riskfront.methods import Method, OrderedKnob, ParetoTesting
from riskfront.methods._plan import planning_share

_MOST_SETTINGS = 500
_WIDEST_FIRST = OrderedKnob(safest={"widening": "high"})
_PLANNED = "planned"  # "auto" without the order from the widest on
#: of means of clusters: candidates come from the tested examples, so a test must not fail where fewer values are missed
MONOTONE = "hoeffding-bentkus"
_OF_TOTALS = ("auto", "binomial", "hoeffding", "hoeffding-simple", "bentkus", MONOTONE)
_COVERED = {"coverage": 1, "missed": -1}  # +1 where the mean can only rise with the widening


class RiskControlledIntervals(RegressorMixin, CalibratedModel):  # type: ignore[misc]  # scikit-learn has no types
    """A fitted regressor whose prediction intervals keep limits with probability at least 1 - delta.

    ``fit(X, y)`` calibrates on examples that the model was not trained on, and asks the model once. The interval of
    an example is

    - prediction +- widening, or prediction +- widening * scale(X) with a model of the scale, for one model that
      predicts a number;
    - [lower - widening, upper + widening] for a pair of quantile models.

    Limits may name ``coverage`` (the value lies inside), ``missed`` (it does not), and ``per`` a group that was given
    to ``fit``; objectives ``width`` and these. A wider widening holds every value that a narrower one holds. So it is
    known without data that the widest widening is the safest, and all examples test in that order; the candidates are the
    widenings at which one more calibration example would lie inside. "coverage >= 0.9" is then the classical tolerance
    interval: with probability 1 - delta over the calibration examples, nine of ten new values lie inside.

    Args:
        estimator: a fitted regressor, or (lower, upper): two fitted regressors of a low and a high quantile.
        limits: one or several limits, or texts such as "coverage >= 90 %".
        minimize: objectives to make small.
        maximize: objectives to make large.
        delta: the probability with which some limit may be broken.
        method: "auto", which tests from the widest widening on, or another calibration method.
        scale: a fitted regressor of the size of errors, above 0, to make intervals wider where they are; not for a pair.
        train_fraction: a model that is not fitted is refused unless this share of the examples is given to train a copy of it.
        repeats: what to do with copies of examples, as in ``RiskControlledClassifier``.
        random_state: of the split where a method plans, and of ``train_fraction``.

    Attributes:
        certificate_: the certificate; false when nothing could be certified.
        config_: {"widening": ...}; None when nothing could be certified. Then ``predict_interval`` raises NotCertifiedError.
        estimator_: the model.

    Examples:
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(2000, 1))
        >>> y = X[:, 0] + rng.normal(scale=0.1, size=2000)
        >>> model = LinearRegression().fit(X[:500], y[:500])
        >>> safe = RiskControlledIntervals(model, limits="coverage >= 90 %").fit(X[500:1500], y[500:1500])
        >>> safe.certificate_.verdict()
        'With 90 % confidence, coverage stays at or above 90 %.'
        >>> lower, upper = safe.predict_interval(X[1500:]).T
        >>> bool(((lower <= y[1500:]) & (y[1500:] <= upper)).mean() >= 0.9)
        True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        limits: Limits = "coverage >= 0.9",
        minimize: Objectives | None = "width",
        maximize: Objectives = (),
        delta: float = 0.1,
        method: str | Method = "auto",
        scale: Any = None,
        train_fraction: float | None = None,
        repeats: Repeats = "refuse",
        random_state: Any = 0,
    ) -> None:
        super().__init__(estimator, limits, minimize, maximize, delta, method, train_fraction, repeats, random_state)
        self.scale = scale

    def fit(self, X: Any, y: Any, groups: Any = None, clusters: Any = None, **metadata: Any) -> RiskControlledIntervals:
        """Choose the widening on (X, y), examples that the model was not trained on.

        Args:
            X: the examples. y: their values. groups: those that limits may name with ``per``.
            clusters: (n,) values that say which rows belong together, such as the day or the patient. Rows of one cluster are
                averaged to one, and limits speak of the mean over clusters.
        """
        return self._calibrated(X, y, metadata, groups=groups, clusters=clusters)

    def _prepared(
        self, X: Any, y: Any, method: str | Method, groups: Any = None, clusters: Any = None
    ) -> tuple[Any, LossTable, Problem, int, str | Method]:
        problem, seed = self._problem(), self._seed()
        if y is None:
            raise InvalidInputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, y = indexable(X, _numbers(column_or_1d(y, warn=True), "y"))
        check_consistent_length(X, y)
        models = self.estimator if isinstance(self.estimator, tuple | list) else [self.estimator]
        known = [model for model in models if hasattr(model, "__sklearn_tags__")]  # any object that predicts will do
        for other in known:
            if is_classifier(other) or is_outlier_detector(other):
                raise InvalidInputError(
                    f"estimator must predict numbers; got {type(other).__name__}, which predicts classes. Use "
                    "RiskControlledClassifier."
                )
        if isinstance(self.estimator, tuple | list) and (len(self.estimator) != 2 or self.scale is not None):
            raise InvalidInputError(
                "estimator must be one regressor, with or without scale, or a pair (lower, upper) without; got "
                f"{len(self.estimator)} and scale={self.scale!r}."
            )
        model, kept = self._model(seed, Examples.of(X, y, groups, self.repeats, clusters=clusters))
        self._scale = self.scale  # the certificate speaks of this one, whatever is set later
        needed, in_order = self._needed_widenings(model, kept), isinstance(method, OrderedKnob)
        if clusters is not None:
            problem = problem.using(MONOTONE)
        if method == "auto" and _widest_is_safest(problem):
            method = _WIDEST_FIRST
        elif method in ("auto", _PLANNED) and clusters is None:
            # only where the widest is known to be safest may candidates come from the examples that test
            method = ParetoTesting(opt_fraction=planning_share(len(kept), _MOST_SETTINGS), holm_share=0.0)
            needed = needed[kept.planning_rows(method.opt_fraction, seed)]
        elif not isinstance(method, OrderedKnob) or not _widest_is_safest(problem):
            raise InvalidInputError(
                "the widenings to choose from are taken from examples that plan; method must be 'auto', and where it plans, "
                f"clusters must be left out; got method={self.method!r}, clusters={'none' if clusters is None else 'given'}."
            )
        widenings = _candidates(needed)
        if in_order:
            widenings = _with_one_below(widenings)
        table = self._table(model, kept, widenings)
        check_fit(problem, table)
        self._widenings = widenings
        return model, table, problem, seed, method

    def _frontier_method(self, alphas: Mapping[str, Sequence[float]]) -> str | Method:
        """One order serves all values of one limit; several limits need a plan."""
        if self.method != "auto":
            return self.method
        return _WIDEST_FIRST if len(alphas) == 1 and _widest_is_safest(self._problem()) else _PLANNED

    def loss_table(self, X: Any, y: Any, groups: Any = None, clusters: Any = None) -> LossTable:
        """What every widening loses on every example: the table that ``fit`` calibrates on, say to verify its certificate."""
        check_is_fitted(self, "certificate_")
        given = Examples.of(X, _numbers(column_or_1d(y), "y"), groups, self.repeats, clusters=clusters)
        return self._table(self.estimator_, given, self._widenings)

    def predict(self, X: Any) -> FloatArray:
        """(n,): the model's own prediction, or the middle of the interval of a pair."""
        check_is_fitted(self, "certificate_")
        lower, upper, _ = self._bands(self.estimator_, X)
        return np.asarray((lower + upper) / 2)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of ``predict`` on (X, y), as of any regressor; intervals have no part in it."""
        return float(super().score(X, y, sample_weight))

    def predict_interval(self, X: Any) -> FloatArray:
        """(n, 2): the lower and the upper end of each interval."""
        widening = self._certified_config()["widening"]
        lower, upper, scale = self._bands(self.estimator_, X)
        return np.stack(
            [lower - widening * scale, np.maximum(upper + widening * scale, lower - widening * scale)], axis=1
        )

    def _problem(self) -> Problem:
        limits = [self.limits] if isinstance(self.limits, str | Limit) else list(self.limits)
        parts = [part for limit in limits for part in (split_limits(limit) if isinstance(limit, str) else [limit])]
        return Problem(parts, self.minimize or (), self.maximize, delta=self.delta)

    def _bands(self, model: Any, X: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Lower end, upper end and scale of each example, before the widening."""
        if isinstance(model, tuple | list):
            lower, upper = (_numbers(one.predict(X), "predict") for one in model)
            return np.minimum(lower, upper), np.maximum(lower, upper), np.ones(len(lower))
        middle = _numbers(model.predict(X), "predict")
        scale = np.ones(len(middle)) if self._scale is None else _numbers(self._scale.predict(X), "scale.predict")
        if (scale <= 0).any():
            raise InvalidInputError(
                f"scale must predict numbers above 0; got {scale.min():g}. Predict the logarithm, say."
            )
        return middle, middle, scale

    def _needed_widenings(self, model: Any, examples: Examples) -> FloatArray:
        """(n,): the smallest widening with which each value lies inside; negative where a narrower pair would do."""
        lower, upper, scale = self._bands(model, examples.X)
        y = _numbers(examples.y, "y")
        return np.asarray(np.maximum(lower - y, y - upper) / scale)

    def _table(self, model: Any, examples: Examples, widenings: FloatArray) -> LossTable:
        lower, upper, scale = self._bands(model, examples.X)
        inside = self._needed_widenings(model, examples) <= widenings[:, None]
        width = np.maximum(upper - lower + 2 * widenings[:, None] * scale, 0.0)
        settings = [{"widening": float(widening)} for widening in widenings]
        losses = {"coverage": inside, "missed": ~inside, "width": width}
        return examples.describe(LossTable(settings, losses, examples.table_groups))


def _candidates(needed: FloatArray) -> FloatArray:
    """Widenings at which one more example lies inside, thinned by rank where there are many, a hair wider for rounding.

    Thinning looks at the tested examples, and may: coverage only grows with the widening, example by example, so a test that
    passes at a widening passes at every wider one. What is certified is a part of what all widenings together would certify.
    """
    distinct = np.unique(needed[np.isfinite(needed)])
    if not distinct.size:
        raise InvalidInputError("y and predictions must be finite numbers; got none that are.")
    kept = np.unique(np.linspace(0, len(distinct) - 1, _MOST_SETTINGS).round().astype(int))
    widenings: FloatArray = distinct[kept]
    return np.asarray(np.unique(widenings + 1e-9 * np.maximum(np.abs(widenings), np.ptp(distinct))))


def _with_one_below(widenings: FloatArray) -> FloatArray:
    """One more widening that no tested example lies inside.

    On a frontier a value whose test comes to its end leaves its share of delta to the other values. That must not hang on
    how narrow the candidates are, which the tested examples decide: the last one never passes, so no test comes to its end.
    """
    below = widenings[0] - 1e-6 * max(abs(widenings[0]), np.ptp(widenings), 1e-6)
    return np.concatenate([[below], widenings])


def _widest_is_safest(problem: Problem) -> bool:
    """Whether every limit is on coverage, from below, or on what is missed, from above: in all examples or in groups.

    And tested by how many are missed: bets on single examples may fail at a widening and pass at a narrower one.
    """
    return all(
        limit.loss in _COVERED
        and (limit.at_least is not None) == (_COVERED[limit.loss] > 0)
        and limit.given is None
        and limit.p_value in _OF_TOTALS
        and is_on_mean(limit)
        for limit in problem.limits
    )


def _numbers(values: Any, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name} must hold one finite number for each example; got shape {array.shape}, or nan."
        )
    return array
