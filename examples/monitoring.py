"""Monitoring: the camera gets noisier week by week. When do new labels show that the certificate no longer holds?

    python examples/monitoring.py

A threshold of a digit classifier is certified: wrong on at most 5 % of what is answered. From then on every labelled image goes
to a monitor, which may be looked at after each of them: with probability 90 % it never raises a false alarm.
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

LIMIT, DELTA, WEEKS, IMAGES = 0.05, 0.1, 20, 300


def main(picture: Path = Path("monitoring.png")) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    model = LogisticRegression(max_iter=1000, C=0.01).fit(x[:400], y[:400])
    classifier = rf.RiskControlledClassifier(model, limits=[f"error <= {LIMIT} given answered"], delta=DELTA)
    classifier.fit(x[400:1200], y[400:1200])
    print(classifier.certificate_.verdict())
    monitor = classifier.monitor(delta=DELTA)
    weeks = []
    for week in range(WEEKS):
        some = rng.choice(np.arange(1200, len(x)), IMAGES)
        noise = 0.0 if week < 8 else 1.0 * (week - 7)  # from the ninth week on the camera ages
        outcomes = classifier.outcomes(x[some] + noise * rng.standard_normal((IMAGES, 64)), y[some])
        monitor.update(outcomes)
        wrong = float(outcomes["error"].sum() / outcomes["answered"].sum())
        weeks.append((wrong, float(monitor.status["evidence"].iloc[0])))
    row = monitor.status.iloc[0]
    found = {"first alarm": int(np.ceil(row["alarm_at"] / IMAGES)), "ageing from week": 9}
    print(f"the camera ages from week 9 on; the alarm comes in week {found['first alarm']}")
    print(f"the change is estimated in week {int(np.ceil(row['change_at'] / IMAGES))}")
    draw(weeks, float(row["threshold"]), picture)
    return found


def draw(weeks: list[tuple[float, float]], threshold: float, picture: Path) -> None:
    figure, (above, below) = plt.subplots(2, figsize=(5.5, 4.2), layout="constrained", sharex=True)
    numbers = range(1, len(weeks) + 1)
    above.plot(numbers, [wrong for wrong, _ in weeks], marker="o", color="#0072B2")
    above.axhline(LIMIT, color="black", linestyle="--", linewidth=1, label=f"limit {LIMIT:g}")
    above.set(ylabel="wrong among answered")
    below.plot(numbers, [min(evidence, 1e4) for _, evidence in weeks], marker="o", color="#D55E00")
    below.axhline(threshold, color="black", linestyle="--", linewidth=1, label=f"alarm at {threshold:g}")
    below.set(xlabel="week", ylabel="evidence", yscale="log", xticks=range(0, len(weeks) + 1, 4))
    for axes in (above, below):
        axes.axvline(8.5, color="black", linestyle=":", linewidth=1)
        axes.legend(fontsize="small", loc="upper left")
    figure.savefig(picture, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
