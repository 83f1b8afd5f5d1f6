"""What the library asks of a family of encoders: where its parts are, and what it does differently from BERT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from riskfront._support.arrays import Array
from riskfront.transformers._backbones.layer import Attention, Layer, PlainAttention
from riskfront.transformers._backbones.packed import Packed


class UnsupportedError(Exception):
    """This model of the family cannot be opened up; the message says why."""


@dataclass(frozen=True)
class Parts:
    """The modules of one layer: projections of attention, the one that joins the heads, the feed-forward network, norms."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    joined: nn.Linear
    attention_norm: nn.Module
    into: nn.Linear
    activation: Any
    out: nn.Linear
    output_norm: nn.Module


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
    """A family whose layers are built like those of BERT; others override what differs.

    Args:
        model: a Hugging Face sequence classifier.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.base, self.config = model, model.base_model, model.config
        if getattr(self.config, "is_decoder", False):
            raise UnsupportedError("it is a decoder")
        self.modules = self.find_modules()

    def find_modules(self) -> list[Any]:
        """The layers in the order in which they run; the same one may run several times."""
        return list(self.base.encoder.layer)

    def parts(self, module: Any) -> Parts:
        attention = module.attention.self
        return Parts(
            *(attention.query, attention.key, attention.value),
            joined=module.attention.output.dense,
            attention_norm=module.attention.output.LayerNorm,
            into=module.intermediate.dense,
            activation=module.intermediate.intermediate_act_fn,
            out=module.output.dense,
            output_norm=module.output.LayerNorm,
        )

    def attention(self, module: Any, kept: Array) -> Attention:
        """How the heads that are kept, (heads,), look at tokens in this layer."""
        return PlainAttention()

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
        return self.base.embeddings(**without_mask(inputs))

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


def without_mask(inputs: dict[str, Tensor], *others: str) -> dict[str, Tensor]:
    return {name: value for name, value in inputs.items() if name not in ("attention_mask", *others)}
