"""A BERT-type classifier, opened up: its layers one by one, on packed tokens, with heads that can be left out.

Packed means: the tokens of a batch stand one after the other in one matrix, without padding. Projections and feed-forward
networks then work on exactly the tokens that are left; only attention needs them by example.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from riskfront.arrays import Array
from riskfront.errors import InvalidInputError

BoolArray = Array


@dataclass(frozen=True)
class Packed:
    """The tokens of some examples, one after the other; the first of each example is [CLS].

    Args:
        states: (tokens, width).
        lengths: (examples,), each at least 1.
    """

    states: Tensor
    lengths: Tensor

    @property
    def starts(self) -> Tensor:
        """(examples,): where the [CLS] of each example stands."""
        return torch.cumsum(self.lengths, 0) - self.lengths

    @property
    def owner(self) -> Tensor:
        """(tokens,): the example of each token."""
        return torch.repeat_interleave(torch.arange(len(self.lengths), device=self.lengths.device), self.lengths)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer with the heads that are kept."""

    query_key_value: tuple[Tensor, Tensor] | None  # None: no head is kept
    attention_output: tuple[Tensor, Tensor]
    attention_norm: nn.LayerNorm
    feed_forward: tuple[nn.Linear, Any, nn.Linear]
    output_norm: nn.LayerNorm
    n_heads: int
    head_size: int

    def __call__(self, batch: Packed) -> Packed:
        """The same tokens after this layer."""
        weight, bias = self.attention_output
        if self.query_key_value is None:
            attended = bias
        else:
            attended = functional.linear(self._attend(batch, *self.query_key_value), weight, bias)
        states = self.attention_norm(attended + batch.states)
        into, activation, out = self.feed_forward
        return Packed(self.output_norm(out(activation(into(states))) + states), batch.lengths)

    def _attend(self, batch: Packed, weight: Tensor, bias: Tensor) -> Tensor:
        joint = functional.linear(batch.states, weight, bias)
        n, longest = len(batch.lengths), int(batch.lengths.max())
        if n * longest == len(joint):  # all of one length: nothing to pad
            split = joint.view(n, longest, 3, self.n_heads, self.head_size).permute(2, 0, 3, 1, 4)
            found = functional.scaled_dot_product_attention(split[0], split[1], split[2])
            return found.transpose(1, 2).reshape(len(joint), -1)
        owner = batch.owner
        place = owner * longest + torch.arange(len(joint), device=joint.device) - batch.starts[owner]
        padded = joint.new_zeros(n * longest, joint.shape[1])
        padded[place] = joint
        split = padded.view(n, longest, 3, self.n_heads, self.head_size).permute(2, 0, 3, 1, 4)
        real = torch.arange(longest, device=joint.device) < batch.lengths[:, None]
        found = functional.scaled_dot_product_attention(split[0], split[1], split[2], attn_mask=real[:, None, None, :])
        return found.transpose(1, 2).reshape(n * longest, -1)[place]


class Backbone:
    """A Hugging Face sequence classifier of the BERT class, or one that computes in the same way.

    Args:
        model: such as BertForSequenceClassification. Other models are refused: what is computed here layer by layer is compared
            with what the model itself computes.
    """

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        self.config: Any = getattr(model, "config", None)
        encoder = getattr(getattr(model, "base_model", None), "encoder", None)
        self._layers = list(getattr(encoder, "layer", []))
        try:
            first = self._layers[0]
            parts = [
                *(first.attention.self.query, first.attention.self.key, first.attention.self.value),
                *(first.attention.output.dense, first.intermediate.dense, first.output.dense),
            ]
            if not all(isinstance(part, nn.Linear) for part in parts) or getattr(self.config, "is_decoder", False):
                raise AttributeError
        except (AttributeError, IndexError):
            raise InvalidInputError(_refusal(model, "its layers are built differently")) from None
        if len(self._layers) < 2:
            raise InvalidInputError(_refusal(model, "it has a single layer, after which nothing is left to skip"))
        self._check()

    @property
    def n_layers(self) -> int:
        return len(self._layers)

    @property
    def n_heads(self) -> int:
        return int(self.config.num_attention_heads)

    @property
    def width(self) -> int:
        return int(self.config.hidden_size)

    @property
    def head_size(self) -> int:
        return self.width // self.n_heads

    @property
    def inner_width(self) -> int:
        return int(self._layers[0].intermediate.dense.out_features)

    @property
    def n_classes(self) -> int:
        return int(self.config.num_labels)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def max_length(self) -> int:
        """The longest input: RoBERTa's positions begin after its padding number, BERT's at 0."""
        rows = int(self.config.max_position_embeddings)
        padding = getattr(self.model.base_model.embeddings, "padding_idx", None)
        return rows if padding is None else rows - int(padding) - 1

    @property
    def attention_outputs(self) -> list[nn.Linear]:
        """Of each layer, the projection whose input holds the outputs of all heads side by side."""
        return [layer.attention.output.dense for layer in self._layers]

    def embed(self, inputs: dict[str, Tensor]) -> Packed:
        """The embeddings of a padded batch, packed."""
        base = self.model.base_model
        given = {name: value for name, value in inputs.items() if name != "attention_mask"}
        states = base.embeddings(**given)
        if hasattr(base, "embeddings_project"):  # ELECTRA's embeddings may be narrower than its layers
            states = base.embeddings_project(states)
        mask = inputs["attention_mask"].bool()
        return Packed(states[mask], mask.sum(dim=1))

    def layers(self, kept_heads: BoolArray | None = None) -> list[Layer]:
        """Every layer, with the heads that are kept, (layers, heads); the weights of the others are sliced out."""
        if kept_heads is None:
            kept_heads = np.ones((self.n_layers, self.n_heads), dtype=bool)
        return [self._layer(module, kept) for module, kept in zip(self._layers, kept_heads, strict=True)]

    def classify(self, cls: Tensor) -> Tensor:
        """The model's own logits from last [CLS] states, (examples, width)."""
        pooler = getattr(self.model.base_model, "pooler", None)
        if pooler is not None:
            return self.model.classifier(pooler(cls[:, None]))
        return self.model.classifier(cls[:, None])  # its head takes the first token by itself

    def _layer(self, module: Any, kept: BoolArray) -> Layer:
        attention = module.attention.self
        rows = torch.from_numpy(np.repeat(kept, self.head_size)).to(self.device)
        parts = (attention.query, attention.key, attention.value)
        with torch.no_grad():
            weight = torch.cat([part.weight[rows] for part in parts])
            bias = torch.cat([part.bias[rows] for part in parts])
            out = (
                module.attention.output.dense.weight[:, rows].contiguous(),
                module.attention.output.dense.bias.detach(),
            )
        return Layer(
            (weight, bias) if kept.any() else None,
            out,
            module.attention.output.LayerNorm,
            (module.intermediate.dense, module.intermediate.intermediate_act_fn, module.output.dense),
            module.output.LayerNorm,
            int(kept.sum()),
            self.head_size,
        )

    def _check(self) -> None:
        """Compare with the model itself on a small batch of two lengths."""
        ids = torch.arange(12, device=self.device).view(2, 6) % (int(self.config.vocab_size) - 4) + 4
        padding = getattr(self.config, "pad_token_id", None) or 0
        ids[1, 4:] = padding
        mask = torch.ones_like(ids)
        mask[1, 4:] = 0
        try:
            with torch.inference_mode():
                wanted = self.model(input_ids=ids, attention_mask=mask).logits
                batch = self.embed({"input_ids": ids, "attention_mask": mask})
                for layer in self.layers():
                    batch = layer(batch)
                found = self.classify(batch.states[batch.starts])
        except Exception as error:
            raise InvalidInputError(_refusal(self.model, f"it failed with {type(error).__name__}: {error}")) from error
        if found.shape != wanted.shape or not torch.allclose(found, wanted, atol=1e-3, rtol=1e-3):
            raise InvalidInputError(_refusal(self.model, "its layers compute something else"))


def _refusal(model: Any, reason: str) -> str:
    return (
        "the model must be an encoder of the BERT class (BERT, RoBERTa, ELECTRA, MiniLM and their like) with a classification "
        f"head; got {type(model).__name__}: {reason}."
    )


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
            "the model must be an encoder of the BERT class (BERT, RoBERTa, ELECTRA, MiniLM and their like) with weights in "
            f"safetensors format; '{name}' cannot be read as one: {_one_line(error)}"
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
