"""The doors through which models go: tune, the estimators, accelerate."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

import riskfront as rf
from riskfront._calibration.certificates.uses_of_test_set import ASKED
from riskfront.errors import InvalidInputError, NotCertifiedWarning, SpentExamplesError
from tests.support.simulation import Suite, one_by_one, sharp_size

ALPHA, DELTA, HAIR = 0.2, 0.1, 1e-9
PARETO = rf.ParetoTesting(opt_fraction=0.3)
_N = sharp_size(ALPHA, DELTA, 120, 0.3)


def tune(trial: int, m: int = 100) -> bool:
    """A search over a hundred settings, each of which breaks the limit by a hair."""
    errors = np.random.default_rng([41, trial]).random((m, _N), dtype=np.float32) < ALPHA + HAIR

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        row = errors[config["setting"], examples]
        return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

    certificate = rf.tune(
        losses,
        np.arange(_N),
        rf.Space(setting=rf.Int(0, m - 1)),
        rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA),
        search="grid",
        budget=m,
        seed=trial,
        method=PARETO,
        progress=False,
    )
    return bool(certificate)


def larger_budgets(trial: int) -> bool:
    """One store, asked again with a larger budget until something passes: every setting breaks the limit by a hair.

    To refuse is right; without a record of what was asked, .3 of such stores give a false certificate in six looks.
    """
    errors = np.random.default_rng([45, trial]).random((64, _N), dtype=np.float32) < ALPHA + HAIR

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        row = errors[config["setting"], examples]
        return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

    losses.fingerprint = f"larger budgets {trial}"  # type: ignore[attr-defined]
    problem = rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA)
    space = rf.Space(setting=rf.Int(0, 63))
    options: dict[str, Any] = {"search": "random", "seed": trial, "method": PARETO, "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        for budget in (1, 2, 4, 8, 16, 32):
            try:
                found = rf.tune(losses, np.arange(_N), space, problem, budget=budget, looks=folder, **options)
            except SpentExamplesError:
                return False
            if found:
                return True
    return False


def evaluated_until_one_passes(trial: int) -> bool:
    """Six models, each wrong a hair too often, are evaluated on the same examples, each into a table of its own."""
    rng = np.random.default_rng([56, trial])
    examples = rng.random((_N, 6))
    for model in range(6):
        table = rf.evaluate(
            lambda config, rows, model=model: {"error": rows[:, model] < config["at"]}, examples, [{"at": ALPHA + HAIR}]
        )
        found = rf.calibrate(table, rf.Problem([f"error <= {ALPHA}"], minimize="at", delta=DELTA), method="bonferroni")
        if found and f"With {100 * (1 - DELTA):g} % conf" in found.verdict():
            return True
    return False


def processes_until_one_passes(trial: int) -> bool:
    """The same examples in another order and precision, each time in a process of its own; what was asked is on disk."""
    rng = np.random.default_rng([55, trial])
    errors = rng.random((64, _N), dtype=np.float32) < ALPHA + HAIR
    examples = np.column_stack([np.arange(_N), rng.random(_N)])

    def losses(config: dict[str, int], rows: np.ndarray) -> dict[str, np.ndarray]:
        row = errors[config["setting"], rows[:, 0].astype(int)]
        return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

    problem = rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA)
    space = rf.Space(setting=rf.Int(0, 63))
    options: dict[str, Any] = {"search": "random", "seed": trial, "method": PARETO, "progress": False, "budget": 8}
    with tempfile.TemporaryDirectory() as folder:
        for process in range(6):
            ASKED._uses = []  # as in a new process, which remembers nothing
            rows = examples[rng.permutation(_N)].astype(np.float32 if process % 2 else np.float64)
            try:
                found = rf.tune(losses, rows, space, problem, looks=folder, **options)
            except SpentExamplesError:
                return False
            if found:
                return True
    return False


def classifier(trial: int) -> bool:
    """Labels are coin flips. A tree that has learnt some of them by heart must not be calibrated on those."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng([42, trial])
    X, y = rng.random((240, 3)), rng.integers(0, 2, 240)
    model = rf.RiskControlledClassifier(
        DecisionTreeClassifier(random_state=0),
        limits="error <= 0.4 given answered",
        thresholds=np.linspace(0.05, 0.95, 19),
        abstain_thresholds=np.linspace(0, 0.95, 20),
        train_fraction=0.5,
        delta=DELTA,
        random_state=trial,
    )
    return bool(_fitted(model, X, y).certificate_)


class Scores:
    """A model of two classes that says the first column of X."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.stack([1 - X[:, 0], X[:, 0]], axis=1)


def known_order(trial: int, n: int = 400) -> bool:
    """One threshold in its known order: on scores that say nothing, so that every threshold breaks the limit by a hair; on a
    few groups of equal scores, of which the first has about as many examples as the start wants and nothing but losses, and
    the next repairs it almost; and on recall, which falls evenly with the threshold."""
    rng, kind = np.random.default_rng([44, trial]), (0, 0, 1, 2)[trial % 4]
    score, extra = rng.random(n), rng.random((n, 2))  # other columns: examples differ though scores are equal
    if kind == 0:
        y, limits = rng.random(n) < 0.8 - HAIR, "precision >= 0.8"
    elif kind == 1:
        share = 25 / n  # precision .8 needs 25 examples to pass with two losses
        score = np.select([score < share, score < 5 * share - HAIR], [0.9, 0.7], 0.1)
        y, limits = score == 0.7, "precision >= 0.8"
    else:
        y, limits = rng.random(n) < 0.5, "recall >= 0.9"
    model = rf.RiskControlledClassifier(Scores(), limits=limits, delta=DELTA, repeats="independent")
    found = _fitted(model, np.column_stack([score, extra]), y.astype(int))
    if kind < 2:
        return found.config_ is not None
    return found.config_ is not None and found.config_["threshold"] > 0.1 + HAIR


def two_starts(trial: int, n: int = 600) -> bool:
    """Accuracy among answers, tested from two starts: on confidences that say nothing, so that every threshold breaks the
    limit by a hair; and on a few groups of equal confidence, of which the first is always right, and the next, always wrong,
    brings the accuracy a hair below the limit where about as many are answered as the second start wants."""
    rng, groups = np.random.default_rng([49, trial]), trial % 8 == 0
    score = rng.random(n)
    if groups:
        share = 109 / n  # the second start, for 600 examples
        confidence = np.select([score < 0.8 * share - HAIR, score < share], [0.9, 0.7], 0.55)
        right = np.where(score < share, confidence == 0.9, rng.random(n) < 0.5)
    else:
        confidence, right = 0.5 + 0.45 * score, rng.random(n) < 0.8 - HAIR
    model = rf.RiskControlledClassifier(Scores(), limits="accuracy >= 0.8", delta=DELTA, repeats="independent")
    found = _fitted(model, np.column_stack([confidence, rng.random((n, 2))]), right.astype(int))
    return found.config_ is not None and (not groups or found.config_["abstain"] <= 0.7)


class Ready(ClassifierMixin, BaseEstimator):
    """The same, as scikit-learn knows models; it needs no training."""

    classes_ = Scores.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: np.ndarray, y: np.ndarray) -> Ready:
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return Scores().predict_proba(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X[:, 0] >= 0.5).astype(int)


def probabilities_of_the_same_rows(trial: int, n: int = 1000) -> bool:
    """Scores say nothing, and precision is a hair too low at every threshold; isotonic regression on the rows to calibrate on
    leaves those thresholds at which precision looks best."""
    from sklearn.calibration import CalibratedClassifierCV

    rng = np.random.default_rng([54, trial])
    X, y = rng.random((n, 2)), (rng.random(n) < 0.5 - HAIR).astype(int)
    model = CalibratedClassifierCV(FrozenEstimator(Ready()), method="isotonic").fit(X, y)
    try:
        found = _fitted(rf.RiskControlledClassifier(model, limits="precision >= 0.5", delta=DELTA), X, y)
    except InvalidInputError:
        return False
    return found.config_ is not None


class Column(Scores):
    """A model of two classes that says one column of X."""

    def __init__(self, column: int) -> None:
        self.column = column

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return super().predict_proba(X[:, self.column :])


def models_until_one_passes(trial: int, n: int = 120) -> bool:
    """Six models, each wrong a hair too often, are calibrated on the same rows, in another order each time. False is a
    certificate that states the confidence of a single question."""
    rng = np.random.default_rng([53, trial])
    y, right = rng.integers(0, 2, n), rng.random((n, 6)) >= ALPHA + HAIR
    X = 0.5 * rng.random((n, 6)) + 0.5 * (right == (y == 1)[:, None])  # at least one half: positive
    for column in range(6):
        order = rng.permutation(n)
        model = rf.RiskControlledClassifier(
            Column(column), limits=f"error <= {ALPHA}", thresholds=[0.5], abstain_thresholds=[0], delta=DELTA
        )
        found = _fitted(model, X[order], y[order]).certificate_
        if found and found.guaranteed and f"With {100 * (1 - DELTA):g} % conf" in found.verdict():
            return True
    return False


class Percent(Column):
    """The same of scores in percent."""

    def predict_proba(self, X: Any) -> np.ndarray:
        return super().predict_proba(np.asarray(X, dtype=np.float64) / 100)


def models_until_one_passes_on_other_types(trial: int, n: int = 152) -> bool:
    """The same, where rows and labels are whole numbers or decimals of several sizes or objects, an array or a data frame."""
    rng = np.random.default_rng([54, trial])
    y, right = rng.integers(0, 2, n), rng.random((n, 6)) >= ALPHA + HAIR
    X = rng.integers(0, 50, (n, 6)) + 50 * (right == (y == 1)[:, None])
    whole = [(X.astype(object), y), (pd.DataFrame(X.astype(np.int32)), y.astype(float)), (X.astype(np.int16), y)]
    forms = [*whole, (X.astype(np.uint8), y), (X.astype(np.float32), y), (X.astype(float), y.astype(float))]
    for column, (rows, labels) in enumerate(forms):
        model = rf.RiskControlledClassifier(
            Percent(column), limits=f"error <= {ALPHA}", thresholds=[0.5], abstain_thresholds=[0], delta=DELTA
        )
        found = _fitted(model, rows, labels).certificate_
        if found and found.guaranteed and f"With {100 * (1 - DELTA):g} % conf" in found.verdict():
            return True
    return False


def seeds_until_one_passes(trial: int, n: int = 300) -> bool:
    """A model that always says 0 is wrong a hair too often. Twelve seeds each leave other rows of the same to calibrate on.
    False is a certificate that states the confidence of a single question."""
    from sklearn.dummy import DummyClassifier

    rng = np.random.default_rng([55, trial])
    X, y = rng.random((n, 2)), (rng.random(n) < ALPHA + HAIR).astype(int)
    for seed in range(12):
        model = rf.RiskControlledClassifier(
            DummyClassifier(), limits=f"error <= {ALPHA}", abstain_thresholds=[0], train_fraction=0.5, random_state=seed
        )
        found = _fitted(model, X, y).certificate_
        if found and found.guaranteed and f"With {100 * (1 - DELTA):g} % conf" in found.verdict():
            return True
    return False


class Zero:
    """A regressor that says 0."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X))


def intervals(trial: int, n: int = 131) -> bool:
    """Values are even between 0 and 1, so that a widening covers a share as large as itself: .9 is needed."""
    rng = np.random.default_rng([45, trial])
    found = _fitted(
        rf.RiskControlledIntervals(Zero(), limits="coverage >= 0.9", delta=DELTA), rng.random((n, 2)), rng.random(n)
    )
    return found.config_ is not None and found.config_["widening"] < 0.9 - 1e-8


class Same:
    """A regressor that says one number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.number)


def set_after_fit(trial: int, n: int = 200) -> bool:
    """What was set, or fitted, after a certificate was made must not be used with it: another scale of intervals, and another
    model, which is always wrong, with a limit that was chosen on the frontier of the first. To refuse is right."""
    rng = np.random.default_rng([53, trial])
    X, more = rng.random((n, 3)), rng.random((n, 3))
    if trial % 2:
        intervals = _fitted(rf.RiskControlledIntervals(Zero(), scale=Same(1.0)), X, X[:, 1])
        intervals.set_params(scale=Same(0.1))
        return bool(np.ptp(intervals.predict_interval(X)[0]) < 1)
    y = (X[:, 0] > 0.5).astype(int)
    model = rf.RiskControlledClassifier(Column(0), limits="error <= 0.2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        model.frontier(X, y, {"error": [0.1, 0.2]})
        model.set_params(estimator=Opposite()).fit(more, (more[:, 0] > 0.5).astype(int))
        try:
            model.choose({"error": 0.1})
        except NotFittedError:
            return False
    return bool((model.predict(X) != y).mean() > 0.5)


class Opposite(Scores):
    """It says the opposite of the first column."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return super().predict_proba(1 - X)


class Labels:
    """A model of two labels that says the first two columns of X."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return X[:, :2]


def many_labels(trial: int, n: int = 200) -> bool:
    """One of two labels is true, with a score even between 0 and 1: recall is one minus the threshold, and .1 is the limit."""
    rng = np.random.default_rng([46, trial])
    y = np.eye(2, dtype=int)[rng.integers(0, 2, n)]
    found = _fitted(rf.RiskControlledMultiLabel(Labels(), limits="recall >= 0.9", delta=DELTA), rng.random((n, 3)), y)
    return found.config_ is not None and found.config_["threshold"] > 0.1 + 1e-6


def a_threshold_for_each_label(trial: int, n: int = 200, labels: int = 10) -> bool:
    """Ten labels, each true half of the time with a score even between 0 and 1: no threshold may be above .1."""
    rng = np.random.default_rng([47, trial])
    scores, y = rng.random((n, labels)), rng.integers(0, 2, (n, labels))
    model = rf.RiskControlledMultiLabel(AllLabels(), limits="recall >= 0.9 per label", per_label=True, delta=DELTA)
    found = _fitted(model, scores, y)
    return found.config_ is not None and max(found.config_[f"threshold {k}"] for k in range(labels)) > 0.1 + 1e-6


class AllLabels:
    """A model of as many labels as X has columns; it says X."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return X


def rows_of_one_day(trial: int, days: int = 60, rows: int = 5) -> bool:
    """All rows of a day are right or all are wrong, and a day is wrong a hair too often."""
    rng = np.random.default_rng([48, trial])
    wrong = np.repeat(rng.random(days) < ALPHA + HAIR, rows)
    X = np.column_stack([rng.uniform(0.6, 1, days * rows), rng.random(days * rows)])
    model = rf.RiskControlledClassifier(
        Scores(), limits=f"error <= {ALPHA}", thresholds=[0.5], abstain_thresholds=[0], delta=DELTA
    )
    return bool(_fitted(model, X, np.where(wrong, 0, 1), clusters=np.repeat(np.arange(days), rows)).certificate_)


def interval_days(trial: int, days: int = 40, rows: int = 20) -> bool:
    """Values are even between 0 and 1, and those of a day lie close together: a widening covers a share as large as itself."""
    rng = np.random.default_rng([51, trial])
    day = np.repeat(np.arange(days), rows)
    model = rf.RiskControlledIntervals(Zero(), limits="coverage >= 0.8", delta=DELTA)
    values = (rng.random(days)[day] + 0.01 * rng.random(days * rows)) % 1
    found = _fitted(model, rng.random((days * rows, 2)), values, clusters=day)
    return found.config_ is not None and found.config_["widening"] < 0.8 - 1e-8


def label_days(trial: int, days: int = 60, rows: int = 20) -> bool:
    """Scores are even between 0 and 1; rows of a day have the same label and scores that lie close together. No threshold may
    be above .2."""
    rng = np.random.default_rng([52, trial])
    day = np.repeat(np.arange(days), rows)
    X = (rng.random((days, 2))[day] + 0.05 * rng.random((days * rows, 2))) % 1
    y = np.eye(2, dtype=int)[rng.integers(0, 2, days)][day]
    found = _fitted(rf.RiskControlledMultiLabel(Labels(), limits="recall >= 0.8", delta=DELTA), X, y, clusters=day)
    return found.config_ is not None and found.config_["threshold"] > 0.2 + 1e-6


def rare_large_amounts(trial: int, n: int = 200) -> bool:
    """Half of the answers are false alarms that cost their amount: 1, and once in 500 a hundred. The mean cost is .599, and at
    most .57 is allowed; two thirds of the samples see no large amount."""
    rng = np.random.default_rng([49, trial])
    X = np.column_stack([rng.uniform(0.6, 1, n), rng.random(n)])
    model = rf.RiskControlledClassifier(
        Scores(),
        limits="cost <= 0.57",
        minimize="cost",
        costs={"false_positive": "amount"},
        largest_amount=100,
        thresholds=[0.5],
        delta=DELTA,
    )
    amounts = np.where(rng.random(n) < 0.002, 100.0, 1.0)
    return bool(_fitted(model, X, rng.integers(0, 2, n), amounts=amounts).certificate_)


def planned_thresholds(trial: int, n: int = 300) -> bool:
    """Scores say nothing, and precision is a hair too low at every threshold; some examples plan, and choose the thresholds."""
    rng = np.random.default_rng([50, trial])
    X, y = rng.random((n, 2)), (rng.random(n) < 0.7 - HAIR).astype(int)
    model = rf.RiskControlledClassifier(
        Scores(), limits="precision >= 0.7 and recall >= 0.02", delta=DELTA, random_state=trial
    )
    return bool(_fitted(model, X, y).certificate_)


class Coin:
    """A model of one number: the chance with which the rule with that setting is right."""


def estimator(trial: int, m: int = 200) -> bool:
    """The setting that an estimator uses after fit: half of the settings keep the limit, the others break it."""
    risk = np.where(np.arange(m) < m // 2, 0.02, 0.12)
    rng = np.random.default_rng([43, trial])
    X, y = rng.random((400, 1)), np.zeros(400)
    shift = rng.random(m)

    def wrong(model: Coin, config: dict[str, int], X: np.ndarray) -> np.ndarray:
        return (X[:, 0] + shift[config["s"]]) % 1 < risk[config["s"]]

    model = rf.RiskControlledEstimator(
        Coin(),
        configs=[{"s": s} for s in range(m)],
        predict_with=wrong,
        losses=lambda y, wrong, config: {"error": wrong, "cost": np.full(len(wrong), 1 - config["s"] / m)},
        limits="error <= 0.1",
        minimize="cost",
        delta=DELTA,
        random_state=trial,
    )
    fitted = _fitted(model, X, y)
    return fitted.config_ is not None and bool(risk[fitted.config_["s"]] > 0.1)


def _fitted(model: Any, X: np.ndarray, y: np.ndarray, **rows: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        return model.fit(X, y, **rows)


@cache
def _encoder() -> str:
    """A tiny classifier that has learnt nothing, in a folder that lasts as long as the process."""
    from tests.support import tiny_transformers as tiny

    folder = tempfile.TemporaryDirectory()
    _KEPT.append(folder)
    model = tiny.new_model(num_hidden_layers=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return str(tiny.save_named(model, tiny.SIGNALS, Path(folder.name) / "model"))


_KEPT: list[Any] = []


def accelerate(trial: int) -> bool:
    """Labels have nothing to do with the texts. A network that knows half of the texts by heart is right on those alone."""
    import torch

    from riskfront import transformers as adaptive
    from tests.support import tiny_transformers as tiny

    torch.set_num_threads(1)
    rng = np.random.default_rng([44, trial])
    texts = [" ".join(rng.choice(tiny.NOISE, size=8)) for _ in range(160)]
    frame = pd.DataFrame({"text": texts, "label": rng.choice(tiny.SIGNALS, size=160)})
    plan = adaptive.Plan(
        adaptive.Training(
            adaptive.FineTuning(epochs=25, learning_rate=5e-3, batch_size=16),
            again=True,
            heads=adaptive.HeadTraining(epochs=1),
            max_length=16,
        ),
        adaptive.Rows(validation=10),
        adaptive.Grid(1, 2, 2),
        seed=trial,
    )
    problem = rf.Problem([rf.Limit("error", at_most=0.45)], minimize="relative_cost", delta=DELTA)
    with tempfile.TemporaryDirectory() as folder:
        found = adaptive.accelerate(_encoder(), frame, problem, Path(folder) / "out", plan, progress=False)
    return bool(found.certificate)


SUITES = [
    Suite("tune: a hundred nulls", one_by_one(tune), 400),
    Suite("tune: larger budgets until something passes", one_by_one(larger_budgets), 150),
    Suite("classifier: trained on coin flips", one_by_one(classifier), 400),
    Suite("evaluate: models until one passes", one_by_one(evaluated_until_one_passes), 200),
    Suite("tune: processes until one passes", one_by_one(processes_until_one_passes), 150),
    Suite("classifier: models until one passes", one_by_one(models_until_one_passes), 200),
    Suite(
        "classifier: models until one passes, rows of other types",
        one_by_one(models_until_one_passes_on_other_types),
        400,
    ),
    Suite("classifier: seeds until one passes", one_by_one(seeds_until_one_passes), 200),
    Suite("classifier: one threshold in its known order", one_by_one(known_order), 1500),
    Suite("classifier: one threshold from two starts", one_by_one(two_starts), 2000),
    Suite("intervals: values even between 0 and 1", one_by_one(intervals), 600),
    Suite("many labels: scores even between 0 and 1", one_by_one(many_labels), 300),
    Suite("many labels: a threshold for each", one_by_one(a_threshold_for_each_label), 60),
    Suite("clusters: rows of one day are alike", one_by_one(rows_of_one_day), 300),
    Suite("intervals: values of one day are close", one_by_one(interval_days), 200),
    Suite("many labels: rows of one day are alike", one_by_one(label_days), 150),
    Suite("costs: rare large amounts", one_by_one(rare_large_amounts), 60),
    Suite("classifier: thresholds that planning examples chose", one_by_one(planned_thresholds), 400),
    Suite("classifier: probabilities of the same rows", one_by_one(probabilities_of_the_same_rows), 600),
    Suite("estimators: set after fit", one_by_one(set_after_fit), 100),
    Suite("estimator: the setting in use", one_by_one(estimator), 200),
    Suite("accelerate: coin flips", one_by_one(accelerate), 14, needs="torch"),
]
