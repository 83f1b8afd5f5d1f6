"""The runtime of accelerators, on the CPU and on `meta`: the same answers however late the host hears, and no waiting."""

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from riskfront.transformers._backbones.layer import Layer
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._pruning.network import Network, Setting, answer
from riskfront.transformers._pruning.on_device import News, answer_on_device, launch, runs_on_device
from tests.support import tiny_transformers as tiny

SETTINGS = {
    "full": Setting(),
    "exits": Setting(tau_layer=0.3),
    "all leave at once": Setting(tau_layer=5.0),
    "tokens": Setting(tau_token=0.05),
    "both": Setting(tau_token=0.05, tau_layer=0.2, tau_head=0.2),
    "cut": Setting(tau_token=0.05, tau_layer=0.1, depth=2),
}


def late(layers: int) -> Any:
    return lambda news, ago: ago >= layers


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("layers", [0, 1, 2, 99])
def test_the_same_answers_however_late_the_host_hears(
    network: Network, data: tuple[Tokens, np.ndarray], name: str, layers: int
) -> None:
    tokens = data[0].take(np.arange(70))
    wanted = answer(network, SETTINGS[name], tokens, batch_size=16)
    found = answer_on_device(network, SETTINGS[name], tokens, batch_size=16, hears=late(layers))
    np.testing.assert_array_equal(found.layers_run, wanted.layers_run)
    np.testing.assert_array_equal(found.tokens, wanted.tokens)
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=2e-6)


def test_pairs_and_one_text(pair_network: Network) -> None:
    setting = Setting(tau_token=0.05, tau_layer=0.3)
    for rows in (np.arange(40), np.arange(1)):
        tokens = tiny.tokens_and_labels(tiny.make_pairs(40, 9))[0].take(rows)
        wanted = answer(pair_network, setting, tokens)
        found = answer_on_device(pair_network, setting, tokens, hears=late(1))
        np.testing.assert_array_equal(found.layers_run, wanted.layers_run)
        np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=2e-6)


class Work(TorchDispatchMode):
    """Counts the rows that enter matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.linear.default:
            self.rows += len(args[0])
        return func(*args, **(kwargs or {}))


def test_what_the_host_hears_is_not_computed(network: Network, data: tuple[Tokens, np.ndarray]) -> None:
    def rows(layers: int) -> int:
        with Work() as work:
            answer_on_device(network, Setting(tau_layer=0.3, tau_token=0.05), data[0], hears=late(layers))
        return work.rows

    assert rows(0) < rows(1) < rows(99)


def on_meta(network: Network) -> Network:
    """A network without values: whatever would ask the device for one, and so wait for it, fails there."""
    found, backbone = copy.copy(network), copy.copy(network.backbone)
    backbone.model = copy.deepcopy(network.backbone.model).to("meta")
    backbone.family = type(network.backbone.family)(backbone.model)
    object.__setattr__(found, "backbone", backbone)
    for name in ("exit_heads", "predictors"):
        object.__setattr__(found, name, copy.deepcopy(getattr(network, name)).to("meta"))
    return found


def layer_on_meta(layer: Layer) -> Layer:
    """Slicing heads out is done once for a setting, and may wait."""
    pairs = {name: getattr(layer, name) for name in ("query_key_value", "attention_output")}
    into, activation, out = layer.feed_forward
    return dataclasses.replace(
        layer,
        **{name: pair and tuple(part.to("meta") for part in pair) for name, pair in pairs.items()},
        feed_forward=(copy.deepcopy(into).to("meta"), activation, copy.deepcopy(out).to("meta")),
        **{name: copy.deepcopy(getattr(layer, name)).to("meta") for name in ("attention_norm", "output_norm")},
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_waits_for_the_device(network: Network, data: tuple[Tokens, np.ndarray], name: str) -> None:
    meta, setting, batch = on_meta(network), SETTINGS[name], np.arange(12)
    assert meta.backbone.device.type == "meta"
    layers: Any = [layer_on_meta(layer) for layer in network.layers(network.kept_heads(setting.tau_head))]
    with torch.inference_mode():
        found = launch(meta, layers, setting, data[0], batch, lambda news, ago: False)
    assert found.shape == (12, meta.backbone.n_classes + 1 + meta.backbone.n_layers)
    with pytest.raises((RuntimeError, NotImplementedError)), torch.inference_mode():
        launch(meta, layers, setting, data[0], batch, lambda news, ago: True)  # as if the host waited for every layer


def test_layers_that_do_not_mask_are_left_to_the_other_runtime(network: Network) -> None:
    layers = network.layers(network.kept_heads(0.0))
    assert runs_on_device(layers)
    assert not runs_on_device([*layers[:-1], lambda batch: batch])


def test_news_can_be_read_and_asked_for() -> None:
    news = News(torch.tensor([1, 2, 3]))
    assert news.arrived()
    assert news.read().tolist() == [1, 2, 3]
