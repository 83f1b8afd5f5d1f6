"""One line from what was certified to a monitor."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import riskfront as rf


@pytest.fixture(scope="module")
def fitted():
    X, y = make_classification(6000, n_informative=6, n_classes=3, random_state=0)
    names = np.array(["ant", "bee", "cat"])[y]
    model = LogisticRegression().fit(X[:1000], names[:1000])
    limits = ["error <= 0.3 given answered", rf.Limit("error", at_most=0.5, per="label")]
    return rf.RiskControlledClassifier(model, limits=limits).fit(X[1000:4000], names[1000:4000]), X[4000:], names[4000:]


def test_a_classifier_gives_its_monitor_and_its_outcomes(fitted):
    classifier, X, y = fitted
    monitor = classifier.monitor(delta=0.1)
    outcomes = classifier.outcomes(X, y)
    assert not monitor.update(outcomes)
    said = classifier.predict(X)
    answered = said != "abstain"
    np.testing.assert_array_equal(outcomes["error"], answered & (said != y))
    assert monitor.status["risk"].iloc[0] == pytest.approx((said != y)[answered].mean())
    assert monitor.status["group"].tolist() == [None, "ant", "bee", "cat"]
    assert monitor.update(classifier.outcomes(X, np.roll(y, 1)))  # labels of other examples


def test_unlabelled_examples_are_missing_outcomes(fitted):
    classifier, X, y = fitted
    some = np.where(np.arange(len(y)) % 2 == 0, y, None)
    outcomes = classifier.outcomes(X, some)
    assert np.isnan(outcomes["error"].astype(float)).sum() == len(y) // 2
    assert not np.isnan(outcomes["answered"].astype(float)).any()
    audited = classifier.monitor(audit=0.5, limits=["error given answered <= 0.3"])
    assert not audited.update(outcomes)
    assert classifier.monitor(limits=["error given answered <= 0.3"]).update(outcomes)  # half of them counts as wrong


def test_two_classes_have_their_own_columns():
    X, y = make_classification(3000, random_state=1)
    model = LogisticRegression().fit(X[:500], y[:500])
    classifier = rf.RiskControlledClassifier(model, limits=["recall >= 0.6"], minimize=["false_positive"])
    classifier.fit(X[500:2000], y[500:2000])
    monitor = classifier.monitor()
    monitor.update(classifier.outcomes(X[2000:], y[2000:]))
    said, real = classifier.predict(X[2000:]) == 1, y[2000:] == 1
    measured = monitor.status["risk"].iloc[0]
    assert (
        min(abs(measured - (said & real).sum() / real.sum()), abs(measured - 1 + (said & real).sum() / real.sum()))
        < 1e-9
    )


def test_a_policy_gives_its_monitor():
    table = rf.LossTable([{"models": "small > large"}], {"error": [[0] * 300], "cost": [[1] * 300]})
    certificate = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"))
    policy = rf.Policy("cascade", ("small", "large"), (0.8,), "sure", (0.5, 0.5), certificate)
    assert policy.monitor(promise="run-length").promise.kind == "run-length"
