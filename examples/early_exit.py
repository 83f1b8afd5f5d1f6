"""Early exit: a forest of 300 trees that stops asking trees as soon as they agree enough.

    python examples/early_exit.py

After 5, 10, 20, ... trees the answer may be given if its share of the votes reaches a threshold; two thresholds, one
for the first half of the stops and one for the second. At most 2 points of accuracy may be lost against the whole
forest.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier

import riskfront as rf

mpl.use("Agg")
import matplotlib.pyplot as plt

STOPS = np.array([5, 10, 20, 40, 80, 150, 300])
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)  # 1.01: never leave


def votes() -> tuple[np.ndarray, np.ndarray]:
    """(stops, images, classes): the mean vote of the trees so far; and the labels."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(3).permutation(len(x))
    x, y = x[order], y[order]
    forest = ExtraTreesClassifier(int(STOPS[-1]), random_state=0).fit(x[:400], y[:400])
    by_tree = np.stack([tree.predict_proba(x[400:]) for tree in forest.estimators_])
    return np.cumsum(by_tree, axis=0)[STOPS - 1] / STOPS[:, None, None], y[400:]


def main(picture: Path = Path("early_exit.png")) -> dict[str, Any]:
    share, y = votes()
    sure, right = share.max(axis=2), share.argmax(axis=2) == y
    configs = [{"early": a, "late": b} for a, b in itertools.product(THRESHOLDS, THRESHOLDS)]
    drop, trees = [], []
    for config in configs:
        needed = np.array([config["early"]] * 3 + [config["late"]] * 3 + [0.0])
        stop = (sure >= needed[:, None]).argmax(axis=0)  # the first stop that is sure enough
        drop.append(right[-1].astype(int) - right[stop, np.arange(len(y))])
        trees.append(STOPS[stop])
    table = rf.LossTable(configs, {"drop": np.array(drop), "trees": np.array(trees)}, bounds={"drop": (-1, 1)})
    certificate = rf.calibrate(table, rf.Problem(["drop <= 0.02"], minimize=["trees"]))
    print(certificate.verdict())
    best = certificate.chosen.iloc[0]
    found = {"thresholds": certificate.config, "trees": float(best["trees"]), "of": int(STOPS[-1])}
    print(f"thresholds: {found['thresholds']}\ntrees asked: {found['trees']:.1f} of {found['of']}")
    axes = rf.plots.plot_tradeoff(certificate)
    axes.set_xscale("log")
    axes.figure.set_size_inches(5.5, 3.6)
    axes.figure.savefig(picture, dpi=90, bbox_inches="tight")
    plt.close(axes.figure)
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
