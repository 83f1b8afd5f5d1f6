"""What an acceleration brought, in one sentence and beside what else one could do with the same texts.

Nothing is chosen by these numbers and nothing of them is certified: accuracies are measured on the calibration texts.
Classifiers that learn from calibration labels learn from one half of them and are measured on the other, in turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from riskfront._calibration.certificates.verdict import confidence
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, IntArray
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront.errors import StoreError
from riskfront.transformers._adaptive_classifier import AdaptiveClassifier
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._backbones.precision import precisions_for
from riskfront.transformers._data.texts import LabelledTexts
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._folder import ALTERNATIVES, GAIN
from riskfront.transformers._pruning.network import Setting
from riskfront.transformers._pruning.pruning_trace import PruningTrace

CLOCKED = 128  # texts whose time is taken
BATCH, ALONE = 32, 24  # at a time; so many of them also one by one
TEXTS, FEW_ALONE = 500, 12  # that need a pass of their own; clocked one by one


@dataclass(frozen=True)
class Gain:
    """Means over the test texts, and one measurement of time.

    Args:
        operations: of the full model, divided by those of the certified setting.
        seconds: of the plain model, divided by those of the certified setting, on this machine, in batches of 32 by length.
        full_accuracy: of the full model, of all texts, answered or not.
        accuracy: the same at the certified setting.
        answered: the share of texts that get an answer.
        drop_error: the standard error of the mean drop of accuracy.
        seconds_alone: as ``seconds``, one text at a time, as a single caller waits for it; None where it was not measured.
    """

    operations: float
    seconds: float
    full_accuracy: float
    accuracy: float
    answered: float = 1.0
    seconds_alone: float | None = None
    drop_error: float | None = None

    def sentence(self, problem: Problem, delta: float | None = None) -> str:
        """For people; `delta` is that of all uses of the same texts, by default that of the problem."""
        parts = [
            f"x{self.operations:.3g} fewer operations",
            _times(self.seconds, f"here in batches of {BATCH}"),
            f"accuracy {_share(self.full_accuracy)} to {_share(self.accuracy)}",
        ]
        if self.seconds_alone is not None:
            parts.insert(2, _times(self.seconds_alone, "one text at a time"))
        if self.answered < 1:
            parts.append(f"{100 * self.answered:.3g} % of texts answered")
        drops = [limit for limit in problem.limits if limit.loss.startswith("accuracy_drop")]
        lost = [limit.value for limit in drops if limit.at_most is not None and not (limit.per or limit.given)]
        if lost:
            parts.append(f"at most {_share(min(lost))} lost with {confidence(delta or problem.delta)} confidence")
        return ", ".join(parts) + "."

    def save(self, folder: str | os.PathLike[str]) -> None:
        write_text(Path(folder) / GAIN, to_bytes(asdict(self)).decode())

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Gain | None:
        """What the last certificate in a folder brought; None where nothing was certified."""
        path = Path(folder) / GAIN
        if not path.is_file():
            return None
        try:
            return cls(**from_bytes(path.read_bytes()))
        except (DamagedError, TypeError) as error:
            raise StoreError(
                f"'{path}' must be as it was written; {error}. Remove it to have it measured again."
            ) from None


def measure_gain(found: Any, trace: Any, test: IntArray, texts: LabelledTexts | None = None) -> Gain:
    """Of a classifier with a certified setting, on the test texts; of a cascade, which reads texts itself, with all of them."""
    clocked = test[_spread(len(test), CLOCKED)]
    tokens: Tokens = (trace if texts is None else trace.large).tokens.take(clocked)
    alone, backbone = _spread(len(tokens), ALONE), found.network.backbone
    together: Any = tokens if texts is None else texts.take(clocked).examples
    each = [tokens.take(np.array([i])) if texts is None else [together[i]] for i in alone]
    seconds = times_as_fast(backbone, tokens, lambda: found.answer(together))
    singly = times_as_fast(backbone, tokens.take(alone), lambda: [found.answer(one) for one in each], batch_size=1)
    return gain_of(trace.losses({}, test), trace.losses(found.used_setting, test), seconds, singly)


def _spread(n: int, most: int) -> IntArray:
    """At most so many of n positions, evenly from the first to the last."""
    return np.linspace(0, n - 1, min(n, most)).astype(int)


def gain_of(full: Mapping[str, Array], now: Mapping[str, Array], seconds: float, alone: float | None = None) -> Gain:
    """From the columns of the full model and of the certified setting, (test texts,) each."""
    means = {name: (float(np.mean(full[name])), float(np.mean(now[name]))) for name in ("flops", "error", "answered")}
    return Gain(
        operations=means["flops"][0] / means["flops"][1],
        seconds=seconds,
        full_accuracy=1 - means["error"][0],
        accuracy=1 - means["error"][1],
        answered=means["answered"][1],
        seconds_alone=alone,
        drop_error=float(np.std(now["accuracy_drop"]) / len(now["error"]) ** 0.5) if "accuracy_drop" in now else None,
    )


def times_as_fast(backbone: Backbone, tokens: Tokens, adaptive: Callable[[], Any], batch_size: int = BATCH) -> float:
    """The time of the plain Hugging Face model over that of `adaptive`: each twice, in both orders, the faster counts."""

    @torch.inference_mode()
    def plain() -> None:
        for batch in tokens.batches(batch_size):
            backbone.model(**tokens.padded(batch, backbone.device))

    first_plain, first, second, second_plain = (_seconds(run) for run in (plain, adaptive, adaptive, plain))
    return min(first_plain, second_plain) / min(first, second)


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def speed_and_accuracy(full: Mapping[str, Array], now: Mapping[str, Array]) -> str:
    """A setting in words, from the columns of the full model and of the setting: what it saves, and how often it is right."""
    gain = gain_of(full, now, seconds=1.0)
    parts = [f"x{gain.operations:.3g} fewer operations than the full model"]
    if "latency" in full and "latency" in now:
        parts.append(_times(float(np.mean(full["latency"]) / np.mean(now["latency"])), "by the clock of this machine"))
    parts.append(f"accuracy {_share(gain.full_accuracy)} to {_share(gain.accuracy)}")
    if gain.answered < 1:
        parts.append(f"{100 * gain.answered:.3g} % of texts answered")
    return f"{', '.join(parts)}, measured on the calibration texts."


def _times(ratio: float, how: str) -> str:
    return f"x{ratio:.3g} {'faster' if ratio >= 1 else 'as fast'} {how}"


def _share(value: float) -> str:
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}".removeprefix("0")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to classify the same texts.

    Args:
        accuracy: share of right answers; of texts without an answer none is right.
        texts: on how many.
        alone: milliseconds a text on this machine, one text at a time, tokenising included.
        together: the same in batches of 32.
    """

    name: str
    accuracy: float
    texts: int
    alone: float
    together: float
    certified: bool = False


def alternatives(
    found: Any,
    trace: Any,
    train: LabelledTexts,
    texts: LabelledTexts,
    full: tuple[AdaptiveClassifier, PruningTrace] | None = None,
) -> list[Alternative]:
    """The certified setting first, then the full model, fewer layers, fewer bits, and linear classifiers.

    `trace` is that of the classifier or cascade on the calibration texts, `full` of a cascade its large model and the trace of
    that.
    """
    model, traced = full or (found, trace)
    sample, few = texts.take(_spread(len(texts), BATCH)).examples, _spread(len(trace), TEXTS)

    def row(name: str, one: Any, columns: Mapping[str, Array], *, certified: bool = False) -> Alternative:
        right = ~np.asarray(columns["error"]) & np.asarray(columns["answered"])
        return Alternative(name, float(right.mean()), len(right), *_clocked(one.predict, sample), certified)

    def at(name: str, setting: Setting, positions: IntArray) -> Alternative:
        return row(name, model.with_setting(setting), traced.losses(setting, positions))

    every = np.arange(len(trace))
    n_layers = model.network.backbone.n_layers
    rows = [row("certified", found, trace.losses(found.used_setting, every), certified=True)]
    rows.append(at("full model", Setting(), every))
    if "int8" in precisions_for(model.network.layers(model.network.kept_heads(0.0))):
        rows.append(at("full model in int8", Setting(precision="int8"), few))
    cuts = sorted({max(1, n_layers // 3), max(1, n_layers // 2)})
    rows += [at(f"first {depth} layers" if depth > 1 else "first layer", Setting(depth=depth), every) for depth in cuts]
    return rows + _linear(model, train, texts, sample)


def _linear(
    found: AdaptiveClassifier, train: LabelledTexts, texts: LabelledTexts, sample: list[Any]
) -> list[Alternative]:
    """Logistic regression on words and on the mean of word embeddings; nothing without training texts of two classes."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    seen, labels = _joined(train.examples), np.array([train.classes[i] for i in train.labels])
    new, truth = np.array(_joined(texts.examples), dtype=object), np.array([texts.classes[i] for i in texts.labels])
    if len(set(labels.tolist())) < 2:
        return []
    as_one, half, right = _joined(sample), np.arange(len(new)) % 2 == 0, 0

    def row(name: str, model: Any, accuracy: float) -> Alternative:
        return Alternative(name, accuracy, len(new), *_clocked(model.predict, as_one))

    vectors = FunctionTransformer(partial(_mean_embeddings, found))
    words = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=300)
    )
    embedded = make_pipeline(vectors, LogisticRegression(max_iter=300))
    alone, means = (float((model.fit(seen, labels).predict(new) == truth).mean()) for model in (words, embedded))
    rows = [row("TF-IDF and logistic regression", words, alone)]
    for held in (half, ~half):
        words.fit([*seen, *new[~held]], np.concatenate([labels, truth[~held]]))
        right += int((words.predict(new[held]) == truth[held]).sum())
    rows.append(row("the same, half of the calibration labels too", words, right / len(new)))
    return [*rows, row("mean word embedding, logistic regression", embedded, means)]


def _joined(examples: list[Any]) -> list[str]:
    return [" ".join(one) if isinstance(one, tuple) else one for one in examples]


@torch.inference_mode()
def _mean_embeddings(found: AdaptiveClassifier, texts: list[str]) -> Array:
    """(n, width): the mean of the word embeddings of each text."""
    table: Any = found.network.backbone.word_embeddings.weight
    ids = found.tokenizer(list(texts), truncation=True, max_length=found.max_length, verbose=False)["input_ids"]
    of_texts = [table[torch.tensor(one, device=table.device)].float().mean(dim=0) for one in ids]
    return torch.stack(of_texts).cpu().numpy()


def _clocked(predict: Callable[[Any], Any], sample: list[Any]) -> tuple[float, float]:
    """Milliseconds a text, one at a time and all together; the faster of two rounds."""
    alone = sample[:FEW_ALONE]
    predict(alone[:1])  # weights are cut to size
    return (
        min(1000 * _seconds(lambda: [predict([text]) for text in alone]) / len(alone) for _ in range(2)),
        min(1000 * _seconds(lambda: predict(sample)) / len(sample) for _ in range(2)),
    )


def save_alternatives(folder: str | os.PathLike[str], rows: list[Alternative]) -> None:
    write_text(Path(folder) / ALTERNATIVES, to_bytes({"rows": [asdict(row) for row in rows]}).decode())


def load_alternatives(folder: str | os.PathLike[str]) -> list[Alternative]:
    """What the last certificate in a folder was compared with; empty where nothing was."""
    path = Path(folder) / ALTERNATIVES
    if not path.is_file():
        return []
    try:
        return [Alternative(**row) for row in from_bytes(path.read_bytes())["rows"]]
    except (DamagedError, KeyError, TypeError) as error:
        raise StoreError(
            f"'{path}' must be as it was written; {error}. Delete it, or accelerate into another folder."
        ) from None


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
