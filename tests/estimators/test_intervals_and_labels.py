"""RiskControlledIntervals and RiskControlledMultiLabel, and models that have nothing but a decision function."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, QuantileRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import riskfront as rf
from riskfront.errors import InvalidInputError, NotCertifiedWarning
from riskfront.testing._findings import too_many
from tests.support.tables import rows_with_labels


@pytest.fixture(scope="module")
def line() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1600, 1))
    return X, X[:, 0] + rng.normal(scale=0.05 + 0.2 * X[:, 0])


@pytest.fixture(scope="module")
def labels() -> tuple[OneVsRestClassifier, np.ndarray, np.ndarray]:
    X, y = rows_with_labels(2500, 5)
    return OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(X[:600], y[:600]), X[600:], y[600:]


class Counted(LinearRegression):
    """Counts how often it is asked."""

    asked = 0

    def predict(self, X):
        type(self).asked += 1
        return super().predict(X)


def test_intervals_are_the_classical_tolerance_interval(line) -> None:
    X, y = line
    model = LinearRegression().fit(X[:300], y[:300])
    safe = rf.RiskControlledIntervals(model).fit(X[300:700], y[300:700])
    outside = int(stats.binom.ppf(0.1, 400, 0.1))
    outside -= stats.binom.cdf(outside, 400, 0.1) > 0.1
    classical = np.sort(np.abs(y[300:700] - model.predict(X[300:700])))[400 - outside - 1]
    assert safe.config_["widening"] == pytest.approx(classical, rel=1e-6)
    assert safe.certificate_.n_test == 400
    lower, upper = safe.predict_interval(X[700:]).T
    assert ((lower <= y[700:]) & (y[700:] <= upper)).mean() > 0.88
    assert rf.verify(safe.certificate_, safe.loss_table(X[300:700], y[300:700])) == []
    assert safe.predict(X[700:]) == pytest.approx(model.predict(X[700:]))


def test_the_model_is_asked_once_or_twice_and_not_for_every_setting(line) -> None:
    X, y = line
    model = Counted().fit(X[:300], y[:300])
    Counted.asked = 0
    rf.RiskControlledIntervals(model).fit(X[300:700], y[300:700])
    assert Counted.asked <= 3


def test_a_pair_of_quantiles_a_scale_groups_and_joblib(line, tmp_path) -> None:
    X, y = line
    pair = tuple(QuantileRegressor(quantile=q, alpha=0).fit(X[:300], y[:300]) for q in (0.1, 0.9))
    scale = make_pipeline(StandardScaler(), LinearRegression()).fit(X[:300], 0.05 + 0.2 * X[:300, 0])
    plain = rf.RiskControlledIntervals(LinearRegression().fit(X[:300], y[:300]), limits="missed <= 10 % per side")
    scaled = clone(plain).set_params(scale=FrozenEstimator(scale))
    quantiles = rf.RiskControlledIntervals(pair, limits="coverage >= 90 % per side")
    widths = {}
    for name, made in {"plain": plain, "scaled": scaled, "quantiles": quantiles}.items():
        made.fit(X[300:1000], y[300:1000], groups={"side": X[300:1000, 0] > 0.5})
        assert made.certificate_
        joblib.dump(made, tmp_path / "made.joblib")
        interval = joblib.load(tmp_path / "made.joblib").predict_interval(X[1000:])
        widths[name] = (interval[:, 1] - interval[:, 0]).mean()
        for side in (False, True):
            rows = (X[1000:, 0] > 0.5) == side
            inside = (interval[:, 0] <= y[1000:]) & (y[1000:] <= interval[:, 1])
            assert inside[rows].mean() > 0.85
    assert max(widths["scaled"], widths["quantiles"]) < widths["plain"]


def test_intervals_say_what_is_wrong(line) -> None:
    X, y = line
    model = LinearRegression().fit(X[:300], y[:300])
    with pytest.raises(InvalidInputError, match="above 0"):
        rf.RiskControlledIntervals(model, scale=DummyRegressor(strategy="constant", constant=0.0).fit(X, y)).fit(X, y)
    with pytest.raises(InvalidInputError, match="a pair"):
        rf.RiskControlledIntervals((model, model, model)).fit(X, y)
    with pytest.raises(InvalidInputError, match="no loss 'covrage'"):
        rf.RiskControlledIntervals(model, limits="covrage >= 0.9").fit(X, y)
    with pytest.warns(NotCertifiedWarning):
        rf.RiskControlledIntervals(model, limits="coverage >= 99.9 %").fit(X[300:500], y[300:500])
    classifier = LogisticRegression().fit(X[:600], y[:600] > 0.5)
    with pytest.raises(InvalidInputError, match="must predict numbers; got LogisticRegression, which predicts classes"):
        rf.RiskControlledIntervals(classifier, limits="coverage >= 0.9").fit(X[600:], y[600:])


def test_any_object_that_predicts_will_do(line) -> None:
    class Zero:
        def predict(self, X):
            return np.zeros(len(X))

    assert rf.RiskControlledIntervals(Zero(), limits="coverage >= 90 %").fit(*line).certificate_


@pytest.mark.slow
def test_labels_keep_recall_with_few_labels(labels) -> None:
    model, X, y = labels
    safe = rf.RiskControlledMultiLabel(model, limits="recall >= 0.85").fit(X[:900], y[:900])
    assert (safe.certificate_.method, safe.certificate_.n_test) == ("ordered-knob", 900)
    said = safe.predict(X[900:])
    recall = np.where(y[900:].sum(axis=1) > 0, (said & y[900:]).sum(axis=1) / np.maximum(y[900:].sum(axis=1), 1), 1)
    assert recall.mean() > 0.84
    assert said.sum(axis=1).mean() < 4
    assert rf.verify(safe.certificate_, safe.loss_table(X[:900], y[:900])) == []
    planned = clone(safe).set_params(limits="precision >= 0.6", minimize=None, maximize="recall").fit(X[:900], y[:900])
    assert planned.certificate_.method == "pareto-testing"


def test_labels_from_a_list_of_probabilities(labels) -> None:
    _, X, y = labels
    forest = RandomForestClassifier(20, random_state=0).fit(X[:500], y[:500])
    safe = rf.RiskControlledMultiLabel(forest, limits="missed_any <= 0.3").fit(X[500:1200], y[500:1200])
    assert safe.predict(X[1200:]).shape == y[1200:].shape
    with pytest.raises(InvalidInputError, match="MultiLabelBinarizer"):
        safe.fit(X[500:1200], y[500:1200, 0])


def test_a_decision_function_alone_will_do() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), np.ones(1500, dtype=int)
    y[::10] = -1
    X[::10] += 4
    detector = IsolationForest(random_state=0).fit(X[:500])
    safe = rf.RiskControlledClassifier(detector, limits="recall >= 0.8", maximize="precision").fit(X[500:], y[500:])
    assert safe.certificate_
    assert (safe.predict(X[y == -1]) == -1).mean() > 0.8
    machine = LinearSVC().fit(X[:500], y[:500])
    other = rf.RiskControlledClassifier(machine, limits="fpr <= 5 %", pos_label=-1).fit(X[500:], y[500:])
    assert set(other.predict(X)) == {-1, 1}


class _Middle:
    """Predicts 0; values are normal around it, so that the coverage of every widening is known."""

    def predict(self, X):
        return np.zeros(len(X))


def _covers(widening: float) -> float:
    return float(2 * stats.norm.cdf(widening) - 1)


@pytest.mark.parametrize(
    ("limits", "alphas"),
    [
        ("coverage >= 0.9", {"coverage": [0.8, 0.9, 0.95]}),
        (["coverage >= 0.9", "missed <= 0.2 per g"], {"coverage": [0.8, 0.9], "missed per g": [0.3, 0.2]}),
    ],
)
def test_intervals_are_chosen_after_looking(limits, alphas) -> None:
    rng = np.random.default_rng(0)
    X, y, g = rng.normal(size=(3000, 2)), rng.normal(size=3000), np.arange(3000) % 2
    safe = rf.RiskControlledIntervals(_Middle(), limits=limits)
    groups = {"g": g} if "missed per g" in alphas else None
    found = safe.frontier(X, y, alphas, groups=groups)
    widths = []
    for value in alphas["coverage"]:
        safe.choose({name: values[0] for name, values in alphas.items()} | {"coverage": value})
        widths.append(safe.config_["widening"])
        assert value <= _covers(widths[-1]) <= value + 0.07
        assert (safe.predict_interval(X[:3])[:, 1] == widths[-1]).all()
        assert not safe.monitor().alarm
    assert widths == sorted(widths)
    assert found.guaranteed
    assert rf.verify(safe.certificate_, safe.loss_table(X, y, groups)) == []


@pytest.mark.monte_carlo
def test_a_frontier_of_intervals_is_rarely_false() -> None:
    """Candidates come from the tested examples; someone looks at all values and takes a false one if there is."""
    false, runs, values = 0, 120, [0.5, 0.7, 0.8, 0.9]
    for run in range(runs):
        rng = np.random.default_rng([7, run])
        X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
        found = rf.RiskControlledIntervals(_Middle()).frontier(X, y, {"coverage": values})
        chosen = [(value, found.choose({"coverage": value})) for value in values]
        false += any(bool(one) and _covers(one.config["widening"]) < value for value, one in chosen)
    assert not too_many(false, runs, 0.1)
    assert false > 0, "a suite that can find nothing proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize("per_label", [False, True])
@pytest.mark.parametrize("alphas", [{"recall": [0.6, 0.7, 0.8]}, {"recall": [0.6, 0.7], "precision": [0.3, 0.4]}])
def test_labels_are_chosen_after_looking(per_label, alphas) -> None:
    X, y = rows_with_labels(1700, 4, seed=1)
    model = OneVsRestClassifier(LogisticRegression()).fit(X[:500], y[:500])
    limits = [f"{name} >= {values[0]}" for name, values in alphas.items()]
    safe = rf.RiskControlledMultiLabel(model, limits=limits, per_label=per_label)
    safe.frontier(X[500:], y[500:], alphas)
    safe.choose({name: values[-1] for name, values in alphas.items()})
    assert safe.certificate_
    assert rf.verify(safe.certificate_, safe.loss_table(X[500:], y[500:])) == []
    found = (safe.predict(X[500:]) & y[500:].astype(bool)).sum(axis=1) / np.maximum(y[500:].sum(axis=1), 1)
    assert np.where(y[500:].any(axis=1), found, 1).mean() > alphas["recall"][-1]
