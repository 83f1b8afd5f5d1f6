"""The scikit-learn estimators: their guarantee on data with known truth, and scikit-learn's conventions."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import riskfront as rf
from riskfront.errors import NotCertifiedWarning
from riskfront.estimators import (
    RiskControlledClassifier,
    RiskControlledEstimator,
    RiskControlledIntervals,
    RiskControlledMultiLabel,
)
from riskfront.estimators._decision_thresholds import answers, tilt


class Draws:
    """A source with known truth: x in [0, 1), a class for each x with known probabilities, and a model that is wrong.

    Probabilities are constant on a fine grid of x, so that every risk of a setting is a finite sum.
    """

    def __init__(self, n_classes: int, sharpness: float) -> None:
        self.x = (np.arange(2000) + 0.5) / 2000
        centres = (np.arange(n_classes) + 0.5) / n_classes
        scores = -sharpness * np.abs(self.x[:, None] - centres)
        self.truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        self.model = WrongModel(np.arange(n_classes))
        self.probabilities = self.model.predict_proba(self.x[:, None])

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        cells = rng.integers(len(self.x), size=n)
        y = (rng.uniform(size=(n, 1)) > self.truth[cells].cumsum(axis=1)).sum(axis=1)
        return self.x[cells, None], y

    def risks(self, predicted: np.ndarray) -> dict[str, float]:
        """Exact risks of the answers to the grid of x; -1 is no answer."""
        answered = predicted >= 0
        wrong = np.where(answered, 1 - self.truth[np.arange(len(self.x)), predicted], 0.0)
        by_class = [
            (self.truth[:, c] * (answered & (predicted != c))).sum() / self.truth[:, c].sum()
            for c in range(self.truth.shape[1])
        ]
        return {
            "error": wrong.mean(),
            "error given answered": wrong.sum() / max(answered.sum(), 1),
            "abstained": 1 - answered.mean(),
            "error per label": max(by_class),
            "false_negative given positive": by_class[1],
        }


class WrongModel:
    """Probabilities that are too sure of themselves and a little off. Not a scikit-learn estimator: it only predicts."""

    def __init__(self, classes: np.ndarray) -> None:
        self.classes_ = classes

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        centres = (np.arange(len(self.classes_)) + 0.4) / len(self.classes_)
        scores = -9.0 * np.abs(np.asarray(X, dtype=float)[:, :1] - centres)
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def two() -> tuple[LogisticRegression, np.ndarray, np.ndarray]:
    """A fitted model for two classes and examples it was not trained on."""
    X, y = Draws(2, 8.0).sample(3000, np.random.default_rng(0))
    return LogisticRegression().fit(X[:1000], y[:1000]), X[1000:], y[1000:]


@pytest.fixture(scope="module")
def three() -> tuple[LogisticRegression, np.ndarray, np.ndarray]:
    X, y = Draws(3, 12.0).sample(4000, np.random.default_rng(1))
    return LogisticRegression().fit(X[:1000], y[:1000]), X[1000:], y[1000:]


# ---------------------------------------------------------------- the guarantee

CASES = {
    "two classes, selective error": (Draws(2, 8.0), {"limits": "error <= 0.07 given answered"}),
    "two classes, misses": (
        Draws(2, 8.0),
        {"limits": ["false_negative <= 0.06 given positive", "abstained <= 0.2"], "minimize": "false_positive"},
    ),
    "two classes, each": (Draws(2, 8.0), {"limits": "error <= 0.1 per label"}),
    "three classes": (
        Draws(3, 12.0),
        {"limits": ["error <= 0.1 given answered", rf.Limit("error", at_most=0.14, per="label")]},
    ),
}


def _trials(case: str, method: str, trials: int) -> tuple[float, float]:
    """The shares of draws of 400 examples that certify something, and that break a limit in truth, with delta = 0.2."""
    source, options = CASES[case]
    rng = np.random.default_rng(5)
    broken = certified = 0
    for seed in range(trials):
        X, y = source.sample(400, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotCertifiedWarning)
            safe = RiskControlledClassifier(source.model, delta=0.2, method=method, random_state=seed, **options).fit(
                X, y
            )
        if safe.certificate_:
            certified += 1
            risks = source.risks(safe.predict(source.x[:, None]))
            broken += any(risks[limit.name] > limit.value for limit in safe.certificate_.problem.limits)
    return certified / trials, broken / trials


@pytest.mark.monte_carlo
@pytest.mark.parametrize("case", CASES)
def test_limits_hold_with_the_promised_probability(case: str) -> None:
    certified, broken = _trials(case, "pareto-testing", 75)
    assert certified > 0.5, "the test says nothing if hardly anything is certified"
    assert broken <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 75)


@pytest.mark.monte_carlo
def test_the_simulation_would_notice() -> None:
    """Thresholds picked by their scores break the same limits far more often than delta."""
    _, broken = _trials("two classes, selective error", "alpha-constrained", 60)
    assert broken > 0.35


# ---------------------------------------------------------------- the rule


def test_every_pair_of_cut_offs_is_a_threshold_and_a_confidence() -> None:
    p = np.linspace(0, 1, 10_001)
    low, high = 0.12, 0.7
    odds = np.sqrt(low / (1 - low) * high / (1 - high))
    threshold = odds / (1 + odds)
    confidence = float(tilt(np.array([high]), threshold)[0])
    said = answers(np.stack([1 - p, p], axis=1), threshold)
    answered = said.confidence >= confidence
    away = (np.abs(p - low) > 1e-9) & (np.abs(p - high) > 1e-9)
    assert np.array_equal(answered[away], ((p < low) | (p > high))[away])
    assert np.array_equal(said.classes[answered & away], (p > high)[answered & away])


def test_threshold_one_half_is_the_plain_decision() -> None:
    p = np.random.default_rng(0).uniform(size=1000)
    assert np.allclose(tilt(p, 0.5), p, rtol=1e-15)
    assert tilt(np.array([0.0, 0.3, 1.0]), 0.3).tolist() == [0.0, 0.5, 1.0]


def test_losses_are_what_their_names_say(two) -> None:
    model, X, y = two
    limits = [
        "error <= 0.2",
        "false_positive <= 0.2 given negative",
        "false_negative <= 0.2 given positive",
        "correct >= 0.2",
    ]
    safe = RiskControlledClassifier(
        model, limits=limits, minimize=["abstained"], maximize=["predicted_positive"], thresholds=[0.3, 0.6],
        abstain_thresholds=[0, 0.8],
    ).fit(X, y)  # fmt: skip
    table = safe.loss_table(X, y)
    assert table.n_configs == 4
    for row in range(4):
        config = table.config(row)
        p = model.predict_proba(X)[:, 1]
        q = p / (1 - p) * (1 - config["threshold"]) / config["threshold"]  # odds against the threshold
        answered = np.maximum(q, 1 / q) >= config["abstain"] / (1 - config["abstain"])
        positive = p >= config["threshold"]
        expected = {
            "error": answered & (positive != y),
            "correct": answered & (positive == y),
            "abstained": ~answered,
            "false_positive": answered & positive & (y == 0),
            "false_negative": answered & ~positive & (y == 1),
            "predicted_positive": answered & positive,
        }
        assert sorted(table.loss_names) == sorted(expected)
        for name, values in expected.items():
            assert np.array_equal(table.losses(name)[row], values), name


def test_predictions_have_the_certified_losses(three) -> None:
    model, X, y = three
    safe = RiskControlledClassifier(model, limits="error <= 0.08 given answered").fit(X, y)
    assert rf.verify(safe.certificate_, safe.loss_table(X, y)) == []
    table = safe.loss_table(X, y)
    row = next(row for row in range(table.n_configs) if table.config(row) == safe.config_)
    predicted = safe.predict(X)
    assert np.array_equal(table.losses("abstained")[row], predicted == -1)
    assert np.array_equal(table.losses("error")[row], (predicted != -1) & (predicted != y))
    assert 0 < np.mean(predicted == -1) < 0.6


class Rounded:
    """A model whose probabilities fall on the thresholds, as those of trees and of quantised networks do."""

    def __init__(self, model: LogisticRegression, kind: type[np.floating]) -> None:
        self.model, self.kind, self.classes_ = model, kind, model.classes_

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.round(self.model.predict_proba(X), 2).astype(self.kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("limits", ["error <= 0.15 given answered", "error <= 0.3 per label"])
@pytest.mark.parametrize("classes", ["two", "three"])
def test_every_setting_predicts_what_was_calibrated(request, kind, limits: str, classes: str) -> None:
    model, X, y = request.getfixturevalue(classes)
    safe = RiskControlledClassifier(Rounded(model, kind), limits=limits).fit(X, y)
    assert safe.certificate_
    table = safe.loss_table(X, y)
    for row in range(table.n_configs):
        safe.config_ = table.config(row)
        predicted = safe.predict(X)
        assert np.array_equal(table.losses("abstained")[row], predicted == -1), safe.config_
        assert np.array_equal(table.losses("error")[row], (predicted != -1) & (predicted != y)), safe.config_


def test_truth_values_are_zero_and_one(two) -> None:
    model, X, y = two
    expected = RiskControlledClassifier(model, limits="error <= 0.15 given answered").fit(X, y)
    of_truth_values = LogisticRegression().fit(X[:500], y[:500].astype(bool))
    assert clone(expected).fit(X, y.astype(bool)).config_ == expected.config_
    assert RiskControlledClassifier(of_truth_values, limits="error <= 0.2 given answered").fit(X, y).certificate_


def test_what_was_tried_stays_what_the_certificate_speaks_of(two) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(model, limits="error <= 0.15 given answered").fit(X, y)
    safe.set_params(abstain_thresholds=[0.1, 0.2], pos_label=0)
    assert rf.verify(safe.certificate_, safe.loss_table(X, y)) == []


def test_decision_function_tells_sign_and_abstention(two) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(
        model, limits="false_negative <= 0.1 given positive", minimize="false_positive"
    ).fit(X, y)
    decision, predicted = safe.decision_function(X), safe.predict(X)
    band = 2 * safe.config_["abstain"] - 1
    assert np.array_equal(predicted == -1, (np.abs(decision) < band))
    assert np.array_equal(predicted[predicted != -1], (decision[predicted != -1] >= 0).astype(int))
    flipped = RiskControlledClassifier(
        model, pos_label=0, thresholds=0.5, abstain_thresholds=0, limits="error <= 0.5"
    ).fit(X, y)
    assert np.array_equal(flipped.decision_function(X) > 0, model.predict(X) == 1)
    assert np.array_equal(flipped.predict(X), model.predict(X))


def test_pos_label_turns_the_limit_around(two) -> None:
    model, X, y = two
    options = {"limits": "false_negative <= 0.05 given positive", "minimize": "false_positive", "abstain_thresholds": 0}
    for positive in (0, 1):
        safe = RiskControlledClassifier(model, pos_label=positive, **options).fit(X, y)
        assert np.mean(safe.predict(X)[y == positive] != positive) < 0.06
        assert np.mean(safe.predict(X)[y != positive] == positive) > 0.1


def test_multi_class_has_no_decision_function_and_no_thresholds(three) -> None:
    model, X, y = three
    safe = RiskControlledClassifier(model, limits="error <= 0.15 given answered").fit(X, y)
    assert list(safe.config_) == ["abstain"]
    assert not hasattr(safe, "decision_function")
    with pytest.raises(rf.InvalidInputError, match="thresholds are for two classes; the model has 3"):
        RiskControlledClassifier(model, thresholds=[0.5]).fit(X, y)
    with pytest.raises(rf.InvalidInputError, match="'false_positive' is for two classes"):
        RiskControlledClassifier(model, limits="false_positive <= 0.1").fit(X, y)


# ---------------------------------------------------------------- labels and input


@pytest.mark.parametrize(
    ("labels", "abstain_label", "expected", "kind"),
    [
        ([0, 1], None, -1, "i"),
        ([-1, 1], None, -2, "i"),
        ([False, True], None, -1, "i"),
        ([0.0, 1.0], np.nan, np.nan, "f"),
        (["no", "yes"], None, "abstain", "U"),
        (["no", "yes"], "?", "?", "U"),
        ([0, 1], "ask a person", "ask a person", "O"),
        (np.array(["no", "yes"], dtype=object), None, "abstain", "O"),
    ],
)
def test_labels(two, labels, abstain_label, expected, kind) -> None:
    _, X, y = two
    named = np.asarray(labels)[y]
    model = LogisticRegression().fit(X[:500], named[:500])
    safe = RiskControlledClassifier(
        model, limits="error <= 0.2 given answered", abstain_thresholds=[0.8], abstain_label=abstain_label
    ).fit(X[500:], named[500:])
    predicted = safe.predict(X)
    assert predicted.dtype.kind == kind
    silent = model.predict_proba(X).max(axis=1) < 0.8
    assert silent.any()
    assert safe.abstain_label_ == expected or expected != expected
    assert all(value == expected or value != value for value in predicted[silent])
    assert np.array_equal(predicted[~silent].astype(named.dtype), model.predict(X)[~silent])


def test_model_without_classes_takes_those_of_y() -> None:
    source = Draws(3, 12.0)
    X, y = source.sample(2000, np.random.default_rng(0))
    model = WrongModel(np.arange(3))
    named = np.array(["a", "b", "c"])[y]
    del model.__dict__["classes_"]
    model.predict_proba = source.model.predict_proba  # type: ignore[method-assign]
    safe = RiskControlledClassifier(model, limits="error <= 0.1 given answered").fit(X, named)
    assert set(safe.predict(X)) == {"a", "b", "c", "abstain"}
    with pytest.raises(rf.InvalidInputError, match="one column for each of 2 classes; got shape"):
        RiskControlledClassifier(model).fit(X[y < 2], named[y < 2])


@pytest.mark.slow
def test_pandas_lists_and_sparse_give_the_same(two) -> None:
    _, X, y = two
    frame = pd.DataFrame({"size": X[:, 0]}, index=np.arange(len(X))[::-1])
    model = LogisticRegression().fit(frame[:500], y[:500])
    options = {"limits": "error <= 0.15 given answered"}
    safe = RiskControlledClassifier(model, **options).fit(frame, pd.Series(y, index=frame.index))
    assert safe.feature_names_in_.tolist() == ["size"]
    assert safe.n_features_in_ == 1
    named = pd.Series(y, index=frame.index).map({0: "no", 1: "yes"})
    texts = RiskControlledClassifier(LogisticRegression().fit(frame[:500], named[:500]), **options).fit(frame, named)
    assert texts.config_ == safe.config_
    assert set(texts.predict(frame)) <= {"no", "yes", "abstain"}
    plain = LogisticRegression().fit(X[:500], y[:500])
    for given in (X, X.tolist(), sparse.csr_array(X)):
        same = RiskControlledClassifier(plain, **options).fit(given, y.tolist())
        assert same.config_ == safe.config_
        assert np.array_equal(same.predict(given), safe.predict(frame))


# ---------------------------------------------------------------- no certificate


def test_no_certificate_warns_and_never_predicts(two) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(model, limits=["error <= 0.001", "abstained <= 0.01"])
    with pytest.warns(
        NotCertifiedWarning,
        match=r"Nothing could be certified. The setting that came nearest missed .* predict will raise",
    ) as caught:
        safe.fit(X, y)
    assert caught[0].filename == __file__
    assert not safe.certificate_
    assert safe.config_ is None
    for use in (safe.predict, safe.decision_function):
        with pytest.raises(rf.NotCertifiedError, match="there is no certified setting to use"):
            use(X)
    assert np.array_equal(safe.predict_proba(X), model.predict_proba(X))
    assert "RiskControlledClassifier" in safe._repr_html_()  # notebooks show every fitted attribute


def test_calibrating_again_forgets_the_old_setting(two) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(model, limits="error <= 0.15 given answered").fit(X, y)
    assert safe.config_ is not None
    safe.set_params(limits="error <= 0.0001")
    with pytest.warns(NotCertifiedWarning):
        safe.fit(X, y)
    with pytest.raises(rf.NotCertifiedError):
        safe.predict(X)


def test_parameters_set_after_fit_wait_for_the_next_fit(two) -> None:
    """What predict does must be what was certified."""
    model, X, y = two
    safe = RiskControlledClassifier(
        model, limits="false_negative <= 0.1 given positive", minimize="false_positive"
    ).fit(X, y)
    before = safe.predict(X), safe.decision_function(X)
    safe.set_params(pos_label=0, thresholds=0.9, abstain_label=7, estimator=LogisticRegression())
    assert np.array_equal(safe.predict(X), before[0])
    assert np.array_equal(safe.decision_function(X), before[1])
    any_ = _estimator(model, limits="missed <= 0.1").fit(X, y)
    expected = any_.predict(X)
    any_.set_params(predict_with=lambda model, config, X: np.zeros(len(X)))
    assert np.array_equal(any_.predict(X), expected)


# ---------------------------------------------------------------- the model stays as it is


class Untouchable(LogisticRegression):
    """A model that must not be trained again once it is fitted."""

    def fit(self, X, y, sample_weight=None):
        if hasattr(self, "coef_") or getattr(Untouchable, "closed", False):
            raise AssertionError("fitted again")
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    "wrap", [lambda model: model, FrozenEstimator, lambda model: make_pipeline(FrozenEstimator(model))]
)
def test_fit_never_refits_the_model(two, wrap, monkeypatch) -> None:
    _, X, y = two
    model = Untouchable().fit(X[:500], y[:500])
    monkeypatch.setattr(Untouchable, "closed", True, raising=False)  # copies of it may not be trained either
    before = copy.deepcopy(vars(model))
    given = wrap(model)
    safe = RiskControlledClassifier(given, limits="error <= 0.15 given answered").fit(X[500:], y[500:])
    assert safe.estimator is given
    assert safe.estimator_ is given
    assert vars(model).keys() == before.keys()
    for name, value in before.items():
        assert np.array_equal(getattr(model, name), value), name
    again = clone(safe).fit(X[500:], y[500:])
    assert again.config_ == safe.config_


def test_clone_keeps_a_fitted_model_and_drops_the_certificate(two) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(model, limits=[rf.Limit("error", at_most=0.15, given="answered")], delta=0.05).fit(
        X, y
    )
    fresh = clone(safe)
    assert fresh.estimator is model
    assert not hasattr(fresh, "certificate_")
    assert fresh.get_params(deep=False) == safe.get_params(deep=False)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert fresh.fit(X, y).config_ == safe.config_
    unfitted = RiskControlledClassifier(LogisticRegression(C=3), train_fraction=0.5)
    assert clone(unfitted).estimator is not unfitted.estimator
    assert clone(unfitted).estimator.C == 3


def test_params_of_a_fitted_model_cannot_be_set(two) -> None:
    model, _, _ = two
    safe = RiskControlledClassifier(model)
    assert safe.set_params(delta=0.2).delta == 0.2
    with pytest.raises(
        rf.InvalidInputError, match="parameters of a fitted model must stay as they are; got estimator__C"
    ):
        safe.set_params(estimator__C=3)
    assert RiskControlledClassifier(LogisticRegression()).set_params(estimator__C=3).estimator.C == 3


@pytest.mark.slow
def test_train_fraction_trains_on_one_part_and_calibrates_on_the_other(two) -> None:
    _, X, y = two
    template = LogisticRegression()
    safe = RiskControlledClassifier(template, limits="error <= 0.2 given answered", train_fraction=0.25).fit(X, y)
    assert not hasattr(template, "coef_")
    assert hasattr(safe.estimator_, "coef_")
    assert safe.certificate_.n_opt + safe.certificate_.n_test == 1500
    search = GridSearchCV(clone(safe), {"estimator__C": [0.01, 1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_.estimator_.C in (0.01, 1.0)


# ---------------------------------------------------------------- scikit-learn


def test_in_pipelines_and_cross_validation(two) -> None:
    model, X, y = two
    inner = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:500], y[:500])
    limits = "error <= 0.15 given answered"
    whole = RiskControlledClassifier(inner, limits=limits).fit(X[500:], y[500:])
    scaler, last = inner[:-1], inner[-1]
    outside = make_pipeline(FrozenEstimator(scaler), RiskControlledClassifier(FrozenEstimator(last), limits=limits))
    outside.fit(X[500:], y[500:])
    assert np.array_equal(outside.predict(X), whole.predict(X))
    assert np.array_equal(outside.predict_proba(X), inner.predict_proba(X))
    scores = cross_val_score(RiskControlledClassifier(model, limits=limits), X, y, cv=3)
    assert ((scores > 0.4) & (scores < 0.95)).all()  # an abstention counts as wrong


def test_sample_weight_is_refused(two) -> None:
    model, X, y = two
    weights = np.ones(len(y))
    safe = RiskControlledClassifier(model)
    with pytest.raises(rf.InvalidInputError, match="fit must be called without sample_weight"):
        safe.fit(X, y, sample_weight=weights)
    with pytest.raises(rf.InvalidInputError, match="fit must be called without sample_weight"):
        make_pipeline(safe).fit(X, y, riskcontrolledclassifier__sample_weight=weights)
    with pytest.raises(rf.InvalidInputError, match="fit takes X, y, groups and clusters; got 'colour' too"):
        safe.fit(X, y, colour=1)
    with sklearn.config_context(enable_metadata_routing=True), pytest.raises(TypeError, match="sample_weight"):
        make_pipeline(safe).fit(X, y, sample_weight=weights)


def test_groups_are_routed_when_asked_for(two) -> None:
    model, X, y = two
    colours = np.where(np.arange(len(y)) % 3 == 0, "red", "blue")
    safe = _estimator(model, limits="error <= 0.4 per group")
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError):
            make_pipeline(safe).fit(X, y, groups=colours)
        piped = make_pipeline(safe.set_fit_request(groups=True)).fit(X, y, groups=colours)
    assert set(piped[-1].certificate_.measured["group"]) == {"red", "blue"}


def test_limits_per_group_of_a_classifier(two) -> None:
    model, X, y = two
    colours = np.where(np.arange(len(y)) % 3 == 0, "red", "blue")
    safe = RiskControlledClassifier(model, limits="error <= 0.2 per colour").fit(X, y, groups={"colour": colours})
    assert set(safe.certificate_.measured["group"]) == {"red", "blue"}
    assert rf.verify(safe.certificate_, safe.loss_table(X, y, groups={"colour": colours})) == []
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(safe).set_fit_request(groups=True)
        frame = pd.DataFrame({"colour": colours})
        scores = cross_val_score(routed, X, y, cv=2, params={"groups": frame}, error_score="raise")
    assert (scores > 0.4).all()
    with pytest.raises(rf.InvalidInputError, match="a group must not be called 'answered'"):
        RiskControlledClassifier(model).fit(X, y, groups={"answered": colours})
    with pytest.raises(rf.InvalidInputError, match="group 'group' must have one value for each of 2000 examples"):
        RiskControlledClassifier(model).fit(X, y, groups=colours[:10])


@pytest.mark.parametrize("make", ["classifier", "estimator"])
@pytest.mark.parametrize("train_fraction", [None, 0.2])
def test_groups_that_no_calibration_example_has_are_not_certified(two, make: str, train_fraction: float | None) -> None:
    model, X, y = two
    colours = pd.Categorical(np.where(X[:, 0] > 0.5, "red", "blue"), categories=["red", "blue", "never seen"])
    limits, given = "error <= 0.45 per colour", model if train_fraction is None else LogisticRegression()
    for groups in ({"colour": colours}, pd.DataFrame({"colour": colours})):
        options = {"limits": limits, "train_fraction": train_fraction}
        safe = RiskControlledClassifier(given, **options) if make == "classifier" else _estimator(given, **options)
        with pytest.warns(NotCertifiedWarning, match="never seen"):
            safe.fit(X, y, groups=groups)
        assert safe.config_ is None


def test_pickle_and_random_state(two) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(
        model, limits="error <= 0.15 given answered", random_state=np.random.RandomState(3)
    ).fit(X, y)
    assert np.array_equal(pickle.loads(pickle.dumps(safe)).predict(X), safe.predict(X))  # noqa: S301
    assert safe.certificate_.seed is not None
    repeated = clone(safe).set_params(random_state=safe.certificate_.seed).fit(X, y)
    assert repeated.config_ == safe.config_
    assert RiskControlledClassifier(model, random_state=None).fit(X, y).certificate_.seed is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": [0, 0.5]}, r"thresholds must be numbers in \(0, 1\), at least one; got \[0, 0.5\]"),
        ({"thresholds": []}, r"thresholds must be numbers in \(0, 1\), at least one; got \[\]"),
        ({"abstain_thresholds": "high"}, r"abstain_thresholds must be numbers in \[0, 1\]; got 'high'"),
        ({"abstain_thresholds": [0.5, np.nan]}, r"abstain_thresholds must be numbers in \[0, 1\]"),
        ({"limits": "recall => 0.9"}, "a bound must be written '<=' or '>='.*Write 'recall >= 0.9'"),
        ({"limits": None}, "a problem must have at least one Limit"),
        ({"abstain_label": [1, 2]}, r"abstain_label must be a text or a number; got \[1, 2\]"),
        ({"abstain_label": pd.NA}, "abstain_label must be a text or a number; got <NA>"),
        ({"limits": "eror <= 0.1"}, "there is no loss 'eror'.*Did you mean 'error'"),
        ({"limits": "error <= 0.1 per class"}, "a limit per class needs the class of each example"),
        ({"minimize": ()}, "at least one free objective"),
        ({"delta": 1}, r"delta must lie in \(0, 1\); got 1"),
        ({"abstain_label": 1}, "abstain_label must not be a class; got 1"),
        ({"pos_label": 2}, "pos_label must be one of 0, 1; got 2"),
        ({"train_fraction": 0.5}, "train_fraction is for a model that is not fitted; got a fitted"),
        ({"train_fraction": 1.5, "estimator": LogisticRegression()}, r"train_fraction must lie in \(0, 1\); got 1.5"),
        ({"random_state": -1}, "random_state must not be negative; got -1"),
        (
            {"estimator": LinearRegression()},
            "estimator must have predict_proba or decision_function; got LinearRegression",
        ),
    ],
)
def test_bad_parameters_in_one_sentence(two, options, message) -> None:
    model, X, y = two
    safe = RiskControlledClassifier(**{"estimator": model, **options})
    with pytest.raises(rf.InvalidInputError, match=message):
        safe.fit(X, y)
    assert not hasattr(safe, "certificate_")


class Says:
    """A model that makes something else of what another one says."""

    def __init__(self, model: LogisticRegression, change: Callable[[np.ndarray], np.ndarray]) -> None:
        self.model, self.change, self.classes_ = model, change, model.classes_

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.change(self.model.predict_proba(X))


DATA = {
    "per cent": (
        lambda m, X, y: (Says(m, lambda p: 100 * p), X, y),
        "must return probabilities, from 0 to 1; got 0 to 9",
    ),
    "nan": (lambda m, X, y: (Says(m, lambda p: np.nan * p), X, y), "predict_proba must return finite numbers"),
    "another class": (lambda m, X, y: (m, X, 7 * y), "y must hold only classes of the model, 0, 1; got 7"),
    "classes as texts": (lambda m, X, y: (m, X, y.astype(str)), "y must hold only classes of the model, 0, 1; got '"),
    "a class without examples": (lambda m, X, y: (m, X[y == 0], y[y == 0]), "y has none of 1"),
}


@pytest.mark.parametrize("case", DATA)
def test_bad_data_in_one_sentence(two, case: str) -> None:
    change, message = DATA[case]
    model, X, y = change(*two)
    safe = RiskControlledClassifier(model, limits="error <= 0.5 per label")
    with pytest.raises(rf.InvalidInputError, match=message):
        safe.fit(X, y)
    assert not hasattr(safe, "certificate_")


def test_unfitted_model(two) -> None:
    _, X, y = two
    for unfitted in (LogisticRegression(), FrozenEstimator(LogisticRegression()), make_pipeline(LogisticRegression())):
        with pytest.raises(NotFittedError, match="must be fitted before its settings are calibrated; got"):
            RiskControlledClassifier(unfitted).fit(X, y)


def test_methods_as_objects_and_unguaranteed_ones(two) -> None:
    model, X, y = two
    limits = "error <= 0.15 given answered"
    safe = RiskControlledClassifier(model, limits=limits, method=rf.ParetoTesting(opt_fraction=0.5)).fit(X, y)
    assert clone(safe).fit(X, y).certificate_.n_opt == 1000
    assert (
        not RiskControlledClassifier(model, limits=limits, method="alpha-constrained").fit(X, y).certificate_.guaranteed
    )


# ---------------------------------------------------------------- RiskControlledEstimator


def _predict_above(model, config, X):
    return (model.predict_proba(X)[:, 1] >= config["threshold"]).astype(int)


def _errors(y, predicted, config):
    return {"error": predicted != y, "missed": (predicted == 0) & (y == 1), "flagged": predicted == 1}


def _estimator(model, **options) -> RiskControlledEstimator:
    settings = [{"threshold": step / 20} for step in range(1, 20)]
    defaults = {"configs": settings, "predict_with": _predict_above, "losses": _errors, "minimize": "flagged"}
    return RiskControlledEstimator(model, **{**defaults, **options})


def test_any_estimator(two) -> None:
    model, X, y = two
    safe = _estimator(model, limits="missed <= 0.05").fit(X, y)
    assert safe.certificate_
    assert np.array_equal(safe.predict(X), _predict_above(model, safe.config_, X))
    assert 0 < np.mean((safe.predict(X) == 0) & (y == 1)) < 0.06
    assert rf.verify(safe.certificate_, safe.loss_table(X, y)) == []
    assert safe.estimator_ is model
    assert safe.n_features_in_ == 1
    assert clone(safe).fit(X, y).config_ == safe.config_
    assert clone(safe).estimator is model
    with pytest.warns(NotCertifiedWarning):
        hopeless = _estimator(model, limits=["missed <= 0.0001", "flagged <= 0.1"]).fit(X, y)
    with pytest.raises(rf.NotCertifiedError):
        hopeless.predict(X)


def test_functions_may_take_their_setting_apart(two) -> None:
    model, X, y = two

    def predict_with(model, config, X):
        return (model.predict_proba(X)[:, 1] >= config.pop("threshold")).astype(int)

    def losses(y, predicted, config):
        assert config.pop("threshold") > 0
        return pd.DataFrame(_errors(y, predicted, config))

    safe = _estimator(model, limits="missed <= 0.05", predict_with=predict_with, losses=losses).fit(X, y)
    expected = _estimator(model, limits="missed <= 0.05").fit(X, y)
    assert safe.certificate_.to_dict() == expected.certificate_.to_dict()
    for _ in range(2):
        assert np.array_equal(safe.predict(X), expected.predict(X))
    assert safe.config_ == expected.config_
    assert np.array_equal(safe.predict_proba(X), model.predict_proba(X))
    assert not hasattr(_estimator("no model", limits="missed <= 0.05"), "predict_proba")


class FakeSpace:
    def grid(self, points):
        return [{"threshold": (step + 1) / (points + 1)} for step in range(points)]


def test_settings_from_frames_and_spaces(two) -> None:
    model, X, y = two
    assert (
        _estimator(model, configs=FakeSpace(), grid_points=4, limits="missed <= 0.3")
        .fit(X, y)
        .loss_table(X, y)
        .n_configs
        == 4
    )
    grid = ParameterGrid({"threshold": [0.2, 0.4]})
    assert _estimator(model, configs=grid, limits="missed <= 0.3").fit(X, y).config_["threshold"] in (0.2, 0.4)
    frame = pd.DataFrame({"threshold": [0.2, 0.4]})
    assert _estimator(model, configs=frame, limits="missed <= 0.3").fit(X, y).config_["threshold"] in (0.2, 0.4)


def test_groups_by_name(two) -> None:
    model, X, y = two
    halves = X[:, 0] > 0.5
    for groups in ({"half": halves, "label": y}, pd.DataFrame({"half": halves, "label": y})):
        safe = _estimator(model, limits=["error <= 0.5 per half", "missed <= 0.3 per label"]).fit(X, y, groups=groups)
        assert set(safe.certificate_.measured["limit"]) == {"error per half <= 0.5", "missed per label <= 0.3"}
    trained = _estimator(LogisticRegression(), limits="error <= 0.5 per half", train_fraction=0.5)
    assert trained.fit(X, y, groups={"half": halves}).certificate_.n_test == 700


def test_without_y_and_with_bounds() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 2))

    def shrunk(model, config, X):
        return config["factor"] * X

    def gap(y, predicted, config):
        assert y is None
        return {"gap": np.clip(np.abs(predicted).sum(axis=1), 0, 10), "kept": np.full(len(predicted), config["factor"])}

    safe = RiskControlledEstimator(
        "no estimator at all", configs=[{"factor": 0.1}, {"factor": 0.5}, {"factor": 1.0}], predict_with=shrunk, losses=gap,
        limits="gap <= 1", maximize="kept", bounds={"gap": (0, 10)},
    ).fit(X)  # fmt: skip
    assert safe.config_ == {"factor": 0.5}
    assert np.array_equal(safe.predict(X), 0.5 * X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"configs": []}, "at least one setting"),
        ({"configs": 3}, "configs must be a list of dictionaries, a data frame or a Space; got int"),
        ({"predict_with": None}, "predict_with must be a function; got None"),
        ({"losses": lambda y, p, c: {}}, "losses must return a dictionary with at least one loss; got {}"),
        ({"losses": lambda y, p, c: {"error": [1.0]}}, r"loss 'error' must have one value for each of 2000 examples; got sh"),
        ({"losses": lambda y, p, c: {"error": np.where(y == 1, np.inf, 0)}}, "loss 'error' must be finite; got inf"),
        ({"losses": lambda y, p, c: {"error": p != y}}, "there is no loss 'flagged'"),
        (
            {"losses": lambda y, p, c: {"error": p != y, **({"flagged": p == 1} if c["threshold"] < 0.5 else {})}},
            r"same names for every setting; got \['error'\] for {'threshold': 0.5}, \['error', 'flagged'\] before",
        ),
    ],
)  # fmt: skip
def test_bad_functions_in_one_sentence(two, options, message) -> None:
    model, X, y = two
    with pytest.raises(rf.InvalidInputError, match=message):
        _estimator(model, limits="error <= 0.4", **options).fit(X, y)


def test_an_exception_of_the_user_names_the_setting(two) -> None:
    model, X, y = two

    def fragile(model, config, X):
        if config["threshold"] > 0.8:
            raise KeyError("lost")
        return _predict_above(model, config, X)

    with pytest.raises(KeyError, match="lost") as raised:
        _estimator(model, limits="error <= 0.4", predict_with=fragile).fit(X, y)
    if sys.version_info >= (3, 11):
        assert "{'threshold': 0.85}" in raised.value.__notes__[0]


# ---------------------------------------------------------------- scikit-learn's own checks


@dataclass(frozen=True)
class Plainly:
    """predict_with, with a name that is the same in every process that collects these tests."""

    def __call__(self, model, config, X):
        return model.predict(X)


@dataclass(frozen=True)
class ScaledGap:
    def __call__(self, y, predicted, config):
        return {"gap": np.minimum(config["scale"] * np.abs(np.asarray(y) - predicted), 1)}


# The checks train on many small data sets of their own. train_fraction lets them: a fitted model knows one number of features
# and one set of classes. The limits are wide, so that ten examples are enough to certify something to predict with.
EASY = {"limits": ("error <= 0.99",), "train_fraction": 0.5}
CHECKED = [
    RiskControlledClassifier(LogisticRegression(), **EASY),
    RiskControlledClassifier(LogisticRegression(), abstain_thresholds=0.0, **EASY),
    RiskControlledEstimator(
        LinearRegression(),
        configs=({"scale": 0.0}, {"scale": 0.01}),
        predict_with=Plainly(),
        losses=ScaledGap(),
        limits="gap <= 0.99",
        minimize="gap",
        train_fraction=0.5,
    ),
    RiskControlledIntervals(LinearRegression(), limits="coverage >= 0.05", train_fraction=0.5),
    RiskControlledMultiLabel(MultiOutputClassifier(LogisticRegression()), limits="recall >= 0.05", train_fraction=0.5),
]


_ONE_COLUMN = "asks a model of many labels for one column of classes"
#: what a model of many labels cannot do: one column of classes, and to give the most probable label instead of all above a
#: threshold
EXPECTED = {
    "check_complex_data": _ONE_COLUMN,
    "check_estimator_sparse_array": _ONE_COLUMN,
    "check_estimator_sparse_matrix": _ONE_COLUMN,
    "check_classifiers_one_label": _ONE_COLUMN,
    "check_classifiers_classes": _ONE_COLUMN,
    "check_classifiers_train": _ONE_COLUMN,
    "check_classifier_not_supporting_multiclass": _ONE_COLUMN,
    "check_classifier_multioutput": "wants labels above .5, and not above the certified threshold",
}


def _expected(estimator) -> dict[str, str]:
    return EXPECTED if isinstance(estimator, RiskControlledMultiLabel) else {}  # no check of the others is exempted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED, expected_failed_checks=_expected)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


# ---------------------------------------------------------------- one row and many


class _Rounds:
    """A model whose probabilities differ in their last digits between one row and a matrix, as those of matrix products do."""

    def __init__(self, scores: np.ndarray, dtype: type) -> None:
        self.scores, self.dtype = scores, dtype
        self.classes_ = np.arange(scores.shape[1])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        found = self.scores[np.asarray(X)[:, 0].astype(int)].astype(self.dtype)
        step = 4 * np.finfo(self.dtype).eps
        return (found * (1 + step * (1 if len(X) == 1 else -1))).astype(self.dtype)


@pytest.mark.filterwarnings("ignore:y holds one class alone")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_row_alone_gets_the_answer_that_it_gets_in_a_matrix(classes: int, dtype: type) -> None:
    """Scores are shares of twenty trees, and thresholds are among them."""
    rng = np.random.default_rng(0)
    votes = rng.multinomial(20, [0.8, 0.2] if classes == 2 else [0.7, 0.2, 0.1], 600)
    shares, y = votes / 20, np.zeros(600, dtype=int)
    X = np.arange(600)[:, None]
    safe = RiskControlledClassifier(
        _Rounds(shares, dtype),
        limits="error <= 0.3",
        thresholds=[0.25, 0.5, 0.6] if classes == 2 else None,
        abstain_thresholds=np.unique(shares.max(axis=1)),
    ).fit(X, y)
    for level in np.unique(shares.max(axis=1)):
        for threshold in [0.25, 0.5, 0.6] if classes == 2 else [None]:
            safe.config_ = {"abstain": float(level)} | ({} if threshold is None else {"threshold": threshold})
            whole = safe.predict(X)
            assert np.array_equal(whole[:40], np.concatenate([safe.predict(X[i : i + 1]) for i in range(40)]))


@pytest.mark.filterwarnings("ignore:neighbouring rows are alike")
def test_a_plain_random_state_makes_fit_repeatable_though_outcomes_are_few(two) -> None:
    """Outcomes that are all 0 could not shuffle a split; the examples do, and the certificate can be recomputed."""
    model, X, y = two
    order = np.argsort(model.predict(X) != y, kind="stable")
    X, y = X[order], y[order]
    fits = [
        RiskControlledClassifier(model, limits="error <= 0.4", abstain_thresholds=[0.0]).fit(X, y) for _ in range(2)
    ]
    first, second = (safe.certificate_ for safe in fits)
    assert first.split_by == second.split_by
    assert first.split_by.startswith("drawn ")
    assert first.to_dict()["path"] == second.to_dict()["path"]
    assert rf.verify(first, fits[0].loss_table(X, y)) == []


def test_choose_after_looking() -> None:
    """A frontier instead of fit: look, choose, predict."""
    X, y = make_classification(1500, random_state=0, flip_y=0.02, class_sep=1.5)
    model = LogisticRegression().fit(X[:500], y[:500])
    controlled = rf.RiskControlledClassifier(model, limits=["error <= 0.1"], random_state=0)
    with pytest.raises(NotFittedError, match="must follow a frontier of this RiskControlledClassifier"):
        controlled.choose({"error": 0.1})
    found = controlled.frontier(X[500:], y[500:], {"error": [0.05, 0.1]})
    assert set(found.values["error"]) == {0.05, 0.1}
    for use in (lambda: controlled.predict(X[:3]), controlled.monitor):
        with pytest.raises(NotFittedError, match="followed by choose"):
            use()
    assert controlled.choose({"error": 0.1}) is controlled
    assert len(controlled.predict(X[:3])) == 3
    assert controlled.certificate_.frontier["chosen"] == {"error": 0.1}
    assert rf.verify(controlled.certificate_, controlled.loss_table(X[500:], y[500:])) == []
    with pytest.raises(rf.InvalidInputError, match="values for its limits"):
        controlled.frontier(X[500:], y[500:])
