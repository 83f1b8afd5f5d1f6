"""ModernBERT: norms before what they normalise, rotated queries and keys, windows of attention, gated feed-forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from riskfront._support.arrays import Array
from riskfront.transformers._backbones.family import Extras, Family
from riskfront.transformers._backbones.layer import Layer, Packed, attend


class ModernBert(Family):
    """ModernBERT, with a classifier that reads [CLS] or the mean of the tokens that are left."""

    reads_types = False

    def find_modules(self) -> list[Any]:
        return list(self.base.layers)

    def layer(self, position: int, kept: Array) -> Any:
        module = self.modules[position]
        own, rows = module.attn, self.rows(kept)
        window = int(self.config.sliding_window) if module.attention_type == "sliding_attention" else None
        with torch.no_grad():
            weight = own.Wqkv.weight[rows.repeat(3)]
            bias = None if own.Wqkv.bias is None else own.Wqkv.bias[rows.repeat(3)]
            out = own.Wo.weight[:, rows].contiguous()
        return PreNormLayer(
            (weight, bias) if kept.any() else None,
            (out, own.Wo.bias),
            module.attn_norm,
            module.mlp,
            module.mlp_norm,
            int(kept.sum()),
            self.head_size,
            RotaryAttention(self.base.rotary_emb, module.attention_type, window),
        )

    @property
    def inner_width(self) -> int:
        return int(self.config.intermediate_size)

    @property
    def extras(self) -> Extras:
        return Extras(feed_forward_matrices=3)

    def joins_heads(self, position: int) -> nn.Linear:
        return self.modules[position].attn.Wo

    def queries(self, position: int) -> list[Tensor]:
        return [self.modules[position].attn.Wqkv.weight[: int(self.config.hidden_size)]]

    def finish(self, states: Tensor) -> Tensor:
        return self.base.final_norm(states)

    def summary(self, batch: Packed) -> Tensor:
        if self.config.classifier_pooling == "cls":
            return self.finish(batch.states[batch.starts])
        total = batch.states.new_zeros(len(batch.lengths), batch.states.shape[1])
        return total.index_add(0, batch.owner, self.finish(batch.states)) / batch.lengths[:, None]

    def classify(self, summary: Tensor) -> Tensor:
        return self.model.classifier(self.model.head(summary))


class PreNormLayer(Layer):
    """A layer whose norms come before what they normalise; a bias may be None, and the feed-forward network is a module."""

    def __call__(self, batch: Packed) -> Packed:
        """The same tokens after this layer."""
        states = batch.states
        weight, bias = self.attention_output
        if self.query_key_value is not None:
            joint = functional.linear(self.attention_norm(states), *self.query_key_value)
            states = states + functional.linear(attend(self, joint, batch), weight, bias)
        elif bias is not None:
            states = states + bias
        return batch.with_states(states + self.feed_forward(self.output_norm(states)))


@dataclass(frozen=True)
class RotaryAttention:
    """Queries and keys are rotated by their positions, by angles of the model's own module for this kind of layer; in some
    layers tokens see those within a window to either side only."""

    angles: Any
    kind: str
    window: int | None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, batch: Packed) -> Tensor:
        cos, sin = batch.once(f"rotation {self.kind}", lambda: self._rotation(batch))
        mask = None
        if self.window is not None:
            mask = batch.once(f"window {self.window}", lambda: self._mask(batch))
        elif batch.real is not None:
            mask = batch.real[:, None, None, :]
        query, key = query * cos + _turned(query) * sin, key * cos + _turned(key) * sin
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    def _rotation(self, batch: Packed) -> Tensor:
        """(2, examples, 1, longest, head size): cosines and sines of where each token stood."""
        return torch.stack(self.angles(batch.states, batch.pad(batch.places), self.kind))[:, :, None]

    def _mask(self, batch: Packed) -> Tensor:
        """(examples, 1, longest, longest): who sees whom. Padding sees as the first token does, so that no row is empty."""
        places = batch.pad(batch.places)
        near = (places[:, :, None] - places[:, None, :]).abs() <= (self.window or 0)
        return (near if batch.real is None else near & batch.real[:, None, :])[:, None]


def _turned(states: Tensor) -> Tensor:
    """The second half of each vector, negative, before the first."""
    first, second = states.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)
