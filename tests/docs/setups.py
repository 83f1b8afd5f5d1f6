"""What a page takes for granted: the files that its reader has, and the names. Page -> what makes them in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def bert(folder: Path) -> dict[str, Any]:
    """An encoder folder and labelled texts, small enough for seconds."""
    from tests.support import tiny_transformers as tiny

    tiny.save_encoder(folder / "bert-folder")
    frame = tiny.make_frame(1400, 1)
    frame["split"] = ["train"] * 900 + ["test"] * 500
    frame.to_parquet(folder / "texts.parquet")
    return {}


def readme(folder: Path) -> dict[str, Any]:
    """What its five users have: a file, a fitted model, an encoder, logs, a method."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    import riskfront as rf

    rng = np.random.default_rng(0)
    levels = np.linspace(0.02, 0.2, 10)
    error = rng.random((10, 1500)) < levels[:, None]
    cost = np.repeat(1 - levels[:, None], 1500, axis=1)
    label = rng.integers(0, 3, 1500)
    configs = [{"level": round(float(level), 2)} for level in levels]
    rows = [
        pd.DataFrame({**config, "example": np.arange(1500), "label": label, "error": e.astype(int), "cost": c})
        for config, e, c in zip(configs, error, cost, strict=True)
    ]
    pd.concat(rows).to_parquet(folder / "losses.parquet")
    bert(folder)
    _promptfoo(folder / "results.json", rng)
    x, y = load_digits(return_X_y=True)
    return {
        "model": LogisticRegression(max_iter=300).fit(x[:500], y[:500]),
        "x_calibration": x[500:1400],
        "y_calibration": y[500:1400],
        "x_new": x[1400:],
        "table": rf.LossTable(configs, {"error": error, "cost": cost}, {"label": label}),
        "MyMethod": rf.HolmTesting,
    }


def _promptfoo(path: Path, rng: np.random.Generator) -> None:
    """Two models on 600 prompts, as promptfoo writes them down."""
    hard = rng.random(600)
    results = [
        {
            "provider": {"id": name, "label": ""},
            "promptIdx": 0,
            "prompt": {"raw": f"question {example}", "label": "question"},
            "testIdx": example,
            "score": float(rng.random() < good - 0.4 * hard[example]),
            "cost": price * (1 + hard[example]),
            "latencyMs": 100,
        }
        for name, good, price in (("small", 0.95, 1.0), ("large", 1.2, 9.0))
        for example in range(600)
    ]
    path.write_text(json.dumps({"results": {"version": 3, "results": results}}), encoding="utf-8")


SETUPS: dict[str, Callable[[Path], dict[str, Any]]] = {"docs/start/bert.md": bert, "README.md": readme}
