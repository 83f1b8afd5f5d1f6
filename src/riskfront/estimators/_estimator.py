"""RiskControlledEstimator: settings of any fitted estimator or pipeline, chosen under limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_consistent_length, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from riskfront._data.configs import as_settings
from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.problem_fit import check_fit
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.estimators._calibration_examples import Examples
from riskfront.estimators._risk_controlled import CalibratedModel, Limits, Objectives
from riskfront.methods import Method

Config = dict[str, Any]


def _has_probabilities(controlled: Any) -> bool:
    return hasattr(getattr(controlled, "estimator_", controlled.estimator), "predict_proba")


class RiskControlledEstimator(CalibratedModel):
    """A fitted estimator used with a setting that keeps limits with probability at least 1 - delta.

    ``fit(X, y)`` calibrates on examples that the model was not trained on: it predicts with every setting, asks ``losses`` what
    each prediction costs, and certifies. The model itself stays as it is. The guarantee is for new examples drawn like those of
    ``fit``, independently, and not for a model that was chosen by its results on these, as ``GridSearchCV`` around this class
    would: choose on other examples first, then calibrate.

    Args:
        estimator: a fitted estimator or pipeline, or any object that ``predict_with`` knows how to use.
        configs: the settings to choose from: dictionaries with the same keys, a data frame with one row each, or an object with
            a method ``grid(points)`` that lists them, such as a Space; a ``ParameterGrid`` too.
        predict_with: ``predict_with(estimator, config, X)`` -> what the estimator predicts for X with a setting.
        losses: ``losses(y, predictions, config)`` -> {name: (n,) loss of each example}. Booleans are 0/1 losses.
        limits: one or several limits, or texts such as "error <= 0.05".
        minimize: objectives to make small, the most important first.
        maximize: objectives to make large.
        delta: the probability with which some limit may be broken.
        method: a calibration method or its name.
        bounds: name -> (low, high) of losses that are limited and leave [0, 1].
        grid_points: how many values along each axis when ``configs`` has a method ``grid``.
        train_fraction: a model that is not fitted is refused unless this share of the examples, drawn at random, is given to
            train a copy of it (``estimator_``); the others calibrate. All copies of an example go to the same side.
        repeats: what to do with copies of examples. "refuse" is an error where X, y and groups are equal more often than
            independent draws could be; "keep-one" keeps one of each content, so that each counts once in the guarantee;
            "independent" declares that equal examples were drawn independently.
        random_state: of the split into examples that plan and examples that test. A plain number makes ``fit`` repeatable.
            Where examples hold little and are sorted by outcome, use None, which draws another split for every data set.

    Attributes:
        certificate_: the certificate; false when nothing could be certified.
        config_: the setting in use; None when nothing could be certified. Then ``fit`` gives a NotCertifiedWarning and
            ``predict`` raises NotCertifiedError: no setting is known to keep the limits.
        estimator_: the model.

    Examples:
        A regressor whose intervals must hold nine of ten values, as narrow as possible.

        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(2000, 1))
        >>> y = X[:, 0] + rng.normal(scale=0.1, size=2000)
        >>> model = LinearRegression().fit(X[:500], y[:500])
        >>> def interval(model, config, X):
        ...     middle = model.predict(X)
        ...     return np.stack([middle - config["width"], middle + config["width"]], axis=1)
        >>> def losses(y, intervals, config):
        ...     inside = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
        ...     return {"missed": ~inside, "width": intervals[:, 1] - intervals[:, 0]}
        >>> safe = RiskControlledEstimator(
        ...     model, configs=[{"width": round(0.02 * step, 2)} for step in range(1, 26)], predict_with=interval,
        ...     losses=losses, limits="missed <= 0.1", minimize="width",
        ... ).fit(X[500:1500], y[500:1500])
        >>> bool(safe.certificate_), safe.predict(X[1500:]).shape
        (True, (500, 2))
    """

    def __init__(
        self,
        estimator: Any,
        *,
        configs: Any,
        predict_with: Callable[[Any, Config, Any], Any],
        losses: Callable[[Any, Any, Config], Mapping[str, Any]],
        limits: Limits,
        minimize: Objectives = (),
        maximize: Objectives = (),
        delta: float = 0.1,
        method: str | Method = "pareto-testing",
        bounds: Mapping[str, tuple[float, float]] | None = None,
        grid_points: int | Mapping[str, int] = 10,
        train_fraction: float | None = None,
        repeats: Repeats = "refuse",
        random_state: Any = 0,
    ) -> None:
        super().__init__(estimator, limits, minimize, maximize, delta, method, train_fraction, repeats, random_state)
        self.configs = configs
        self.predict_with = predict_with
        self.losses = losses
        self.bounds = bounds
        self.grid_points = grid_points

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, clusters: Any = None, **metadata: Any
    ) -> RiskControlledEstimator:
        """Choose the setting on (X, y), examples that the model was not trained on.

        Args:
            X: the examples. y: what ``losses`` compares predictions with.
            groups: groups that limits may name: name -> (n,) values, a data frame (which cross-validation can route, too), or
                one (n,) array, then called "group".
            clusters: (n,) values that say which rows belong together, such as the day or the patient. Rows of one cluster are
                averaged to one, and limits speak of the mean over clusters.
        """
        return self._calibrated(X, y, metadata, groups=groups, clusters=clusters)

    def _prepared(
        self, X: Any, y: Any, method: str | Method, groups: Any = None, clusters: Any = None
    ) -> tuple[Any, LossTable, Problem, int, str | Method]:
        problem, seed = self._problem(), self._seed()
        X, y = indexable(X, y)
        model, kept = self._model(seed, Examples.of(X, y, groups, self.repeats, clusters=clusters))
        table = self._table(model, kept)
        check_fit(problem, table)
        self._certified_use = self.predict_with
        return model, table, problem, seed, method

    def loss_table(self, X: Any, y: Any = None, groups: Any = None, clusters: Any = None) -> LossTable:
        """What every setting loses on every example: the table that ``fit`` calibrates on, say to verify its certificate."""
        check_is_fitted(self, "certificate_")
        check_consistent_length(X, y)
        return self._table(self.estimator_, Examples.of(X, y, groups, self.repeats, clusters=clusters))

    def predict(self, X: Any) -> Any:
        """What the model predicts with the certified setting."""
        config = self._certified_config()
        return self._certified_use(self.estimator_, config, X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """The model's own probabilities, where it has any; the setting plays no part in them."""
        check_is_fitted(self, "certificate_")
        return self.estimator_.predict_proba(X)

    def _table(self, model: Any, examples: Examples) -> LossTable:
        frame = self._settings()
        X, y, n = examples.X, examples.y, len(examples)
        rows: list[dict[str, Array]] = []
        for config in frame.to_dict("records"):
            setting = {str(name): plain(value) for name, value in config.items()}
            try:
                # each function gets a setting of its own: it may be one that takes it apart
                found = self.losses(y, self.predict_with(model, dict(setting), X), dict(setting))
            except Exception as error:
                if hasattr(error, "add_note"):  # from Python 3.11 on
                    error.add_note(f"while predict_with and losses ran for the setting {setting}")
                raise
            rows.append(_checked(found, setting, n, list(rows[0]) if rows else None))
        stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        return examples.describe(LossTable(frame, stacked, examples.table_groups, self.bounds))

    def _settings(self) -> pd.DataFrame:
        for name in ("predict_with", "losses"):
            if not callable(getattr(self, name)):
                raise InvalidInputError(f"{name} must be a function; got {getattr(self, name)!r}.")
        configs: Any = self.configs
        if hasattr(configs, "grid") and not isinstance(configs, pd.DataFrame):
            configs = configs.grid(self.grid_points)
        if not isinstance(configs, Iterable) or isinstance(configs, str | Mapping):
            raise InvalidInputError(
                f"configs must be a list of dictionaries, a data frame or a Space; got {type(configs).__name__}."
            )
        return as_settings(configs if isinstance(configs, pd.DataFrame) else list(configs))


def _checked(found: Any, setting: Config, n: int, names: list[str] | None) -> dict[str, Array]:
    """The losses of one setting, one value for each example, of the same names as for the settings before."""
    if isinstance(found, pd.DataFrame):
        found = {name: found[name] for name in found}
    if not isinstance(found, Mapping) or not found:
        raise InvalidInputError(
            f"losses must return a dictionary with at least one loss; got {found!r} for the setting {setting}."
        )
    if names is not None and set(found) != set(names):
        raise InvalidInputError(
            f"losses must return the same names for every setting; got {sorted(map(str, found))} for {setting}, "
            f"{sorted(names)} before."
        )
    arrays = {name: np.asarray(values) for name, values in found.items()}
    for name, array in arrays.items():
        if array.shape != (n,):
            raise InvalidInputError(
                f"loss '{name}' must have one value for each of {n} examples; got shape {array.shape} for {setting}."
            )
    return arrays
