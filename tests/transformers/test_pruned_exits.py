"""What exit heads learn from when texts are pruned on their way."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from riskfront.transformers import HeadTraining
from riskfront.transformers._learning.exit_reading import (
    _features,
    exit_features,
    pruned_features,
    read_for_exits,
)
from riskfront.transformers._learning.head_training import exit_losses, reads
from riskfront.transformers._pruning.network import Network
from riskfront.transformers._pruning.pruning_trace import PruningTrace
from tests.support import tiny_transformers as tiny

HOW = HeadTraining(epochs=5, learning_rate=3e-3)


def taus(network: Network) -> tuple[float, float]:
    """Thresholds that drop some tokens and heads."""
    return 0.12, float(np.quantile(network.head_scores, 0.25))


@pytest.mark.parametrize("kind", ["network", "pair_network"])
def test_exits_read_in_training_what_they_read_at_run_time(kind: str, request: Any) -> None:
    """The answers of the exits on what they would learn from are those of a trace at the same thresholds."""
    network = request.getfixturevalue(kind)
    tokens, labels = tiny.tokens_and_labels((tiny.make_pairs if network.layout.pairs else tiny.make_frame)(60, 4))
    tau_token, tau_head = taus(network)
    with torch.no_grad():
        seen = _features(network, tokens, 32, [(tau_token, tau_head)])
        found = [torch.softmax(network.exit_heads(k, reads(False, seen, k)), dim=1).numpy() for k in range(4)]
    passes = PruningTrace(network, tokens, labels, progress=False).passes(tau_token, tau_head)
    assert (passes.tokens < np.array([len(ids) for ids in tokens.ids])[:, None]).any(), "something is dropped"
    np.testing.assert_allclose(np.stack(found, axis=1), passes.probabilities[:, :-1], atol=1e-5)


def test_whole_texts_come_first_and_then_pruned_ones(network: Network, data: Any) -> None:
    parts = (data, (data[0].take(np.arange(30)), data[1][:30]))
    read = read_for_exits(network.backbone, network.layout, *parts, HOW, pruned_by=network, progress=False)
    assert len(read.train[0]) == len(read.train[1]) == 400
    held = parts[1][0]
    torch.testing.assert_close(read.whole[0], exit_features(network.backbone, network.layout, held, 32))
    assert read.pruned is not None
    torch.testing.assert_close(read.pruned[0], pruned_features(network, held, 32))
    torch.testing.assert_close(read.pruned[0][:, 0], read.whole[0][:, 0])  # nothing is dropped before the first exit
    assert not torch.allclose(read.pruned[0][:, 1:], read.whole[0][:, 1:], atol=1e-3)
    assert read.whole[1].tolist() == read.pruned[1].tolist() == data[1][:30].tolist()
    plain = read_for_exits(network.backbone, network.layout, *parts, HOW, progress=False)
    assert plain.pruned is None
    assert len(plain.train[0]) == 200


def test_exits_that_learnt_from_pruned_texts_know_them_better(network: Network, data: Any) -> None:
    """Their cross-entropy there is lower: that is what entropies, and so exits, rest on."""
    train, held = (tiny.tokens_and_labels(tiny.make_frame(n, seed)) for n, seed in ((1000, 1), (150, 3)))
    backbone, layout, how = network.backbone, network.layout, replace(HOW, epochs=10)
    seen, labels = pruned_features(network, data[0], 8, seed=5), torch.tensor(data[1])
    lost = [
        float(torch.stack(exit_losses(heads, layout, seen, labels)[1:]).detach().mean())
        for heads in (
            tiny.train_exit_heads(backbone, layout, train, held, how, progress=False),
            tiny.train_exit_heads(backbone, layout, train, held, how, pruned_by=network, progress=False),
        )
    ]
    assert lost[1] < 0.9 * lost[0], lost


@pytest.mark.parametrize(
    ("exits", "pairs", "usual"), [("pooled", False, True), ("pooled", True, False), ("cls", False, False)]
)
def test_single_texts_are_learnt_from_pruned_too_unless_exits_are_the_papers(
    exits: str, pairs: bool, usual: bool
) -> None:
    assert HeadTraining().learns_from_pruned(exits, pairs) == usual
    assert HeadTraining(pruned=True).learns_from_pruned(exits, pairs)
    assert not HeadTraining(pruned=False).learns_from_pruned(exits, pairs)
