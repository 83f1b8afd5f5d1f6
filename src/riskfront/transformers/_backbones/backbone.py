"""A classifier, opened up: its layers one by one, on packed tokens, with heads that can be left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from riskfront._support.arrays import BoolArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones import FAMILIES, SUPPORTED, Layer, Packed, UnsupportedError
from riskfront.transformers._backbones.family import check

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
ENCODER = f"an encoder of a family that is known here ({SUPPORTED})"


class Backbone:
    """A Hugging Face sequence classifier of a family that is known here, such as BertForSequenceClassification. It is refused
    when what is computed here layer by layer is not what the model itself computes."""

    def __init__(self, model: Any) -> None:
        self.config: Any = getattr(model, "config", None)
        kind = FAMILIES.get(getattr(self.config, "model_type", ""))
        if kind is None or not hasattr(model, "classifier"):
            raise InvalidInputError(_refusal(model, "it is none of these" if kind is None else "it has no such head"))
        self.model = model.eval()
        try:
            self.family = kind(model)
            if len(self.family.modules) < 2:
                raise UnsupportedError("it has a single layer, after which nothing is left to skip")
            check(self.family)
        except UnsupportedError as reason:
            raise InvalidInputError(_refusal(model, str(reason))) from None
        except Exception as error:
            reason_ = f"it cannot be run layer by layer ({type(error).__name__}: {_one_line(error)})"
            raise InvalidInputError(_refusal(model, reason_)) from error
        config: Any = self.config
        self.n_layers, self.n_heads = len(self.family.modules), int(config.num_attention_heads)
        self.width, self.inner_width = int(config.hidden_size), self.family.inner_width
        self.head_size, self.n_classes = self.family.head_size, int(config.num_labels)
        self.max_length, self.extras = self.family.max_length, self.family.extras

    def to_dtype(self, name: str) -> None:
        """All weights in this type, in place. Layers were compared with the model in single precision before."""
        self.model.to(DTYPES[name])

    @property
    def dtype(self) -> str:
        return str(next(self.model.parameters()).dtype).removeprefix("torch.")

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle: configuration and weights. Models that have run hold hooks of transformers, which cannot be pickled."""
        return _rebuilt, (type(self.model), self.config, dict(self.model.state_dict()))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def word_embeddings(self) -> nn.Module:
        """From token numbers to vectors; all that follows is a function of these."""
        return self.model.get_input_embeddings()

    @property
    def attention_outputs(self) -> list[nn.Linear]:
        """Of each layer, the projection whose input holds the outputs of all heads side by side. A model may run the same one
        in several layers."""
        return [self.family.joins_heads(j) for j in range(self.n_layers)]

    def embed(self, inputs: dict[str, Tensor], lengths: IntArray | None = None) -> Packed:
        """The embeddings of a padded batch, packed; with the lengths of its examples nothing waits for the device."""
        if lengths is None:
            mask = inputs["attention_mask"].bool()
            return Packed(self.family.embed(inputs)[mask], mask.sum(dim=1))
        longest = int(lengths.max())
        seats = np.concatenate([row * longest + np.arange(length) for row, length in enumerate(lengths)])
        states = self.family.embed(inputs).flatten(0, 1)[torch.from_numpy(seats).to(self.device)]
        known: dict[str, Tensor | None] = {"longest": torch.tensor(longest)}
        return Packed(states, torch.from_numpy(lengths).to(self.device), None, known)

    def layers(self, kept_heads: BoolArray | None = None) -> list[Layer]:
        """Every layer, with the heads that are kept, (layers, heads); the weights of the others are sliced out."""
        if kept_heads is None:
            kept_heads = np.ones((self.n_layers, self.n_heads), dtype=bool)
        made: dict[Any, Layer] = {}  # a layer that runs several times with the same heads is made once
        found = []
        for j, (module, kept) in enumerate(zip(self.family.modules, kept_heads, strict=True)):
            key = (id(module), kept.tobytes())
            if key not in made:
                made[key] = self.family.layer(j, kept)
            found.append(made[key])
        return found

    def summary(self, batch: Packed) -> Tensor:
        """(examples, width): what the model's own classifier reads of the states after the last layer."""
        return self.family.summary(batch)

    def classify(self, summary: Tensor) -> Tensor:
        """The model's own logits from what `summary` gives; for most families the last [CLS] states, (examples, width)."""
        return self.family.classify(summary)


def _rebuilt(kind: Any, config: Any, weights: dict[str, Tensor]) -> Backbone:
    with quiet(), torch.random.fork_rng():
        model = kind(config)
    model.load_state_dict(weights)
    backbone = Backbone(model.to(next(iter(weights.values())).device))
    backbone.to_dtype(next(name for name, kind in DTYPES.items() if any(v.dtype == kind for v in weights.values())))
    return backbone


def _refusal(model: Any, reason: str) -> str:
    return f"the model must be {ENCODER} with a classification head; got {type(model).__name__}: {reason}."


def load_classifier(
    name: str, n_classes: int | None = None, *, classes: tuple[Any, ...] | None = None, seed: int = 0
) -> Any:
    """A Hugging Face sequence classifier from a folder or hub name, in single precision, with a new head if it has none of
    so many classes."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    looks_local = name.startswith(("/", ".", "~")) or name.endswith("/") or name.count("/") > 1
    if looks_local and not Path(name).is_dir():
        raise InvalidInputError(f"the model must be a folder or a hub name; there is no folder '{name}'.")
    try:
        config = AutoConfig.from_pretrained(name)
    except Exception as error:
        raise InvalidInputError(
            f"'{name}' must be the folder or the hub name of a model; {_one_line(error)}"
        ) from error
    if config.model_type not in FAMILIES:  # before its weights are read
        raise InvalidInputError(f"the model must be {ENCODER}; '{name}' is of the family {config.model_type}.")
    if getattr(config, "problem_type", None) == "multi_label_classification":
        raise InvalidInputError(
            f"the model must give each text one class; '{name}' gives several (problem_type multi_label_classification), which "
            "is not supported here: riskfront.estimators.RiskControlledMultiLabel takes the scores of any model."
        )
    other_classes = n_classes is not None and n_classes != config.num_labels
    if n_classes is not None:
        config.num_labels = n_classes
    if classes is not None:
        name_classes(config, classes)
    try:
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(seed)  # of the new head
            return AutoModelForSequenceClassification.from_pretrained(
                name, config=config, dtype=torch.float32, use_safetensors=True, ignore_mismatched_sizes=other_classes
            ).eval()
    except Exception as error:
        raise InvalidInputError(
            f"the model must be {ENCODER} with weights in safetensors format; '{name}' cannot be read as one: "
            f"{_one_line(error)}"
        ) from error


def name_classes(config: Any, classes: tuple[Any, ...]) -> None:
    config.id2label = {i: str(label) for i, label in enumerate(classes)}
    config.label2id = {str(label): i for i, label in enumerate(classes)}


def pick_device(name: str | None) -> torch.device:
    """The device of this name, or CUDA where there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InvalidInputError(f"device must be one that torch can use here, such as cpu; got {name!r}.") from error
    return device


@contextmanager
def quiet() -> Iterator[None]:
    """Without the reports and progress bars of transformers: a new head is meant to be new."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
