"""What ``fit`` is told, or finds out, about rows: amounts, clusters, training rows, neighbours that are alike."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import riskfront as rf
from riskfront.errors import DependentRowsWarning, InvalidInputError
from riskfront.estimators._costs import Prices
from riskfront.estimators._training_rows import resemblance
from tests.support.tables import rows_with_labels

COSTS = {"false_positive": 5, "missed_positive": "amount"}


@pytest.fixture(scope="module")
def data() -> tuple[LogisticRegression, np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_classification(1700, n_informative=6, flip_y=0.02, random_state=0)
    amounts = np.random.default_rng(0).uniform(1, 100, 1200)
    return LogisticRegression().fit(X[:500], y[:500]), X[500:], y[500:], amounts


# ---------------------------------------------------------------- costs and amounts


def test_cost_is_what_the_prices_say(data) -> None:
    model, X, y, amounts = data
    limits = ["cost <= 40", "cost / amount <= 90 %", "q0.9(cost) <= 80"]
    safe = rf.RiskControlledClassifier(model, limits=limits, costs=COSTS, minimize="cost", largest_amount=100)
    safe.fit(X, y, amounts=amounts)
    said = safe.predict(X)
    cost = 5 * ((said == 1) & (y == 0)) + amounts * ((said != 1) & (y == 1))
    found = safe.outcomes(X, y, amounts=amounts)
    assert found["cost"] == pytest.approx(cost)
    assert found["amount"] == pytest.approx(amounts)
    table = safe.loss_table(X, y, amounts=amounts)
    assert rf.verify(safe.certificate_, table) == []
    assert table.bounds("cost") == (0, 100)
    # a mean of costs has an optimum inside: thresholds are offered though no limit names one class
    assert 0.01 < safe.config_["threshold"] < 0.3


def test_largest_cost_is_that_of_outcomes_that_come_together() -> None:
    prices = Prices({"false_positive": 3.0, "missed_positive": 2.0, "abstained": 2.0}, None, None)
    assert prices.bounds(True) == {"cost": (0, 4)}  # without an answer, a positive example is missed
    assert Prices({"error": 3.0, "abstained": 1.0}, None, None).bounds(False) == {"cost": (0, 3)}


def test_amounts_and_clusters_are_routed_as_metadata(data) -> None:
    model, X, y, amounts = data
    with sklearn.config_context(enable_metadata_routing=True):
        safe = rf.RiskControlledClassifier(model, limits="recall >= 0.8", costs=COSTS, minimize="cost")
        line = make_pipeline(FrozenEstimator(StandardScaler(with_mean=False, with_std=False).fit(X)), safe)
        safe.set_fit_request(amounts=True, clusters=True)
        line.fit(X, y, amounts=amounts, clusters=np.arange(len(y)) // 2)
    assert "cost" in line[-1].certificate_.chosen.columns
    assert line[-1].certificate_.n_test == len(y) // 2


# ---------------------------------------------------------------- clusters


@pytest.mark.slow
def test_clusters_turn_conditions_into_ratios_and_keep_words_and_order(data) -> None:
    model, X, y, _ = data
    day = np.arange(len(y)) // 3
    safe = rf.RiskControlledClassifier(model, limits="recall >= 0.7", maximize="precision").fit(X, y, clusters=day)
    assert (safe.certificate_.method, safe.certificate_.n_test) == ("ordered-knob", 400)
    assert "recall stays at or above 70 %" in safe.certificate_.verdict()
    assert "mean over new values of cluster" in " ".join(safe.certificate_.notes)
    assert rf.verify(safe.certificate_, safe.loss_table(X, y, clusters=day)) == []
    table = safe.loss_table(X, y, clusters=day)
    rows = pd.DataFrame({"day": day, "positive": y})
    assert table.losses("positive")[0] == pytest.approx(rows.groupby("day")["positive"].mean().to_numpy())
    planned = clone(safe).set_params(limits="precision >= 0.6", maximize="recall").fit(X, y, clusters=day)
    assert planned.certificate_.method == "pareto-testing"


def test_clusters_of_intervals_labels_and_any_estimator() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1200, 1))
    y, day = X[:, 0] + rng.normal(scale=0.1, size=1200), np.arange(900) // 3
    model = LinearRegression().fit(X[:300], y[:300])
    rows = rf.RiskControlledIntervals(model).fit(X[300:], y[300:])
    days = rf.RiskControlledIntervals(model).fit(X[300:], y[300:], clusters=day)
    assert days.certificate_.n_test == 300
    assert days.config_["widening"] >= rows.config_["widening"]  # Hoeffding and Bentkus, on fewer examples
    with pytest.raises(InvalidInputError, match="must not be divided"):
        rf.RiskControlledIntervals(LinearRegression(), train_fraction=0.5).fit(X[300:], y[300:], clusters=day)
    with pytest.raises(InvalidInputError, match="taken from examples that plan"):
        rf.RiskControlledIntervals(model, method="bonferroni").fit(X[300:], y[300:])


# ---------------------------------------------------------------- training rows

_MODELS = [
    KNeighborsClassifier(),
    make_pipeline(StandardScaler(), KNeighborsClassifier()),
    SVC(),
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(10, random_state=0),
    GradientBoostingClassifier(n_estimators=10, random_state=0),
    LogisticRegression(),
    LogisticRegression(C=0.01),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


@pytest.mark.parametrize("model", _MODELS, ids=lambda model: type(model).__name__)
def test_training_rows_are_refused_and_others_are_not(data, model) -> None:
    _, X, y, _ = data
    model = clone(model).fit(X[:400], y[:400])
    for wrapped in (model, FrozenEstimator(model)):
        with pytest.raises(InvalidInputError, match="others than the model was trained on"):
            rf.RiskControlledClassifier(wrapped, limits="error <= 0.5").fit(X[:400], y[:400])
    shuffled = np.random.default_rng(0).permutation(400)
    with pytest.raises(InvalidInputError, match="others than the model was trained on"):
        rf.RiskControlledClassifier(model, limits="error <= 0.5").fit(X[shuffled], y[shuffled])
    assert rf.RiskControlledClassifier(model, limits="error <= 0.5").fit(X[400:], y[400:]).certificate_


def test_isotonic_calibration_on_the_same_rows_is_recognised() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + rng.normal(size=1500) > 0).astype(int)
    model = FrozenEstimator(LogisticRegression().fit(X[:500], y[:500]))
    calibrated = CalibratedClassifierCV(model, method="isotonic").fit(X[500:1000], y[500:1000])
    safe = rf.RiskControlledClassifier(FrozenEstimator(calibrated), limits="precision >= 0.6")
    with pytest.raises(rf.InvalidInputError, match="exactly the share of positives"):
        safe.fit(X[500:1000], y[500:1000])
    safe.fit(X[1000:], y[1000:])


@pytest.mark.parametrize("features", [1, 3])
def test_a_regressor_shows_its_training_rows_too(features: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, features))
    y = X.sum(axis=1) + rng.normal(size=400)
    model = LinearRegression().fit(X[:200], y[:200])
    with pytest.raises(InvalidInputError, match="the equations that LinearRegression solves"):
        rf.RiskControlledIntervals(model).fit(X[:200], y[:200])
    assert rf.RiskControlledIntervals(model).fit(X[200:], y[200:]).certificate_


# ---------------------------------------------------------------- neighbours that are alike


def test_independent_rows_seldom_resemble_their_neighbours() -> None:
    rng = np.random.default_rng(0)
    found = [resemblance(rng.random(200) < 0.1) for _ in range(400)]
    assert max(found) < 5
    assert np.mean(np.array(found) > 2) < 0.12  # the largest of three
    slow = np.repeat(rng.random(40) < 0.5, 20)
    assert resemblance(rng.random(800) < np.where(slow, 0.4, 0.05)) > 5


def test_regimes_and_one_class_give_a_warning_and_sorted_or_shuffled_rows_none(data) -> None:
    model, X, y, _ = data
    rng = np.random.default_rng(1)
    slow = np.repeat(rng.random(24) < 0.3, 50)
    wrong = np.where(rng.random(1200) < np.where(slow, 0.4, 0.05), 1 - model.predict(X), model.predict(X))
    safe = rf.RiskControlledClassifier(model, limits="error <= 0.4")
    with pytest.warns(DependentRowsWarning, match="clusters=day"):
        safe.fit(X, wrong)
    with pytest.warns(UserWarning, match="y holds one class alone: 1"):
        safe.fit(X[y == 1], y[y == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for order in (rng.permutation(1200), np.argsort(y, kind="stable")):
            safe.fit(X[order], y[order])


# ---------------------------------------------------------------- one class, contradictions, frames


def test_set_output_inside_the_model_works(data) -> None:
    _, X, y, _ = data
    frame = pd.DataFrame(X, columns=[f"c{at}" for at in range(X.shape[1])])
    model = make_pipeline(StandardScaler(), LogisticRegression()).set_output(transform="pandas")
    model.fit(frame[:300], y[:300])
    safe = rf.RiskControlledClassifier(model, limits="error <= 0.4").fit(frame[300:], y[300:])
    assert list(safe.feature_names_in_) == list(frame.columns)
    assert safe.predict(frame[300:]).shape == (900,)


# ---------------------------------------------------------------- a threshold for each label


@pytest.mark.slow
def test_a_threshold_for_each_label_serves_rare_labels() -> None:
    X, y = rows_with_labels(2200, 4)
    y[:, 3] &= np.random.default_rng(0).random(2200) < 0.3
    model = OneVsRestClassifier(LogisticRegression(max_iter=500)).fit(X[:600], y[:600])
    given = {}
    for per_label in (False, True):
        safe = rf.RiskControlledMultiLabel(model, limits="recall >= 0.7 per label", per_label=per_label)
        safe.fit(X[600:1600], y[600:1600])
        assert safe.certificate_
        assert "recall of label 3 stays at or above 70 %" in safe.certificate_.verdict()
        assert rf.verify(safe.certificate_, safe.loss_table(X[600:1600], y[600:1600])) == []
        said, true = safe.predict(X[1600:]), y[1600:]
        assert ((said & true).sum(axis=0) / true.sum(axis=0)).min() > 0.65
        given[per_label] = said.sum(axis=1).mean()
    assert given[True] < given[False]
    assert safe.certificate_.n_test == 700
    with pytest.raises(InvalidInputError, match="leave out thresholds"):
        clone(safe).set_params(thresholds=[0.5]).fit(X[600:], y[600:])


# ---------------------------------------------------------------- uses of the same rows


def test_another_model_or_limit_on_the_same_rows_is_another_question_to_them(data) -> None:
    model, X, y, _ = data
    other = LogisticRegression(C=0.01).fit(*make_classification(500, n_informative=6, random_state=7))
    order = np.random.default_rng(0).permutation(len(y))

    def uses(estimator: Any, limit: str, rows: np.ndarray) -> int:
        fitted = rf.RiskControlledClassifier(estimator, limits=limit, maximize="coverage").fit(X[rows], y[rows])
        return len(fitted.certificate_.earlier_looks)

    every = np.arange(len(y))
    assert uses(model, "error <= 0.3", every) == 0
    assert uses(other, "error <= 0.3", order) == 1
    assert uses(model, "accuracy >= 0.6", every) == 2
    assert uses(model, "error <= 0.3", every) == 0  # a repeated question gives its answer again
    assert (
        uses(model, "error <= 0.3", every[: len(y) // 2]) == 0
    )  # a part of the rows is not known again: the page says so


def test_fit_warns_where_earlier_questions_leave_no_confidence(data) -> None:
    model, X, y, _ = data
    for k in range(3):
        safe = rf.RiskControlledClassifier(model, limits=f"recall >= 0.{80 + k}", maximize="precision", delta=0.4)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            safe.fit(X, y)
        words = [str(one.message) for one in said if one.category is rf.NotCertifiedWarning]
        assert [text.startswith("NO GUARANTEE: no confidence is left") for text in words] == [True] * (k == 2)


def test_several_measurements_of_one_example_are_no_examples() -> None:
    """X is the same in twenty rows, y differs in its last digits: no row equals another."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.repeat(np.arange(60), 20))
    X, y = rng.random((60, 2))[rows], rng.random(60)[rows] + 1e-7 * rng.random(1200)
    with pytest.raises(rf.InvalidInputError, match=r"1,140 have exactly the X of another.* give clusters="):
        rf.RiskControlledIntervals(_Zero(), limits="coverage >= 80 %").fit(X, y)
    rf.RiskControlledIntervals(_Zero(), limits="coverage >= 60 %").fit(X, y, clusters=rows)
    rf.RiskControlledIntervals(_Zero(), limits="coverage >= 80 %", repeats="independent").fit(X, y)


@pytest.mark.parametrize("clusters", [np.arange(1200), np.repeat(np.arange(20), 60)])
def test_copies_in_other_clusters_are_no_independent_clusters(clusters: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    X, y = np.tile(rng.random((60, 2)), (20, 1)), np.tile(rng.random(60), 20)
    model = rf.RiskControlledIntervals(_Zero(), limits="coverage >= 80 %")
    with pytest.raises(rf.InvalidInputError, match=r"1,140 have exactly the X of another in another cluster"):
        model.fit(X, y, clusters=clusters)
    if len(np.unique(clusters)) == 20:  # single rows with equal losses are refused by the table, too
        model.set_params(repeats="independent", limits="coverage >= 50 %").fit(X, y, clusters=clusters)


def test_few_different_rows_are_independent_draws() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (1200, 2)).astype(float), rng.random(1200)
    rf.RiskControlledIntervals(_Zero(), limits="coverage >= 80 %").fit(X, y)
    rf.RiskControlledIntervals(_Zero(), limits="coverage >= 80 %").fit(sparse.csr_array(X), y)


class _Zero(RegressorMixin, BaseEstimator):
    """Predicts 0; was fitted elsewhere."""

    n_features_in_ = 2

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X):
        return np.zeros(X.shape[0])


def test_another_seed_asks_the_same_rows_again() -> None:
    """A part trains or plans; which one must not let the others count as new."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(400, 3)), rng.integers(0, 2, (400, 3))
    for seed in range(2):
        safe = rf.RiskControlledClassifier(
            LogisticRegression(), limits="error <= 70 %", train_fraction=0.5, random_state=seed
        ).fit(X, y[:, 0])
        assert len(safe.certificate_.earlier_looks) == seed
    labels = OneVsRestClassifier(LogisticRegression()).fit(rng.normal(size=(400, 3)), rng.integers(0, 2, (400, 3)))
    for seed in range(2):
        given = rf.RiskControlledMultiLabel(labels, limits="recall >= 50 %", per_label=True, random_state=seed).fit(
            X, y
        )
        assert len(given.certificate_.earlier_looks) == seed


COSTLY = {"limits": "cost <= 12", "costs": COSTS, "minimize": "cost"}
#: what is wrong -> parameters, amounts a row (or None), words
REFUSED = {
    "costs that are not known": (COSTLY | {"costs": None}, None, "needs to know what outcomes cost"),
    "no amounts": (COSTLY, None, "must have one for each example; got none"),
    "no largest amount": (COSTLY, 1200, "largest_amount=.*q0.99"),
    "amounts above the largest": (COSTLY | {"largest_amount": 50}, 1200, "at most largest_amount, 50"),
    "a cost of no outcome": (COSTLY | {"costs": {"mistake": 1}}, None, "outcomes are error, correct"),
    "amounts of other rows": (COSTLY, 1199, "for each of 1200 examples"),
    "amounts without costs": ({"limits": "error <= 0.3"}, 1200, "amounts need costs"),
    "a limit at its bound, in the words of the user": (
        {"limits": "recall >= 100 %"},
        None,
        "the limit on 'recall' must lie strictly .* allow a small share",
    ),
    **{
        limits: ({"limits": limits}, None, "must not contradict each other")
        for limits in (
            "recall >= 0.9 and fnr >= 0.5",
            "recall <= 0.3 and fnr <= 0.3",
            "recall >= 0.9 and sensitivity <= 0.5",
            "fpr >= 0.5 and specificity >= 0.6",
            "coverage >= 0.9 and abstention >= 0.2",
            "coverage <= 0.1 and abstention <= 0.2",
            "accuracy >= 90 % and error >= 20 % given answered",
            "precision >= 0.9 and false_discovery_rate >= 0.2",
        )
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(data, case: str) -> None:
    model, X, y, amounts = data
    options, n_amounts, words = REFUSED[case]
    safe = rf.RiskControlledClassifier(model, **options)
    with pytest.raises(InvalidInputError, match=words):
        safe.fit(X, y, **({} if n_amounts is None else {"amounts": amounts[:n_amounts]}))
    assert not hasattr(safe, "certificate_")
