"""One small trained classifier for all tests of the adaptive Transformer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from riskfront.transformers import HeadTraining, PruningTrace, _certifying, _speed_up
from riskfront.transformers._backbones.backbone import Backbone, load_classifier
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import Layout
from riskfront.transformers._learning.head_training import head_importance, train_token_predictors
from riskfront.transformers._pruning.network import Network
from tests.support import tiny_transformers as tiny

torch.set_num_threads(1)

Data = tuple[Tokens, np.ndarray]


@pytest.fixture(scope="session", autouse=True)
def few_texts_on_the_clock() -> Iterator[None]:
    """Every certificate measures time. How long small models take matters to no test."""
    with pytest.MonkeyPatch.context() as patch:
        for name, texts in (("CLOCKED", 8), ("ALONE", 2), ("FEW_ALONE", 2), ("TEXTS", 50)):
            patch.setattr(_speed_up, name, texts)
        yield


@pytest.fixture(autouse=True)
def nothing_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: tests share their texts, and every question of a process to the same texts counts."""
    monkeypatch.setattr(_certifying, "ASKED_HERE", {})


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_classifier(tmp_path_factory.mktemp("models") / "classifier")


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_encoder(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture(scope="session")
def data() -> Data:
    """Examples that nothing was learnt from."""
    return tiny.tokens_and_labels(tiny.make_frame(200, 4))


def make_network(folder: Path, layout: Layout, frames: Any = tiny.make_frame) -> Network:
    backbone = Backbone(load_classifier(str(folder)))
    train, held = (tiny.tokens_and_labels(frames(n, seed)) for n, seed in ((1000, 1), (150, 3)))
    how = HeadTraining(epochs=5, learning_rate=3e-3)
    scores = head_importance(backbone, *held, progress=False)
    exits = tiny.train_exit_heads(backbone, layout, train, held, how, progress=False)
    predictors = train_token_predictors(backbone, layout, *train, how, progress=False)
    return Network(backbone, scores, exits, predictors, layout)


@pytest.fixture(scope="session")
def network(classifier_folder: Path) -> Network:
    return make_network(classifier_folder, Layout())


@pytest.fixture(scope="session")
def pair_network(classifier_folder: Path) -> Network:
    return make_network(classifier_folder, Layout(pairs=True), tiny.make_pairs)


@pytest.fixture(scope="session")
def paper_network(classifier_folder: Path) -> Network:
    """As in the paper: exits read [CLS], and everything reads what stood before too."""
    return make_network(classifier_folder, Layout.of("cls", pairs=False))


@pytest.fixture
def trace(network: Network, data: Data) -> PruningTrace:
    return PruningTrace(network, *data, progress=False)


@pytest.fixture(scope="session")
def traced(network: Network, data: Data) -> PruningTrace:
    """A trace that several tests fill; for tests that do not count what is run."""
    return PruningTrace(network, *data, progress=False)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return tiny.make_tokenizer()
