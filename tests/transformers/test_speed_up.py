"""What an acceleration brought: measured on test texts, said in one sentence."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.transformers import AdaptiveClassifier, PruningTrace
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._speed_up import Gain, measure_gain
from tests.support import tiny_transformers as tiny


def test_one_sentence() -> None:
    problem = rf.Problem(["accuracy_drop <= 0.05"], minimize="flops")
    assert Gain(2.912, 3.31, 0.8871, 0.8684).sentence(problem) == (
        "x2.91 fewer operations, x3.31 faster here in batches of 32, accuracy .887 to .868, at most .050 lost with 90 % "
        "confidence."
    )
    selective = rf.Problem(["error <= 0.05 given answered"], minimize="flops")
    assert Gain(11.25, 0.9, 0.5, 0.5, 0.931, 0.7).sentence(selective) == (
        "x11.2 fewer operations, x0.9 as fast here in batches of 32, x0.7 as fast one text at a time, accuracy .500 to .500, "
        "93.1 % of texts answered."
    )


def test_measured_on_the_test_texts_alone(network: Network, traced: PruningTrace, tmp_path) -> None:
    found = AdaptiveClassifier(network, tiny.make_tokenizer(), tiny.SIGNALS, 40).with_setting({"tau_layer": 0.3})
    test = np.arange(0, len(traced), 2)
    gain = measure_gain(found, traced, test)
    full, now = (traced.losses(setting, test) for setting in ({}, {"tau_layer": 0.3}))
    assert gain.operations == pytest.approx(full["flops"].mean() / now["flops"].mean())
    assert gain.operations > 1
    assert gain.accuracy == pytest.approx(1 - now["error"].mean())
    assert gain.full_accuracy == pytest.approx(1 - full["error"].mean())
    assert gain.seconds > 0
    gain.save(tmp_path)
    assert Gain.load(tmp_path) == gain
    assert Gain.load(tmp_path / "elsewhere") is None
