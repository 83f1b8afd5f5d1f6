"""DeBERTa-v2 and v3: tokens also look at the distance itself (content to position, position to content)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.activations import ACT2FN

from riskfront._support.arrays import Array
from riskfront.transformers._backbones.family import Extras, Family, Parts, UnsupportedError
from riskfront.transformers._backbones.layer import Attention, Packed


class DebertaV2(Family):
    """DeBERTa-v2, DeBERTa-v3 and mDeBERTa."""

    where = Parts("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj")

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._convolution = getattr(self.base.encoder, "conv", None)
        if self._convolution is not None:
            conv = self._convolution.conv
            if conv.groups != 1 or conv.kernel_size[0] % 2 == 0:
                raise UnsupportedError("its convolution has groups, or an even width")

    def layer(self, position: int, kept: Array) -> Any:
        layer = super().layer(position, kept)
        return layer if position or self._convolution is None else ConvolvedLayer(layer, self._convolution)

    def attention(self, module: Any, kept: Array) -> Attention:
        own, rows = module.attention.self, self.rows(kept)
        scale = math.sqrt(self.head_size * (1 + sum(kind in own.pos_att_type for kind in ("c2p", "p2c"))))
        if not own.relative_attention:
            return DisentangledAttention(scale, None, None, None)
        vectors = self.base.encoder.get_rel_embedding()[: 2 * own.pos_ebd_size]

        def by_head(kind: str, shared: Any, name: str) -> Tensor | None:
            """(kept heads, distances, head size): the vectors of all distances, as this layer projects them."""
            if kind not in own.pos_att_type:
                return None
            with torch.no_grad():
                found = (shared if own.share_att_key else getattr(own, name))(vectors)[:, rows]
            return found.view(len(found), -1, self.head_size).transpose(0, 1).contiguous()

        return DisentangledAttention(
            scale,
            distance_rows(own.pos_ebd_size, own.position_buckets, own.max_relative_positions, self.max_length).to(
                rows.device
            ),
            by_head("c2p", own.key_proj, "pos_key_proj"),
            by_head("p2c", own.query_proj, "pos_query_proj"),
        )

    def queries(self, position: int) -> list[Tensor]:
        own = self.modules[position].attention.self
        return [own.query_proj.weight, *([own.pos_query_proj.weight] if hasattr(own, "pos_query_proj") else [])]

    @property
    def extras(self) -> Extras:
        own, embeddings = self.modules[0].attention.self, self.base.embeddings
        kinds = sum(kind in own.pos_att_type for kind in ("c2p", "p2c")) if own.relative_attention else 0
        return Extras(
            embedding_width=int(embeddings.embedding_size) if embeddings.embed_proj is not None else 0,
            position_rows=kinds * 2 * int(own.pos_ebd_size) if kinds else 0,
            first_layer_neighbours=0 if self._convolution is None else int(self._convolution.conv.kernel_size[0]),
        )

    def classify(self, summary: Tensor) -> Tensor:
        return self.model.classifier(self.model.pooler(summary[:, None]))


def distance_rows(span: int, buckets: int, furthest: int, max_length: int) -> Tensor:
    """(2 max_length - 1,): of each distance from 1 - max_length on, the row of its vector among 2 span.

    Up to half the number of buckets every distance has its own; beyond, they are shared on a logarithmic scale.
    """
    distance = torch.arange(1 - max_length, max_length)
    if buckets > 0 and furthest > 0:
        middle = buckets // 2
        far = distance.abs() > middle
        size = torch.where(far, distance.abs(), middle)
        log = torch.log(size / middle) / torch.log(torch.tensor((furthest - 1) / middle)) * (middle - 1)
        distance = torch.where(far, (torch.ceil(log) + middle) * distance.sign(), distance).long()
    return (distance + span).clamp(0, 2 * span - 1)


@dataclass(frozen=True)
class DisentangledAttention:
    """Scores of content with content, of content with distances, and of distances with content, divided by a scale.

    `rows` are `distance_rows`, `keys` and `queries` (heads, distances, head size); None where the model does without.
    """

    scale: float
    rows: Tensor | None
    keys: Tensor | None
    queries: Tensor | None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, batch: Packed) -> Tensor:
        real = batch.real
        mask = None if real is None else real[:, None, None, :]
        if self.rows is not None and (self.keys is not None or self.queries is not None):
            row = batch.once("distance rows", lambda: self._row(batch))
            bias = query.new_zeros(())
            if self.keys is not None:
                bias = bias + _gathered(query, self.keys, row)
            if self.queries is not None:
                bias = bias + _gathered(key, self.queries, row.transpose(1, 2)).transpose(2, 3)
            bias = bias / self.scale
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1 / self.scale)

    def _row(self, batch: Packed) -> Tensor:
        """(examples, longest, longest): the row for the distance from each query to each key."""
        rows: Any = self.rows
        places = batch.pad(batch.places)
        return rows[places[:, :, None] - places[:, None, :] + len(rows) // 2]


def _gathered(states: Tensor, vectors: Tensor, row: Tensor) -> Tensor:
    """(examples, heads, longest, longest): of each token, its products with the vectors of these rows."""
    products = states @ vectors.transpose(1, 2)
    return products.gather(3, row[:, None].expand(-1, states.shape[1], -1, -1))


@dataclass(frozen=True)
class ConvolvedLayer:
    """The first layer of DeBERTa-v2: to its result comes a convolution of what entered it."""

    layer: Any
    convolution: Any

    def __call__(self, batch: Packed) -> Packed:
        after, conv = self.layer(batch), self.convolution.conv
        weight = conv.weight.permute(0, 2, 1).flatten(1)  # (width, neighbours x width)
        found = functional.linear(self._neighbours(batch, conv.kernel_size[0]), weight, conv.bias)
        return after.with_states(self.convolution.LayerNorm(after.states + ACT2FN[self.convolution.conv_act](found)))

    def _neighbours(self, batch: Packed, size: int) -> Tensor:
        """(tokens, size x width): the states that stood around each token, zeros where there is none."""
        width, reach = batch.states.shape[1], size // 2
        places, owner = batch.places + reach, batch.owner
        line = batch.states.new_zeros(len(batch.lengths), int(places.max()) + reach + 1, width)
        line[owner, places] = batch.states
        around = torch.arange(-reach, reach + 1, device=places.device)
        return line[owner[:, None], places[:, None] + around].flatten(1)
