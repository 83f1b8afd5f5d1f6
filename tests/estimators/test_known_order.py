"""The known order of one threshold: which limits have one, where testing begins, and that the guarantee is that of "
"the whole list."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import riskfront as rf
from riskfront._problems.problem import Problem
from riskfront.estimators import _decision_thresholds as rule
from riskfront.estimators._known_order import KnownOrder, known_order, second_start_count, start_count, start_row
from riskfront.estimators._metrics import spelled_out
from riskfront.estimators._offered import occurring


@pytest.fixture(scope="module")
def data() -> tuple[LogisticRegression, np.ndarray, np.ndarray]:
    X, y = make_classification(6000, n_informative=6, weights=[0.7], flip_y=0.02, random_state=3)
    return LogisticRegression().fit(X[:1000], y[:1000]), X[1000:], y[1000:]


@pytest.mark.parametrize(
    ("limits", "knob", "expected"),
    [
        ("recall >= 0.9", "threshold", KnownOrder("threshold", "low")),
        ("fnr <= 10 %", "threshold", KnownOrder("threshold", "low")),
        ("fpr < 0.1", "threshold", KnownOrder("threshold", "high")),
        ("specificity >= 0.9 per region", "threshold", KnownOrder("threshold", "high")),
        ("recall >= 0.9 and fnr <= 0.2 per region", "threshold", KnownOrder("threshold", "low")),
        ("precision >= 0.9", "threshold", KnownOrder("threshold", "high", "predicted_positive")),
        ("npv >= 0.9", "threshold", KnownOrder("threshold", "low", "predicted_negative")),
        ("error <= 0.1 given answered", "abstain", KnownOrder("abstain", "high", "answered")),
        ("error <= 0.1 per region", "abstain", KnownOrder("abstain", "high")),
        ("precision >= 0.9 and fpr <= 0.1", "threshold", None),  # a start by count is proven for one limit
        ("precision >= 0.9 per region", "threshold", None),
        ("recall >= 0.9 and precision >= 0.5", "threshold", None),
        ("error <= 0.1", "threshold", None),
        ("f1 >= 0.5", "threshold", None),
    ],
)
def test_which_limits_have_a_known_order(limits: str, knob, expected: KnownOrder | None) -> None:
    assert known_order(Problem(spelled_out(limits), "error"), knob) == expected


@pytest.mark.parametrize("name", [*rule.COMMON, *rule.TWO_CLASSES])
@pytest.mark.parametrize("knob", ["threshold", "abstain"])
def test_directions_are_those_of_the_rule_itself(name: str, knob) -> None:
    from riskfront.estimators._known_order import _ALONG

    rng = np.random.default_rng(0)
    score = rng.random(500)
    probabilities, truth = np.stack([1 - score, score], axis=1), rng.integers(0, 2, 500)
    values = np.linspace(0.02, 0.98, 33)
    grid = (values, [0.0]) if knob == "threshold" else ([0.4], values)
    steps = np.diff(rule.outcomes(probabilities, truth, *grid, 1, [name])[name].astype(int), axis=0)
    along = {(True, False): 1, (False, True): -1, (True, True): 0, (False, False): None}[
        (steps >= 0).all(), (steps <= 0).all()
    ]
    assert _ALONG[knob].get(name) in (along, None)
    assert along in (None, 0) or _ALONG[knob][name] == along


@pytest.mark.parametrize(("alpha", "n"), [(0.2, 1000), (0.1, 300), (0.02, 500), (0.35, 2000), (0.001, 100)])
def test_start_count_is_a_number_at_which_a_loss_more_may_occur(alpha: float, n: int) -> None:
    count = start_count(alpha, 0.1, n)
    allowed = int(stats.binom.ppf(0.1, count, alpha))
    allowed -= stats.binom.cdf(allowed, count, alpha) > 0.1
    assert allowed >= 0
    assert stats.binom.cdf(allowed, count - 1, alpha) > 0.1
    assert count >= min(n / 100, n / 3)


def test_start_row_never_exceeds_its_count() -> None:
    assert start_row([3, 9, 10, 400], 10) == 2
    assert start_row([3, 9, 11, 400], 10) == 1
    assert start_row([30, 90], 10) == 0


def test_thresholds_tell_all_scores_apart_and_do_not_depend_on_how_often_they_occur() -> None:
    scores = np.round(np.random.default_rng(1).random(200), 3)
    found, (lowest, highest) = occurring(scores, lambda t: t)
    assert all(low <= middle <= high for low, middle, high in zip(lowest, found, highest, strict=True))
    assert all(((scores >= a) == (scores >= b)).all() for a, b in zip(lowest, highest, strict=True))
    counts = [(scores >= t).sum() for t in found]
    assert counts == sorted(set(counts), reverse=True)
    # a threshold at a score itself is on the list, so that every score that differs in three digits can be told apart
    assert len(found) == len(np.unique(scores))
    assert occurring(np.repeat(scores, 3), lambda t: t)[0] == found


@pytest.mark.parametrize(("limit", "high"), [("precision >= 0.8", True), ("npv >= 0.8", False)])
def test_the_first_tested_threshold_is_the_last_that_selects_so_many(data, limit: str, high: bool) -> None:
    """Of all listed thresholds that select the same examples, the proof of ``start_row`` covers the last alone."""
    model, X, y = data
    X = X[:300]
    safe = rf.RiskControlledClassifier(model, limits=limit)
    safe.fit(X, y[:300])
    first, step = safe.certificate_.tested.iloc[0]["threshold"], 1e-4 if high else -1e-4
    scores = model.predict_proba(X)[:, 1]
    if 0.1 < first < 0.9:  # where the list has steps of 1e-4
        assert (scores >= first).sum() != (scores >= first - step).sum()


def test_all_examples_test_and_the_words_come_back(data) -> None:
    model, X, y = data
    safe = rf.RiskControlledClassifier(model, limits="recall >= 90 %", maximize="precision").fit(X[:1000], y[:1000])
    certificate = safe.certificate_
    assert (certificate.method, certificate.n_opt, certificate.n_test) == ("ordered-knob", 0, 1000)
    assert certificate.verdict() == "With 90 % confidence, recall stays at or above 90 %."
    assert {"recall", "precision"} <= set(certificate.chosen.columns)
    assert "known without any data" in " ".join(certificate.notes)
    assert rf.verify(certificate, safe.loss_table(X[:1000], y[:1000])) == []
    assert set(np.unique(safe.predict(X[1000:]))) == {0, 1}  # no abstention unless asked for


def test_precision_begins_where_a_count_says_so(data) -> None:
    model, X, y = data
    safe = rf.RiskControlledClassifier(model, limits="precision >= 0.8").fit(X[:1000], y[:1000])
    assert safe.certificate_
    first = safe.certificate_.tested.iloc[0]["threshold"]
    assert (model.predict_proba(X[:1000])[:, 1] >= first).sum() <= start_count(0.2, 0.1, 1000)
    assert "looks at no label" in " ".join(safe.certificate_.notes)
    # other labels, the same thresholds
    other = rf.RiskControlledClassifier(model, limits="precision >= 0.8")
    with pytest.warns(rf.errors.NotCertifiedWarning):
        other.fit(X[:1000], 1 - y[:1000])
    assert other._tried.grid == safe._tried.grid


@pytest.mark.parametrize(("alpha", "n", "expected"), [(0.1, 1500, 244), (0.05, 1000, 333), (0.02, 1000, None)])
def test_second_start_count(alpha: float, n: int, expected: int | None) -> None:
    assert second_start_count(alpha, 0.1, n) == expected


@pytest.mark.slow
def test_a_few_errors_at_the_highest_confidences_do_not_end_the_test() -> None:
    """Three in a hundred labels are wrong at any confidence, and ten may be: of 30 draws none may end with nothing."""
    rng, answered = np.random.default_rng(0), []
    for _ in range(30):
        score = 0.5 + 0.5 * rng.random(1500)
        safe = rf.RiskControlledClassifier(_Says(), limits="accuracy >= 90 %")
        safe.fit(np.column_stack([score, rng.random(1500)]), (rng.random(1500) < 0.97).astype(int))
        answered.append(bool(safe.certificate_) and safe.config_["abstain"] == 0)
    assert all(answered)
    assert "with 2/3 of delta" in " ".join(safe.certificate_.notes)


class _Says:
    """A model that says the first feature."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.stack([1 - X[:, 0], X[:, 0]], axis=1)


def test_abstention_only_where_it_is_asked_for(data) -> None:
    model, X, y = data
    region = np.arange(1000) % 3
    for limits, knobs in (("recall >= 0.5 per region", (True, False)), ("error <= 0.3 per region", (False, True))):
        safe = rf.RiskControlledClassifier(model, limits=limits)
        safe.fit(X[:1000], y[:1000], groups={"region": region})
        assert (len(safe._tried.thresholds) > 1, len(safe._tried.abstain) > 1) == knobs


def test_where_limits_disagree_some_examples_plan(data) -> None:
    model, X, y = data
    safe = rf.RiskControlledClassifier(model, limits="recall >= 0.5 and precision >= 0.6").fit(X[:2000], y[:2000])
    assert safe.certificate_.method == "pareto-testing"
    assert safe.certificate_.n_opt > 0
