"""Real logs of language models: quantisations of one, and cascades, routers and single ones of eleven.

Each table is taken as the population. Calibration examples are drawn from it with replacement, so what the chosen setting
truly loses and costs is known, and a violation is a fact. Without a certificate the reference itself is used.

    python -m benchmarks.language_models DATA --trials 200 --out benchmarks/results/language_models.csv

DATA is a folder with ``routerbench_0shot_subset.parquet``, ``llama31_8b_mxquant_triviaqa.parquet`` and
``llama31_8b_mxquant_triviaqa_configs.csv``. A Markdown table of the same name is written next to the CSV.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.evidence.evidence import Evidence

METHODS = ("pareto-testing", "bonferroni", "alpha-delta-constrained", "alpha-constrained")
NAIVE = {
    "alpha-constrained": "naive: the cheapest that looks good",
    "alpha-delta-constrained": "naive: a test of each, no correction",
}
_MANY = 1000
ROUTERBENCH, QUANTISED = "routerbench_0shot_subset.parquet", "llama31_8b_mxquant_triviaqa"


@dataclass(frozen=True)
class Case:
    """A table, the setting that others are compared with, what should be small, and which drops are asked for."""

    title: str
    table: rf.LossTable
    reference: str
    objective: str
    drops: tuple[float, ...]


def cases(data: Path) -> Iterator[Case]:
    problem = rf.Problem(["score drop <= 0.02"], minimize="avg_bitwidth", reference="full")
    wide, _ = rf.read_wide(
        data / f"{QUANTISED}.parquet", problem, example_column="sample_id", settings=data / f"{QUANTISED}_configs.csv"
    )
    yield Case("quantisations of Llama 3.1 8B on TriviaQA", wide, "full", "avg_bitwidth", (0.005, 0.01, 0.02, 0.03))
    runs = rf.read_runs(data / ROUTERBENCH, "routerbench")
    best, drops = "gpt-4-1106-preview", (0.02, 0.03, 0.05, 0.1)
    learnt = rf.LearntConfidence(["task", "prompt_chars", "cost"])
    upfront = rf.LearntConfidence(["task", "prompt_chars"])
    cascade = rf.Cascade(runs, stages=2, confidence=learnt, thresholds=20)
    yield Case("cascades of two of eleven models (RouterBench)", in_memory(cascade), best, "cost", drops)
    router = rf.Router(runs, stages=2, confidence=upfront, thresholds=20)
    yield Case("routers between two of eleven models (RouterBench)", in_memory(router), best, "cost", drops)
    singles = rf.Cascade(runs, stages=1, confidence="prompt_chars", thresholds=[0.0])
    yield Case("one of eleven models (RouterBench)", in_memory(singles), best, "cost", drops)


def in_memory(cascade: rf.Cascade) -> rf.LossTable:
    """The table held in memory: hundreds of draws from it go faster so."""
    table = cascade.table(binary=["score"])
    return rf.LossTable(table.configs, {name: table.losses(name) for name in ("score", "cost")})


def results(case: Case, trials: int, n: int, delta: float) -> Iterator[dict[str, object]]:
    """One row for each method and drop: violations, true cost, and beside it the best that truly holds."""
    limit = rf.Limit("score", at_most=case.drops[0], drop_from=case.reference)
    problem = rf.Problem([limit], minimize=case.objective, delta=delta)
    # to bet on thousands of settings in every draw takes hours: the methods that do are left out where there are so many
    methods = METHODS if case.table.n_configs <= _MANY else (METHODS[0], METHODS[-1])
    found = rf.experiment.run(case.table, problem, methods=methods, alphas=case.drops, trials=trials, calibration=n)
    costs = Evidence(problem, case.table).objectives()[:, 0]
    full = costs[case.table.reference(case.reference)]
    singles = np.array([" > " not in str(name) for name in case.table.configs.iloc[:, 0]])
    for drop in case.drops:
        about = {"case": case.title, "drop": drop, "n": n}
        holds = Evidence(problem.at(drop), case.table).excess() <= 1e-12
        known = {"the reference itself": full, "the best that truly holds": costs[holds].min()}
        if not singles.all():
            known["the best single model that truly holds"] = costs[holds & singles].min()
        for name, cost in known.items():
            yield about | {"method": name, "cost": cost, "violated": 0.0, "certified": 1.0}
        for method, rows in found[found["alpha"] == drop].groupby("method", sort=False):
            yield about | {
                "method": NAIVE.get(str(method), str(method)),
                "cost": float(rows[case.objective].fillna(full).mean()),
                "violated": float(rows["violated"].mean()),
                "certified": float((rows["n_certified"] > 0).mean()),
            }


def markdown(frame: pd.DataFrame, delta: float, trials: int, seconds: float) -> str:
    """A section a case: rows are methods, columns drops; cost relative to the reference, and violations."""
    text = (
        f"Made by `python -m benchmarks.language_models DATA --trials {trials}`: {trials} draws with replacement from each "
        f"table, delta = {delta:g}. {seconds:.0f} seconds.\n\nMean true cost of the chosen setting relative to the reference "
        "model (where nothing is certified, the reference is used), and in brackets the share of draws in which the chosen "
        "setting truly breaks the limit on the drop.\n"
    )
    for title, case in frame.groupby("case", sort=False):
        drops = case["drop"].unique()
        full = float(case[case["method"] == "the reference itself"]["cost"].iloc[0])
        text += f"\n## {title}\n\n{int(case['n'].iloc[0]):,} calibration examples.\n\n"
        text += (
            "| | " + " | ".join(f"drop <= {drop:g}" for drop in drops) + " |\n" + "| --- " * (len(drops) + 1) + "|\n"
        )
        for method, rows in case.groupby("method", sort=False):
            cells = []
            for drop in drops:
                row = rows[rows["drop"] == drop].iloc[0]
                tested = not str(method).startswith("the ")
                cells.append(f"{row['cost'] / full:.3f}" + (f" ({row['violated']:.3f})" if tested else ""))
            text += f"| {method} | " + " | ".join(cells) + " |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/language_models.csv"))
    options = parser.parse_args()
    start, rows = time.perf_counter(), []
    for case in cases(options.data):
        rows += list(results(case, options.trials, case.table.n_examples, options.delta))
        print(case.title, f"{time.perf_counter() - start:.0f} s", flush=True)
    frame = pd.DataFrame(rows)
    frame.round(6).to_csv(options.out, index=False)
    spent = time.perf_counter() - start
    options.out.with_suffix(".md").write_text(markdown(frame, options.delta, options.trials, spent), encoding="utf-8")


if __name__ == "__main__":
    main()
