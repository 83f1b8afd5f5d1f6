"""Selective classification: answer as often as possible, and be wrong on at most 2 % of what is answered.

    python examples/selective_classification.py

A digit classifier hands over to a person where it is not sure enough. The picture shows how often that would be, and how often
answers would be wrong, for every threshold on its confidence.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from riskfront.estimators import RiskControlledClassifier

mpl.use("Agg")
import matplotlib.pyplot as plt

LIMIT = 0.02


def main(picture: Path = Path("selective_classification.png")) -> dict[str, Any]:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    x, y = x[order], y[order]
    train, calibration, new = np.split(np.arange(len(x)), [300, 1300])
    model = LogisticRegression(max_iter=1000, C=0.01).fit(x[train], y[train])
    safe = RiskControlledClassifier(model, limits=[f"error <= {LIMIT} given answered"], minimize=["abstained"])
    safe.fit(x[calibration], y[calibration])
    print(safe.certificate_.verdict())
    labels = safe.predict(x[new])
    answered = labels != safe.abstain_label_
    found = {
        "threshold": safe.config_["abstain"],
        "wrong without abstaining": float((model.predict(x[new]) != y[new]).mean()),
        "answered": float(answered.mean()),
        "wrong among answered": float((labels != y[new])[answered].mean()),
    }
    for name, value in found.items():
        print(f"{name}: {value:.3g}")
    draw(model.predict_proba(x[new]), y[new], found["threshold"], picture)
    return found


def draw(probabilities: np.ndarray, y: np.ndarray, chosen: float, picture: Path) -> None:
    thresholds = np.linspace(0, 0.99, 100)
    answered = probabilities.max(axis=1) >= thresholds[:, None]
    wrong = probabilities.argmax(axis=1) != y
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    axes.plot(answered.mean(axis=1), (answered & wrong).sum(axis=1) / answered.sum(axis=1), color="#0072B2")
    at = np.argmin(abs(thresholds - chosen))
    share, error = answered[at].mean(), wrong[answered[at]].mean()
    axes.plot(share, error, "*", markersize=14, color="#009E73", label=f"certified: confidence at least {chosen:g}")
    axes.axhline(LIMIT, color="black", linestyle="--", linewidth=1, label=f"limit {LIMIT:g}")
    axes.set(xlabel="share of new images that are answered", ylabel="wrong among them")
    axes.legend(fontsize="small")
    figure.savefig(picture, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
