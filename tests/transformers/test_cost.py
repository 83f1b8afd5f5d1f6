"""Relative cost and floating-point operations, against loops and against what torch counts in a real run."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from riskfront.transformers import AdaptiveClassifier, Network, Setting
from riskfront.transformers.cost import Sizes, flops, relative_cost

SIZES = Sizes(n_layers=4, n_heads=3, head_size=5, width=15, inner_width=40, n_classes=6)
RNG = np.random.default_rng(0)
HEADS = np.array([3, 1, 0, 2])
TOKENS = -np.sort(-RNG.integers(1, 30, size=(50, 4)), axis=1)
LAYERS_RUN = RNG.integers(1, 5, size=50)


def test_relative_cost_is_the_papers() -> None:
    found = relative_cost(SIZES, HEADS, TOKENS, LAYERS_RUN)
    for cost, tokens, last in zip(found, TOKENS, LAYERS_RUN, strict=True):
        pruned = sum(int(HEADS[j]) * int(tokens[j]) ** 2 for j in range(last))
        assert cost == pytest.approx(pruned / (4 * 3 * int(tokens[0]) ** 2), rel=1e-12)


def test_the_full_model_costs_one() -> None:
    tokens = np.repeat(TOKENS[:, :1], 4, axis=1)
    assert (relative_cost(SIZES, np.full(4, 3), tokens, np.full(50, 4)) == 1).all()


@pytest.mark.parametrize(("exits", "prunes"), [(False, False), (True, False), (False, True), (True, True)])
def test_flops_part_by_part(exits: bool, prunes: bool) -> None:
    layers_run = LAYERS_RUN if exits else np.full(50, 4)
    found = flops(SIZES, HEADS, TOKENS, layers_run, exits=exits, prunes=prunes)
    for total, tokens, last in zip(found, TOKENS, layers_run, strict=True):
        wanted = 0
        for j in range(last):
            n, inner = int(tokens[j]), 5 * int(HEADS[j])
            wanted += 3 * 2 * n * 15 * inner  # query, key, value
            wanted += 2 * n * n * inner + 2 * n * n * inner  # scores, and sums weighted by them
            wanted += 2 * n * inner * 15  # joined again
            wanted += 2 * n * 15 * 40 + 2 * n * 40 * 15
            if j == 3:
                wanted += 2 * 15 * 15 + 2 * 15 * 6  # pooler and classifier
            elif exits:
                wanted += 2 * 15 * (j + 1) * 32 + 2 * 32 * 6
            if prunes and j + 1 < last:
                wanted += n * (2 * 15 * (j + 1) * 32 + 2 * 32)
        assert total == wanted


SETTINGS = [
    Setting(),
    Setting(tau_layer=0.2),
    Setting(tau_token=0.05),
    Setting(tau_head=0.2),
    Setting(tau_token=0.04, tau_head=0.15, tau_layer=0.3),
    Setting(tau_token=1.0, tau_head=1.0),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_flops_are_those_of_a_real_run(network: Network, data: Any, traced: Any, setting: Setting) -> None:
    """torch has no formula for attention on a CPU, so its two products are written as matrix products while it counts."""
    classifier = AdaptiveClassifier(network, None, (0, 1, 2), 40, setting=setting)
    columns = traced.losses(setting, np.arange(8))

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        assert attn_mask is None, "a single example needs no mask"
        return torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, dim=-1) @ value

    for i in range(8):
        with pytest.MonkeyPatch.context() as patch, FlopCounterMode(display=False) as counter:
            patch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
            classifier.answer(data[0].take(np.array([i])))
        assert counter.get_total_flops() == columns["flops"][i]
