"""DistilBERT: the layers of BERT under other names, no token types, and a head of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from riskfront.transformers._backbones.family import Family, Parts, without_mask


class DistilBert(Family):
    """DistilBERT and its multilingual and SST-2 kin."""

    def find_modules(self) -> list[Any]:
        return list(self.base.transformer.layer)

    def parts(self, module: Any) -> Parts:
        attention = module.attention
        return Parts(
            *(attention.q_lin, attention.k_lin, attention.v_lin),
            joined=attention.out_lin,
            attention_norm=module.sa_layer_norm,
            into=module.ffn.lin1,
            activation=module.ffn.activation,
            out=module.ffn.lin2,
            output_norm=module.output_layer_norm,
        )

    def embed(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.base.embeddings(**without_mask(inputs, "token_type_ids"))

    def classify(self, summary: Tensor) -> Tensor:
        return self.model.classifier(functional.relu(self.model.pre_classifier(summary)))
