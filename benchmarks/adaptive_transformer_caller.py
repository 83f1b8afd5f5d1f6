"""One caller: where the time of one call goes, and which matrix products are fastest for one text and for 32.

    python -m benchmarks.adaptive_transformer_caller FOLDER --data TEXTS.parquet [--texts 24]

FOLDER is what `riskfront accelerate` wrote, of an encoder built like BERT. One thread; milliseconds of processor time of that
thread, the lowest of several rounds in which all take turns, so that a busy machine disturbs little. Writes
results/adaptive_transformer_caller.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront.transformers import AdaptiveClassifier
from riskfront.transformers._backbones.layer import Packed
from riskfront.transformers._backbones.precision import PRECISIONS, in_precision
from riskfront.transformers._data.texts import read_texts
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import entropy, features

ROUNDS = 5


def lowest(runs: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of each run, the lowest of some rounds."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            best[name] = min(best[name], 1000 * (time.thread_time() - begin))
    return best


def through(layers: list[Any], batch: Packed) -> Packed:
    for layer in layers:
        batch = layer(batch)
    return batch


def _embed(classifier: AdaptiveClassifier, tokens: Tokens) -> Packed:
    return classifier.network.backbone.embed(tokens.padded(np.array([0])))


@torch.inference_mode()
def products(classifier: AdaptiveClassifier, texts: list[str]) -> list[str]:
    """All layers in each precision, milliseconds a text; torch's own dynamic int8, with one scale for a batch, beside them."""
    network = classifier.network
    plain = network.layers(network.kept_heads(0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = torch.ao.quantization.quantize_dynamic(network.backbone.model, {torch.nn.Linear}, dtype=torch.qint8)
    lines = ["| texts | tokens | " + " | ".join(PRECISIONS) + " | plain model | its dynamic int8 |", "| --- " * 7 + "|"]
    for n in (1, 32):
        tokens = classifier.tokenize(texts[:n])
        inputs = tokens.padded(np.arange(n))
        batch = network.backbone.embed(inputs)
        runs: dict[str, Callable[[], Any]] = {}
        for name in PRECISIONS:
            layers = in_precision(plain, name)
            runs[name] = partial(through, layers, batch)
        runs["plain model"] = partial(network.backbone.model, **inputs)
        runs["its dynamic int8"] = partial(own, **inputs)
        found = lowest(runs, ROUNDS if n > 1 else 3 * ROUNDS)
        cells = " | ".join(f"{value / n:.2f}" for value in found.values())
        lines.append(f"| {n} | {int(tokens.lengths.sum())} | {cells} |")
    return lines


@torch.inference_mode()
def parts(classifier: AdaptiveClassifier, texts: list[str], settings: dict[str, dict[str, Any]]) -> list[str]:
    """Of one call with one text: tokenising, embedding, layers, exits, and what is left for Python and bookkeeping."""
    network, layout = classifier.network, classifier.network.layout
    lines = ["| setting | layers run | whole call | tokenise | embed | layers | exits | the rest |", "| --- " * 8 + "|"]
    for name, setting in settings.items():
        one = classifier.with_setting(setting)
        layers = network.layers(network.kept_heads(0.0), one.used_setting.precision)
        sums, ran = dict.fromkeys(("call", "tokenise", "embed", "layers", "exits"), 0.0), 0
        for text in texts:
            tokens = one.tokenize([text])
            depth = int(one.answer(tokens).layers_run[0])
            inputs, kinds = tokens.padded(np.array([0])), tokens.packed_texts(np.array([0]))
            batch = network.backbone.embed(inputs)
            asked = min(depth + 1, len(layers)) if one.used_setting.tau_layer else 0

            def exits(batch: Packed = batch, kinds: Any = kinds, asked: int = asked) -> None:
                for at in range(layout.first_exit, asked):
                    seen = features(layout.exits, layout.pairs, batch.states, batch.lengths, kinds)
                    bool((entropy(torch.softmax(network.exit_heads(at, seen), dim=1)) < 0.1).all())

            found = lowest(
                {
                    "call": partial(one.predict, [text]),
                    "tokenise": partial(one.tokenize, [text]),
                    "embed": partial(_embed, classifier, tokens),
                    "layers": partial(through, layers[:depth], batch),
                    "exits": exits,
                }
            )
            ran += depth
            sums = {part: sums[part] + value for part, value in found.items()}
        means = {part: value / len(texts) for part, value in sums.items()}
        rest = means["call"] - sum(value for part, value in means.items() if part != "call")
        cells = " | ".join(f"{value:.2f}" for value in (*means.values(), rest))
        lines.append(f"| {name} | {ran / len(texts):.1f} | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--data", required=True)
    parser.add_argument("--texts", type=int, default=24)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)
    classifier = AdaptiveClassifier.from_pretrained(given.folder)
    texts = read_texts(given.data)["text"].tolist()
    settings: dict[str, dict[str, Any]] = {
        "full model": {},
        "full model, float16": {"precision": "float16"},
        "full model, int8": {"precision": "int8"},
        "first 6 layers, int8": {"depth": 6, "precision": "int8"},
        "exits at entropy .1": {"tau_layer": 0.1},
        "exits at entropy .1, int8": {"tau_layer": 0.1, "precision": "int8"},
        "all leave at the first exit": {"tau_layer": 9.0},
    }
    if classifier.certificate:
        settings["certified"] = classifier.certificate.config
    text = "\n".join(
        [
            "# One caller",
            "",
            f"`python -m benchmarks.adaptive_transformer_caller FOLDER --data TEXTS --texts {given.texts}`: milliseconds of",
            "processor time of one thread, the lowest of several rounds.",
            "",
            "## All layers, milliseconds a text",
            "",
            *products(classifier, texts),
            "",
            "## One call with one text, mean of the texts",
            "",
            *parts(classifier, texts[: given.texts], settings),
            "",
        ]
    )
    Path(__file__).parent.joinpath("results", "adaptive_transformer_caller.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
