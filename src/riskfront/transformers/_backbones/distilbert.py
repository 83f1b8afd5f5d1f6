"""DistilBERT: the layers of BERT under other names, no token types, and a head of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from riskfront.transformers._backbones.family import Family, Parts


class DistilBert(Family):
    """DistilBERT and its multilingual and SST-2 kin."""

    where = Parts(
        *("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm"),
        *("ffn.lin1", "ffn.activation", "ffn.lin2", "output_layer_norm"),
    )
    reads_types = False

    def find_modules(self) -> list[Any]:
        return list(self.base.transformer.layer)

    def classify(self, summary: Tensor) -> Tensor:
        return self.model.classifier(functional.relu(self.model.pre_classifier(summary)))
