"""Where a guarantee is tested hardest: every setting breaks its limit by a hair, so that each setting that is given is a miss.

And one case of another kind: a classifier that is never quite sure, so that the highest thresholds have no positive answers.
``python -m benchmarks.compare_mapie`` runs these after its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import riskfront as rf
from benchmarks import compare_tools as ask
from benchmarks.compare_tasks import DELTA, two_classes

HAIR = 1e-6
Answers = Callable[[np.random.Generator], bool]


class Scores:
    """A classifier whose examples are their own scores."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X: Any) -> np.ndarray:
        score = np.asarray(X)[:, 0]
        return np.stack([1 - score, score], axis=1)


FLAT = np.round(np.linspace(0, 0.5, 26)[1:], 2)


def flat_precision(rng: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The score says nothing: whatever the threshold, the precision is a hair below .9."""
    return rng.random((n, 1)), (rng.random(n) < 0.9 - HAIR).astype(int)


def mapie_flat(rng: np.random.Generator, by: str) -> bool:
    from mapie.risk_control import BinaryClassificationController

    X, y = flat_precision(rng)
    safe = BinaryClassificationController(
        Scores().predict_proba, "precision", 0.9, 1 - DELTA, list_predict_params=FLAT, fwer_method=by
    )
    return safe.calibrate(X, y).best_predict_param is not None


def our_flat(rng: np.random.Generator, method: Any) -> bool:
    X, y = flat_precision(rng)
    options = {"thresholds": FLAT, "abstain_thresholds": [0], "method": method}
    safe = rf.RiskControlledClassifier(
        Scores(), limits="precision >= 0.9", minimize=(), maximize="recall", delta=DELTA, **options
    )
    return safe.fit(X, y).config_ is not None


#: MAPIE's bound knows risks only at the values of its thresholds: one of them lies just below the limit, .1
RISING = np.linspace(0, 0.99, 41)


def flat_recall(rng: np.random.Generator, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """One label an image, missed a hair more often than once in ten at every threshold but the first, which misses none."""
    missed = rng.random(n) < 0.1 + HAIR
    return np.where(missed, 0.01, 1.0)[:, None], np.ones((n, 1), dtype=int)


def mapie_rising(rng: np.random.Generator, bound: str) -> bool:
    from mapie.risk_control import MultiLabelClassificationController

    X, y = flat_recall(rng)
    safe = MultiLabelClassificationController(
        lambda scores: scores, "recall", "rcps", 0.9, 1 - DELTA, bound, RISING
    ).calibrate(X, y)
    return bool(safe.best_predict_param[0] > 0)


def our_rising(rng: np.random.Generator, method: Any) -> bool:
    X, _ = flat_recall(rng)
    said = X[:, 0] > RISING[:, None]
    table = rf.LossTable(
        [{"threshold": at} for at in RISING], {"recall": said.astype(float), "given": said.astype(float)}
    )
    found = rf.calibrate(table, rf.Problem("recall >= 0.9", minimize="given", delta=DELTA), method=method)
    return bool(found) and bool((found.certified["threshold"] > 0).any())


def careful() -> LogisticRegression:
    """The classifier of the other tasks, held back: it is never surer than about .8."""
    _, X, y, _ = two_classes()
    return LogisticRegression(C=1e-3).fit(X[:1000], y[:1000])


def mapie_careful(rng: np.random.Generator, model: Any, by: str) -> bool:
    X, y = _drawn(rng)
    return ask.mapie_precision(model, X, y, np.linspace(0, 0.99, 100), by) is not None


def our_careful(rng: np.random.Generator, model: Any) -> bool:
    X, y = _drawn(rng)
    options = {"thresholds": np.linspace(0.01, 0.99, 99), "abstain_thresholds": [0]}
    safe = rf.RiskControlledClassifier(  # drawn independently from a finite population
        model, repeats="independent", limits="precision >= 0.9", minimize=(), maximize="recall", delta=DELTA, **options
    )
    return safe.fit(X, y).config_ is not None


def _drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    _, X, y, _ = two_classes()
    rows = rng.integers(1000, len(X), 1000)
    return X[rows], y[rows]


def cases() -> Mapping[str, Mapping[str, Answers]]:
    held = careful()
    return {
        "precision a hair below its limit at every threshold: false settings": {
            "MAPIE, bonferroni_holm": lambda rng: mapie_flat(rng, "bonferroni_holm"),
            "MAPIE, fixed_sequence": lambda rng: mapie_flat(rng, "fixed_sequence"),
            "riskfront": lambda rng: our_flat(rng, "pareto-testing"),
            "riskfront, order declared": lambda rng: our_flat(rng, ask.FROM_HIGH),
        },
        "recall of an image a hair below its limit at every threshold: false settings": {
            "MAPIE, rcps, wsr": lambda rng: mapie_rising(rng, "wsr"),
            "MAPIE, rcps, bernstein": lambda rng: mapie_rising(rng, "bernstein"),
            "riskfront": lambda rng: our_rising(rng, "pareto-testing"),
            "riskfront, order declared": lambda rng: our_rising(rng, ask.FROM_LOW),
        },
        "a classifier that is never quite sure: draws with a setting": {
            "MAPIE, as it comes (bonferroni_holm)": lambda rng: mapie_careful(rng, held, "bonferroni_holm"),
            "MAPIE, bonferroni": lambda rng: mapie_careful(rng, held, "bonferroni"),
            "riskfront": lambda rng: our_careful(rng, held),
        },
    }


def rates(trials: int, few: int = 200) -> pd.DataFrame:
    """How often each tool gives a setting, in every case; the last case is no matter of small rates and needs few draws."""
    rows = []
    for case, tools in cases().items():
        draws = trials if "false" in case else min(few, trials)
        for tool, answers in tools.items():
            print(f"{case} | {tool}", flush=True)
            given = sum(ask.quietly(answers, np.random.default_rng([9, trial])) for trial in range(draws))
            rows.append({"case": case, "tool": tool, "rate": given / draws, "trials": draws})
    return pd.DataFrame(rows)
