"""A scikit-learn text pipeline as the small model of a cascade, and what it says of some texts.

A pipeline is an object of Python that only pickle can save, and no pickle is loaded here. The folder of the cascade keeps what
the pipeline says of a few made-up texts; whoever loads the folder hands the pipeline over, and another one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from riskfront._support.arrays import Array, IntArray
from riskfront._support.checked_json import DamagedError, from_bytes, to_bytes
from riskfront._support.files import write_text
from riskfront._support.sealed_tensors import load_sealed, save_sealed
from riskfront.errors import InvalidInputError, StoreError
from riskfront.transformers._data.texts import Label, LabelledTexts
from riskfront.transformers._data.tokens import as_list, must_be_readable
from riskfront.transformers._exits import must_be_of_kind
from riskfront.transformers._pruning.pruning_trace import entropies

FILE = "pipeline.json"
PROBES, WORDS = 32, 12  # made-up texts by which a pipeline is known again, and how many words each has
SAME = 1e-5  # between two probabilities of one pipeline
HAND_OVER = (
    "the small model of '{folder}' is a scikit-learn pipeline, which no folder holds: hand over the one that was fitted for it "
    "(cascade.small.model): CascadeClassifier.from_pretrained(folder, small=pipeline)."
)


@dataclass(frozen=True)
class SmallPipeline:
    """A fitted pipeline, from a list of texts to probabilities of these classes; pairs of texts are joined by a space."""

    model: Any
    classes: tuple[Label, ...]
    pairs: bool

    @classmethod
    def fit(cls, pipeline: Any, texts: LabelledTexts) -> SmallPipeline:
        """A copy of the pipeline, fitted to these texts and to nothing else."""
        from sklearn.base import clone

        pairs = texts.second is not None
        labels = np.array([texts.classes[i] for i in texts.labels])
        try:
            model = clone(pipeline).fit(_joined(texts.examples, pairs), labels)
            found = cls(model, tuple(np.asarray(model.classes_).tolist()), pairs)
            found.must_answer_texts_alone(texts.examples[:PROBES])
        except InvalidInputError:
            raise
        except Exception as error:  # whatever the user's pipeline raises
            raise InvalidInputError(
                "the small model must be a scikit-learn pipeline that learns from texts and gives probabilities, such as "
                f"make_pipeline(TfidfVectorizer(), LogisticRegression()); it cannot ({type(error).__name__}: {error})."
            ) from error
        return found

    def must_answer_texts_alone(self, texts: list[Any]) -> None:
        """Raise a clear error where what it says of a text depends on the texts beside it: what is certified of many texts
        would not hold for one."""
        alone = np.concatenate([self.probabilities([text]) for text in texts])
        apart = float(np.abs(alone - self.probabilities(texts)).max())
        if apart > SAME:
            raise InvalidInputError(
                "the small model must say the same of a text whatever texts are beside it; asked one by one its probabilities "
                f"differ by up to {apart:.2g}. Learn means and scales when fitting, as StandardScaler does; draw nothing at "
                "random."
            )

    def probabilities(self, texts: Any) -> Array:
        """(n, classes)"""
        given = as_list(texts)
        must_be_of_kind(self.pairs, must_be_readable(given))
        found = np.asarray(self.model.predict_proba(_joined(given, self.pairs)), dtype=np.float32)
        fine = found.shape == (len(given), len(self.classes)) and np.allclose(found.sum(axis=1), 1, atol=1e-3)
        if not fine or found.min() < 0:
            raise InvalidInputError(
                f"the small model must give each text {len(self.classes)} probabilities that sum to 1; it gave an array of "
                f"shape {found.shape}."
            )
        return found

    def trace(self, texts: Any, labels: IntArray) -> PipelineTrace:
        """What it says of these texts; labels are positions in `classes`."""
        return PipelineTrace(self.probabilities(texts), np.asarray(labels))

    def trace_of(self, texts: LabelledTexts) -> PipelineTrace:
        """The same of labelled texts, whatever the order of their classes."""
        return self.trace(texts.examples, texts.reordered(self.classes).labels)

    def save(self, folder: Path, tokenizer: Any) -> None:
        """What it is known again by."""
        probes = _made_up(tokenizer, self.pairs)
        said = self.probabilities(probes).tolist()
        about = {"classes": list(self.classes), "pairs": self.pairs, "probes": probes, "probabilities": said}
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FILE, to_bytes(about).decode())

    @classmethod
    def load(cls, folder: Path, model: Any) -> SmallPipeline:
        """The pipeline that was handed over, if it is the one that was fitted for this folder."""
        about = read_about(folder)
        if model is None:
            raise InvalidInputError(HAND_OVER.format(folder=folder.parent))
        found = cls(model, tuple(about["classes"]), bool(about["pairs"]))
        try:
            said = found.probabilities([tuple(text) if found.pairs else text for text in about["probes"]])
            same = np.allclose(said, np.array(about["probabilities"]), atol=SAME, rtol=0)
        except Exception as error:  # whatever another object raises
            raise InvalidInputError(
                f"{HAND_OVER.format(folder=folder.parent)} This one cannot answer ({error})."
            ) from error
        if not same:
            raise InvalidInputError(f"{HAND_OVER.format(folder=folder.parent)} This one gives other probabilities.")
        return found


def read_about(folder: Path) -> dict[str, Any]:
    """Classes, kind of texts, made-up texts and the probabilities of those."""
    try:
        about: dict[str, Any] = from_bytes((folder / FILE).read_bytes())
        if not {"classes", "pairs", "probes", "probabilities"} <= about.keys():
            raise DamagedError("a part is missing")
    except (OSError, DamagedError) as error:
        raise StoreError(f"'{folder / FILE}' must be as it was written; {error}. Restore it from a copy.") from None
    return about


@dataclass(frozen=True)
class PipelineTrace:
    """What a pipeline says of each example: probabilities, (n, classes), beside labels, (n,)."""

    probabilities: Array
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.probabilities.tobytes() + self.labels.tobytes()).hexdigest()

    @cached_property
    def entropies(self) -> Array:
        """(n,)"""
        return entropies(self.probabilities)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_sealed({"probabilities": self.probabilities, "labels": self.labels}, path)

    @classmethod
    def load(cls, path: Path) -> PipelineTrace:
        try:
            arrays, _ = load_sealed(path)
            return cls(arrays["probabilities"], arrays["labels"])
        except (DamagedError, OSError, KeyError) as error:
            raise StoreError(
                f"'{path}' must hold what the small model said of the calibration texts; it cannot be read ({error}). Restore "
                "it from a copy, or certify again."
            ) from error


def _joined(texts: Sequence[Any], pairs: bool) -> list[str]:
    return [" ".join(text) for text in texts] if pairs else list(texts)


def _made_up(tokenizer: Any, pairs: bool) -> list[Any]:
    """Texts of words that the large model knows, always the same; no text of the user's."""
    words = sorted({word.lstrip("▁Ġ") for word in tokenizer.get_vocab()} - set(tokenizer.all_special_tokens))
    known = [word for word in words if word.isalnum()] or ["text"]
    rng = np.random.Generator(np.random.PCG64(0))
    drawn = rng.integers(len(known), size=(PROBES, 2 if pairs else 1, WORDS))
    texts = [[_varied(" ".join(known[i] for i in part), kind) for part in parts] for kind, parts in enumerate(drawn)]
    return [tuple(parts) if pairs else parts[0] for parts in texts]


def _varied(text: str, kind: int) -> str:
    """Some with capitals, marks and numbers: pipelines may differ in how they read these alone."""
    return (text, text.title() + ".", text.upper() + "!", f"{kind}: {text}, {kind * 7919}?")[kind % 4]
