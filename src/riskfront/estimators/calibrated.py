"""What the estimators share: a model that stays as it is, a problem, and the certificate of its settings."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from riskfront.arrays import Array, IntArray
from riskfront.calibration.calibration import calibrate
from riskfront.certificates.certificate import Certificate
from riskfront.errors import InvalidInputError, NotCertifiedWarning
from riskfront.losses.groups import Groups, as_groups
from riskfront.losses.table import LossTable
from riskfront.methods import Method
from riskfront.problems.limits import Limit
from riskfront.problems.objectives import Objective
from riskfront.problems.problem import Problem

Limits = str | Limit | Sequence[str | Limit]
Objectives = str | Sequence[str | Objective]
Self = TypeVar("Self", bound="CalibratedModel")


class CalibratedModel(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A model and the certificate of the settings it is used with.

    The model is never changed. A fitted one is kept by reference, also in clones, so that cross-validation calibrates the same
    model on each fold; its own parameters cannot be set from here, because it is not trained again.
    """

    estimator: Any
    limits: Limits
    minimize: Objectives
    maximize: Objectives
    delta: float
    method: str | Method
    train_fraction: float | None
    random_state: Any

    estimator_: Any
    certificate_: Certificate
    config_: dict[str, Any] | None

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
        names: Array = self.estimator_.feature_names_in_
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.input_tags = copy.deepcopy(inner.input_tags)
            tags.no_validation = inner.no_validation
            tags.non_deterministic = inner.non_deterministic
        return tags

    def _problem(self) -> Problem:
        return Problem(self.limits, self.minimize, self.maximize, delta=self.delta)

    def _seed(self) -> int:
        """The seed of the split, kept in the certificate; drawn once when random_state is None or a generator."""
        if not isinstance(self.random_state, Integral):
            return int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.random_state < 0:
            raise InvalidInputError(f"random_state must not be negative; got {self.random_state}.")
        return int(self.random_state)

    def _model(
        self, seed: int, X: Any, y: Any, groups: Mapping[str, Groups]
    ) -> tuple[Any, Any, Any, dict[str, Groups]]:
        """The fitted model, and the examples to calibrate on: all of them, unless some train a model that is not fitted."""
        fraction, name = self.train_fraction, type(self.estimator).__name__
        if is_fitted(self.estimator):
            if fraction is not None:
                raise InvalidInputError(
                    f"train_fraction is for a model that is not fitted; got a fitted {name}, which is never fitted again. "
                    "Leave train_fraction out."
                )
            return self.estimator, X, y, dict(groups)
        if fraction is None:
            raise NotFittedError(
                f"estimator must be fitted before its settings are calibrated; got {name} that is not. Fit it on other "
                "examples than these, or give train_fraction to train a copy of it on some of them."
            )
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
            raise InvalidInputError(f"train_fraction must lie in (0, 1); got {fraction!r}.")
        # not stratified: the examples that calibrate must be independent draws
        codes = [group.codes for group in groups.values()]
        parts = train_test_split(
            X, *([] if y is None else [y]), *codes, train_size=fraction, random_state=_drawn(seed, y, codes)
        )
        train, rest = parts[::2], parts[1::2]
        model = clone(self.estimator).fit(train[0], None if y is None else train[1])
        of_rest = zip(groups.items(), rest[1 if y is None else 2 :], strict=True)
        # groups that only training examples have stay known: a limit in every group speaks of them too
        kept = {name: Groups(group.levels, some) for (name, group), some in of_rest}
        return model, rest[0], None if y is None else rest[1], kept

    def _certify(self, model: Any, table: LossTable, problem: Problem, seed: int) -> None:
        self.certificate_ = calibrate(table, problem, method=self.method, seed=seed)
        self.estimator_ = model
        self.config_ = dict(self.certificate_.config) if self.certificate_ else None
        if not self.certificate_:
            warnings.warn(
                f"{self.certificate_.verdict()} predict will raise NotCertifiedError.",
                NotCertifiedWarning,
                stacklevel=3,
            )

    def _certified_config(self) -> dict[str, Any]:
        """A copy of the setting to use. NotCertifiedError, with the reason, when there is none: no other is safe to use."""
        check_is_fitted(self, "certificate_")
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


def groups_by_name(groups: Any, n: int) -> dict[str, Groups]:
    """Groups that limits may name: name -> (n,) values, a data frame, or one (n,) array, then called "group"."""
    if groups is None:
        return {}
    by_name = groups if isinstance(groups, Mapping | pd.DataFrame) else {"group": groups}
    return {str(name): as_groups(str(name), by_name[name], n) for name in by_name}


def refuse(metadata: Mapping[str, Any]) -> None:
    """Nothing but examples can be calibrated on."""
    if "sample_weight" in metadata:
        raise InvalidInputError(
            "fit must be called without sample_weight: the guarantee speaks of examples drawn like those to come, each counted "
            "once. Draw calibration examples from the distribution that you mean."
        )
    if metadata:
        raise InvalidInputError(f"fit takes X, y and groups; got {', '.join(map(repr, metadata))} too.")


def _drawn(seed: int, y: Any, codes: list[IntArray]) -> int:
    """A seed from the seed and the labels: examples may be sorted, and one seed draws the same positions from every file."""
    digest = hashlib.sha256(f"{seed}".encode())
    for labels in codes if y is None else [np.unique(y, return_inverse=True)[1], *codes]:
        digest.update(np.ascontiguousarray(labels, dtype=np.int64).tobytes())
    return int.from_bytes(digest.digest()[:4], "big")
