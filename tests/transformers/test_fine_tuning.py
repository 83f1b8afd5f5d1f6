"""Fine-tuning with a second loss on early layers."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from riskfront.transformers import FineTuning
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._exits import Layout, features
from riskfront.transformers._learning.exit_reading import exit_features
from riskfront.transformers._learning.fine_tuning import Probes, fine_tune
from tests.support import tiny_transformers as tiny


def accuracies(early_layers: float) -> tuple[float, float]:
    """After two epochs: of a linear classifier on the first layer's [CLS] state, and of the model itself."""
    model = tiny.new_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    train, held = (tiny.tokens_and_labels(tiny.make_frame(n, seed)) for n, seed in ((1000, 1), (300, 3)))
    how = FineTuning(epochs=2, learning_rate=2e-3, early_layers=early_layers)
    fine_tune(model, *train, how, exits="cls", progress=False)
    layout = Layout.of("cls", pairs=False)
    seen, other = (exit_features(Backbone(model), layout, tokens, 32)[:, 0].numpy() for tokens, _ in (train, held))
    probe = LogisticRegression(max_iter=2000).fit(seen, train[1])
    with torch.no_grad():
        last = model(**held[0].padded(np.arange(300))).logits.argmax(dim=1).numpy()
    return float(probe.score(other, held[1])), float(np.mean(last == held[1]))


def test_early_layers_learn_to_answer() -> None:
    plain, _ = accuracies(0.0)
    early, full = accuracies(1.0)
    assert early > plain + 0.05
    assert full > 0.9


def test_bfloat16_is_for_products_alone() -> None:
    """Weights and what comes out of training stay in single precision; the model learns all the same."""
    train, held = (tiny.tokens_and_labels(tiny.make_frame(n, seed)) for n, seed in ((1000, 1), (200, 3)))
    found = {}
    for bf16 in (False, True):
        model = tiny.new_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        fine_tune(model, *train, FineTuning(epochs=2, learning_rate=2e-3, early_layers=0.5, bf16=bf16), progress=False)
        assert {value.dtype for value in model.parameters()} == {torch.float32}
        with torch.no_grad():
            found[bf16] = model(**held[0].padded(np.arange(200))).logits
        assert (found[bf16].argmax(dim=1).numpy() == held[1]).mean() > 0.9
    assert not torch.equal(found[False], found[True]), "products were rounded"


@pytest.mark.parametrize("frames", [tiny.make_frame, tiny.make_pairs])
def test_probes_of_pooled_states_stand_at_the_embeddings_too(frames: Any) -> None:
    """Their loss is the mean of cross-entropies on standardised features of every depth below the last."""
    tokens, labels = tiny.tokens_and_labels(frames(9, 1))
    model = tiny.new_model()
    probes = Probes(model.config, "pooled", tokens.pairs, 0)
    inputs, texts = tokens.padded(np.arange(9)), tokens.packed_texts(np.arange(9))
    with torch.no_grad():
        hidden = model(**inputs, output_hidden_states=True).hidden_states
        found = float(probes(hidden, inputs["attention_mask"], texts, torch.tensor(labels)))
    losses = []
    mask, lengths = inputs["attention_mask"].bool(), inputs["attention_mask"].sum(dim=1)
    for (_, linear), states in zip(probes.probes, hidden[:-1], strict=True):
        read = features("pooled", tokens.pairs, states[mask], lengths, texts).numpy()
        scaled = (read - read.mean(axis=0)) / np.sqrt(read.var(axis=0) + 1e-5)
        logits = scaled @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        losses.append(np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(9), labels]))
    assert found == pytest.approx(np.mean(losses), rel=1e-4)
