"""One threshold under a limit on recall: what all examples along a declared order bring, beside RCPS with its sharpest bound.

    python -m benchmarks.one_knob --trials 500 --out benchmarks/results/one_knob.csv

Sets of labels grow as the threshold falls; at most a tenth of the true labels of an example may be missed on average, and the
sets shall be small. Each population is known exactly and calibration examples are drawn from it with replacement, so sizes
and violations are true ones. RCPS (Bates et al., 2021) with the bound of Waudby-Smith and Ramdas is what people run for this;
it is written here from its formulas, apart from riskfront.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.experiment._repeated_splits import calibration_examples

ALPHA, DELTA = 0.1, 0.1
SIZES = (300, 1_000)
THRESHOLDS = np.round(np.linspace(0, 1, 251), 3)
POPULATION = 8_000
HIGH_IS_RISKY = rf.OrderedKnob(safest={"threshold": "low"})
METHODS = {
    "ordered-knob": (HIGH_IS_RISKY, "auto"),
    "ordered-knob, Hoeffding-Bentkus": (HIGH_IS_RISKY, "hoeffding-bentkus"),
    "pareto-testing": (rf.ParetoTesting(), "auto"),
}
RCPS = "RCPS, WSR bound"


@dataclass(frozen=True)
class World:
    """missed, size (thresholds, examples): the share of true labels left out, and labels in the set, at every threshold."""

    missed: np.ndarray
    size: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, truth: np.ndarray) -> World:
        """Scores in [0, 1] and true labels, each (examples, labels); every example has at least one true label."""
        cuts = np.searchsorted(THRESHOLDS, scores, side="right") - 1  # the last threshold at which a label is in
        missed, size = (np.empty((len(THRESHOLDS), len(scores)), dtype=np.float32) for _ in range(2))
        for row in range(len(THRESHOLDS)):
            inside = cuts >= row
            missed[row] = 1 - (inside & truth).sum(axis=1) / truth.sum(axis=1)
            size[row] = inside.sum(axis=1)
        return cls(missed, size)

    def table(self) -> rf.LossTable:
        configs = [{"threshold": float(threshold)} for threshold in THRESHOLDS]
        return rf.LossTable(configs, {"missed": self.missed, "size": self.size})


def simulated_tags(labels: int = 80, seed: int = 0) -> World:
    """Images with a few of 80 tags, rare and frequent ones; a model that knows frequent tags and easy images better."""
    rng = np.random.default_rng(seed)
    rarity = rng.gamma(0.5, 1.0, labels)
    wanted = 1 + rng.poisson(2.0, POPULATION)
    keys = rng.random((POPULATION, labels)) ** (1 / (rarity + 1e-9))
    truth = np.argsort(np.argsort(-keys, axis=1), axis=1) < wanted[:, None]
    ease = 2.2 + 0.8 * rng.standard_normal((POPULATION, 1)) + 0.4 * np.log(rarity + 0.1)
    logits = np.where(truth, ease, -3.2) + 1.3 * rng.standard_normal(truth.shape)
    return World.of(1 / (1 + np.exp(-logits)), truth)


def collages_of_digits(seed: int = 0) -> World:
    """Four of scikit-learn's digits next to each other; a label's score is the surest of a regression's four opinions of it."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    learned = rng.permutation(len(y)) < len(y) // 6
    model = LogisticRegression(max_iter=200, C=1e-2).fit(X[learned], y[learned])
    opinions, kinds = model.predict_proba(X[~learned]), y[~learned]
    parts = rng.integers(len(kinds), size=(POPULATION, 4))
    truth = np.zeros((POPULATION, 10), dtype=bool)
    np.put_along_axis(truth, kinds[parts], True, axis=1)
    return World.of(opinions[parts].max(axis=1), truth)


WORLDS = {"simulated tags": simulated_tags, "collages of digits": collages_of_digits}


def wsr_passes(losses: np.ndarray, alpha: float, delta: float) -> np.ndarray:
    """(rows,): whether the WSR upper bound of the mean of each row, (rows, n), lies below alpha.

    The bound is the smallest R at which the capital prod_j (1 - nu_j (L_j - R)) ever exceeds 1 / delta. Capital grows with R,
    so it lies below alpha where the capital at alpha does exceed it.
    """
    x = losses.astype(np.float64)
    n = x.shape[1]
    steps = np.arange(1, n + 1)
    mean = (0.5 + x.cumsum(axis=1)) / (1 + steps)
    variance = (0.25 + ((x - mean) ** 2).cumsum(axis=1)) / (1 + steps)
    before = np.hstack([np.full((len(x), 1), 0.25), variance[:, :-1]])
    nu = np.minimum(1, np.sqrt(2 * np.log(1 / delta) / (n * before)))
    return np.cumsum(np.log1p(-nu * (x - alpha)), axis=1).max(axis=1) > np.log(1 / delta)


def rcps(missed: np.ndarray) -> int | None:
    """The last threshold, counted from the safest, up to which the bound of every one lies below alpha."""
    chosen = None
    for start in range(0, len(missed), 32):
        passed = wsr_passes(missed[start : start + 32], ALPHA, DELTA)
        good = int(np.logical_and.accumulate(passed).sum())
        chosen = start + good - 1 if good else chosen
        if good < len(passed):
            break
    return chosen


def measure(world: World, n: int, trials: int) -> pd.DataFrame:
    """One row a method: mean true size over that of the best threshold that holds, violations, nothing certified."""
    risks, sizes = world.missed.mean(axis=1, dtype=np.float64), world.size.mean(axis=1, dtype=np.float64)
    best, everything = sizes[risks <= ALPHA].min(), sizes[0]
    table, rows = world.table(), []
    for name, (method, p_value) in METHODS.items():
        problem = rf.Problem([rf.Limit("missed", at_most=ALPHA, p_value=p_value)], minimize=["size"], delta=DELTA)
        found = rf.experiment.run(table, problem, methods=[method], trials=trials, calibration=n)
        size = found["size"].fillna(everything)
        rows.append(_row(name, size / best - 1, found["violated"], found["size"].isna()))
    # the same draws as those of the methods above
    draws = (calibration_examples(POPULATION, n, trial, False)[0] for trial in range(trials))
    rcps_found = [rcps(world.missed[:, draw]) for draw in draws]
    at = np.array([0 if row is None else row for row in rcps_found])
    none = np.array([row is None for row in rcps_found])
    rows.append(_row(RCPS, sizes[at] / best - 1, (risks[at] > ALPHA) & ~none, none))
    return pd.DataFrame(rows)


def _row(
    name: str, excess: pd.Series | np.ndarray, violated: pd.Series | np.ndarray, none: object
) -> dict[str, object]:
    excess = np.asarray(excess, dtype=float)
    return {
        "method": name,
        "excess": excess.mean(),
        "standard_error": excess.std(ddof=1) / np.sqrt(len(excess)),
        "violated": float(np.mean(np.asarray(violated, dtype=float))),
        "nothing": float(np.mean(np.asarray(none, dtype=float))),
        "trials": len(excess),
    }


def as_markdown(frame: pd.DataFrame, command: str) -> str:
    lines = [
        f"Made by `{command}`.",
        "",
        (
            f"Missed labels at most {ALPHA:g}, delta {DELTA:g}, {len(THRESHOLDS)} thresholds from the declared safest end. In "
            "each cell: mean true size of the sets over that of the best threshold that truly holds (standard error), and the "
            f"share of draws whose threshold breaks the limit. {frame['trials'].iloc[0]} draws."
        ),
    ]
    for world, part in frame.groupby("world", sort=False):
        lines += ["", f"## {world}", "", "| | " + " | ".join(f"n = {n:,}" for n in part["n"].unique()) + " |"]
        lines += ["| --- " * (1 + part["n"].nunique()) + "|"]
        for method, rows in part.groupby("method", sort=False):
            cells = [
                f"+{100 * r.excess:.2f} % ({100 * r.standard_error:.2f}), {r.violated:.3f}"
                + (f", none {r.nothing:.3f}" if r.nothing else "")
                for r in rows.itertuples()
            ]
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--out", type=Path, help="CSV file to write; the Markdown goes next to it")
    given = parser.parse_args()
    frames = []
    for world, make in WORLDS.items():
        made = make()
        for n in given.sizes:
            frames.append(measure(made, n, given.trials).assign(world=world, n=n))
            print(frames[-1].round(4).to_string(), flush=True)
    frame = pd.concat(frames, ignore_index=True)
    text = as_markdown(frame, "python -m benchmarks.one_knob " + shlex.join(sys.argv[1:]))
    print(text)
    if given.out:
        frame.round(5).to_csv(given.out, index=False)
        given.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
