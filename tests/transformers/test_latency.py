"""Latency: parts that were measured are added up along what was run, and small parts take less than large ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import riskfront as rf
from riskfront.errors import InvalidInputError
from riskfront.transformers import PruningTrace
from riskfront.transformers._accelerate import check_problem
from riskfront.transformers._exits import Layout
from riskfront.transformers._pruning.cost import Work
from riskfront.transformers._pruning.latency import Clock, clocks_of, measure_clock
from riskfront.transformers._pruning.network import Network

CLOCK = Clock(
    tokens=np.array([1, 11]),
    heads=np.array([0, 2, 4]),
    layer=np.array([[1.0, 11.0], [2.0, 22.0], [4.0, 44.0]]),
    embedding=np.array([0.1, 1.1]),
    exit=np.array([0.5, 0.5]),
    predictor=np.array([0.2, 1.2]),
)


class FakeNetwork:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout


@pytest.mark.parametrize("first", [0, 1])
def test_milliseconds_part_by_part(first: int) -> None:
    """Between measured lengths and numbers of heads, on a line: a layer takes 1, 2, 4 times the tokens at 0, 2, 4 heads."""
    network: Any = FakeNetwork(Layout(first_exit=first, first_predictor=first))
    heads, lengths = np.array([4, 3, 0]), np.array([10, 6, 10])
    tokens, layers_run = np.array([[10, 5, 1], [6, 6, 6], [8, 8, 8]]), np.array([3, 0, 1])
    found = CLOCK.milliseconds(network, Work(heads, lengths, tokens, layers_run, exits=True, prunes=True))
    one = 0.1 * 10 + 4 * 10 + 3 * 5 + 1 * 1  # embedded, and three layers
    predictors = [0.2 + 0.1 * (n - 1) for n in (10, 10, 5)]
    assert found[0] == pytest.approx(one + sum(predictors[first:]) + 0.5 * (3 - first))
    assert found[1] == pytest.approx(0.1 * 6 + (0.5 if first == 0 else 0.0))
    assert found[2] == pytest.approx(0.1 * 10 + 4 * 8 + (predictors[0] if first == 0 else 0) + 0.5 * (2 - first))
    plain = CLOCK.milliseconds(network, Work(heads, lengths, tokens, np.full(3, 3), exits=False, prunes=False))
    assert plain[0] == pytest.approx(one)


def test_a_clock_measures_something_sensible_and_is_kept(network: Network, tmp_path: Path) -> None:
    found = measure_clock(network, 40)
    assert (found.layer > 0).all()
    assert found.layer[2, -1] > found.layer[0, 0], "all heads and 40 tokens take longer than no head and one token"
    kept = clocks_of(network, 40, ["float32"], tmp_path)["float32"]
    again = clocks_of(network, 40, ["float32"], tmp_path)["float32"]
    np.testing.assert_array_equal(kept.layer, again.layer)


def test_a_trace_with_a_clock_has_the_column(network: Network, data: Any) -> None:
    clock = Clock(*(getattr(CLOCK, name) for name in Clock.__annotations__))
    trace = PruningTrace(network, *data, clocks={"float32": clock}, progress=False)
    slow, fast = (trace.losses({"tau_layer": tau}, trace.examples)["latency"] for tau in (0.0, 2.0))
    lengths = data[0].lengths
    embedded = np.interp(lengths, [1, 11], [0.1, 1.1])
    np.testing.assert_allclose(slow, embedded + 4 * np.interp(lengths, [1, 11], [4.0, 44.0]), rtol=1e-5)
    np.testing.assert_allclose(fast, embedded + 0.5, rtol=1e-5)
    assert "latency" not in PruningTrace(network, *data, progress=False).losses({}, np.arange(3))


def test_latency_can_be_minimised_but_not_limited() -> None:
    check_problem(rf.Problem([rf.Limit("error", at_most=0.1)], minimize=["latency"]))
    with pytest.raises(InvalidInputError, match="latency can be minimised but not limited"):
        check_problem(rf.Problem([rf.Limit("latency", at_most=0.1)], minimize=["flops"]))
