"""The adaptive Transformer on a real encoder and real texts: what can be certified, and how much faster it really is.

    python -m benchmarks.adaptive_transformer train  ag_news --model MODEL --data AG_NEWS.parquet --work work/ag_news
    python -m benchmarks.adaptive_transformer trace  ag_news --model MODEL --data AG_NEWS.parquet --work work/ag_news
    python -m benchmarks.adaptive_transformer report ag_news --model MODEL --data AG_NEWS.parquet --work work/ag_news

Each step goes on where it was stopped; `trace` may run in several processes, each with its own --part. `report` writes
results/adaptive_transformer_NAME.md.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from riskfront.transformers import (
    FineTuning,
    HeadTraining,
    PruningTrace,
    Rows,
    TextParts,
    Thresholds,
    Trained,
    Training,
    train,
)
from riskfront.transformers.acceleration import Grid, Plan, read_parts, thresholds_of, trace_of

GRID = Grid(head=6, token=10, layer=36)
PLANS = {
    name: Plan(
        training=Training(FineTuning(epochs=1, learning_rate=5e-5), heads=HeadTraining(token_rows=3000), max_length=64),
        rows=Rows(train=n_train, validation=1000, calibration=n_rows),
        grid=GRID,
    )
    for name, n_train, n_rows in (("ag_news", 12_000, 4_000), ("qqp", 14_000, 5_000))
}


def prepared(arguments: argparse.Namespace) -> tuple[Trained, TextParts, Plan]:
    plan = PLANS[arguments.name]
    parts = read_parts(arguments.data, plan)
    trained = train(arguments.model, parts, arguments.work / "training", plan.training, say=print, progress=False)
    return trained, parts, plan


def traced(arguments: argparse.Namespace) -> tuple[Trained, TextParts, Thresholds, PruningTrace]:
    trained, parts, plan = prepared(arguments)
    thresholds = thresholds_of(trained, dataclasses.replace(parts.validation).take(np.arange(300)), plan)
    return trained, parts, thresholds, trace_of(trained, parts.calibration, arguments.work, plan, progress=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["train", "trace", "report"])
    parser.add_argument("name", choices=sorted(PLANS))
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--part", default="0/1", help="which of how many processes this is")
    arguments = parser.parse_args()
    if arguments.step == "train":
        prepared(arguments)
    elif arguments.step == "trace":
        _, _, thresholds, trace = traced(arguments)
        part, of = map(int, arguments.part.split("/"))
        for i, tau_head in enumerate(thresholds.tau_head):
            for tau_token in thresholds.tau_token:
                if i % of == part:
                    trace.passes(tau_token, tau_head)
                    print(tau_head, tau_token, trace.examples_run, flush=True)


if __name__ == "__main__":
    main()
