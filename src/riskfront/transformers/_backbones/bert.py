"""BERT and the families that differ from it in their embeddings only."""

from __future__ import annotations

from torch import Tensor

from riskfront.transformers._backbones.family import Extras, Family


class Bert(Family):
    """BERT, MiniLM, gte, bge, e5, ERNIE and all others that compute as BERT does."""


class Roberta(Family):
    """RoBERTa, XLM-R, CamemBERT: positions begin after the number of the padding token."""

    @property
    def max_length(self) -> int:
        return super().max_length - int(self.base.embeddings.padding_idx) - 1


class Electra(Family):
    """ELECTRA: embeddings may be narrower than layers, and are projected then."""

    def embed(self, inputs: dict[str, Tensor]) -> Tensor:
        states = super().embed(inputs)
        return self.base.embeddings_project(states) if self._is_projected else states

    @property
    def extras(self) -> Extras:
        return Extras(embedding_width=int(self.config.embedding_size) if self._is_projected else 0)

    @property
    def _is_projected(self) -> bool:
        return hasattr(self.base, "embeddings_project")
