"""The door through which runs of language models go: a cascade with a confidence that is learnt."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.logs.runs import Runs
from tests.support.simulation import Suite, one_by_one

RIGHT = {"small": 0.5, "large": 0.7}
LIMIT, N, FEATURES, FRESH = 0.05, 800, 120, 5000


def learnt_from_noise(trial: int) -> bool:
    """Features say nothing of the answers, so each answer of the small model costs .2; the examples that a confidence was
    learnt from say otherwise, because it knows them by heart."""
    rng = np.random.default_rng([61, trial])
    names = [f"f{k}" for k in range(FEATURES)]
    known = rng.standard_normal((N, FEATURES))
    examples = pd.DataFrame(known, columns=names).assign(example=np.arange(N))
    score = np.stack([rng.random(N) < right for right in RIGHT.values()]).astype(float)
    cost = np.tile(np.array([[1.0], [10.0]]), (1, N))
    runs = Runs(pd.DataFrame({"model": list(RIGHT)}), examples[["example", *names]], {"score": score, "cost": cost})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cascade = rf.Cascade(runs, confidence=rf.LearntConfidence(names), thresholds=10, seed=trial)
        problem = rf.Problem([f"score drop <= {LIMIT}"], minimize="cost", reference="large")
        certificate = rf.calibrate(cascade.table(), problem, seed=trial)
    fresh = dict(zip(names, rng.standard_normal((FEATURES, FRESH)), strict=True))
    return any(_true_drop(cascade, config, fresh) > LIMIT for config in certificate.certified.to_dict("records"))


def _true_drop(cascade: rf.Cascade, config: dict, fresh: dict) -> float:  # type: ignore[type-arg]
    first, *rest = str(config["models"]).split(" > ")
    assert isinstance(cascade.confidence, rf.LearntConfidence)
    trusted = float((cascade.confidence.of(first, fresh) >= config["threshold 1"]).mean()) if rest else 1.0
    right = trusted * RIGHT[first] + (1 - trusted) * RIGHT[rest[0] if rest else first]
    return RIGHT["large"] - right


SUITES = [Suite("cascade: a confidence learnt from noise", one_by_one(learnt_from_noise), 200, needs="sklearn")]
