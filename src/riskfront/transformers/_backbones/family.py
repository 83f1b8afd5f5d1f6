"""A family of encoders: where its parts are, what it does differently from BERT, and whether its layers compute what it does.

The check goes layer by layer, each from the model's own states, so that errors cannot cancel or drown: the difference is
measured against what the layer changes. New models have weights so small that all tokens get the same attention, and any other
attention would pass: long examples are compared with queries large enough for heads to prefer some tokens to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from riskfront._support.arrays import Array
from riskfront.transformers._backbones.layer import Attention, Layer, Packed, plain_attention

LONGEST = 150  # beyond the windows and the exact distances of all families
TOLERANCE = 1e-3  # of what a layer changes
SPREAD = 3.0  # of attention scores when sharpened


class UnsupportedError(Exception):
    """This model of the family cannot be opened up; the message says why."""


@dataclass(frozen=True)
class Parts:
    """Where in a layer its parts are: projections of attention, the one that joins heads, feed-forward network, norms."""

    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    joined: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    into: str = "intermediate.dense"
    activation: str = "intermediate.intermediate_act_fn"
    out: str = "output.dense"
    output_norm: str = "output.LayerNorm"


@dataclass(frozen=True)
class Extras:
    """Operations of a family that BERT does not have, for the count of costs.

    Args:
        embedding_width: of embeddings that are projected to the width of the layers; 0 when they are not.
        feed_forward_matrices: 2, or 3 where the feed-forward network is gated.
        position_rows: vectors for positions that each head of each token is multiplied with.
        first_layer_neighbours: tokens that a convolution after the first layer reads for each token; 0 when there is none.
    """

    embedding_width: int = 0
    feed_forward_matrices: int = 2
    position_rows: int = 0
    first_layer_neighbours: int = 0


class Family:
    """A family whose layers are built like those of BERT; others override what differs."""

    where = Parts()
    reads_types = True  # which of two texts a token is of

    def __init__(self, model: Any) -> None:
        self.model, self.base, self.config = model, model.base_model, model.config
        if getattr(self.config, "is_decoder", False):
            raise UnsupportedError("it is a decoder")
        self.modules = self.find_modules()

    def find_modules(self) -> list[Any]:
        """The layers in the order in which they run; the same one may run several times."""
        return list(self.base.encoder.layer)

    def parts(self, module: Any) -> Any:
        """The modules of one layer, under the names of `Parts`."""
        return SimpleNamespace(**{name: attrgetter(path)(module) for name, path in asdict(self.where).items()})

    def attention(self, module: Any, kept: Array) -> Attention:
        """How the heads that are kept, (heads,), look at tokens in this layer."""
        return plain_attention

    def layer(self, position: int, kept: Array) -> Any:
        """The layer at this position with the heads that are kept, (heads,); a function of Packed tokens."""
        module = self.modules[position]
        parts = self.parts(module)
        rows = self.rows(kept)
        projections = (parts.query, parts.key, parts.value)
        with torch.no_grad():
            weight = torch.cat([part.weight[rows] for part in projections])
            bias = torch.cat([part.bias[rows] for part in projections])
            out = parts.joined.weight[:, rows].contiguous()
        return Layer(
            (weight, bias) if kept.any() else None,
            (out, parts.joined.bias.detach()),
            parts.attention_norm,
            (parts.into, parts.activation, parts.out),
            parts.output_norm,
            int(kept.sum()),
            self.head_size,
            self.attention(module, kept),
        )

    def rows(self, kept: Array) -> Tensor:
        """(heads x head size,): True for the rows of projections that belong to these heads, (heads,)."""
        return torch.from_numpy(np.repeat(kept, self.head_size)).to(next(self.model.parameters()).device)

    @property
    def head_size(self) -> int:
        return int(self.config.hidden_size) // int(self.config.num_attention_heads)

    @property
    def inner_width(self) -> int:
        return int(self.parts(self.modules[0]).into.out_features)

    @property
    def max_length(self) -> int:
        """The longest input."""
        return int(self.config.max_position_embeddings)

    @property
    def extras(self) -> Extras:
        return Extras()

    def joins_heads(self, position: int) -> nn.Linear:
        """The projection whose input holds the outputs of all heads of this layer side by side."""
        return self.parts(self.modules[position]).joined

    def queries(self, position: int) -> list[Tensor]:
        """The weights of this layer that make queries, as views of the model's own; for checks."""
        return [self.parts(self.modules[position]).query.weight]

    def embed(self, inputs: dict[str, Tensor]) -> Tensor:
        """(examples, longest, width): what enters the first layer, of a padded batch."""
        unread = ("attention_mask",) if self.reads_types else ("attention_mask", "token_type_ids")
        return self.base.embeddings(**{name: value for name, value in inputs.items() if name not in unread})

    def finish(self, states: Tensor) -> Tensor:
        """What the model does to all states after its last layer."""
        return states

    def summary(self, batch: Packed) -> Tensor:
        """(examples, width): what the model's own classifier reads after the last layer."""
        return batch.states[batch.starts]

    def classify(self, summary: Tensor) -> Tensor:
        """Logits of the model's own classifier."""
        pooler = getattr(self.base, "pooler", None)
        if pooler is not None:
            return self.model.classifier(pooler(summary[:, None]))
        return self.model.classifier(summary[:, None])  # its head takes the first token by itself


def check(family: Family) -> None:
    """Raise `UnsupportedError` unless the model and its layers agree."""
    dtype = next(family.model.parameters()).dtype
    if dtype not in (torch.float32, torch.float64):
        raise UnsupportedError(f"its weights are {dtype}; load it in single precision")
    longest = min(LONGEST, family.max_length)
    with torch.inference_mode():
        compare(family, telling_inputs(family, sorted({min(longest, 16), min(longest, 7), 2})))
        with sharpened(family):
            compare(family, telling_inputs(family, sorted({longest, max(2, longest * 3 // 5)})))


def compare(family: Family, inputs: dict[str, Tensor]) -> None:
    found = family.model(**inputs, output_hidden_states=True)
    mask = inputs["attention_mask"].bool()
    lengths = mask.sum(dim=1)
    states = [padded[mask] for padded in found.hidden_states]
    if len(states) != len(family.modules) + 1:
        raise UnsupportedError(f"it has {len(states) - 1} layers where {len(family.modules)} were found")
    embedded = family.embed(inputs)[mask]
    _must_agree(embedded, states[0], states[0], "embeddings")
    every_head = np.ones(int(family.config.num_attention_heads), dtype=bool)
    last = len(family.modules) - 1
    for j in range(last + 1):
        batch = family.layer(j, every_head)(Packed(states[j], lengths))
        after, before = batch.states, states[j]
        if j == last:
            after, before = family.finish(after), family.finish(before)
        _must_agree(after, states[j + 1], states[j + 1] - before, f"layer {j + 1}")
    _must_agree(family.classify(family.summary(batch)), found.logits, found.logits, "classifier")


def _must_agree(found: Tensor, wanted: Tensor, change: Tensor, name: str) -> None:
    """The difference must be small beside what happens here, or at least beside rounding."""
    if found.shape != wanted.shape:
        raise UnsupportedError(f"its {name} gives {tuple(wanted.shape)} numbers, not {tuple(found.shape)}")
    allowed = TOLERANCE * change.norm() + 1e-6 * wanted.norm()
    if not (found - wanted).norm() <= allowed:
        raise UnsupportedError(f"its {name} computes something else")


def telling_inputs(family: Family, lengths: list[int]) -> dict[str, Tensor]:
    """Examples of these lengths, with padding and, where the model knows two texts, a second text."""
    longest = max(lengths)
    vocabulary, padding = int(family.config.vocab_size), getattr(family.config, "pad_token_id", None) or 0
    ids = torch.from_numpy(np.random.default_rng(0).integers(vocabulary, size=(len(lengths), longest)))
    ids[ids == padding] = (padding + 1) % vocabulary
    mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
    inputs = {"input_ids": torch.where(mask.bool(), ids, padding), "attention_mask": mask}
    if (getattr(family.config, "type_vocab_size", 0) or 0) > 1:
        inputs["token_type_ids"] = (torch.arange(longest) > 3).long() * mask
    return {name: value.to(next(family.model.parameters()).device) for name, value in inputs.items()}


@contextmanager
def sharpened(family: Family) -> Iterator[None]:
    """While it lasts, queries are so large that scores of attention differ by about SPREAD; then weights are as before."""
    weights = {w.data_ptr(): w for j in range(len(family.modules)) for w in family.queries(j)}  # each once
    before = [weight.clone() for weight in weights.values()]
    try:
        for weight in weights.values():
            # of queries, and about that of keys, to states of size one
            size = float(weight.norm()) / len(weight) ** 0.5
            weight.mul_(max(1.0, SPREAD / max(size, 1e-3) ** 2))
        yield
    finally:
        for weight, values in zip(weights.values(), before, strict=True):
            weight.copy_(values)
