"""What else one could do: simple classifiers on the same texts, beside the certified one, so that none of them is overlooked.

Nothing is chosen by this table and nothing of it is certified: accuracies are measured, on the calibration texts. Classifiers
that learn from calibration labels learn from one half of them and are measured on the other, in turn.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront._support.arrays import Array, IntArray
from riskfront._support.files import write_text
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._backbones.precision import precisions_for
from riskfront.transformers._data.texts import LabelledTexts
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from riskfront.transformers._pruning.setting import Setting

FILE = "alternatives.json"
TEXTS, ALONE, BATCH = 500, 12, 32  # that need a pass of their own; clocked one by one; clocked together


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to classify the same texts.

    Args:
        name: of it.
        accuracy: share of right answers; of texts without an answer none is right.
        texts: on how many.
        alone: milliseconds a text on this machine, one text at a time, tokenising included.
        together: the same in batches of 32.
        certified: whether it is the certified setting.
    """

    name: str
    accuracy: float
    texts: int
    alone: float
    together: float
    certified: bool = False


def alternatives(
    found: AdaptiveClassifier, trace: PruningTrace, train: LabelledTexts, texts: LabelledTexts
) -> list[Alternative]:
    """The certified setting first, then the full model, fewer layers, fewer bits, and linear classifiers.

    Args:
        trace: of the calibration texts.
        train: what the model learnt from; `texts`: the calibration texts.
    """
    both: Any = texts.first if texts.second is None else list(zip(texts.first, texts.second, strict=True))
    sample = [both[int(i)] for i in np.linspace(0, len(both) - 1, min(len(both), BATCH)).astype(int)]
    few = np.linspace(0, len(trace) - 1, min(len(trace), TEXTS)).astype(int)

    def at(name: str, setting: Setting, positions: IntArray, *, certified: bool = False) -> Alternative:
        columns = trace.losses(setting, positions)
        right = ~np.asarray(columns["error"]) & np.asarray(columns["answered"])
        one = found.with_setting(setting)
        return Alternative(name, float(right.mean()), len(positions), *_clocked(one.predict, sample), certified)

    every = np.arange(len(trace))
    n_layers = found.network.backbone.n_layers
    rows = [at("certified", found.used_setting, every, certified=True), at("full model", Setting(), every)]
    if "int8" in precisions_for(found.network.layers(found.network.kept_heads(0.0))):
        rows.append(at("full model in int8", Setting(precision="int8"), few))
    cuts = sorted({max(1, n_layers // 3), max(1, n_layers // 2)})
    rows += [at(f"first {depth} layers", Setting(depth=depth), every) for depth in cuts]
    return rows + _linear(found, train, texts, trace.tokens, sample)


def _linear(
    found: AdaptiveClassifier, train: LabelledTexts, texts: LabelledTexts, tokens: Tokens, sample: list[Any]
) -> list[Alternative]:
    """Logistic regression on words and on the mean of word embeddings; nothing without scikit-learn or training texts."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer
    except ImportError:
        return []
    seen, labels = _joined(train), np.array([train.classes[i] for i in train.labels])
    new, truth = _joined(texts), np.array([texts.classes[i] for i in texts.labels])
    if len(set(labels.tolist())) < 2:
        return []

    def words() -> Any:
        return make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=300)
        )

    def embedded() -> Any:
        return make_pipeline(
            FunctionTransformer(lambda given: _mean_embeddings(found, given)), LogisticRegression(max_iter=300)
        )

    as_one = [" ".join(pair) if isinstance(pair, tuple) else str(pair) for pair in sample]
    rows = []
    for name, make in (
        ("TF-IDF and logistic regression", words),
        ("mean word embedding, logistic regression", embedded),
    ):
        model = make().fit(seen, labels)
        rows.append(
            Alternative(name, float((model.predict(new) == truth).mean()), len(new), *_clocked(model.predict, as_one))
        )
    half = np.arange(len(new)) % 2 == 0
    right = 0
    for held in (half, ~half):
        more = [*seen, *(text for text, out in zip(new, held, strict=True) if not out)]
        model = words().fit(more, np.concatenate([labels, truth[~held]]))
        right += int((model.predict([text for text, out in zip(new, held, strict=True) if out]) == truth[held]).sum())
    clock = _clocked(model.predict, as_one)
    rows.insert(1, Alternative("the same, half of the calibration labels too", right / len(new), len(new), *clock))
    return rows


def _joined(texts: LabelledTexts) -> list[str]:
    if texts.second is None:
        return list(texts.first)
    return [f"{one} {other}" for one, other in zip(texts.first, texts.second, strict=True)]


@torch.inference_mode()
def _mean_embeddings(found: AdaptiveClassifier, texts: list[str]) -> Array:
    """(n, width): the mean of the word embeddings of each text."""
    table: Any = found.network.backbone.word_embeddings.weight
    ids = found.tokenizer(list(texts), truncation=True, max_length=found.max_length, verbose=False)["input_ids"]
    means: Array = torch.stack([table[torch.tensor(one, device=table.device)].mean(dim=0) for one in ids]).cpu().numpy()
    return means


def _clocked(predict: Callable[[Any], Any], sample: list[Any]) -> tuple[float, float]:
    """Milliseconds a text, one at a time and all together; the faster of two rounds."""

    def once(run: Callable[[], Any], texts: int) -> float:
        begin = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - begin) / texts

    alone = sample[:ALONE]
    predict(alone[:1])  # weights are cut to size
    return (
        min(once(lambda: [predict([text]) for text in alone], len(alone)) for _ in range(2)),
        min(once(lambda: predict(sample), len(sample)) for _ in range(2)),
    )


def save_alternatives(folder: str | os.PathLike[str], rows: list[Alternative]) -> None:
    write_text(Path(folder) / FILE, json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def load_alternatives(folder: str | os.PathLike[str]) -> list[Alternative]:
    """What the last certificate in a folder was compared with; empty where nothing was."""
    path = Path(folder) / FILE
    return [Alternative(**row) for row in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []


def better_than_certified(rows: list[Alternative]) -> list[str]:
    """Names of alternatives that are both more accurate and faster than the certified setting, alone or together."""
    own = next((row for row in rows if row.certified), None)
    if own is None:
        return []
    return [
        row.name
        for row in rows
        if not row.certified and row.accuracy > own.accuracy and (row.alone < own.alone or row.together < own.together)
    ]
