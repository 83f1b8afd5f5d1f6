"""The doors through which models go: tune, the estimators, accelerate."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.errors import NotCertifiedWarning, SpentExamplesError
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


def _fitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCertifiedWarning)
        return model.fit(X, y)


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
    Suite("tune: a hundred nulls", one_by_one(tune), 200),
    Suite("tune: larger budgets until something passes", one_by_one(larger_budgets), 150),
    Suite("classifier: trained on coin flips", one_by_one(classifier), 400),
    Suite("estimator: the setting in use", one_by_one(estimator), 200),
    Suite("accelerate: coin flips", one_by_one(accelerate), 14, needs="torch"),
]
