"""Weights of 16 bits: certified, saved, loaded, pickled and run in the type that was chosen."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from riskfront.errors import InvalidInputError
from riskfront.transformers import AdaptiveClassifier, Grid, PruningTrace, Rows, Training, pipeline
from riskfront.transformers._backbones.backbone import Backbone, load_classifier
from riskfront.transformers._backbones.precision import precisions_for
from riskfront.transformers._data.known_texts import Learnt, weights_digest
from riskfront.transformers._data.texts import split_texts
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._learning.training import train
from riskfront.transformers._pruning.latency import clocks_of
from riskfront.transformers._pruning.network import Network, Setting
from riskfront.transformers._pruning.on_device import answer_on_device
from riskfront.transformers._pruning.thresholds import make_thresholds
from tests.support import tiny_transformers as tiny

SETTING = Setting(tau_layer=0.3, tau_token=0.05, tau_head=0.1)


@pytest.fixture(params=["bfloat16", "float16"])
def half(request: pytest.FixtureRequest, network: Network, classifier_folder: Path) -> Network:
    backbone = Backbone(load_classifier(str(classifier_folder)))
    backbone.to_dtype(request.param)
    return replace(network, backbone=backbone, _sliced={})


def test_the_runtime_does_what_the_trace_says(half: Network, data: tuple[Tokens, np.ndarray], tokenizer: Any) -> None:
    trace = PruningTrace(half, *data, progress=False)
    one = AdaptiveClassifier(half, tokenizer, tiny.SIGNALS, 40, setting=SETTING)
    found, on_device = one.answer(data[0]), answer_on_device(half, SETTING, data[0])
    traced = trace.losses(SETTING, trace.examples)
    for answers in (found, on_device):
        wrong = answers.probabilities.argmax(axis=1) != data[1]
        assert (wrong == np.asarray(traced["error"])).mean() >= 0.99, "but for what rounding decides"
    assert (found.layers_run == on_device.layers_run).mean() >= 0.99


@pytest.mark.parametrize("setting", [Setting(), Setting(tau_layer=0.3), SETTING], ids=str)
def test_what_becomes_too_large_is_no_answer_and_not_right(
    network: Network, classifier_folder: Path, data: tuple[Tokens, np.ndarray], tokenizer: Any, setting: Setting
) -> None:
    """16 bits overflow. An argmax of nan is the first class, which would be right for a third of such texts."""
    backbone = Backbone(load_classifier(str(classifier_folder)))
    with torch.no_grad():
        backbone.model.get_input_embeddings().weight[tokenizer.vocab["noise7"]] = torch.inf
    broken = replace(network, backbone=backbone, _sliced={})
    hit = np.array([(ids == tokenizer.vocab["noise7"]).any() for ids in data[0].ids])
    assert 20 < hit.sum() < 150
    trace = PruningTrace(broken, *data, progress=False)
    one = AdaptiveClassifier(broken, tokenizer, tiny.SIGNALS, 40, setting=setting)
    texts = tokenizer.batch_decode(data[0].ids, skip_special_tokens=True)
    traced, answers = trace.losses(setting, trace.examples), one.predict(texts)
    assert (traced["error"] == (answers != np.array(tiny.SIGNALS)[data[1]])).all()
    assert (answers == "abstain").tolist() == (~traced["answered"]).tolist() == hit.tolist()
    assert traced["error"][hit].all()
    assert not traced["accuracy_drop"][hit].any(), "the full model gives no answer there either"
    assert (np.isnan(answer_on_device(broken, setting, data[0]).probabilities).any(axis=1) == hit).all()
    assert [found["label"] for found in pipeline("text-classification", one)(texts)] == answers.tolist()
    assert np.isfinite(make_thresholds(broken, data[0], Grid()).tau_layer).all()


def test_it_is_saved_loaded_and_pickled_in_its_type(
    half: Network, network: Network, data: tuple[Tokens, np.ndarray], tokenizer: Any, tmp_path: Path
) -> None:
    learnt = Learnt(frozenset({b"0" * 16}))
    one = AdaptiveClassifier(half, tokenizer, tiny.SIGNALS, 40, setting=SETTING, learnt=learnt)
    one.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "adaptive.json").read_text())["dtype"] == half.backbone.dtype
    loaded = AdaptiveClassifier.from_pretrained(tmp_path)
    pickled = pickle.loads(pickle.dumps(one))  # noqa: S301 - our own
    wanted = one.answer(data[0]).probabilities
    for other in (loaded, pickled):
        assert other.network.backbone.dtype == half.backbone.dtype
        assert other.network.fingerprint == half.fingerprint != network.fingerprint
        np.testing.assert_array_equal(other.answer(data[0]).probabilities, wanted)
    assert loaded.learnt is not None, "what it learnt from is known again"
    assert weights_digest(load_classifier(str(tmp_path / "encoder"))) == weights_digest(half.backbone.model)
    assert precisions_for(half.layers(half.kept_heads(0.0))) == ("float32",), (
        "its own; 8-bit products start from float32"
    )


def test_a_clock_runs_whatever_the_type(half: Network, data: tuple[Tokens, np.ndarray], tokenizer: Any) -> None:
    trace = PruningTrace(half, *data, progress=False, clocks=clocks_of(half, 40, ["float32"]))
    assert (trace.losses(SETTING, trace.examples)["latency"] > 0).all()


@pytest.mark.filterwarnings("ignore:.* exits answer no better")
def test_training_is_in_single_precision_and_its_result_in_the_chosen_type(
    classifier_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = split_texts(tiny.make_frame(200, 3), Rows(validation=20))
    found = train(
        classifier_folder, parts, tmp_path, Training(dtype="bfloat16", max_length=tiny.MAX_LENGTH), progress=False
    )
    assert found.network.backbone.dtype == "bfloat16"
    assert {value.dtype for value in found.network.exit_heads.parameters()} == {torch.float32}
    assert load_classifier(str(tmp_path / "1-fine-tuned")).dtype == torch.float32
    with pytest.raises(InvalidInputError, match="dtype must be one of"):
        Training(dtype="int4")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InvalidInputError, match="one process must run this; got 2"):
        train(classifier_folder, parts, tmp_path, progress=False)
