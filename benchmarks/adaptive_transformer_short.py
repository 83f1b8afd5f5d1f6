"""Short texts, one caller: what is certified by FLOPs and by the clock, beside what else one could do with the same encoder.

    python -m benchmarks.adaptive_transformer_short --model MODEL --data TEXTS.parquet --work FOLDER [--texts 64] [--ends 40]

TEXTS has columns text, label and split (train, test). With `--ends 40` only the end of each text is read: its last whole
sentences with at most 40 words together; texts whose end has fewer than five words, or more than 40 in its last sentence, are
left out, and copies. MODEL is an encoder, which is fine-tuned, or a classifier of these classes, which is not; then its
training rows must be those of TEXTS. Milliseconds are processor time of one thread, tokenising included, the lowest of several
rounds in which all take turns. Accuracies are of all calibration texts; TF-IDF learns from the training rows and from one half
of the calibration texts, and is measured on the other half, in turn. Prints the table, and which alternatives are both faster
and more accurate than a certified setting. Where training keeps an exit on words, everything is certified with it and without
it.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import riskfront as rf
from riskfront.transformers import FineTuning, Grid, HeadTraining, Plan, PruningTrace, Rows, Training
from riskfront.transformers._accelerate import read_parts, thresholds_of, trace_of, train_parts
from riskfront.transformers._backbones.precision import PRECISIONS
from riskfront.transformers._certifying import Split, certify_in_order, certify_planned, settings_to_plan
from riskfront.transformers._data.known_texts import fresh_texts
from riskfront.transformers._pruning.latency import clocks_of

LIMITS = (0.05, 0.025)
ROUNDS = 5
SENTENCES = re.compile(r"(?<=[.!?])\s+")  # between two
BATCH = 32


@dataclass(frozen=True)
class Way:
    """One way to classify texts.

    Args:
        predict: texts to classes.
        accuracy: on the calibration texts.
        ready: called before the clock starts.
        setting: of the adaptive classifier, where it is one.
        fewer: FLOPs of the full model over its own, on all calibration texts and on those that are clocked; nan where nobody
            counts them.
    """

    predict: Callable[[list[str]], Any]
    accuracy: float
    ready: Callable[[], Any] = lambda: None
    setting: dict[str, Any] | None = None
    fewer: tuple[float, float] = (np.nan, np.nan)


def clocked(ways: dict[str, Way], texts: list[str], batch: int) -> dict[str, float]:
    """Milliseconds a text, `batch` texts at a time, the lowest of some rounds."""
    best = dict.fromkeys(ways, np.inf)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            way.ready()
            begin = time.thread_time()
            for start in range(0, len(texts), batch):
                way.predict(texts[start : start + batch])
            best[name] = min(best[name], 1000 * (time.thread_time() - begin) / len(texts))
    return best


def certified(trained: Any, own: Any, plan: Plan, held: Any) -> dict[str, dict[str, Any]]:  # name -> setting
    """By FLOPs with exits alone, in their declared order; by the clock with all precisions."""
    found: dict[str, dict[str, Any]] = {}
    for limit in LIMITS:
        drop = [rf.Limit("accuracy_drop", at_most=limit)]
        space = thresholds_of(trained, held, plan).space
        by_flops = certify_in_order(own, space.grid(1), rf.Problem(drop, minimize="flops"), 0)
        if by_flops:
            found[f"certified at {limit:g}, exits"] = by_flops.config
        problem = rf.Problem(drop, minimize="latency")
        space = thresholds_of(trained, held, plan, problem).space
        method = rf.ParetoTesting()
        split = Split.of(own, method.opt_fraction, 0)
        configs = settings_to_plan(own, space, problem, split, search="grid", budget=space.size or 0, seed=0)
        by_clock = certify_planned(own, configs, problem, method, split, progress=False)
        if by_clock:
            found[f"certified at {limit:g}, by the clock"] = by_clock.config
    return found


def end_of(text: str, most: int) -> str:
    """The last whole sentences that have at most `most` words together; empty where the last one alone has more."""
    words = 0
    sentences = SENTENCES.split(text.strip())
    for number, sentence in enumerate(reversed(sentences)):
        words += len(sentence.split())
        if words > most:
            return " ".join(sentences[len(sentences) - number :])
    return " ".join(sentences)


def ends(data: str, most: int, work: Path) -> str:
    """A file with the end of each text."""
    frame = pd.read_parquet(data)[["text", "label", "split"]]
    frame["text"] = [end_of(text, most) for text in frame["text"]]
    kept = frame[frame["text"].str.split().str.len() >= 5].drop_duplicates("text")
    path = work / f"ends_{most}.parquet"
    kept.to_parquet(path, index=False)
    print(f"{len(kept):,} ends of texts, {kept['text'].str.split().str.len().mean():.0f} words on average", flush=True)
    return str(path)


def table(given: argparse.Namespace) -> list[str]:
    fine_tuning = FineTuning(epochs=given.epochs, early_layers=given.early_layers, bf16=given.bf16)
    how = Training(fine_tuning, heads=HeadTraining(pruned=False, rows=None), max_length=48, words=True)
    rows = Rows(train=given.rows, validation=given.validation, calibration=given.calibration)
    work = Path(given.work)
    work.mkdir(parents=True, exist_ok=True)
    data = ends(given.data, given.ends, work) if given.ends else given.data
    plan = Plan(how, rows, Grid(1, 1, 100), leave_out_repeats=True, learnt_from=(data,))
    parts = read_parts(data, plan)
    trained = train_parts(given.model, parts, work, plan, say=lambda line: print(line, flush=True), progress=False)
    fresh = fresh_texts(parts, trained.learnt, leave_out=True)
    without = replace(trained, network=replace(trained.network, words=None))
    clocks = clocks_of(trained.network, trained.max_length, PRECISIONS, work / "traces")
    own = trace_of(without, fresh.texts, work, plan, progress=False, clocks=clocks)
    every = np.linspace(0, len(own) - 1, given.texts).astype(int)
    few = [fresh.texts.first[int(i)] for i in every]
    settings: dict[str, dict[str, Any]] = {"full model, here": {}, "full model, int8": {"precision": "int8"}}
    settings |= {f"first {k} layers, int8": {"depth": k, "precision": "int8"} for k in (4, 6)}
    settings |= certified(without, own, plan, parts.validation)
    found = {name: (without, own, setting) for name, setting in settings.items()}
    print("traced", len(own), flush=True)
    if trained.network.words is not None:
        read = PruningTrace(trained.network, own.tokens, own.labels, classes=own._classes, clocks=clocks)
        read._passes = own._passes  # words are read before them and change none
        more = certified(trained, read, plan, parts.validation)
        found |= {f"{name}, words": (trained, read, setting) for name, setting in more.items()}
    ways = plain_ways(trained, fresh.texts)
    ways |= {name: adaptive_way(one, trace, setting, every) for name, (one, trace, setting) in found.items()}
    ways["TF-IDF, logistic regression"] = words_way(parts.train, fresh.texts)
    alone, together = clocked(ways, few, 1), clocked(ways, few, BATCH)
    lines = [
        "| | accuracy | FLOPs, times fewer | alone: ms, times faster | of the FLOPs | in batches of 32: ms, times faster |",
        "| --- " * 6 + "|",
    ]
    for name, way in ways.items():
        faster, faster_batch = (ms["plain model"] / ms[name] for ms in (alone, together))
        flops, share = ("", "")
        if way.setting is not None:
            flops, share = f"x{way.fewer[0]:.2f}", f"{faster / way.fewer[1]:.2f}"
        cells = f"{alone[name]:.2f}, x{faster:.2f} | {share} | {together[name]:.2f}, x{faster_batch:.2f}"
        lines.append(f"| {name} {way.setting or ''} | {way.accuracy:.3f} | {flops} | {cells} |")
    lines.append("")
    for name in (name for name in ways if name.startswith("certified")):
        better = [
            other
            for other in ways
            if not other.startswith("certified")
            and ways[other].accuracy > ways[name].accuracy
            and (alone[other] < alone[name] or together[other] < together[name])
        ]
        lines.append(f"More accurate and faster than {name}, alone or in batches: {', '.join(better) or 'none'}.")
    return lines


def adaptive_way(found: Any, own: Any, setting: dict[str, Any], clocked_texts: Any) -> Way:
    one = found.with_setting(setting)
    columns, full = own.losses(setting, own.examples), own.losses({}, own.examples)
    fewer = tuple(full["flops"][rows].mean() / columns["flops"][rows].mean() for rows in (slice(None), clocked_texts))

    def ready() -> None:
        one.network.layers(one.network.kept_heads(0.0), one.used_setting.precision)

    return Way(one.predict, 1 - columns["error"].mean(), ready, setting, fewer)


@torch.inference_mode()
def plain_ways(trained: Any, texts: Any) -> dict[str, Way]:
    """The model as transformers runs it, and in torch's own dynamic int8, where one scale serves a batch."""
    model = trained.network.backbone.model
    own = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    found = {}
    for name, one in (("plain model", model), ("plain model, torch dynamic int8", own)):

        @torch.inference_mode()
        def predict(given: list[str], one: Any = one) -> Any:
            options: dict[str, Any] = {"truncation": True, "max_length": trained.max_length, "padding": True}
            return one(**trained.tokenizer(given, **options, return_tensors="pt")).logits.argmax(dim=1).numpy()

        order = np.argsort([len(text) for text in texts.first])
        right = 0
        for rows in (order[start : start + BATCH] for start in range(0, len(order), BATCH)):
            right += int(
                (predict([texts.first[i] for i in rows]) == texts.reordered(trained.classes).labels[rows]).sum()
            )
        found[name] = Way(predict, right / len(texts))
    return found


def words_way(train: Any, texts: Any) -> Way:
    """A line of scikit-learn, with all labels there are."""
    half = np.arange(len(texts)) % 2 == 0
    first, labels = np.array(texts.first, dtype=object), texts.reordered(train.classes).labels
    right, model = 0, None
    for held in (half, ~half):
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=300)
        )
        model.fit([*train.first, *first[~held]], np.concatenate([train.labels, labels[~held]]))
        right += int((model.predict(list(first[held])) == labels[held]).sum())
    return Way(model.predict, right / len(texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--data", "--work"):
        parser.add_argument(name, required=True)
    for name, number in (("--rows", 3000), ("--validation", 1000), ("--calibration", 4000), ("--texts", 64)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--early-layers", type=float, default=0.0)
    parser.add_argument("--bf16", action="store_true", help="fine-tune in bfloat16")
    parser.add_argument(
        "--ends", type=int, default=0, help="words of each text's end that are read; 0 for the whole text"
    )
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    print("\n".join(table(parser.parse_args())))


if __name__ == "__main__":
    main()
