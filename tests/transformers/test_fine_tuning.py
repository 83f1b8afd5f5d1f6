"""Fine-tuning with a second loss on early layers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from riskfront.errors import InvalidInputError
from riskfront.transformers import Backbone, FineTuning, fine_tune
from riskfront.transformers.head_training import cls_states
from tests.support import tiny_transformers as tiny


def accuracies(early_layers: float) -> tuple[float, float]:
    """After one epoch: of a linear classifier on the first layer's [CLS] state, and of the model itself."""
    model = tiny.new_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    train, held = (tiny.tokens_and_labels(tiny.make_frame(n, seed)) for n, seed in ((1000, 1), (300, 3)))
    fine_tune(model, *train, FineTuning(epochs=2, learning_rate=2e-3, early_layers=early_layers), progress=False)
    backbone = Backbone(model)
    seen, other = (cls_states(backbone, tokens, 32).numpy() for tokens, _ in (train, held))
    first = slice(0, backbone.width)
    probe = LogisticRegression(max_iter=2000).fit(seen[:, first], train[1])
    last = backbone.classify(cls_states(backbone, held[0], 32)[:, -backbone.width :]).argmax(dim=1).numpy()
    return float(probe.score(other[:, first], held[1])), float(np.mean(last == held[1]))


def test_early_layers_learn_to_answer() -> None:
    plain, _ = accuracies(0.0)
    early, full = accuracies(1.0)
    assert early > plain + 0.05
    assert full > 0.9


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="early_layers must be a weight of at least 0; got -1"):
        FineTuning(early_layers=-1)
