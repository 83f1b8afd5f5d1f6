"""riskfront beside MAPIE's risk control, on the same examples, settings and delta; and beside the procedure of the paper.

    pip install 'riskfront[compare]'
    python -m benchmarks.compare_mapie --out benchmarks/results/compare_mapie

For each of 200 draws of calibration examples every tool picks a setting, and a population of 100,000 examples says what that
setting truly does. Objectives count a draw without a setting as its user would feel it: nothing called positive, everything
called positive, no answer at all, all labels given. Times are seconds of the processor for one call, so that other work on the
machine does not matter.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import riskfront as rf
from benchmarks import compare_hard_cases
from benchmarks import compare_tools as ask
from benchmarks.compare_tasks import (
    DELTA,
    Task,
    labels_task,
    precision_task,
    recall_task,
    two_thresholds_task,
)

TASKS: Mapping[str, tuple[Any, Mapping[str, ask.Tool]]] = {
    "precision": (
        precision_task,
        {
            "MAPIE, as it comes (100 thresholds from 0 to .99)": partial(
                ask.mapie_precision, grid=np.linspace(0, 0.99, 100)
            ),
            "MAPIE, bonferroni_holm": ask.mapie_precision,
            "MAPIE, fixed_sequence": partial(ask.mapie_precision, by="fixed_sequence"),
            "MAPIE, split_fixed_sequence": ask.mapie_precision_split,
            "the paper's procedure": partial(
                ask.paper_threshold, limit="hit >= 0.9 given said", objective=rf.Objective("hit", given="positive")
            ),
            "riskfront": ask.our_precision,
            "riskfront, planned": partial(ask.our_precision, method="pareto-testing"),
        },
    ),
    "recall": (
        recall_task,
        {
            "MAPIE, bonferroni_holm (as it comes)": ask.mapie_recall,
            "MAPIE, fixed_sequence": partial(ask.mapie_recall, by="fixed_sequence"),
            "the paper's procedure": partial(
                ask.paper_threshold, limit="hit >= 0.8 given positive", objective=rf.Objective("hit", given="said")
            ),
            "riskfront": ask.our_recall,
            "riskfront, planned": partial(ask.our_recall, method="pareto-testing"),
        },
    ),
    "two thresholds": (
        two_thresholds_task,
        {
            "MAPIE, bonferroni_holm (as it comes)": ask.mapie_two,
            "MAPIE, split_fixed_sequence": ask.mapie_two_split,
            "the paper's procedure": ask.paper_two,
            "riskfront": ask.our_two,
        },
    ),
    "labels": (
        labels_task,
        {
            "MAPIE, rcps (as it comes: wsr)": ask.mapie_labels,
            "MAPIE, crc (on average, not with probability 1 - delta)": ask.mapie_labels_on_average,
            "the paper's procedure": partial(ask.our_labels, method=ask.PAPER, p_value=ask.PAPER_P_VALUE),
            "riskfront": partial(ask.our_labels, method=ask.FROM_LOW),  # as RiskControlledMultiLabel does by default
            "riskfront, planned": ask.our_labels,
        },
    ),
}


def compared(task: Task, tools: Mapping[str, ask.Tool], trials: int, seed: int = 0) -> pd.DataFrame:
    """One row for each tool."""
    rows = {name: {"objective": [], "violated": 0, "found": 0, "seconds": 0.0} for name in tools}
    for trial in range(trials):
        X, y = task.draw(np.random.default_rng([seed, trial]))
        for name, tool in tools.items():
            started, row = time.process_time(), rows[name]
            setting = ask.quietly(tool, task.model, X, y)
            row["seconds"] += (time.process_time() - started) / trials
            truth = None if setting is None else task.judge(setting)
            row["found"] += truth is not None
            row["violated"] += truth is not None and truth.room < 0
            row["objective"].append(task.nothing if truth is None else truth.objective)
    frame = pd.DataFrame(
        [
            {
                "task": task.name,
                "tool": name,
                "objective": float(np.mean(row["objective"])),
                "violated": row["violated"] / trials,
                "found": row["found"] / trials,
                "seconds": row["seconds"],
                "lines": ask.lines_of(getattr(tools[name], "func", tools[name])),
                "trials": trials,
            }
            for name, row in rows.items()
        ]
    )
    return frame.assign(best=task.best())


def interval(rate: float, trials: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a rate, 95 %."""
    found = stats.binomtest(round(rate * trials), trials).proportion_ci(method="exact")
    return float(found.low), float(found.high)


def markdown(frame: pd.DataFrame, task: Task) -> str:
    better = "higher" if task.larger_is_better else "lower"
    lines = [
        f"### {task.name}: {task.wanted}",
        "",
        f"{task.calibration:,} calibration examples, {int(frame['trials'].iloc[0])} draws, delta = {DELTA}.",
        f"The best setting that truly holds: {task.objective} {frame['best'].iloc[0]:.3g} ({better} is better).",
        "",
        f"| | {task.objective} | limit truly broken | 95 % interval | draws with a setting | seconds a call | lines |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in frame.itertuples():
        low, high = interval(row.violated, row.trials)
        lines.append(
            f"| {row.tool} | {row.objective:.3f} | {row.violated:.3f} | {low:.3f} to {high:.3f} "
            f"| {row.found:.3f} | {row.seconds:.3f} | {row.lines} |"
        )
    return "\n".join(lines) + "\n"


def markdown_of_hard_cases(frame: pd.DataFrame) -> str:
    lines = ["### Hard cases", "", "| case | tool | rate | draws | 95 % interval |", "| --- | --- | --- | --- | --- |"]
    for row in frame.itertuples():
        low, high = interval(row.rate, row.trials)
        lines.append(f"| {row.case} | {row.tool} | {row.rate:.3f} | {row.trials} | {low:.3f} to {high:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--hard-trials", type=int, default=500, help="draws of each hard case; 0 for none")
    parser.add_argument("--tasks", default=",".join(TASKS), help="names, with commas between them")
    parser.add_argument("--out", type=Path, help="where to write .md and .csv, without the ending")
    options = parser.parse_args()
    started, texts, frames = time.process_time(), [], []
    for name in filter(None, options.tasks.split(",")):
        make, tools = TASKS[name]
        task = make()
        frames.append(compared(task, tools, options.trials))
        texts.append(markdown(frames[-1], task))
        print(texts[-1], flush=True)
        _write(options.out, texts, frames, time.process_time() - started)
    if options.hard_trials:
        frames.append(compare_hard_cases.rates(options.hard_trials))
        texts.append(markdown_of_hard_cases(frames[-1]))
        print(texts[-1], flush=True)
        _write(options.out, texts, frames, time.process_time() - started)


def _write(out: Path | None, texts: list[str], frames: list[pd.DataFrame], seconds: float) -> None:
    """What is there so far: a run that is stopped leaves the tasks that it has done."""
    if out is None:
        return
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mapie", "scikit-learn"))
    about = f"Made by `python -m benchmarks.compare_mapie` with {versions}, riskfront {rf.__version__}, in "
    about += f"{seconds:.0f} seconds of one core.\n\n"
    out.with_suffix(".md").write_text(about + "\n".join(texts), encoding="utf-8")
    pd.concat(frames).round(5).to_csv(out.with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
