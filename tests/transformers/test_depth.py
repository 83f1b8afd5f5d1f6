"""The first layers with a head, as a setting: traced, run, counted and certified like every other."""

from typing import Any

import numpy as np
import pytest

from riskfront.errors import InvalidInputError
from riskfront.transformers import AdaptiveClassifier, Grid, PruningTrace
from riskfront.transformers._exits import HIDDEN
from riskfront.transformers._pruning.network import Network, Setting
from riskfront.transformers._pruning.thresholds import depths, make_thresholds


@pytest.mark.parametrize("which", ["network", "paper_network"])
def test_runtime_and_trace_agree(request: Any, which: str, data: Any) -> None:
    network: Network = request.getfixturevalue(which)
    trace = PruningTrace(network, *data, progress=False)
    classifier = AdaptiveClassifier(network, None, (0, 1, 2), 40)
    found = trace.passes(0.0, 0.0)
    for depth, tau in ((1, 0.0), (3, 0.0), (2, 0.2)):
        answers = classifier.with_setting({"depth": depth, "tau_layer": tau}).answer(data[0], batch_size=16)
        sure = found.entropies < tau
        leaves = np.where(sure[:, :depth].any(axis=1), sure.argmax(axis=1), depth)
        np.testing.assert_array_equal(answers.layers_run, leaves)
        np.testing.assert_allclose(answers.probabilities, found.probabilities[trace.examples, leaves], atol=1e-5)
        losses = trace.losses({"depth": depth, "tau_layer": tau}, trace.examples)
        np.testing.assert_array_equal(losses["error"], answers.probabilities.argmax(axis=1) != data[1])


def test_only_the_exit_at_the_cut_is_paid_for(network: Network, data: Any) -> None:
    trace = PruningTrace(network, *data, progress=False)
    cut, both = (trace.losses({"depth": 2, "tau_layer": tau}, trace.examples)["flops"] for tau in (0.0, 1e-9))
    read = data[0].lengths
    one = 2 * HIDDEN * (2 * 32 + 3) + 32 * (2 * read + 1)
    np.testing.assert_allclose(both - cut, 2 * one, rtol=1e-3)  # at the depths 0 and 1; at 2 both ask


def test_all_layers_are_no_cut(network: Network, data: Any) -> None:
    trace = PruningTrace(network, *data, progress=False)
    whole, none = (trace.losses({"depth": depth}, trace.examples) for depth in (4, 0))
    for name, values in none.items():
        np.testing.assert_array_equal(values, whole[name])


def test_settings_and_spaces(network: Network, data: Any) -> None:
    assert depths(12, 1) == (0,)
    assert depths(12, 4) == (12, 8, 5, 1)
    assert depths(4, 100) == (4, 3, 2, 1)
    thresholds = make_thresholds(network, data[0], Grid(head=1, token=1, layer=1, depth=2))
    assert [config["depth"] for config in thresholds.space.grid(1)] == [4, 1]
    assert Setting.of({"depth": 3}).to_config()["depth"] == 3
    assert "depth" not in Setting().to_config()
    for wrong in (-1, 1.5, True, "2"):
        with pytest.raises(InvalidInputError, match="depth must be a number of layers"):
            Setting(depth=wrong)  # type: ignore[arg-type]
