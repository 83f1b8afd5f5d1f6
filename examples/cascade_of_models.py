"""A cascade of three models: when may a cheap one answer, and when must an expensive one be asked?

    python examples/cascade_of_models.py

Three digit classifiers that cost 1, 4 and 20 answer the same images. From one run of each, riskfront certifies an
order of models and thresholds that loses at most 3 points of accuracy against the largest. The picture shows all
cascades.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

import riskfront as rf

mpl.use("Agg")
import matplotlib.pyplot as plt

COST = {"coarse": 1.0, "linear": 4.0, "forest": 20.0}


def logged_runs(folder: Path) -> Path:
    """What an evaluation writes down: one row a model and image."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(2).permutation(len(images))
    images, labels = images[order], labels[order]
    coarse = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    models = {
        "coarse": (LogisticRegression(max_iter=1000, C=0.01), coarse),
        "linear": (LogisticRegression(max_iter=1000, C=0.01), images),
        "forest": (ExtraTreesClassifier(200, random_state=0), images),
    }
    parts = []
    for name, (model, x) in models.items():
        sure = model.fit(x[:400], labels[:400]).predict_proba(x[400:])
        columns = {
            "model": name,
            "example": np.arange(len(x) - 400),
            "score": (sure.argmax(axis=1) == labels[400:]).astype(float),
            "cost": COST[name],
            "confidence": sure.max(axis=1),
        }
        parts.append(pd.DataFrame(columns))
    pd.concat(parts).to_parquet(folder / "runs.parquet")
    return folder / "runs.parquet"


def main(picture: Path = Path("cascade_of_models.png")) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        runs = rf.read_runs(logged_runs(Path(folder)))
    cascade = rf.Cascade(runs, stages=3, thresholds=12)
    problem = rf.Problem(["score drop <= 0.03"], minimize="cost", reference="forest")
    certificate = rf.calibrate(cascade.table(), problem, method=cascade.method)
    print(certificate.verdict())
    policy = cascade.policy(certificate)
    best = certificate.chosen.iloc[0]
    found = {"models": certificate.config["models"], "cost": float(best["cost"]), "cascades": len(cascade)}
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, str) else f'{value:.4g}'}")
    print("answered by:", ", ".join(f"{m} {s:.0%}" for m, s in zip(policy.models, policy.shares, strict=True)))
    axes = rf.plots.plot_tradeoff(certificate)
    axes.figure.set_size_inches(5.5, 3.6)
    axes.figure.savefig(picture, dpi=90, bbox_inches="tight")
    plt.close(axes.figure)
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
