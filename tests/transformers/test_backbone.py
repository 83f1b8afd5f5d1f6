"""The layers on packed tokens compute what the Hugging Face model computes, with and without some of its heads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones.backbone import Backbone, load_classifier
from riskfront.transformers._data.tokens import Tokens
from tests.support import tiny_transformers as tiny
from tests.support.transformer_reference import without_heads

BERT = (BertForSequenceClassification, BertConfig, {})
ROBERTA = (RobertaForSequenceClassification, RobertaConfig, {"pad_token_id": 1, "type_vocab_size": 1})
ELECTRA = (ElectraForSequenceClassification, ElectraConfig, {"embedding_size": 16})
ELECTRA_WIDE = (ElectraForSequenceClassification, ElectraConfig, {"embedding_size": 32})


def ragged(types: bool, padding: int = 0) -> Tokens:
    rng = np.random.default_rng(0)
    ids = [rng.integers(4, 60, size=n) for n in (1, 2, 9, 17, 5, 17, 30)]
    return Tokens(ids, [np.arange(len(i)) % 2 for i in ids] if types else None, padding)


def logits(backbone: Backbone, inputs: dict[str, torch.Tensor], kept: Any = None) -> torch.Tensor:
    batch = backbone.embed(inputs)
    for layer in backbone.layers(kept):
        batch = layer(batch)
    return backbone.classify(batch.states[batch.starts])


@pytest.mark.parametrize(
    ("kind", "config", "changes", "types"),
    [(*BERT, True), (*BERT, False), (*ROBERTA, False), (*ELECTRA, True), (*ELECTRA_WIDE, True)],
)
@torch.no_grad()
def test_packed_layers_are_the_model(kind: Any, config: Any, changes: dict[str, Any], types: bool) -> None:
    model = tiny.new_model(kind, config, **changes)
    backbone = Backbone(model)
    tokens = ragged(types, padding=changes.get("pad_token_id", 0))
    inputs = tokens.padded(np.arange(len(tokens)))
    hidden = model(**inputs, output_hidden_states=True)
    batch = backbone.embed(inputs)
    mask = inputs["attention_mask"].bool()
    for layer, wanted in zip(backbone.layers(), hidden.hidden_states[1:], strict=True):
        batch = layer(batch)
        torch.testing.assert_close(batch.states, wanted[mask], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(logits(backbone, inputs), hidden.logits, atol=2e-5, rtol=1e-4)
    # one at a time, as nothing but itself can matter to an example
    for i in range(len(tokens)):
        alone = tokens.padded(np.array([i]))
        torch.testing.assert_close(logits(backbone, alone)[0], hidden.logits[i], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [BERT, ROBERTA, ELECTRA])
@torch.no_grad()
def test_removed_heads_are_heads_whose_output_is_zero(kind: Any) -> None:
    model = tiny.new_model(*kind[:2], **kind[2])
    backbone = Backbone(model)
    inputs = ragged(False, kind[2].get("pad_token_id", 0)).padded(np.arange(7))
    rng = np.random.default_rng(1)
    masks = [rng.random((4, 4)) < share for share in (0.2, 0.5, 0.8)] + [np.zeros((4, 4), dtype=bool)]
    masks[1][2] = False  # a layer without any head
    for kept in masks:
        with without_heads(model, kept):
            wanted = model(**inputs).logits
        torch.testing.assert_close(logits(backbone, inputs, kept), wanted, atol=2e-5, rtol=1e-4)
        widths = [layer.attention_output[0].shape[1] for layer in backbone.layers(kept)]
        assert widths == (8 * kept.sum(axis=1)).tolist(), "their weights are not there any more"


@pytest.mark.parametrize(
    "model",
    [
        lambda: tiny.new_model(transformers.BertForTokenClassification),
        lambda: tiny.new_model(transformers.BertForMaskedLM),
        lambda: tiny.new_model(is_decoder=True),
        lambda: tiny.new_model(num_hidden_layers=1),
        lambda: torch.nn.Linear(2, 2),
    ],
    ids=["tokens", "words", "decoder", "one layer", "no transformer"],
)
def test_other_models_are_refused(model: Any) -> None:
    made = model()
    with pytest.raises(
        InvalidInputError, match=r"must be an encoder of a family that is known.*got \w+: .*\.$"
    ) as error:
        Backbone(made)
    assert type(made).__name__ in str(error.value)


def test_a_model_that_computes_something_else_with_the_same_parts_is_refused() -> None:
    model = tiny.new_model()
    model.bert.encoder.layer[2].register_forward_hook(
        lambda module, given, output: (
            1.5 * output if isinstance(output, torch.Tensor) else (1.5 * output[0], *output[1:])
        )
    )
    with pytest.raises(InvalidInputError, match="layer 3 computes something else"):
        Backbone(model)


@pytest.mark.parametrize(("kind", "longest"), [(BERT, 40), (ROBERTA, 38), (ELECTRA, 40)])
@torch.no_grad()
def test_the_longest_input(kind: Any, longest: int) -> None:
    model = tiny.new_model(*kind[:2], **kind[2])
    assert Backbone(model).max_length == longest
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


def test_a_new_head_is_the_same_for_the_same_seed(encoder_folder: Path) -> None:
    one, same, other = (load_classifier(str(encoder_folder), 3, seed=seed) for seed in (1, 1, 2))
    torch.testing.assert_close(one.classifier.weight, same.classifier.weight)
    assert not torch.equal(one.classifier.weight, other.classifier.weight)
    assert torch.equal(one.bert.embeddings.word_embeddings.weight, other.bert.embeddings.word_embeddings.weight)
    assert one.dtype == torch.float32


def test_a_classifier_of_another_number_of_classes_gets_a_new_head(classifier_folder: Path) -> None:
    found = load_classifier(str(classifier_folder), 5, classes=tuple("abcde"))
    assert found.classifier.out_features == 5
    assert found.config.id2label[4] == "e"


def test_weights_in_pickle_files_are_not_read(classifier_folder: Path, tmp_path: Path) -> None:
    model = load_classifier(str(classifier_folder))
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(InvalidInputError, match="safetensors"):
        load_classifier(str(tmp_path))
