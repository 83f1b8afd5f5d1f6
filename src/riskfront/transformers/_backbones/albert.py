"""ALBERT: a few layers that run many times, and narrow embeddings."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from riskfront.transformers._backbones.family import Extras, Family, Parts, UnsupportedError


class Albert(Family):
    """ALBERT. A head may be kept in one run of a layer and left out in the next."""

    where = Parts(
        *("attention.query", "attention.key", "attention.value", "attention.dense", "attention.LayerNorm"),
        *("ffn", "activation", "ffn_output", "full_layer_layer_norm"),
    )

    def find_modules(self) -> list[Any]:
        groups, n = self.base.encoder.albert_layer_groups, int(self.config.num_hidden_layers)
        if any(len(group.albert_layers) != 1 for group in groups):
            raise UnsupportedError("its groups have several layers each")
        return [groups[int(i / (n / len(groups)))].albert_layers[0] for i in range(n)]

    def embed(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.base.encoder.embedding_hidden_mapping_in(super().embed(inputs))

    @property
    def extras(self) -> Extras:
        return Extras(embedding_width=int(self.config.embedding_size))

    def classify(self, summary: Tensor) -> Tensor:
        return self.model.classifier(self.base.pooler_activation(self.base.pooler(summary)))
