"""A tiny model of each family, with weights as a new model has them, or larger so that attention prefers some tokens."""

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

from tests.support import tiny_transformers as tiny

COMMON = {**tiny.SHAPE, "max_position_embeddings": 200, "pad_token_id": 0}
MODERN = {"hidden_activation": "gelu", "local_attention": 12, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}
DEBERTA = {"relative_attention": True, "pos_att_type": "c2p|p2c", "position_biased_input": False, "type_vocab_size": 0}
DEBERTA_V3 = {**DEBERTA, "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_buckets": 16}


@dataclass(frozen=True, eq=False)
class Case:
    """A kind of model, by the beginning of its class names in transformers, and what its config has beyond the common."""

    name: str
    changes: dict[str, Any] = field(default_factory=dict)
    types: bool = True  # whether it knows token types

    def model(self, **changes: Any) -> Any:
        config = getattr(transformers, f"{self.name}Config")
        kind = getattr(transformers, f"{self.name}ForSequenceClassification")
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return kind(config(**{**COMMON, **self.changes, **changes})).eval()

    def padding(self) -> int:
        return int(self.changes.get("pad_token_id", 0))


ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
CASES = {
    "BERT": Case("Bert"),
    "ERNIE": Case("Ernie"),
    "RoBERTa": Case("Roberta", ROBERTA, types=False),
    "XLM-R": Case("XLMRoberta", ROBERTA, types=False),
    "CamemBERT": Case("Camembert", ROBERTA, types=False),
    "data2vec": Case("Data2VecText", ROBERTA, types=False),
    "ELECTRA": Case("Electra", {"embedding_size": 32}),
    "ELECTRA narrow": Case("Electra", {"embedding_size": 16}),
    "DistilBERT": Case("DistilBert", types=False),
    "MPNet": Case("MPNet", {"pad_token_id": 1}, types=False),
    "ALBERT": Case("Albert", {"embedding_size": 16, "inner_group_num": 1}),
    "ALBERT two groups": Case("Albert", {"embedding_size": 16, "num_hidden_groups": 2}),
    "DeBERTa-v3": Case("DebertaV2", DEBERTA_V3, types=False),
    "DeBERTa-v2 convolution": Case("DebertaV2", {**DEBERTA_V3, "conv_kernel_size": 3, "conv_act": "gelu"}, types=False),
    "DeBERTa own keys": Case("DebertaV2", {**DEBERTA, "type_vocab_size": 2}),
    "DeBERTa one way": Case("DebertaV2", {**DEBERTA_V3, "pos_att_type": "p2c", "share_att_key": False}, types=False),
    "DeBERTa absolute": Case("DebertaV2", {"position_biased_input": True, "embedding_size": 16}),
    "ModernBERT": Case("ModernBert", MODERN, types=False),
    "ModernBERT mean": Case("ModernBert", {**MODERN, "classifier_pooling": "mean"}, types=False),
    "ModernBERT biased": Case(
        "ModernBert", {**MODERN, "attention_bias": True, "mlp_bias": True, "norm_bias": True}, types=False
    ),
}
