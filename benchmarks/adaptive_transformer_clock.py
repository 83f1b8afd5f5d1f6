"""How fast it really is: certified settings against the plain Hugging Face model, for one caller and for many.

    python -m benchmarks.adaptive_transformer_clock ag_news --model MODEL --data AG_NEWS.parquet --work WORK [--cpu-time]

WORK is the folder that `benchmarks.adaptive_transformer` trained and traced in. Batches of 1, 8 and 32 texts, in the given
order and sorted by length; plain first and plain last; p50 and p99 of a batch, and all texts together. One thread. With
--cpu-time the seconds are those that the thread itself was running: for a machine that has other things to do. Tokenising is
not timed.
Writes results/adaptive_transformer_clock_NAME.md and .csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.adaptive_transformer import PLANS, certify_once, make_table, prepare, write_results
from riskfront.transformers import AdaptiveClassifier
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._pruning.network import Setting, answer

BATCHES = (1, 8, 32)
REPEATS = 2


def batches_of(tokens: Tokens, size: int, *, by_length: bool) -> list[np.ndarray]:
    if by_length:
        return tokens.batches(size)
    return [np.arange(start, min(start + size, len(tokens))) for start in range(0, len(tokens), size)]


@torch.inference_mode()
def plain(trained: AdaptiveClassifier, tokens: Tokens, batch: np.ndarray) -> None:
    trained.network.backbone.model(**tokens.padded(batch)).logits.argmax(dim=1)


def adaptive(trained: AdaptiveClassifier, setting: Setting, tokens: Tokens, batch: np.ndarray) -> None:
    answer(trained.network, setting, tokens.take(batch), batch_size=max(1, len(batch)))


def measure(
    runs: dict[str, Callable[[np.ndarray], None]], batches: list[np.ndarray], clock: Callable[[], float]
) -> dict[str, np.ndarray]:
    """Seconds of each batch: every run goes through all batches, in both orders of the runs."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for order in [list(runs), list(reversed(runs))] * REPEATS:
        for name in order:
            runs[name](batches[0])  # weights are sliced and threads are warm
            for batch in batches:
                begin = clock()
                runs[name](batch)
                seconds[name].append(clock() - begin)
    return {name: np.array(values) for name, values in seconds.items()}


def whole(
    trained: AdaptiveClassifier, tokens: Tokens, settings: dict[str, Setting], clock: Callable[[], float]
) -> pd.DataFrame:
    """All texts handed over at once, as `predict` gets them, against the plain model with batches by length."""
    runs: dict[str, Callable[[], object]] = {
        "plain, given order": lambda: [plain(trained, tokens, b) for b in batches_of(tokens, 32, by_length=False)],
        "plain, by length": lambda: [plain(trained, tokens, b) for b in batches_of(tokens, 32, by_length=True)],
    }
    for name, setting in settings.items():
        runs[name] = lambda at=setting: answer(trained.network, at, tokens)  # type: ignore[misc]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for order in [list(runs), list(reversed(runs))] * REPEATS:
        for name in order:
            begin = clock()
            runs[name]()
            seconds[name].append(clock() - begin)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return pd.DataFrame(
        {
            "run": list(medians),
            "milliseconds a text": [1000 * value / len(tokens) for value in medians.values()],
            "speed_up": [medians["plain, by length"] / value for value in medians.values()],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(PLANS))
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.thread_time if arguments.cpu_time else time.perf_counter
    trained, thresholds, trace = prepare(arguments)
    settings = {f"certified at {alpha}": s for alpha, s in certify_once(make_table(thresholds, trace)).items()}
    settings |= {
        f"{name}, int8 (not certified)": replace(s, precision="int8") for name, s in list(settings.items())[:1]
    }
    settings["int8 alone (not certified)"] = Setting(precision="int8")
    tokens = trace.tokens.take(np.arange(arguments.texts))
    flops = {
        name: trace.losses(s, np.arange(arguments.texts))["flops"].mean()
        for name, s in settings.items()
        if s.precision == "float32"
    }
    full = trace.losses(Setting(), np.arange(arguments.texts))["flops"].mean()
    rows = []
    for size in BATCHES:
        for by_length in (False, True):
            runs: dict[str, Callable[[np.ndarray], None]] = {"plain": lambda b: plain(trained, tokens, b)}
            runs["unpruned"] = lambda b: adaptive(trained, Setting(), tokens, b)
            for name, setting in settings.items():
                runs[name] = lambda b, at=setting: adaptive(trained, at, tokens, b)  # type: ignore[misc]
            found = measure(runs, batches_of(tokens, size, by_length=by_length), clock)
            for name, values in found.items():
                row = {"batch": size, "order": "by length" if by_length else "given", "run": name}
                row |= {"p50": 1000 * np.quantile(values, 0.5), "p99": 1000 * np.quantile(values, 0.99)}
                row |= {"mean": 1000 * values.mean(), "speed_up": found["plain"].mean() / values.mean()}
                row["p50_speed_up"] = np.quantile(found["plain"], 0.5) / np.quantile(values, 0.5)
                rows.append(row | {"p99_speed_up": np.quantile(found["plain"], 0.99) / np.quantile(values, 0.99)})
    frame = pd.DataFrame(rows)
    together = whole(trained, tokens, settings, clock)
    lines = lines_of(arguments, frame, together, {name: full / value for name, value in flops.items()})
    write_results(f"adaptive_transformer_clock_{arguments.name}", lines, frame)


def lines_of(
    arguments: argparse.Namespace, frame: pd.DataFrame, together: pd.DataFrame, flops: dict[str, float]
) -> list[str]:
    what = "CPU milliseconds of the thread (the machine was busy)" if arguments.cpu_time else "milliseconds"
    lines = [
        f"# The clock on {arguments.name}",
        "",
        f"{arguments.texts} test texts, one thread, {what}; tokenising not timed.",
        "",
    ]
    lines += ["All texts at once, batches of 32, against the plain model with batches by length:", ""]
    lines += ["| run | a text | times faster | FLOPs |", "| --- | --- | --- | --- |"]
    for row in together.itertuples(index=False):
        counted = f"x{flops[row[0]]:.1f}" if row[0] in flops else ""
        lines.append(f"| {row[0]} | {row[1]:.2f} | x{row[2]:.2f} | {counted} |")
    lines += ["", "Batch by batch:", "", "| batch | order | run | p50 | p99 | mean | times faster: p50 | p99 | mean |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in frame.itertuples():
        times = f"x{row.p50_speed_up:.2f} | x{row.p99_speed_up:.2f} | x{row.speed_up:.2f}"
        lines.append(
            f"| {row.batch} | {row.order} | {row.run} | {row.p50:.2f} | {row.p99:.2f} | {row.mean:.2f} | {times} |"
        )
    return lines


if __name__ == "__main__":
    main()
