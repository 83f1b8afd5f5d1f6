"""A layer with the heads that are kept: attention, then a feed-forward network, each followed by a norm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn
from torch.nn import functional

from riskfront.transformers._backbones.packed import Packed


class Attention(Protocol):
    """How tokens look at each other; one for each way of telling positions."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, batch: Packed) -> Tensor:
        """Sums of values, (examples, heads, longest, head size), as are query, key and value; `batch` has masks and places."""


@dataclass(frozen=True)
class PlainAttention:
    """Positions are in the embeddings: attention sees none."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, batch: Packed) -> Tensor:
        real = batch.real
        mask = None if real is None else real[:, None, None, :]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer with the heads that are kept; norms come after what they normalise.

    Args:
        query_key_value: weight and bias of the three projections, one under the other; None when no head is kept.
        attention_output: weight and bias of the projection that joins the heads.
    """

    query_key_value: tuple[Tensor, Tensor] | None
    attention_output: tuple[Tensor, Tensor]
    attention_norm: nn.Module
    feed_forward: tuple[nn.Linear, Any, nn.Linear]
    output_norm: nn.Module
    n_heads: int
    head_size: int
    attention: Attention = field(default_factory=PlainAttention)

    def __call__(self, batch: Packed) -> Packed:
        """The same tokens after this layer."""
        weight, bias = self.attention_output
        if self.query_key_value is None:
            attended = bias
        else:
            joint = functional.linear(batch.states, *self.query_key_value)
            attended = functional.linear(attend(self, joint, batch), weight, bias)
        states = self.attention_norm(attended + batch.states)
        into, activation, out = self.feed_forward
        return batch.with_states(self.output_norm(out(activation(into(states))) + states))


def attend(layer: Any, joint: Tensor, batch: Packed) -> Tensor:
    """The outputs of all heads side by side, (tokens, heads x head size), from queries, keys and values side by side."""
    padded = batch.pad(joint)
    split = padded.view(*padded.shape[:2], 3, layer.n_heads, layer.head_size).permute(2, 0, 3, 1, 4)
    found = layer.attention(split[0], split[1], split[2], batch)
    return batch.unpad(found.transpose(1, 2).flatten(2))
