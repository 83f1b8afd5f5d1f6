"""int8: close to the model, the same in every batch, traced like every other choice."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.transformers import AdaptiveClassifier, Grid, PruningTrace
from riskfront.transformers._backbones.layer import Packed
from riskfront.transformers._backbones.precision import ENGINE, Float16Linear, Int8Linear, in_precision
from riskfront.transformers._pruning.network import Network, Setting
from riskfront.transformers._pruning.pruning_trace import leaving_depths
from riskfront.transformers._pruning.thresholds import make_thresholds

pytestmark = pytest.mark.skipif(
    ENGINE not in torch.backends.quantized.supported_engines, reason="8-bit products need an x86 processor"
)


def batch_of(tokens: torch.Tensor, *lengths: int) -> Packed:
    return Packed(tokens, torch.tensor(lengths))


def test_a_product_is_the_rounded_one_and_no_text_sees_the_others() -> None:
    rng = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(20, 16, generator=rng), torch.randn(20, generator=rng)
    tokens = torch.randn(9, 16, generator=rng) * torch.logspace(-3, 3, 9)[:, None]
    tokens[:2] = 0
    linear = Int8Linear(weight, bias)
    lengths = (2, 3, 1, 3)
    found = linear(tokens, batch_of(tokens, *lengths))
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    rounded_weight = ((weight / scale).round() * scale).double()
    for text, product in zip(tokens.split(lengths), found.split(lengths), strict=True):
        low, high = min(0.0, float(text.min())), max(0.0, float(text.max()))
        step = (high - low) / 127 or 1.0  # 7 bits
        rounded = (text / step).round() * step  # the place of zero is a whole step
        np.testing.assert_allclose(
            product, rounded.double() @ rounded_weight.T + bias.double(), rtol=1e-3, atol=20 * step
        )
        assert torch.equal(linear(text, batch_of(text, len(text))), product)


def test_half_precision_rounds_weights_only() -> None:
    rng = torch.Generator().manual_seed(0)
    weight, bias, tokens = (torch.randn(*shape, generator=rng) for shape in ((20, 16), (20,), (9, 16)))
    found = Float16Linear(weight, bias)(tokens, batch_of(tokens, 4, 5))
    np.testing.assert_allclose(found, tokens.double() @ weight.half().double().T + bias.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("precision", "apart"), [("int8", 0.02), ("float16", 1e-3)])
def test_the_model_answers_nearly_as_before(network: Network, data: Any, precision: str, apart: float) -> None:
    trace = PruningTrace(network, *data, progress=False)
    plain, rounded = (trace.passes(0.0, 0.0, precision=name).probabilities for name in ("float32", precision))
    assert trace.examples_run == 400
    assert (plain[:, 0] == rounded[:, 0]).all(), "nothing is rounded before the first layer"
    assert not np.array_equal(plain[:, -1], rounded[:, -1])
    assert np.abs(plain[:, -1] - rounded[:, -1]).mean() < apart
    columns = trace.losses({"precision": precision}, trace.examples)
    assert (columns["accuracy_drop"] != 0).mean() < 0.03


@pytest.mark.parametrize("precision", ["int8", "float16"])
@pytest.mark.parametrize("batch_size", [1, 17])
def test_the_runtime_does_what_the_trace_says(network: Network, data: Any, batch_size: int, precision: str) -> None:
    """Roundings can fall either way where a state lies between two steps: then probabilities differ by a step's worth."""
    tokens, labels = data[0].take(np.arange(80)), data[1][:80]
    trace = PruningTrace(network, tokens, labels, progress=False)
    classifier = AdaptiveClassifier(network, None, (0, 1, 2), 40)
    same = []
    for tau_token, tau_layer, depth in itertools.product((0.0, 0.05), (0.0, 0.3), (0, 2)):
        setting = Setting(tau_token, 0.1, tau_layer, precision=precision, depth=depth)
        answers = classifier.with_setting(setting).answer(tokens, batch_size=batch_size)
        found = trace.passes(tau_token, 0.1, precision=precision)
        leaves = leaving_depths(found.entropies, tau_layer, depth or None)
        same.append(
            (answers.layers_run == leaves) & (answers.tokens == found.tokens * (np.arange(4) < leaves[:, None])).all(1)
        )
        np.testing.assert_allclose(answers.probabilities, found.probabilities[trace.examples, leaves], atol=0.02)
    assert np.mean(same) > 0.99


def test_a_trace_in_a_folder_keeps_precisions_apart(network: Network, data: Any, tmp_path: Any) -> None:
    first = PruningTrace(network, *data, folder=tmp_path, progress=False)
    names = ("float32", "int8", "float16")
    wanted = [first.passes(0.0, 0.0, precision=name).probabilities for name in names]
    again = PruningTrace(network, *data, folder=tmp_path, progress=False)
    for name, values in zip(reversed(names), reversed(wanted), strict=True):
        np.testing.assert_array_equal(again.passes(0.0, 0.0, precision=name).probabilities, values)
    assert again.examples_run == 0


def test_settings_and_spaces_with_a_precision(network: Network, data: Any) -> None:
    assert Setting.of({"precision": "int8"}).to_config()["precision"] == "int8"
    assert "precision" not in Setting().to_config()
    thresholds = make_thresholds(network, data[0], Grid(head=1, token=1, layer=2), ("float32", "int8"))
    assert [config["precision"] for config in thresholds.space.grid(1)] == ["float32", "float32", "int8", "int8"]
    with pytest.raises(InvalidInputError, match="precision must be one of"):
        Setting(precision="int4")


def test_other_layers_are_refused_in_a_sentence() -> None:
    with pytest.raises(InvalidInputError, match="int8 is for layers built like those of BERT"):
        in_precision([object()], "int8")


def test_int8_can_be_certified(network: Network, data: Any) -> None:
    trace = PruningTrace(network, *data, progress=False)
    problem = rf.Problem([rf.Limit("accuracy_drop_clipped", at_most=0.1)], minimize="flops")
    space = rf.Space(precision=rf.Choice(["int8"]), tau_layer=rf.Choice([0.0, 0.05]))
    found = rf.tune(
        trace.losses,
        trace.examples,
        space,
        problem,
        search="grid",
        budget=2,
        groups=trace.groups,
        bounds=trace.bounds,
        n_jobs=1,
    )
    assert found.config["precision"] == "int8"
    assert Setting.of(found.config).precision == "int8"


def test_where_latency_counts_all_precisions_are_tried(network: Network) -> None:
    by_clock, by_count = (rf.Problem("error <= 0.1", minimize=name) for name in ("latency", "flops"))
    assert Grid().precisions(by_clock, network) == ("float32", "int8", "float16")
    assert Grid().precisions(by_count, network) == ("float32",)
    assert Grid(precision=("int8",)).precisions(by_clock, network) == ("int8",)
