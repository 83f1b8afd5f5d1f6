"""What dropping tokens brings beside exits: with and without a predictor before the first layer, and whether exits knew of it.

    python -m benchmarks.adaptive_transformer_tokens --model MODEL --data AG_NEWS.parquet --work WORK --name ag_news --rows 2000

WORK is the folder of `riskfront reproduce tables`; the fine-tuned encoder and its token predictors are taken from there, so
give the same rows and lengths. Every row of the table trains exit heads of its own. Work goes on where it was stopped. Writes
results/adaptive_transformer_tokens_NAME.md and .csv.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import load_file, save_file

from benchmarks.adaptive_transformer import ALPHAS, TRIALS, certified_speed_ups, make_table, write_results
from riskfront.transformers import AdaptiveClassifier, Plan, PruningTrace, Rows, Training
from riskfront.transformers._accelerate import read_parts, train_parts
from riskfront.transformers._data.known_texts import fresh_texts
from riskfront.transformers._data.texts import TextParts, read_texts
from riskfront.transformers._exits import ExitHeads, TokenPredictors
from riskfront.transformers._experiment_tables import rows_of, trace_all
from riskfront.transformers._learning.exit_reading import HeadTraining, read_for_exits
from riskfront.transformers._learning.fine_tuning import FineTuning
from riskfront.transformers._learning.head_training import fit_exit_heads
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._pruning.thresholds import thresholds_at_shares

TOKEN_SHARES = (0.0, 0.35, 0.6, 0.8)
DIMENSIONS = ("exits only", "tokens only", "exits and tokens")


def without_first_predictor(network: Network) -> Network:
    """The same network, but layer 1 reads all tokens."""
    layout = replace(network.layout, first_predictor=1)
    predictors = TokenPredictors(layout, network.backbone.n_layers, network.backbone.width)
    for mine, other in zip(predictors.predictors, list(network.predictors.predictors)[1:], strict=True):
        mine.load_state_dict(other.state_dict())
    return Network(network.backbone, network.head_scores, network.exit_heads, predictors.eval(), layout)


def with_heads(
    network: Network, trained: AdaptiveClassifier, parts: TextParts, plan: Plan, file: Path, *, pruned: bool
) -> Network:
    """Exit heads that learnt from whole texts alone, or from pruned ones too."""
    backbone, layout = network.backbone, network.layout
    if not file.is_file():
        texts = [part.reordered(trained.classes) for part in (parts.train, parts.validation)]
        seen, held = ((trained.tokenize(part.examples), part.labels) for part in texts)
        how, pruner = plan.training.heads, network if pruned else None
        read = read_for_exits(backbone, layout, seen, held, how, pruned_by=pruner, progress=False)
        found = fit_exit_heads(backbone, layout, read, how, progress=False)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(found.state_dict(), file)
    heads = ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes)
    heads.load_state_dict(load_file(file))
    return replace(network, exit_heads=heads.eval())


def measure(given: argparse.Namespace) -> tuple[pd.DataFrame, list[str]]:
    training = Training(
        FineTuning(epochs=1, learning_rate=5e-5, early_layers=given.early_layers),
        heads=HeadTraining(epochs=20, rows=2000, token_rows=2000),
        max_length=given.max_length,
    )
    plan = Plan(
        training=training,
        rows=Rows(train=given.train_rows, validation=300, calibration=given.test_rows),
        leave_out_repeats=True,
    )
    folder = given.work / f"{given.name}.{given.variant}"
    parts = read_parts(rows_of(read_texts(given.data), "test"), plan)
    trained = train_parts(given.model, parts, folder, plan, say=print)
    fresh = fresh_texts(parts, trained.learnt, leave_out=True).texts.take(np.arange(given.rows))
    tokens, labels = trained.tokenize(fresh.examples), fresh.reordered(trained.classes).labels
    options: dict[str, Any] = {"classes": trained.classes, "folder": folder / "traces-tokens", "progress": False}
    rows, about = [], []
    for where, base in (
        ("after each layer", without_first_predictor(trained.network)),
        ("before the first layer too", trained.network),
    ):
        known = {
            said: with_heads(
                base,
                trained,
                parts,
                plan,
                folder / "ablation" / f"{where} {said}.safetensors".replace(" ", "-"),
                pruned=p,
            )
            for said, p in (("whole texts", False), ("pruned ones too", True))
        }
        others = [PruningTrace(network, tokens, labels, **options) for network in list(known.values())[1:]]
        first = PruningTrace(next(iter(known.values())), tokens, labels, beside=others, **options)
        for (said, network), trace in zip(known.items(), [first, *others], strict=True):
            thresholds = thresholds_at_shares(network, trained.tokenize(parts.validation.examples), token=TOKEN_SHARES)
            trace_all(trace, thresholds, print)
            found = certified_speed_ups(make_table(thresholds, trace))
            found = found[found["limit"] == "accuracy_drop"]
            rows.append(found.assign(predictors=where, exits=said))
            for tau in thresholds.tau_token:
                passes = trace.passes(tau, 0.0)
                right = (passes.probabilities.argmax(axis=2) == labels[:, None]).mean(axis=0)
                about.append(
                    f"- tokens dropped {where}, exits learnt from {said}: {passes.tokens.mean():.1f} tokens a layer, "
                    + " ".join(f"{a:.3f}" for a in right)
                )
    return pd.concat(rows, ignore_index=True), about


def lines_of(given: argparse.Namespace, frame: pd.DataFrame, about: list[str]) -> list[str]:
    lines = [f"# What dropping tokens brings on {given.name}", ""]
    options = (
        f"--name {given.name} --variant {given.variant} --train-rows {given.train_rows} --test-rows {given.test_rows}"
    )
    lines += [
        f"Made by `python -m benchmarks.adaptive_transformer_tokens {options} --rows {given.rows}`",
        "and the paths of model, data and work.",
        f"gte-small fine-tuned on {given.train_rows:,} rows, weight {given.early_layers:g} on early layers; token predictors",
        f"and exit heads learnt from 2,000; {given.rows:,} test rows, {len(TOKEN_SHARES)} x 120 token and exit thresholds,",
        f"{TRIALS} splits, signed drop; FLOPs of the full model over the mean of those of the certified settings.",
        "",
    ]
    heads = [
        "tokens are dropped",
        "exits learnt from",
        "certified",
        *(f"alpha {a:g}" for a in ALPHAS),
        "both over the best alone",
    ]
    lines += ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for (where, said), part in frame.groupby(["predictors", "exits"], sort=False):
        speed = part.pivot(index="dimensions", columns="alpha", values="speed_up")
        gain = speed.loc["exits and tokens"] / speed.drop(index="exits and tokens").max()
        for name in DIMENSIONS:
            cells = [f"x{speed.loc[name, alpha]:.2f}" for alpha in ALPHAS]
            last = " / ".join(f"{gain[alpha]:.2f}" for alpha in ALPHAS) if name == "exits and tokens" else ""
            lines.append(f"| {where} | {said} | {name} | " + " | ".join(cells) + f" | {last} |")
    lines += ["", "Accuracy on the test rows before the first layer, after each, and of the full model:", "", *about]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--variant", default="paper")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2000, help="test rows to trace here")
    parser.add_argument("--train-rows", type=int, default=5000)
    parser.add_argument("--test-rows", type=int, default=4100, help="as given to riskfront reproduce tables")
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--early-layers", type=float, default=0.0)
    given = parser.parse_args()
    frame, about = measure(given)
    write_results(f"adaptive_transformer_tokens_{given.name}", lines_of(given, frame, about), frame)


if __name__ == "__main__":
    main()
