"""What failed calls score, and which limits that fits."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.logs.runs import Runs


def test_failures_must_be_recorded_as_the_worst_of_every_limit(tmp_path: Path) -> None:
    """A failed call scores 0: the worst for "score >= 0.5", the best for "score <= 0.5"."""
    random = np.random.default_rng(0)
    failed = (random.random((2, 300)) < 0.3) * 1.0
    values = {
        "score": np.where(failed == 1, 0.0, 0.5 + 0.4 * random.random((2, 300))),
        "failed": failed,
        "cost": np.array([[1.0], [2.0]]) + 0 * failed,
        "confidence": random.random((2, 300)),
    }
    examples = pd.DataFrame({"example": [f"x{i}" for i in range(300)]})
    runs = Runs(pd.DataFrame({"model": ["a", "b"]}), examples, values)
    runs.save(tmp_path / "runs.parquet")
    for data in (tmp_path / "runs.parquet", rf.Cascade(runs).table()):
        for limit in ("score <= 0.8", "q0.9(score) <= 0.85"):
            with pytest.raises(rf.InvalidInputError, match="which is not the worst for"):
                rf.calibrate(data, rf.Problem(limit, minimize="cost"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rf.LeftOutWarning)
            assert rf.calibrate(data, rf.Problem("score >= 0.1", minimize="cost"))
