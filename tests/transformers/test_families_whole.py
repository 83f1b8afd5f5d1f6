"""Every new family through all of the library: scores, small networks, trace and runtime, saved and loaded again."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from riskfront.transformers import AdaptiveClassifier, FineTuning, HeadTraining, PruningTrace
from riskfront.transformers._backbones.backbone import Backbone, name_classes
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import Layout
from riskfront.transformers._learning.fine_tuning import fine_tune
from riskfront.transformers._learning.head_training import head_importance, train_token_predictors
from riskfront.transformers._pruning.network import Network, Setting
from tests.support import tiny_transformers as tiny
from tests.support.transformer_families import CASES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),  # by the module of DeBERTa
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated"),
]
FAMILIES = ["DistilBERT", "MPNet", "ALBERT", "DeBERTa-v2 convolution", "ModernBERT mean"]


def examples(n: int, seed: int, padding: int) -> tuple[Tokens, np.ndarray]:
    tokens, labels = tiny.tokens_and_labels(tiny.make_frame(n, seed))
    return Tokens(tokens.ids, None, padding, tokens.texts), labels


def network_of(name: str) -> Network:
    case = CASES[name]
    model = case.model(initializer_range=0.1)
    name_classes(model.config, tiny.SIGNALS)
    train, held = examples(64, 1, case.padding()), examples(40, 2, case.padding())
    fine_tune(model, *train, FineTuning(learning_rate=1e-3, early_layers=1.0), progress=False)
    backbone, layout, how = Backbone(model), Layout(), HeadTraining(epochs=2)
    return Network(
        backbone,
        head_importance(backbone, *held, progress=False),
        tiny.train_exit_heads(backbone, layout, train, held, how, progress=False),
        train_token_predictors(backbone, layout, *train, how, progress=False),
        layout,
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_from_scores_to_answers(name: str, tmp_path: Path) -> None:
    network = network_of(name)
    scores: Any = network.head_scores
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores.sum(axis=1), 1)
    assert len(np.unique(scores.round(9))) == scores.size, "layers that run several times have scores of their own"
    tokens, labels = examples(40, 3, CASES[name].padding())
    trace = PruningTrace(network, tokens, labels, progress=False)
    classifier = AdaptiveClassifier(network, tiny.make_tokenizer(), tiny.SIGNALS, tiny.MAX_LENGTH)
    middle = float(np.median(scores))
    with torch.no_grad():
        logits = network.backbone.model(**tokens.padded(np.arange(len(tokens)))).logits
    np.testing.assert_allclose(trace.passes(0, 0).probabilities[:, -1], torch.softmax(logits, dim=1).numpy(), atol=1e-4)
    lowest = trace.passes(0, 0).entropies[:, :-1].min(axis=1)
    for tau_token, tau_head, tau_layer in itertools.product((0, 0.06), (0, middle), (0, float(np.median(lowest)))):
        setting = Setting(tau_token, tau_head, tau_layer)
        answers = classifier.with_setting(setting).answer(tokens, batch_size=7)
        columns = trace.losses(setting, trace.examples)
        assert ((answers.probabilities.argmax(axis=1) != labels) == columns["error"]).all(), setting
        np.testing.assert_allclose(answers.probabilities.max(axis=1), columns["confidence"], atol=1e-4)
    assert 0 < answers.layers_run.mean() < 4
    assert answers.tokens[:, 1].sum() < answers.tokens[:, 0].sum()
    classifier.with_setting(setting).save_pretrained(tmp_path)
    loaded = AdaptiveClassifier.from_pretrained(tmp_path)
    assert (loaded.answer(tokens).layers_run == answers.layers_run).all()
