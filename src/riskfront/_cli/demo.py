"""The demonstration: a cascade of three digit classifiers, trained on the spot, its three thresholds chosen with proof.

An image goes to a tiny model that reads 16 averaged pixels; if that is sure enough it answers (``exit_1``), otherwise a
linear model on all 64 pixels has a go (``exit_2``), otherwise a forest decides. If the last word is not sure enough either,
the cascade abstains (``abstain``). Cost counts the multiplications and comparisons of the models that ran.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape

from riskfront._calibration.calibrate import calibrate
from riskfront._calibration.certificates.certificate import Certificate
from riskfront._calibration.frontier import frontier
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._reporting.terminal import show_certificate, show_grid
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront._verification.verify import verify
from riskfront.errors import StoreError
from riskfront.experiment import _repeated_splits as repeated_splits

TRAIN, CALIBRATION = 450, 950
PROBLEM = Problem(
    limits=[Limit("error", at_most=0.04, given="answered"), Limit("error", at_most=0.15, per="digit")],
    minimize=["cost", "abstained"],
    delta=0.1,
)
#: what the page to decide on offers
RANGES = {
    "error given answered": [0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1],
    "error per digit": [0.1, 0.15, 0.2, 0.25, 0.3],
}
_EXITS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 1.01)  # 1.01: never leave here
_ABSTAIN = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True, slots=True, eq=False)
class Cascade:
    """What each of the three models says about each image: class (3, n), confidence (3, n), and operations (3,)."""

    classes: IntArray
    confidences: FloatArray
    operations: FloatArray
    labels: IntArray


def train_cascade(seed: int = 0) -> Cascade:
    """Train on 450 images and read the other 1,347."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    images, labels = images[order], labels[order]
    pooled = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    forest = ExtraTreesClassifier(n_estimators=300, random_state=seed, n_jobs=1)
    models: list[tuple[Any, Array]] = [
        (make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), pooled),
        (make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), images),
        (forest, images),
    ]
    probabilities = np.stack([model.fit(x[:TRAIN], labels[:TRAIN]).predict_proba(x[TRAIN:]) for model, x in models])
    comparisons = sum(tree.get_depth() for tree in forest.estimators_)
    return Cascade(
        probabilities.argmax(axis=2), probabilities.max(axis=2), np.array([160.0, 640.0, comparisons]), labels[TRAIN:]
    )


def cascade_table(cascade: Cascade, thresholds: FloatArray | None = None) -> LossTable:
    """The losses of every combination of the three thresholds, or of those given, (settings, 3), on every image."""
    if thresholds is None:
        thresholds = np.array(list(itertools.product(_EXITS, _EXITS, _ABSTAIN)))
    configs = pd.DataFrame(thresholds, columns=["exit_1", "exit_2", "abstain"])
    leaves_first = cascade.confidences[0] >= thresholds[:, :1]
    leaves_second = cascade.confidences[1] >= thresholds[:, 1:2]
    stage = np.where(leaves_first, 0, np.where(leaves_second, 1, 2))
    image = np.arange(stage.shape[1])
    answered = cascade.confidences[stage, image] >= thresholds[:, 2:]
    wrong = cascade.classes[stage, image] != cascade.labels
    spent = np.cumsum(cascade.operations)[stage] / cascade.operations.sum()
    losses = {"error": wrong & answered, "answered": answered, "abstained": ~answered, "cost": spent.astype(np.float32)}
    return LossTable(configs, losses, groups={"digit": cascade.labels})


def run_demo(out_dir: Path, console: Console) -> int:
    """Train, calibrate, check on held-out images, and write the certificate, the table, the report and a page to decide on."""
    from riskfront._reporting.decide_page import write_decide_page
    from riskfront._reporting.page import write_report  # loads the plotting library

    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create the directory '{out_dir}': {error.strerror}.") from None
    console.print("Training a cascade of three digit classifiers on 450 images ...", style="dim")
    table = cascade_table(train_cascade())
    known, fresh = table.subset(np.arange(CALIBRATION)), table.subset(np.arange(CALIBRATION, table.n_examples))
    console.print(
        f"{table.n_configs} settings of its three thresholds, {known.n_examples} images to calibrate on, "
        f"{fresh.n_examples} held out.\nWanted: {escape(str(PROBLEM))}.\n"
    )
    known.save(out_dir / "losses.parquet")
    saved = LossTable.load(out_dir / "losses.parquet")
    certificate = calibrate(saved, PROBLEM)
    show_certificate(console, certificate)
    if certificate:
        _show_held_out(console, certificate, fresh)
    _show_comparison(console, table)
    certificate.save(out_dir / "certificate.json")
    write_report(certificate, out_dir / "report.html", command="riskfront demo")
    matches = not verify(Certificate.load(out_dir / "certificate.json"), saved)
    console.print(f"\nWrote certificate.json, losses.parquet and report.html to {out_dir}/", markup=False)
    console.print(f"Recomputed from the data: {'the same result' if matches else 'A DIFFERENT RESULT'}.")
    found = frontier(saved, PROBLEM, RANGES, simultaneous=True)
    found.save(out_dir / "frontier.json")
    write_decide_page(found, out_dir / "decide.html", command="riskfront demo")
    console.print(
        f"\nNot sure which limits you want? Open {out_dir}/decide.html and move the sliders: all "
        f"{len(found.counts):,} combinations hold with one confidence, so you may choose after looking. Here it is a second "
        "question to the same images, and says so: ask it first, and you need no other.",
        markup=False,
    )
    return 0 if certificate and matches else 1


def _show_held_out(console: Console, certificate: Certificate, fresh: LossTable) -> None:
    """The best setting on images that neither planned nor tested it."""
    configs = fresh.configs
    match = np.logical_and.reduce([configs[name] == value for name, value in certificate.config.items()])
    row, problem, tested = np.flatnonzero(match), certificate.problem, certificate.chosen.iloc[0]
    rows = [
        [str(limit), float(tested[name]), float(np.nanmax(fresh.means(limit.term, row)[0]))]
        for limit, name in zip(problem.limits, problem.limit_names, strict=True)
    ]
    rows += [[o.name, float(tested[o.name]), float(fresh.means(o.term, row)[0, 0])] for o in problem.objectives]
    show_grid(console, f"\nChecked on {fresh.n_examples} held-out images", ["", "testing", "held out"], rows)


def _show_comparison(console: Console, table: LossTable) -> None:
    """How often a limit is broken when settings are picked by score, and by riskfront, on many draws of the same images."""
    limits = [Limit("error", at_most=0.02, given="answered"), Limit("abstained", at_most=0.05)]
    problem = Problem(limits, minimize=["cost"], delta=PROBLEM.delta)
    methods = ("alpha-constrained", "pareto-testing")
    results = repeated_splits.run(table, problem, methods=methods, trials=200, calibration=CALIBRATION)
    broken = 100 * results.groupby("method")["violated"].mean()
    console.print(
        f"Why not just pick the cheapest setting with good scores? Asked for {limits[0]} and {limits[1]} on 200 random draws "
        f"of {CALIBRATION} images, that breaks a limit in {broken[methods[0]]:.0f} % of the draws; riskfront in "
        f"{broken[methods[1]]:.0f} %, with at most {100 * PROBLEM.delta:.0f} % allowed.",
        markup=False,
    )
