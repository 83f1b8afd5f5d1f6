"""Precision, recall and F1 as limits of a classifier: they are those of scikit-learn."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_score, recall_score

import riskfront as rf
from riskfront.errors import InvalidInputError

X, Y = make_classification(6000, n_informative=5, n_clusters_per_class=1, class_sep=0.6, weights=[0.7], random_state=0)
MODEL = LogisticRegression().fit(X[:1000], Y[:1000])
SCORES = {"precision": precision_score, "recall": recall_score, "f1": f1_score}


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "least"), [("precision", 0.8), ("recall", 0.8), ("f1", 0.7)])
def test_measured_as_in_scikit_learn(metric: str, least: float) -> None:
    safe = rf.RiskControlledClassifier(MODEL, limits=f"{metric} >= {least}", minimize="abstained", method="bonferroni")
    safe.fit(X[1000:], Y[1000:])
    assert safe.certificate_
    said = safe.predict(X[1000:]) == 1  # an example without an answer is no positive answer
    best = safe.certificate_.measured.iloc[0]
    assert best["measured"] == pytest.approx(SCORES[metric](Y[1000:] == 1, said))
    assert best["measured"] >= least
    assert best["test"] == ("betting" if metric == "f1" else "binomial")


def test_as_objectives() -> None:
    safe = rf.RiskControlledClassifier(
        MODEL, limits="precision >= 0.8", minimize=(), maximize="recall", method="bonferroni", abstain_thresholds=0
    ).fit(X[1000:], Y[1000:])
    best = safe.certificate_.chosen.iloc[0]
    assert best["recall"] == pytest.approx(recall_score(Y[1000:], safe.predict(X[1000:])))


@pytest.mark.parametrize(
    ("limits", "classes", "words"),
    [
        ("precision >= 0.8", 3, "'precision' is for two classes"),
        ("mae <= 3", 2, "there is no loss 'mae'"),  # before its number is judged
        ("error <= 5", 2, "Did you mean 5 %"),
    ],
    ids=["precision of three classes", "an unknown word", "per cent without the sign"],
)
def test_refusals(limits: str, classes: int, words: str) -> None:
    y = Y if classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    model = LogisticRegression().fit(X[:1000], y[:1000])
    with pytest.raises(InvalidInputError, match=words):
        rf.RiskControlledClassifier(model, limits=limits).fit(X[1000:2000], y[1000:2000])
