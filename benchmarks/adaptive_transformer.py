"""The adaptive Transformer on a real encoder and real texts: what can be certified, and how much faster it really is.

    python -m benchmarks.adaptive_transformer train  ag_news --model MODEL --data AG_NEWS.parquet --work WORK
    python -m benchmarks.adaptive_transformer trace  ag_news --model MODEL --data AG_NEWS.parquet --work WORK
    python -m benchmarks.adaptive_transformer report ag_news --model MODEL --data AG_NEWS.parquet --work WORK

Each step goes on where it was stopped; `trace` may run in several processes, each with its own --part. `report` writes
results/adaptive_transformer_NAME.md and .csv. Times are measured by benchmarks.adaptive_transformer_clock, and what each change
brought by benchmarks.adaptive_transformer_ablation, on the same folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront.transformers import (
    AdaptiveClassifier,
    FineTuning,
    Grid,
    HeadTraining,
    Plan,
    PruningTrace,
    Rows,
    Training,
)
from riskfront.transformers._accelerate import read_parts, thresholds_of, trace_of
from riskfront.transformers._learning.training import train
from riskfront.transformers._pruning.network import Setting
from riskfront.transformers._pruning.pruning_trace import leaving_depths
from riskfront.transformers._pruning.thresholds import Thresholds

ALPHAS = (0.025, 0.05, 0.1)
DELTA = 0.1
TRIALS = 100
CALIBRATION = 0.75  # of the traced rows; the others are held out and judge
TARGETS = {"ag_news": (10.0, 30.0, 100.0), "qqp": (2.1, 2.8, 4.5)}
PAPER = {"ag_news": (2.42, 3.00, 3.65), "qqp": (1.86, 2.18, 2.86)}  # with BERT-base
PLANS = {
    "ag_news": Plan(
        training=Training(
            FineTuning(epochs=1, learning_rate=5e-5, early_layers=1.0),
            heads=HeadTraining(epochs=20, rows=2000, token_rows=600),
            max_length=64,
        ),
        rows=Rows(train=5_000, validation=1000, calibration=4_000),
        grid=Grid(head=1, token=4, layer=120),
    ),
    "qqp": Plan(
        training=Training(
            FineTuning(epochs=1, learning_rate=5e-5, early_layers=1.0),
            heads=HeadTraining(epochs=20, rows=2000, token_rows=600),
            max_length=64,
        ),
        rows=Rows(train=7_000, validation=1000, calibration=4_000),
        grid=Grid(head=1, token=4, layer=120),
    ),
}
DIMENSIONS = {
    "exits and tokens": ("tau_token", "tau_layer"),
    "exits only": ("tau_layer",),
    "tokens only": ("tau_token",),
}
SINGLE = ("exits only", "tokens only")


def prepare(arguments: argparse.Namespace) -> tuple[AdaptiveClassifier, Thresholds, PruningTrace]:
    plan = PLANS[arguments.name]
    parts = read_parts(arguments.data, plan)
    trained = train(arguments.model, parts, arguments.work / "training", plan.training, say=print, progress=False)
    thresholds = thresholds_of(trained, parts.validation.take(np.arange(300)), plan)
    return trained, thresholds, trace_of(trained, parts.calibration, arguments.work, plan, progress=False)


def trace_part(thresholds: Thresholds, trace: PruningTrace, part: str) -> None:
    number, of = map(int, part.split("/"))
    pairs = [(head, token) for head in thresholds.tau_head for token in thresholds.tau_token]
    for i, (tau_head, tau_token) in enumerate(pairs):
        if i % of == number:
            begin = time.perf_counter()
            trace.passes(tau_token, tau_head)
            print(f"{i + 1}/{len(pairs)}", tau_head, tau_token, round(time.perf_counter() - begin, 1), "s", flush=True)


def make_table(thresholds: Thresholds, trace: PruningTrace) -> rf.LossTable:
    """Every setting of the grid on every traced row."""
    configs = thresholds.space.grid(1)
    rows = [trace.losses(config, trace.examples) for config in configs]
    names = ("accuracy_drop", "accuracy_drop_clipped", "flops", "relative_cost")
    return rf.LossTable(configs, {n: np.stack([row[n] for row in rows]) for n in names}, trace.groups, trace.bounds)


def certified_speed_ups(table: rf.LossTable) -> pd.DataFrame:
    """Means over draws of calibration rows, true in the whole table, of the setting certified; else of the full model."""
    off = {name: (table.configs[name] == 0).to_numpy() for name in table.configs.columns}
    full_row = int(np.flatnonzero(np.all(list(off.values()), axis=0))[0])
    full = float(table.losses("flops")[full_row].mean())
    rows = []
    for loss in ("accuracy_drop", "accuracy_drop_clipped"):
        for name, used in DIMENSIONS.items():
            chosen = np.all(
                [values for d, values in off.items() if d not in used] or [np.full(table.n_configs, True)], 0
            )
            problem = rf.Problem([rf.Limit(loss, at_most=0.05)], minimize=["flops"], delta=DELTA)
            found = rf.experiment.run(
                table.select(np.flatnonzero(chosen)),
                problem,
                methods=["pareto-testing"],
                alphas=ALPHAS,
                trials=TRIALS,
                calibration=CALIBRATION,
            )
            for alpha, runs in found.groupby("alpha"):
                spent = runs["flops"].fillna(full)
                # of the mean cost: a mean of ratios would be carried by the few splits in which nearly all leave at once
                row = {"limit": loss, "dimensions": name, "alpha": alpha, "speed_up": full / spent.mean()}
                row |= {"median": (full / spent).median(), "lowest": (full / spent).min()}
                row |= {"drop": runs[problem.limit_names[0]].fillna(0).mean(), "violated": runs["violated"].mean()}
                rows.append(row | {"certified": (runs["n_certified"] > 0).mean()})
    return pd.DataFrame(rows)


def exit_accuracy(trace: PruningTrace) -> list[float]:
    answers = trace.passes(0.0, 0.0).probabilities.argmax(axis=2)
    return [float((answers[:, layer] == trace.labels).mean()) for layer in range(answers.shape[1])]


def differences(trained: AdaptiveClassifier, trace: PruningTrace, settings: dict[float, Setting]) -> int:
    """On how many rows the runtime answers otherwise, or leaves at another layer, than the trace that was certified."""
    total = 0
    for setting in settings.values():
        found = trained.with_setting(setting).answer(trace.tokens)
        traced = trace.passes(setting.tau_token, setting.tau_head)
        layers_run = leaving_depths(traced.entropies, setting.tau_layer)
        wanted = traced.probabilities[np.arange(len(trace)), layers_run].argmax(axis=1)
        other = (found.layers_run != layers_run) | (found.probabilities.argmax(axis=1) != wanted)
        total += int(other.sum())
    return total


def certify_once(table: rf.LossTable) -> dict[float, Setting]:
    """The settings certified on all traced rows, for the clock."""
    found = {}
    for alpha in ALPHAS:
        problem = rf.Problem([rf.Limit("accuracy_drop", at_most=alpha)], minimize=["flops"], delta=DELTA)
        certificate = rf.calibrate(table, problem)
        if certificate:
            found[alpha] = Setting.of(certificate.config)
    return found


def report(arguments: argparse.Namespace) -> None:
    trained, thresholds, trace = prepare(arguments)
    table = make_table(thresholds, trace)
    speed = certified_speed_ups(table)
    settings = certify_once(table)
    lines = [*_about(arguments.name, thresholds, trace, exit_accuracy(trace)), "", *_speed_lines(arguments.name, speed)]
    lines += ["", "Settings certified on all traced rows (signed drop):", ""]
    lines += ["| alpha | tau_head | tau_token | tau_layer |", "| --- | --- | --- | --- |"]
    lines += [f"| {a} | {s.tau_head:g} | {s.tau_token:g} | {s.tau_layer:g} |" for a, s in settings.items()]
    lines += ["", f"Rows at which the runtime differs from the trace: {differences(trained, trace, settings)} of "]
    lines[-1] += f"{len(settings) * len(trace):,}."
    write_results(f"adaptive_transformer_{arguments.name}", lines, speed)


def write_results(name: str, lines: list[str], frame: pd.DataFrame) -> None:
    results = Path(__file__).parent / "results"
    (results / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    frame.round(4).to_csv(results / f"{name}.csv", index=False)
    print("\n".join(lines))


def _about(name: str, thresholds: Thresholds, trace: PruningTrace, exits: list[float]) -> list[str]:
    plan, how = PLANS[name], PLANS[name].training
    counts = " x ".join(
        f"{len(values)} {kind}"
        for kind, values in (
            ("head", thresholds.tau_head),
            ("token", thresholds.tau_token),
            ("exit", thresholds.tau_layer),
        )
    )
    return f"""# The adaptive Transformer on {name}

gte-small, a pretrained sentence encoder (12 layers x 12 heads, width 384), not a raw masked-language model. Made by
`python -m benchmarks.adaptive_transformer train|trace|report {name} --model ... --data ... --work ...`.

- {plan.rows.train:,} rows to train on, {how.fine_tuning.epochs} epoch, learning rate {how.fine_tuning.learning_rate:g}, weight
  {how.fine_tuning.early_layers:g} on the loss of early layers (0 is the paper's training), at most
  {how.max_length} tokens; exit heads on {how.heads.rows:,} of them, token predictors on {how.heads.token_rows:,};
  {plan.rows.validation:,} validation rows; seed {plan.seed}.
- {len(trace):,} rows of the test split traced at {counts} thresholds. Each of {TRIALS} random splits calibrates on
  {CALIBRATION:.0%} of them and judges on the rest; pareto-testing, delta = {DELTA}, minimising FLOPs.
- Accuracy of the full model: {exits[-1]:.4f}. Before the first layer and after each: {" ".join(f"{a:.3f}" for a in exits)}.
""".splitlines()


def _speed_lines(name: str, speed: pd.DataFrame) -> list[str]:
    lines = []
    for loss, part in speed.groupby("limit", sort=False):
        lines += [
            f"FLOPs speed-up of the certified setting, {loss} <= alpha (drop and violations on held-out rows):",
            "",
        ]
        lines += ["| dimensions | " + " | ".join(f"alpha {a}" for a in ALPHAS) + " |", "| --- | --- | --- | --- |"]
        for dimensions, rows in part.groupby("dimensions", sort=False):
            cells = [f"x{r.speed_up:.2f} (drop {r.drop:.4f}, violated {r.violated:.2f})" for r in rows.itertuples()]
            lines.append(f"| {dimensions} | " + " | ".join(cells) + " |")
        best = part[part["dimensions"].isin(SINGLE)].groupby("alpha")["speed_up"].max()
        joint = part[part["dimensions"] == "exits and tokens"].set_index("alpha")["speed_up"]
        lines.append("| both / best single | " + " | ".join(f"{joint[a] / best[a]:.2f}" for a in ALPHAS) + " |")
        lines.append("| the paper, BERT-base | " + " | ".join(f"x{v}" for v in PAPER[name]) + " |")
        if name in TARGETS:
            lines.append("| target | " + " | ".join(f"x{v}" for v in TARGETS[name]) + " |")
        lines.append("")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["train", "trace", "report"])
    parser.add_argument("name", choices=sorted(PLANS))
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--part", default="0/1", help="which of how many processes this is, as 0/2")
    arguments = parser.parse_args()
    if arguments.step == "report":
        report(arguments)
        return
    _, thresholds, trace = prepare(arguments)
    if arguments.step == "trace":
        trace_part(thresholds, trace, arguments.part)


if __name__ == "__main__":
    main()
