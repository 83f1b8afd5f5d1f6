"""What each change to the exits brought: the same fine-tuned encoder, one change after the other.

    python -m benchmarks.adaptive_transformer_ablation ag_news --model MODEL --data AG_NEWS.parquet --work WORK [--plain PLAIN]

WORK is the folder that `benchmarks.adaptive_transformer train` filled. What exits read is computed once for train, validation
and test rows and kept in WORK; every row of the table then trains heads of its own on it. PLAIN is a classifier that was
fine-tuned on the same rows without a loss on early layers. Writes results/adaptive_transformer_ablation_NAME.md and .csv. What
tokens bring is measured by benchmarks.adaptive_transformer_tokens.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file

import riskfront as rf
from benchmarks.adaptive_transformer import (
    ALPHAS,
    CALIBRATION,
    DELTA,
    PLANS,
    TRIALS,
    write_results,
)
from riskfront.transformers import HeadTraining
from riskfront.transformers._accelerate import read_parts
from riskfront.transformers._backbones.backbone import Backbone, load_classifier
from riskfront.transformers._data.texts import LabelledTexts
from riskfront.transformers._data.tokens import Tokens, load_tokenizer, tokenize
from riskfront.transformers._exits import ExitHeads, Layout, features, n_parts
from riskfront.transformers._learning.exit_reading import ExitInputs, rows_to_read
from riskfront.transformers._learning.head_training import fit_exit_heads, reads
from riskfront.transformers._pruning.cost import Sizes, Work, flops
from riskfront.transformers._pruning.pruning_trace import entropies, leaving_depths

BEFORE, NOW = 36, 120  # exit thresholds


@dataclass(frozen=True)
class Arm:
    """One row of the table."""

    name: str
    layout: Layout
    standardise: bool = True
    temperature: bool = True
    thresholds: int = NOW


@dataclass(frozen=True)
class Seen:
    """Of some rows: what pooled exits read, (rows, depths, parts x width), labels, lengths, and what the full model answers."""

    features: torch.Tensor
    labels: torch.Tensor
    lengths: np.ndarray
    full: torch.Tensor


def arms(pairs: bool) -> list[Arm]:
    paper = Layout.of("cls", pairs)
    pooled = Layout(pairs=pairs, first_exit=1)
    whole = Layout(pairs=pairs)
    return [
        Arm("before: [CLS] as it is", paper, standardise=False, temperature=False, thresholds=BEFORE),
        Arm("+ standardised", paper, temperature=False, thresholds=BEFORE),
        Arm("+ pooled, own depth only", pooled, temperature=False, thresholds=BEFORE),
        Arm("+ exit before the first layer", whole, temperature=False, thresholds=BEFORE),
        Arm(f"+ {NOW} exit thresholds instead of {BEFORE}", whole, temperature=False),
        Arm("+ temperature (not kept)", whole),
    ]


@torch.inference_mode()
def read_rows(backbone: Backbone, tokens: Tokens, labels: np.ndarray, pairs: bool, path: Path) -> Seen:
    """One pass over these rows, or what it left."""
    if not path.is_file():
        layers, width = backbone.layers(), n_parts("pooled", pairs) * backbone.width
        read = torch.empty(len(tokens), backbone.n_layers, width)
        full = torch.empty(len(tokens), backbone.n_classes)
        for positions in tokens.batches(32):
            batch, texts = backbone.embed(tokens.padded(positions)), tokens.packed_texts(positions)
            for depth, layer in enumerate(layers):
                read[positions, depth] = features("pooled", pairs, batch.states, batch.lengths, texts)
                batch = layer(batch)
            full[positions] = torch.softmax(backbone.classify(backbone.summary(batch)), dim=1)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"features": read, "full": full}, path)
    found = load_file(path)
    return Seen(found["features"], torch.tensor(labels), tokens.lengths, found["full"])


def seen_by(arm: Arm, features: torch.Tensor, width: int) -> torch.Tensor:
    """Of what pooled exits read, what this arm's exits do: [CLS] comes first."""
    parts = features[:, :, :width] if arm.layout.exits == "cls" else features
    return parts[:, arm.layout.first_exit :]


def measure(
    arm: Arm, backbone: Backbone, train_rows: Seen, held: Seen, test: Seen, epochs: int
) -> list[dict[str, object]]:
    """Train the exits of this arm and certify exit thresholds alone."""
    how = HeadTraining(epochs=epochs, standardise=arm.standardise, temperature=arm.temperature)
    parts = [(seen_by(arm, rows.features, backbone.width), rows.labels) for rows in (train_rows, held)]
    heads = fit_exit_heads(backbone, arm.layout, ExitInputs(*parts, len(held.labels)), how, progress=False)
    found, validation = (all_probabilities(arm, heads, rows, backbone) for rows in (test, held))
    lowest = np.minimum.accumulate(entropies(validation)[:, arm.layout.first_exit : -1], axis=1)
    taus = [
        0.0,
        *np.quantile(lowest, np.arange(1, arm.thresholds - 1) / (arm.thresholds - 1)),
        1.001 * np.log(found.shape[2]),
    ]
    sizes = Sizes(
        *(backbone.n_layers, backbone.n_heads, backbone.head_size, backbone.width, backbone.inner_width),
        backbone.n_classes,
        arm.layout,
        backbone.extras,
    )
    table = exit_table(found, test, sorted(set(taus)), sizes)
    right = (found.argmax(axis=2) == test.labels.numpy()[:, None]).mean(axis=0)
    rows = []
    problem = rf.Problem([rf.Limit("accuracy_drop", at_most=0.05)], minimize=["flops"], delta=DELTA)
    runs = rf.experiment.run(
        table, problem, methods=["pareto-testing"], alphas=ALPHAS, trials=TRIALS, calibration=CALIBRATION
    )
    full = float(table.losses("flops")[0].mean())
    for alpha, part in runs.groupby("alpha"):
        spent = part["flops"].fillna(full).mean()
        rows.append({"change": arm.name, "alpha": alpha, "speed_up": full / spent, "violated": part["violated"].mean()})
        rows[-1]["exits"] = " ".join("-" if d < arm.layout.first_exit else f"{a:.3f}" for d, a in enumerate(right))
    return rows


@torch.no_grad()
def all_probabilities(arm: Arm, heads: ExitHeads, rows: Seen, backbone: Backbone) -> np.ndarray:
    """(rows, layers + 1, classes), as in a trace."""
    seen = seen_by(arm, rows.features, backbone.width)
    found = torch.zeros(len(seen), backbone.n_layers + 1, backbone.n_classes)
    for k in range(seen.shape[1]):
        depth = arm.layout.first_exit + k
        found[:, depth] = torch.softmax(heads(depth, reads(arm.layout.history, seen, k)), dim=1)
    found[:, -1] = rows.full
    return found.numpy()


def exit_table(found: np.ndarray, test: Seen, taus: list[float], sizes: Sizes) -> rf.LossTable:
    """Every exit threshold, nothing else pruned."""
    labels = test.labels.numpy()
    heads, tokens = np.full(sizes.n_layers, sizes.n_heads), np.repeat(test.lengths[:, None], sizes.n_layers, axis=1)
    uncertain = entropies(found)
    full_right = found[:, -1].argmax(axis=1) == labels
    drops, costs = [], []
    for tau in taus:
        depth = leaving_depths(uncertain, tau)
        right = found[np.arange(len(labels)), depth].argmax(axis=1) == labels
        drops.append(full_right.astype(np.float32) - right.astype(np.float32))
        work = Work(heads, test.lengths, tokens, depth, exits=tau > 0, prunes=False)
        costs.append(flops(sizes, work).astype(np.float32))
    losses = {"accuracy_drop": np.stack(drops), "flops": np.stack(costs)}
    return rf.LossTable([{"tau_layer": tau} for tau in taus], losses, bounds={"accuracy_drop": (-1, 1)})


def measure_exits(arguments: argparse.Namespace, model: str, cache: Path, wanted: list[Arm]) -> list[dict[str, object]]:
    plan = PLANS[arguments.name]
    parts = read_parts(arguments.data, plan)
    backbone = Backbone(load_classifier(model))
    tokenizer = load_tokenizer(model)

    def rows_of(name: str, texts: LabelledTexts) -> Seen:
        tokens = tokenize(tokenizer, texts.examples, plan.training.max_length)
        return read_rows(backbone, tokens, texts.labels, texts.second is not None, cache / f"{name}.safetensors")

    learnt = parts.train.take(rows_to_read(len(parts.train), plan.training.heads, plan.training.seed))
    texts = {"train": learnt, "validation": parts.validation, "calibration": parts.calibration}
    seen = [rows_of(name, part) for name, part in texts.items()]
    epochs = plan.training.heads.epochs
    return [row for arm in wanted for row in measure(arm, backbone, seen[0], seen[1], seen[2], epochs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(PLANS))
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--plain", help="a classifier fine-tuned without a loss on early layers")
    arguments = parser.parse_args()
    pairs = read_parts(arguments.data, PLANS[arguments.name]).train.second is not None
    tuned = arguments.work / "training" / "1-fine-tuned"
    rows = measure_exits(arguments, str(tuned), arguments.work / "features", arms(pairs))
    if arguments.plain:
        last = replace(arms(pairs)[-2], name="exits only, without a loss on early layers")
        rows += measure_exits(arguments, arguments.plain, arguments.work / "features-plain", [last])
    frame = pd.DataFrame(rows)
    write_results(f"adaptive_transformer_ablation_{arguments.name}", lines_of(arguments.name, frame), frame)


def lines_of(name: str, frame: pd.DataFrame) -> list[str]:
    plan = PLANS[name]
    lines = [f"# What each change brought on {name}", ""]
    lines += [
        "Made by `python -m benchmarks.adaptive_transformer_ablation " + name + " --model ... --data ... --work ...`."
    ]
    lines += [
        f"gte-small fine-tuned on {plan.rows.train:,} rows, weight {plan.training.fine_tuning.early_layers:g} on early layers;"
    ]
    lines += [
        f"{plan.rows.calibration:,} test rows, {TRIALS} splits, signed drop, FLOPs of the full model over the mean of those of"
    ]
    lines += ["the certified settings. Changes add up from row to row; exits only.", ""]
    lines += ["| change | " + " | ".join(f"alpha {a}" for a in ALPHAS) + " |", "| --- | --- | --- | --- |"]
    for change, rows in frame.groupby("change", sort=False):
        cells = [f"x{row.speed_up:.2f} (violated {row.violated:.2f})" for row in rows.itertuples()]
        lines.append(f"| {change} | " + " | ".join(cells) + " |")
    lines += ["", "Accuracy on the test rows before the first layer, after each, and of the full model:", ""]
    for change, rows in frame.dropna(subset=["exits"]).groupby("change", sort=False):
        lines.append(f"- {change}: {rows['exits'].iloc[0]}")
    return lines


if __name__ == "__main__":
    main()
