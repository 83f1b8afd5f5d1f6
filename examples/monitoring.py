"""Monitoring: the camera gets noisier week by week. When do new labels show that the certificate no longer holds?

    python examples/monitoring.py

A threshold of a digit classifier is certified: wrong on at most 5 % of what is answered. Every week 300 new labelled
images are checked, each check at a twentieth of delta, so that over twenty weeks a false alarm has probability at
most delta.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import riskfront as rf

mpl.use("Agg")
import matplotlib.pyplot as plt

LIMIT, DELTA, WEEKS = 0.05, 0.1, 20
THRESHOLDS = np.linspace(0.3, 0.99, 24).round(2)


def outcomes(model: LogisticRegression, x: np.ndarray, y: np.ndarray) -> rf.LossTable:
    probabilities = model.predict_proba(x)
    answered = probabilities.max(axis=1) >= THRESHOLDS[:, None]
    wrong = probabilities.argmax(axis=1) != y
    losses = {"error": answered & wrong, "answered": answered, "abstained": ~answered}
    return rf.LossTable([{"threshold": float(t)} for t in THRESHOLDS], losses)


def main(picture: Path = Path("monitoring.png")) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    model = LogisticRegression(max_iter=1000, C=0.01).fit(x[:400], y[:400])
    problem = rf.Problem([f"error <= {LIMIT} given answered"], minimize=["abstained"], delta=DELTA)
    certificate = rf.calibrate(outcomes(model, x[400:1200], y[400:1200]), problem)
    print(certificate.verdict())
    weeks = []
    for week in range(WEEKS):
        some = rng.choice(np.arange(1200, len(x)), 300)
        noise = 0.0 if week < 8 else 1.0 * (week - 7)  # from the ninth week on the camera ages
        new = outcomes(model, x[some] + noise * rng.standard_normal((300, 64)), y[some])
        check = rf.check(certificate, new, delta=DELTA / WEEKS)
        weeks.append((check.says, float(check.limits["measured"].iloc[0])))
    alarms = [week for week, (says, _) in enumerate(weeks) if says == "broken"]
    found = {"first alarm": alarms[0] + 1 if alarms else None, "ageing from week": 9}
    print(f"the camera ages from week 9 on; first alarm in week {found['first alarm']}")
    draw(weeks, picture)
    return found


def draw(weeks: list[tuple[str, float]], picture: Path) -> None:
    figure, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
    colours = {"holds": "#009E73", "unclear": "#999999", "broken": "#D55E00"}
    for says, colour in colours.items():
        mine = [(week + 1, error) for week, (said, error) in enumerate(weeks) if said == says]
        if mine:
            axes.scatter(*zip(*mine, strict=True), color=colour, label=says)
    axes.axhline(LIMIT, color="black", linestyle="--", linewidth=1, label=f"limit {LIMIT:g}")
    axes.axvline(8.5, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="week", ylabel="wrong among answered", xticks=range(0, WEEKS + 1, 4))
    axes.legend(fontsize="small")
    figure.savefig(picture, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
