"""The examples run, and what they show is true."""

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of an installed package")
def test_a_local_cascade_serves_what_was_certified(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load("local_cascade").main(requests=3000)
    assert found["requests"] == 3000
    share, predicted = found["its share of the requests"], found["predicted share of the small model"]
    assert 0.2 < predicted < 1
    # both are shares of independent questions: 3,000 requests against 5,400 examples
    error = np.sqrt(predicted * (1 - predicted) * (1 / 3000 + 1 / 5400))
    assert abs(share - predicted) < 4 * error
    assert abs(found["cost of a request"] - found["predicted cost"]) < 10 * 4 * error
    assert found["accuracy of the larger model alone"] - found["accuracy of the policy"] < 0.02 + 3 * np.sqrt(
        0.05 / 3000
    )
    assert found["cost of a request"] < 8
    assert "With 90 % confidence, score drop from large (signed) stays at or below 2 %." in capsys.readouterr().out
