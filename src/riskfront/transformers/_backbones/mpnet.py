"""MPNet: every head adds to its scores a number for the distance between two tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from riskfront._support.arrays import Array
from riskfront.transformers._backbones.bert import Roberta
from riskfront.transformers._backbones.family import Parts
from riskfront.transformers._backbones.layer import Attention, Packed


class MPNet(Roberta):
    """MPNet, such as all-mpnet-base-v2: positions begin where those of RoBERTa do."""

    where = Parts(
        *("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o", "attention.LayerNorm")
    )
    reads_types = False

    def attention(self, module: Any, kept: Array) -> Attention:
        return DistanceAttention(self.base.encoder, None if kept.all() else torch.from_numpy(kept))


@dataclass(frozen=True)
class DistanceAttention:
    """Scores plus a bias by head and distance: the encoder's, for all layers. `kept`: (heads,); None when all are."""

    encoder: Any
    kept: Tensor | None

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, batch: Packed) -> Tensor:
        bias = batch.once("distance bias", lambda: self._bias(batch))
        if self.kept is not None:
            bias = bias[:, self.kept.to(bias.device)]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)

    def _bias(self, batch: Packed) -> Tensor:
        """(examples, all heads, longest, longest), minus infinity for padding."""
        places = batch.pad(batch.places)
        buckets = self.encoder.relative_position_bucket(places[:, None, :] - places[:, :, None])
        bias: Tensor = self.encoder.relative_attention_bias(buckets).permute(0, 3, 1, 2)
        real = batch.real
        return bias.contiguous() if real is None else bias.masked_fill(~real[:, None, None, :], -torch.inf)
