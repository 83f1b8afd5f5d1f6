"""What matters to the model, against loops over single examples."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, RobertaConfig, RobertaForSequenceClassification

from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._learning.head_training import head_importance, token_importance
from tests.support import tiny_transformers as tiny

N = 12


def model_of(kind: str) -> Any:
    if kind == "BERT":
        return tiny.new_model(BertForSequenceClassification, BertConfig)
    return tiny.new_model(RobertaForSequenceClassification, RobertaConfig, pad_token_id=0, type_vocab_size=1)


def examples(types: bool) -> tuple[Tokens, np.ndarray]:
    rng = np.random.default_rng(3)
    ids = [rng.integers(4, 60, size=n) for n in rng.integers(3, 25, size=N)]
    return Tokens(ids, [np.arange(len(i)) % 2 for i in ids] if types else None, 0), rng.integers(3, size=N)


def single(tokens: Tokens, i: int) -> dict[str, torch.Tensor]:
    found = {"input_ids": torch.tensor(tokens.ids[i])[None]}
    if tokens.types is not None:
        found["token_type_ids"] = torch.tensor(tokens.types[i])[None]
    return found


@pytest.mark.parametrize("kind", ["BERT", "RoBERTa"])
def test_head_importance_is_the_product_of_projected_outputs_and_their_gradients(kind: str) -> None:
    """|Attn_w^T dL/dAttn_w| with Attn_w the output of head w after its share of the projection, a_j = sum_w Attn_w."""
    model = model_of(kind).double()
    tokens, labels = examples(kind == "BERT")
    totals = np.zeros((4, 4))
    for i in range(N):
        caught: dict[int, list[torch.Tensor]] = {}
        hooks = []
        for j, layer in enumerate(model.base_model.encoder.layer):

            def split(module: Any, inputs: Any, output: torch.Tensor, j: int = j, caught: Any = caught) -> torch.Tensor:
                parts = []
                for w in range(4):
                    columns = slice(8 * w, 8 * (w + 1))
                    part = inputs[0][..., columns] @ module.weight[:, columns].T
                    part.retain_grad()
                    parts.append(part)
                caught[j] = parts
                return sum(parts) + module.bias

            hooks.append(layer.attention.output.dense.register_forward_hook(split))
        logits = model(**single(tokens, i)).logits
        torch.nn.functional.cross_entropy(logits, torch.tensor([labels[i]])).backward()
        for hook in hooks:
            hook.remove()
        for j, parts in caught.items():
            for w, part in enumerate(parts):
                assert part.grad is not None
                totals[j, w] += abs((part.detach() * part.grad).sum().item())
    model.zero_grad()
    wanted = totals / totals.sum(axis=1, keepdims=True)
    found = head_importance(Backbone(model.float()), tokens, labels, batch_size=5, progress=False)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert all(parameter.grad is None for parameter in model.parameters()), "nothing is left behind"


@pytest.mark.parametrize("kind", ["BERT", "RoBERTa"])
def test_token_importance_is_the_gradient_of_the_probability_of_the_true_class(kind: str) -> None:
    model = model_of(kind)
    tokens, labels = examples(kind == "BERT")
    inputs = tokens.padded(np.arange(N))
    found, states = token_importance(Backbone(model), inputs, torch.tensor(labels))
    packed = np.split(found.numpy(), np.cumsum(tokens.lengths)[:-1])
    with torch.no_grad():
        hidden = model(**inputs, output_hidden_states=True).hidden_states
    for mine, whole in zip(states, hidden, strict=True):
        torch.testing.assert_close(mine, whole[inputs["attention_mask"].bool()])

    model = model.double()
    words = model.base_model.embeddings.word_embeddings
    for i in range(N):
        one = single(tokens, i)
        embedded = words(one["input_ids"]).detach().requires_grad_()
        hook = words.register_forward_hook(lambda module, given, output, e=embedded: e)
        probability = torch.softmax(model(**one).logits, dim=1)[0, labels[i]]
        hook.remove()
        (gradient,) = torch.autograd.grad(probability, embedded)
        wanted = np.array([(gradient[0, t] * embedded[0, t].detach()).norm().item() for t in range(len(packed[i]))])
        np.testing.assert_allclose(packed[i], wanted / wanted.sum(), rtol=2e-3, atol=1e-6)
        assert packed[i].sum() == pytest.approx(1, abs=1e-5)


def test_scores_stay_where_the_model_is_sure(network: Any, data: Any) -> None:
    """The gradient of a probability near 1 vanishes; scores that sum to one must not turn into zeros or noise."""
    tokens, labels = data
    sure = Backbone(network.backbone.model)
    inputs = tokens.padded(np.arange(50))
    found, _ = token_importance(sure, inputs, torch.tensor(labels[:50]))
    sums = [part.sum() for part in np.split(found.numpy(), np.cumsum(tokens.lengths[:50])[:-1])]
    np.testing.assert_allclose(sums, 1, atol=1e-5)
