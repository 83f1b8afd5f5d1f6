"""The tasks on which riskfront and other tools are compared: data without end, so that the truth is known.

A task has a fitted model, a population of 100,000 examples that stands for the truth, and a rule that says of every setting how
well it truly does. Calibration examples are drawn from the population; every tool gets the same ones, the
same settings and the same delta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

DELTA = 0.1
POPULATION = 100_000
Setting = tuple[float, ...]


@dataclass(frozen=True)
class Truth:
    """What a setting truly does: how far it keeps its limits (negative: broken), and the objective."""

    room: float
    objective: float


@dataclass(frozen=True)
class Task:
    """``judge`` says the truth about a setting; ``nothing`` is the objective of who has no setting to use."""

    name: str
    wanted: str
    objective: str
    larger_is_better: bool
    nothing: float
    calibration: int
    draw: Callable[[np.random.Generator], tuple[Any, Any]]
    judge: Callable[[Setting], Truth]
    model: Any
    settings: Mapping[str, np.ndarray]

    def best(self) -> float:
        """The best objective of any setting that truly holds."""
        axes = np.stack(np.broadcast_arrays(*self.settings.values()), axis=-1).reshape(-1, len(self.settings))
        found = [self.judge(tuple(setting)) for setting in axes]
        holding = [truth.objective for truth in found if truth.room >= 0]
        return max(holding) if self.larger_is_better else min(holding)


# ---------------------------------------------------------------- two classes


@cache
def _examples() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        POPULATION + 1000,
        n_features=12,
        n_informative=6,
        class_sep=1.2,
        flip_y=0.02,
        weights=[0.7],
        random_state=0,
    )


def training_examples() -> tuple[np.ndarray, np.ndarray]:
    X, y = _examples()
    return X[:1000], y[:1000]


@cache
def two_classes() -> tuple[LogisticRegression, np.ndarray, np.ndarray, np.ndarray]:
    """A fitted model, and (X, y, probability of the positive class) of the population; 31 % are positive."""
    X, y = _examples()
    model = LogisticRegression().fit(*training_examples())
    return model, X[1000:], y[1000:], model.predict_proba(X[1000:])[:, 1]


def two_class_draw(n: int) -> Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        _, X, y, _ = two_classes()
        rows = rng.integers(0, POPULATION, n)
        return X[rows], y[rows]

    return draw


def precision_and_recall(threshold: float) -> tuple[float, float]:
    _, _, y, score = two_classes()
    called = score >= threshold
    hits = np.count_nonzero(called & (y == 1))
    return hits / max(np.count_nonzero(called), 1), hits / np.count_nonzero(y)


#: the highest threshold is one that every calibration set has positive answers at: MAPIE needs that (see compare_mapie)
THRESHOLDS = np.round(np.linspace(0.05, 0.85, 81), 2)


def precision_task(n: int = 1000, least: float = 0.9) -> Task:
    def judge(setting: Setting) -> Truth:
        precision, recall = precision_and_recall(setting[0])
        return Truth(precision - least, recall)

    wanted, draw = f"precision at least {least:g}", two_class_draw(n)
    return Task("precision", wanted, "recall", True, 0.0, n, draw, judge, two_classes()[0], {"threshold": THRESHOLDS})


def recall_task(n: int = 1000, least: float = 0.8) -> Task:
    def judge(setting: Setting) -> Truth:
        precision, recall = precision_and_recall(setting[0])
        return Truth(recall - least, precision)

    share = float(two_classes()[2].mean())  # who has no threshold calls everything positive
    wanted, draw = f"recall at least {least:g}", two_class_draw(n)
    return Task("recall", wanted, "precision", True, share, n, draw, judge, two_classes()[0], {"threshold": THRESHOLDS})


LOW = np.round(np.linspace(0.05, 0.5, 10), 2)[:, None]
HIGH = np.round(np.linspace(0.5, 0.85, 8), 2)[None, :]


def two_thresholds_task(n: int = 1000, ppv: float = 0.9, npv: float = 0.92) -> Task:
    """Negative below one threshold, positive from another one on, and no answer between them."""

    def judge(setting: Setting) -> Truth:
        _, _, y, score = two_classes()
        low, high = setting
        positive, negative = score >= high, score < low
        room = min(y[positive].mean() - ppv, 1 - y[negative].mean() - npv)
        return Truth(float(room), float(1 - positive.mean() - negative.mean()))

    wanted = f"{100 * ppv:g} % of positive and {100 * npv:g} % of negative answers right"
    axes = {"low": LOW, "high": HIGH}
    return Task(
        "two thresholds", wanted, "without an answer", False, 1.0, n, two_class_draw(n), judge, two_classes()[0], axes
    )


# ---------------------------------------------------------------- many labels, as in COCO


@cache
def many_labels(classes: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """(scores, labels), each (population, 80): common and rare classes, about three in an image; some images are harder."""
    rng = np.random.default_rng(1)
    share = 0.5 / np.arange(2, classes + 2)
    labels = rng.random((POPULATION, classes), dtype=np.float32) < share
    labels[np.arange(POPULATION), rng.choice(classes, POPULATION, p=share / share.sum())] = True
    ease = rng.gamma(4.0, 0.25, (POPULATION, 1)).astype(np.float32)
    logit = 4.5 * ease * labels - 4.2 + 1.2 * rng.standard_normal((POPULATION, classes), dtype=np.float32)
    return 1 / (1 + np.exp(-logit)), labels


LABEL_THRESHOLDS = np.round(np.linspace(0.005, 0.4, 80), 3)


@cache
def label_truth() -> tuple[np.ndarray, np.ndarray]:
    """Mean recall of an image and mean number of labels given, for each threshold."""
    scores, labels = many_labels()
    count = labels.sum(axis=1)
    recall, given = np.empty(len(LABEL_THRESHOLDS)), np.empty(len(LABEL_THRESHOLDS))
    for at, threshold in enumerate(LABEL_THRESHOLDS):
        said = scores > threshold
        recall[at], given[at] = ((said & labels).sum(axis=1) / count).mean(), said.sum(axis=1).mean()
    return recall, given


def labels_task(n: int = 500, least: float = 0.8) -> Task:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        rows = rng.integers(0, POPULATION, n)
        scores, labels = many_labels()
        return scores[rows], labels[rows].astype(int)

    def judge(setting: Setting) -> Truth:
        recall, given = label_truth()
        at = int(np.argmin(np.abs(LABEL_THRESHOLDS - setting[0])))
        return Truth(float(recall[at]) - least, float(given[at]))

    wanted = f"mean recall of an image at least {least:g}"
    return Task("labels", wanted, "labels given", False, 80.0, n, draw, judge, None, {"threshold": LABEL_THRESHOLDS})
