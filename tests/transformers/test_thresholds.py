"""Where thresholds lie: each prunes about as much more as the one before."""

import numpy as np
import pytest

from riskfront.transformers import Grid, PruningTrace
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._pruning.pruning_trace import entropies, leaving_depths
from riskfront.transformers._pruning.thresholds import make_thresholds, token_thresholds
from tests.transformers.conftest import Data


def test_exit_thresholds_leave_in_equal_steps(network: Network, data: Data, traced: PruningTrace) -> None:
    n = 12
    thresholds = make_thresholds(network, data[0], Grid(head=2, token=3, layer=n)).tau_layer
    probabilities = traced.passes(0.0, 0.0).probabilities
    depths = np.array([leaving_depths(entropies(probabilities), tau).mean() for tau in thresholds])
    n_layers = probabilities.shape[1] - 1
    assert depths[0] == n_layers
    assert depths[-1] == 0
    steps = -np.diff(depths)[:-1]  # the last step takes what is left
    assert steps == pytest.approx(np.full(n - 2, n_layers / (n - 1)), abs=0.1)


def test_head_thresholds_drop_equal_numbers(network: Network, data: Data) -> None:
    thresholds = make_thresholds(network, data[0], Grid(head=4, token=1, layer=1))
    dropped = [int((~network.kept_heads(tau)).sum()) for tau in thresholds.tau_head]
    assert dropped == [0, 4, 8, 12]
    assert thresholds.tau_token == thresholds.tau_layer == (0.0,)


def test_token_thresholds_reach_into_the_tail() -> None:
    scores = np.random.default_rng(0).dirichlet(np.full(20, 0.5), size=500).ravel()
    found = token_thresholds(scores, 12)
    below = [np.mean(scores < tau) for tau in found]
    assert below[:8] == pytest.approx(np.arange(8) / 8, abs=0.01)
    assert found[-1] == pytest.approx(np.quantile(scores, 0.999))
    ratios = np.array(found[8:]) / np.array(found[7:-1])
    assert ratios == pytest.approx(np.full(4, ratios[0]))


def test_the_default_grid_has_the_papers_head_and_token_thresholds_and_a_hundred_exits(
    network: Network, data: Data
) -> None:
    found = make_thresholds(network, data[0], Grid())
    assert len(found.tau_token) == 20
    assert len(found.tau_layer) >= 100
    assert len(found.tau_head) <= 18  # 16 heads have no more than 17 different masks
    assert found.space.size == len(found.tau_head) * 20 * len(found.tau_layer)
