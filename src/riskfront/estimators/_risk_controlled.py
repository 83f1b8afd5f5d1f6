"""What the estimators share: a model that stays as it is, a problem, and the certificate of its settings."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, TypeVar

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted

from riskfront._calibration.calibrate import calibrate
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.frontier import frontier
from riskfront._calibration.frontier_result import Frontier
from riskfront._calibration.monitoring.monitor import Monitor
from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.objectives import Objective
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError, NotCertifiedWarning
from riskfront.estimators._calibration_examples import Examples
from riskfront.estimators._training_rows import refuse_training_rows, warn_of_dependent_rows
from riskfront.methods import Method

Limits = str | Limit | Sequence[str | Limit]
Objectives = str | Sequence[str | Objective]
Self = TypeVar("Self", bound="CalibratedModel")


class CalibratedModel(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A model and the certificate of the settings it is used with.

    The model is never changed. A fitted one is kept by reference, also in clones, so that cross-validation calibrates the same
    model on each fold; its own parameters cannot be set from here, because it is not trained again.
    """

    estimator_: Any
    certificate_: Certificate
    frontier_: Frontier
    config_: dict[str, Any] | None

    def __init__(
        self,
        estimator: Any,
        limits: Limits,
        minimize: Objectives | None,
        maximize: Objectives,
        delta: float,
        method: str | Method,
        train_fraction: float | None,
        repeats: Repeats,
        random_state: Any,
    ) -> None:
        self.estimator, self.limits, self.minimize, self.maximize = estimator, limits, minimize, maximize
        self.delta, self.method, self.train_fraction = delta, method, train_fraction
        self.repeats, self.random_state = repeats, random_state

    def __sklearn_clone__(self: Self) -> Self:
        without_model = copy.copy(self)
        without_model.estimator = None
        fresh: Self = BaseEstimator.__sklearn_clone__(without_model)
        fresh.estimator = self.estimator if is_fitted(self.estimator) else clone(self.estimator, safe=False)
        return fresh

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters. Those of a fitted model, ``estimator__...``, are refused: they would have no effect."""
        inner = [name for name in params if name.startswith("estimator__")]
        if inner and is_fitted(params.get("estimator", self.estimator)):
            raise InvalidInputError(
                f"the parameters of a fitted model must stay as they are; got {', '.join(inner)}. "
                "Set them on the model and fit it, then calibrate."
            )
        super().set_params(**params)
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of features, where the model knows it."""
        check_is_fitted(self, "certificate_")
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Array:
        """Names of the features, where the model knows them."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.feature_names_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.input_tags = copy.deepcopy(inner.input_tags)
            tags.no_validation = inner.no_validation
            tags.non_deterministic = inner.non_deterministic
        return tags

    def _problem(self) -> Problem:
        return Problem(self.limits, self.minimize or (), self.maximize, delta=self.delta)

    def _seed(self) -> int:
        """The seed of the split, kept in the certificate; drawn once when random_state is None or a generator."""
        if not isinstance(self.random_state, Integral):
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.random_state < 0:
            raise InvalidInputError(f"random_state must not be negative; got {self.random_state}.")
        return int(self.random_state)

    def _model(self, seed: int, given: Examples) -> tuple[Any, Examples]:
        """The fitted model, and the examples to calibrate on: all of them, unless some train a model that is not fitted."""
        fraction, name = self.train_fraction, type(self.estimator).__name__
        if is_fitted(self.estimator):
            if fraction is not None:
                raise InvalidInputError(
                    f"train_fraction is for a model that is not fitted; got a fitted {name}, which is never fitted again. "
                    "Leave train_fraction out."
                )
            refuse_training_rows(self.estimator, given.X, given.y)
            return self.estimator, given
        if fraction is None:
            raise NotFittedError(
                f"estimator must be fitted before its settings are calibrated; got {name} that is not. Fit it on other "
                "examples than these, or give train_fraction to train a copy of it on some of them."
            )
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
            raise InvalidInputError(f"train_fraction must lie in (0, 1); got {fraction!r}.")
        train, rest = given.split(fraction, seed)
        return clone(self.estimator).fit(train.X, train.y), rest

    def frontier(
        self,
        X: Any,
        y: Any = None,
        alphas: Mapping[str, Sequence[float]] | None = None,
        groups: Any = None,
        **more: Any,
    ) -> Frontier:
        """Certify many values of the limits on (X, y), all with one confidence, to choose among them after looking.

        Instead of ``fit``: look at the frontier (in a notebook it is a page with sliders), then ``choose``.

        Args:
            X: the examples. y: their classes, or what losses compare with. groups, more: as for ``fit``.
            alphas: limit -> its values, such as {"error": [0.03, 0.05, 0.1]}; limits that are not named keep their numbers.
        """
        if not alphas:
            raise InvalidInputError(
                'a frontier must have values for its limits, as {"error": [0.03, 0.05, 0.1]}; got none.'
            )
        self._forget()
        model, table, problem, seed, method = self._prepared(X, y, self._frontier_method(alphas), groups=groups, **more)
        warn_of_dependent_rows(table, problem, y)
        self.frontier_ = frontier(table, problem, alphas, method=method, seed=seed, simultaneous=True)
        self.estimator_ = model
        return self.frontier_

    def _frontier_method(self, alphas: Mapping[str, Sequence[float]]) -> str | Method:
        """The method that ``frontier`` uses for these values."""
        return "pareto-testing" if self.method == "auto" else self.method  # one order need not serve many values

    def choose(self: Self, limits: Mapping[str, float], choice: str = "") -> Self:
        """Use the best setting of the frontier at these limits, such as {"error": 0.05}; ``predict`` is ready then."""
        first = "choose must follow a frontier of this %(name)s, as frontier(X, y, {'error': [0.03, 0.05, 0.1]})."
        check_is_fitted(self, "frontier_", msg=first)
        self._use(self.frontier_.choose(limits, choice))
        return self

    def _prepared(self, *given: Any, **rows: Any) -> tuple[Any, LossTable, Problem, int, str | Method]:
        """The model, what every setting loses on the examples to calibrate on, the problem, the seed and the method.

        Args:
            given: X, y and the method.
            rows: what else is known of each row: groups, clusters, amounts.
        """
        raise NotImplementedError

    def _calibrated(self: Self, X: Any, y: Any, metadata: Mapping[str, Any], **rows: Any) -> Self:
        """``fit``: the same in every estimator."""
        refuse(metadata)
        self._forget()
        model, table, problem, seed, method = self._prepared(X, y, self.method, **rows)
        warn_of_dependent_rows(table, problem, y)
        self._certify(model, table, problem, seed, method)
        return self

    def _forget(self) -> None:
        """Nothing of an earlier fit or frontier may be used or chosen with what this one learns."""
        for earlier in ("certificate_", "config_", "frontier_"):
            if hasattr(self, earlier):
                delattr(self, earlier)

    def _certify(self, model: Any, table: LossTable, problem: Problem, seed: int, method: str | Method) -> None:
        self.estimator_ = model
        self._use(calibrate(table, problem, method=method, seed=seed))

    def _use(self, certificate: Certificate) -> None:
        self.certificate_ = certificate
        self.config_ = dict(self.certificate_.config) if self.certificate_ else None
        if not self.certificate_:
            warnings.warn(
                f"{self.certificate_.verdict()} predict will raise NotCertifiedError.",
                NotCertifiedWarning,
                stacklevel=5,
            )
        elif self.certificate_.is_used_up:
            warnings.warn(self.certificate_.verdict(), NotCertifiedWarning, stacklevel=5)

    def _html_repr(self) -> str:
        """In notebooks: scikit-learn's picture of the estimator and, once it is calibrated, the certificate below it."""
        shown = str(estimator_html_repr(self))
        return shown + self.certificate_._repr_html_() if hasattr(self, "certificate_") else shown

    def monitor(self, **options: Any) -> Monitor:
        """Watch the certified limits after deployment; ``options`` are those of ``riskfront.Monitor``."""
        self._check_chosen()
        return Monitor(self.certificate_, **options)

    def _check_chosen(self) -> None:
        first = "A frontier must be followed by choose, as choose({'error': 0.05}), before this %(name)s can be used."
        check_is_fitted(self, "certificate_", msg=first if hasattr(self, "frontier_") else None)

    def _certified_config(self) -> dict[str, Any]:
        """A copy of the setting to use. NotCertifiedError, with the reason, when there is none: no other is safe to use."""
        self._check_chosen()
        return dict(self.certificate_.config if self.config_ is None else self.config_)


def is_fitted(model: Any) -> bool:
    """Whether a model is ready to predict. Objects that do not follow scikit-learn's conventions are taken to be."""
    if not (hasattr(model, "fit") and hasattr(model, "__sklearn_tags__")):
        return True
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def refuse(metadata: Mapping[str, Any]) -> None:
    """Nothing but examples can be calibrated on."""
    if "sample_weight" in metadata:
        raise InvalidInputError(
            "fit must be called without sample_weight: the guarantee speaks of examples drawn like those to come, each counted "
            "once. Draw calibration examples from the distribution that you mean."
        )
    if metadata:
        raise InvalidInputError(f"fit takes X, y, groups and clusters; got {', '.join(map(repr, metadata))} too.")
