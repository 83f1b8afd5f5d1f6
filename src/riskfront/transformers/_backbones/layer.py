"""Packed tokens, one after the other in one matrix without padding, and a layer of BERT's kind that runs on them.

Projections and feed-forward networks work on exactly the tokens that are left; only attention needs them by example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Packed:
    """The tokens of some examples, one after the other; the first of each example is [CLS].

    Args:
        states: (tokens, width), `lengths`: (examples,), each at least 1.
        positions: (tokens,), where each token stood in its text, from 0; rising in each example. By default nothing was
            dropped, and they are 0, 1, 2, ...
        known: what was computed from lengths and positions alone, so that the next layer need not do it again.
        shown: (tokens,), True for tokens that others may attend to; None for all. Only `on_device` hides any.
    """

    states: Tensor
    lengths: Tensor
    positions: Tensor | None = None
    known: dict[str, Tensor | None] = field(default_factory=dict, repr=False, compare=False)
    shown: Tensor | None = None

    @property
    def starts(self) -> Tensor:
        """(examples,): where the [CLS] of each example stands."""
        return self.once("starts", lambda: torch.cumsum(self.lengths, 0) - self.lengths)

    @property
    def owner(self) -> Tensor:
        """(tokens,): the example of each token."""
        return self.once(
            "owner",
            lambda: torch.repeat_interleave(
                torch.arange(len(self.lengths), device=self.lengths.device), self.lengths, output_size=len(self.states)
            ),
        )

    @property
    def places(self) -> Tensor:
        """(tokens,): where each token stood in its text."""
        if self.positions is not None:
            return self.positions
        return self.once("places", self._rank)

    @property
    def longest(self) -> int:
        return int(self.once("longest", lambda: self.lengths.max()))

    @property
    def is_even(self) -> bool:
        """Whether all examples are of one length, so that there is nothing to pad."""
        return len(self.lengths) * self.longest == len(self.states)

    @property
    def real(self) -> Tensor | None:
        """(examples, longest): True for tokens, False for padding and hidden tokens; None where there are neither."""
        shown = self.shown
        if shown is not None:
            return self.once("real", lambda: self.pad(shown))
        if self.is_even:
            return None
        return self.once("real", lambda: torch.arange(self.longest, device=self.lengths.device) < self.lengths[:, None])

    def pad(self, values: Tensor) -> Tensor:
        """(tokens, ...) as (examples, longest, ...), zeros where there is no token."""
        shape = (len(self.lengths), self.longest, *values.shape[1:])
        if self.is_even:
            return values.reshape(shape)
        padded = values.new_zeros(shape[0] * shape[1], *shape[2:])
        padded[self._seat()] = values
        return padded.view(shape)

    def unpad(self, padded: Tensor) -> Tensor:
        """(examples, longest, ...) as (tokens, ...)."""
        flat = padded.reshape(-1, *padded.shape[2:])
        return flat if self.is_even else flat[self._seat()]

    def with_states(self, states: Tensor) -> Packed:
        """The same tokens after a layer."""
        return Packed(states, self.lengths, self.positions, self.known, self.shown)

    def only_tokens(self, keep: Tensor) -> Packed:
        """Without the other tokens: (tokens,) of truth values, True for every [CLS]. Those left keep their positions."""
        lengths = torch.zeros_like(self.lengths).index_add(0, self.owner, keep.to(self.lengths.dtype))
        return Packed(self.states[keep], lengths, self.places[keep])

    def only_examples(self, keep: Tensor) -> Packed:
        """Without the other examples: (examples,) of truth values."""
        tokens = keep[self.owner]
        positions = None if self.positions is None else self.positions[tokens]
        return Packed(self.states[tokens], self.lengths[keep], positions)

    def once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """What `compute` gives for these lengths and positions, computed by the first layer that asks."""
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = compute()
        return found

    def _rank(self) -> Tensor:
        """(tokens,): how many tokens of the example stand before each."""
        return torch.arange(len(self.states), device=self.lengths.device) - self.starts[self.owner]

    def _seat(self) -> Tensor:
        """(tokens,): the row of each token in a padded batch."""
        return self.once("seat", lambda: self.owner * self.longest + self._rank())


#: How tokens look at each other, one for each way of telling positions: from query, key and value, (examples, heads, longest,
#: head size), and the batch with its masks and places to sums of values.
Attention = Callable[[Tensor, Tensor, Tensor, Packed], Tensor]


def plain_attention(query: Tensor, key: Tensor, value: Tensor, batch: Packed) -> Tensor:
    """Positions are in the embeddings: attention sees none."""
    real = batch.real
    mask = None if real is None else real[:, None, None, :]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer with the heads that are kept; norms come after what they normalise.

    Args:
        query_key_value: weight and bias of the three projections, one under the other; None when no head is kept.
        attention_output: weight and bias of the projection that joins the heads.
        feed_forward: two linear modules with the activation between them.
    """

    query_key_value: tuple[Tensor, Any] | None
    attention_output: tuple[Tensor, Any]
    attention_norm: nn.Module
    feed_forward: Any
    output_norm: nn.Module
    n_heads: int
    head_size: int
    attention: Attention = plain_attention

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
