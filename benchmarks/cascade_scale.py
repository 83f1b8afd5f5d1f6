"""How long a table of hundreds of thousands of cascades takes to plan and certify, and how much memory.

    python -m benchmarks.cascade_scale --out benchmarks/results/cascade_scale.md

Eleven simulated models, all ordered pairs and triples, twenty thresholds each. Nothing of the table is held: what a setting
would have scored and cost is computed from one run a model, a block of settings at a time.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._data.logs.runs import Runs


def runs(models: int, examples: int) -> Runs:
    rng = np.random.default_rng(0)
    ability, hardness = np.linspace(0.5, 0.92, models)[:, None], rng.random(examples)
    score = (rng.random((models, examples)) < np.clip(ability + 0.25 - 0.5 * hardness, 0, 1)).astype(float)
    values = {
        "score": score,
        "cost": np.geomspace(1, 60, models)[:, None] * (0.5 + rng.random((models, examples))) * 1e-4,
        "confidence": 0.5 * score + 0.25 + 0.4 * rng.standard_normal((models, examples)),
    }
    names = pd.DataFrame({"model": [f"m{i}" for i in range(models)]})
    return Runs(names, pd.DataFrame({"example": np.arange(examples).astype(str), "task": "t"}), values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=11)
    parser.add_argument("--examples", type=int, default=3522, help="with the tenth that is set aside")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logged, start = runs(options.models, options.examples), time.perf_counter()
    cascade = rf.Cascade(logged, stages=3, thresholds=20)
    table = cascade.table(binary=["score"])
    made = time.perf_counter() - start
    problem = rf.Problem(["score drop <= 0.02"], minimize="cost", reference=f"m{options.models - 1}")
    certificate = rf.calibrate(table, problem, method=cascade.method)
    spent, memory = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    busy = os.getloadavg()[0]
    text = (
        "| settings | examples | table made | certified | peak memory | load of the machine |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        f"| {table.n_configs:,} | {table.n_examples:,} | {made:.0f} s | {spent:.0f} s | {memory:.2f} GB | {busy:.1f} |\n\n"
        f"{certificate!r}\n"
    )
    print(text)
    if options.out:
        about = f"Made by `python -m benchmarks.cascade_scale` on {os.cpu_count()} cores, which other work shared.\n\n"
        options.out.write_text(about + text, encoding="utf-8")


if __name__ == "__main__":
    main()
