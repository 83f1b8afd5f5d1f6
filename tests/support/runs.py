"""Runs of simulated models: abler ones cost more, and each knows roughly when it is right."""

from __future__ import annotations

import numpy as np
import pandas as pd

from riskfront._data.logs.runs import Runs


def simulated_runs(seed: int = 0, n: int = 400, models: int = 3, **extra: np.ndarray) -> Runs:
    """Models m0 .. m(k-1) with 0/1 scores, costs, a confidence, and for each example a task and a length."""
    rng = np.random.default_rng([seed, 5])
    ability, hardness = np.linspace(0.6, 0.92, models)[:, None], rng.random(n)
    score = (rng.random((models, n)) < np.clip(ability + 0.2 - 0.4 * hardness, 0, 1)).astype(float)
    values = {
        "score": score,
        "cost": np.geomspace(1, 20, models)[:, None] * (0.5 + rng.random((models, n))),
        "confidence": 0.4 * score + 0.3 * rng.standard_normal((models, n)),
        **extra,
    }
    examples = pd.DataFrame(
        {
            "example": [f"x{i}" for i in range(n)],
            "task": np.where(hardness < 0.5, "easy", "hard"),
            "length": 100 * hardness,
        }
    )
    return Runs(pd.DataFrame({"model": [f"m{i}" for i in range(models)]}), examples, values)
