"""Thresholds that are fair to groups: in each of two groups, at most a quarter of the good cases may be turned down.

    python examples/fair_thresholds.py

The score of a model comes out too low in group B, as scores do that were learnt from others. One threshold for all
turns down too many good cases of B. Here each group has a threshold of its own; the limit holds in both, and as few
bad cases as possible are let through.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import riskfront as rf

mpl.use("Agg")
import matplotlib.pyplot as plt

LIMIT = 0.25
THRESHOLDS = np.linspace(0.05, 0.75, 15).round(2)


def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score, whether the case is good, and group, of 6,000 cases the model was not trained on."""
    x, good = make_classification(9000, n_features=8, n_informative=4, class_sep=0.8, random_state=5)
    group = np.where(np.random.default_rng(5).random(9000) < 0.7, "A", "B")
    model = LogisticRegression().fit(x[:3000], good[:3000])
    log_odds = model.decision_function(x[3000:]) - 0.8 * (group[3000:] == "B")
    return 1 / (1 + np.exp(-log_odds)), good[3000:] == 1, group[3000:]


def outcomes(score: np.ndarray, good: np.ndarray, group: np.ndarray) -> rf.LossTable:
    """Every pair of thresholds on every case."""
    configs = [{"A": float(a), "B": float(b)} for a, b in itertools.product(THRESHOLDS, THRESHOLDS)]
    needed = np.array([[config["A"], config["B"]] for config in configs])[:, (group == "B").astype(int)]
    taken = score >= needed
    losses = {"turned_down": ~taken & good, "let_through": taken & ~good}
    return rf.LossTable(configs, losses, groups={"group": group, "good": good})


def main(picture: Path = Path("fair_thresholds.png")) -> dict[str, Any]:
    score, good, group = people()
    calibration, new = np.arange(3000), np.arange(3000, 6000)
    table = outcomes(score, good, group)
    limit = rf.Limit("turned_down", at_most=LIMIT, per="group", given="good")
    problem = rf.Problem([limit], minimize=["let_through"], delta=0.1)
    certificate = rf.calibrate(table.subset(calibration), problem)
    print(certificate.verdict())
    found: dict[str, Any] = {"thresholds": certificate.config}
    rates = {}
    for name in ("A", "B"):
        mine = (group[new] == name) & good[new]
        for kind, threshold in (("one for all", 0.5), ("certified", certificate.config[name])):
            rates[kind, name] = float((score[new][mine] < threshold).mean())
    found |= {f"turned down in {name}, {kind}": rate for (kind, name), rate in rates.items()}
    for name, value in found.items():
        print(f"{name}: {value if isinstance(value, dict) else f'{value:.3g}'}")
    draw(rates, picture)
    return found


def draw(rates: dict[tuple[str, str], float], picture: Path) -> None:
    figure, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
    for place, (kind, colour) in enumerate((("one for all", "#999999"), ("certified", "#009E73"))):
        values = [rates[kind, name] for name in ("A", "B")]
        axes.bar(np.arange(2) + 0.35 * place, values, 0.33, color=colour, label=kind)
    axes.axhline(LIMIT, color="black", linestyle="--", linewidth=1, label=f"limit {LIMIT:g}")
    axes.set_xticks(np.arange(2) + 0.175, ["group A", "group B"])
    axes.set(ylabel="good cases turned down (new)")
    axes.legend(fontsize="small")
    figure.savefig(picture, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
