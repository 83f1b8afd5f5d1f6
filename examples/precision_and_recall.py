"""The decision threshold of a scikit-learn classifier, under limits on precision and on recall.

    python examples/precision_and_recall.py

Is a digit odd? At least 85 % of the odd ones must be found, and at least 80 % of what is called odd must be odd; as few false
alarms as possible. The picture shows both for every threshold, on images that took no part.
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

PRECISION, RECALL = 0.8, 0.85


def main(picture: Path = Path("precision_and_recall.png")) -> dict[str, Any]:
    x, digit = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, odd = x[order], digit[order] % 2
    train, calibration, new = np.split(np.arange(len(x)), [400, 1400])
    model = LogisticRegression(max_iter=1000, C=0.01).fit(x[train], odd[train])
    safe = RiskControlledClassifier(
        model,
        limits=[f"recall >= {RECALL}", f"precision >= {PRECISION}"],
        minimize=["false_positive"],
    )
    safe.fit(x[calibration], odd[calibration])
    print(safe.certificate_.verdict())
    threshold = safe.config_["threshold"]
    called, truth = safe.predict(x[new]) == 1, odd[new] == 1
    found = {
        "threshold": threshold,
        "precision on new images": float(truth[called].mean()),
        "recall on new images": float(called[truth].mean()),
    }
    for name, value in found.items():
        print(f"{name}: {value:.3g}")
    draw(model.predict_proba(x[new])[:, 1], truth, threshold, picture)
    return found


def draw(score: np.ndarray, truth: np.ndarray, chosen: float, picture: Path) -> None:
    thresholds = np.linspace(0.02, 0.98, 97)
    called = score >= thresholds[:, None]
    figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
    axes.plot(thresholds, (called & truth).sum(axis=1) / called.sum(axis=1), color="#0072B2", label="precision")
    axes.plot(thresholds, (called & truth).sum(axis=1) / truth.sum(), color="#D55E00", label="recall")
    axes.axhline(PRECISION, color="#0072B2", linestyle="--", linewidth=1)
    axes.axhline(RECALL, color="#D55E00", linestyle="--", linewidth=1)
    axes.axvline(chosen, color="black", linestyle=":", label=f"certified: {chosen:g}")
    axes.set(xlabel="decision threshold", ylabel="on new images", ylim=(0.5, 1.02))
    axes.legend(fontsize="small")
    figure.savefig(picture, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
