"""Relative cost and floating-point operations, against loops and against what torch counts in a real run."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from riskfront.transformers import AdaptiveClassifier
from riskfront.transformers._exits import Layout
from riskfront.transformers._pruning.cost import Sizes, Work, flops, relative_cost
from riskfront.transformers._pruning.network import Network, Setting

RNG = np.random.default_rng(0)
HEADS = np.array([3, 1, 0, 2])
LENGTHS = RNG.integers(20, 40, size=50)
TOKENS = -np.sort(-RNG.integers(1, 20, size=(50, 4)), axis=1)
LAYERS_RUN = RNG.integers(0, 5, size=50)
LAYOUTS = [Layout(), Layout(pairs=True), Layout(first_exit=1, first_predictor=1), Layout.of("cls", pairs=False)]


def sizes_of(layout: Layout) -> Sizes:
    return Sizes(n_layers=4, n_heads=3, head_size=5, width=15, inner_width=40, n_classes=6, layout=layout)


def test_relative_cost_is_the_papers() -> None:
    found = relative_cost(sizes_of(Layout()), Work(HEADS, LENGTHS, TOKENS, LAYERS_RUN, exits=True, prunes=True))
    for cost, length, tokens, last in zip(found, LENGTHS, TOKENS, LAYERS_RUN, strict=True):
        pruned = sum(int(HEADS[j]) * int(tokens[j]) ** 2 for j in range(last))
        assert cost == pytest.approx(pruned / (4 * 3 * int(length) ** 2), rel=1e-12)


def test_the_full_model_costs_one() -> None:
    tokens = np.repeat(LENGTHS[:, None], 4, axis=1)
    work = Work(np.full(4, 3), LENGTHS, tokens, np.full(50, 4), exits=False, prunes=False)
    assert (relative_cost(sizes_of(Layout()), work) == 1).all()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(("exits", "prunes"), [(False, False), (True, False), (False, True), (True, True)])
def test_flops_part_by_part(layout: Layout, exits: bool, prunes: bool) -> None:
    layers_run = LAYERS_RUN if exits else np.full(50, 4)
    found = flops(sizes_of(layout), Work(HEADS, LENGTHS, TOKENS, layers_run, exits, prunes))
    vectors = 1 if layout.exits == "cls" else 5 if layout.pairs else 2
    for total, length, tokens, last in zip(found, LENGTHS, TOKENS, layers_run, strict=True):
        wanted = 10 * 15 * int(length)  # three embeddings added and a norm
        here, seen, history = int(length), 0, 0
        for j in range(last + 1):
            if j == 4:
                wanted += 2 * 15 * 15 + 2 * 15 * 6  # pooler and classifier
                break
            if exits and j >= layout.first_exit:
                seen = seen + vectors if layout.history else vectors
                wanted += 2 * 15 * seen * 32 + 2 * 32 * 6
                if layout.exits == "pooled":
                    wanted += 2 * 15 * here * (2 if layout.pairs else 1) + (5 if layout.pairs else 1) * 15
            if j == last:
                break
            if prunes and j >= layout.first_predictor:
                history = history + 1 if layout.history else 1
                wanted += here * (2 * 15 * history * 32 + 2 * 32)
            here, inner = int(tokens[j]), 5 * int(HEADS[j])
            wanted += 3 * 2 * here * 15 * inner  # query, key, value
            wanted += 2 * here * here * inner + 2 * here * here * inner  # scores, and sums weighted by them
            wanted += 2 * here * inner * 15  # joined again
            wanted += 2 * here * 15 * 40 + 2 * here * 40 * 15
        assert total == wanted


SETTINGS = [
    Setting(),
    Setting(tau_layer=0.2),
    Setting(tau_token=0.05),
    Setting(tau_head=0.2),
    Setting(tau_token=0.04, tau_head=0.15, tau_layer=0.3),
    Setting(tau_token=1.0, tau_head=1.0),
    Setting(tau_layer=2.0),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_flops_are_those_of_a_real_run(network: Network, data: Any, traced: Any, setting: Setting) -> None:
    """torch counts matrix products only: not the embeddings and divisions that we count. It has no formula for attention on
    a CPU, so its two products are written as matrix products while it counts."""
    classifier = AdaptiveClassifier(network, None, (0, 1, 2), 40, setting=setting)
    columns = traced.losses(setting, np.arange(8))

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        assert attn_mask is None, "a single example needs no mask"
        return torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, dim=-1) @ value

    for i in range(8):
        with pytest.MonkeyPatch.context() as patch, FlopCounterMode(display=False) as counter:
            patch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
            answers = classifier.answer(data[0].take(np.array([i])))
        length, last = int(data[0].lengths[i]), int(answers.layers_run[0])
        sums = 10 * 32 * length
        if setting.tau_layer > 0:
            sums += 32 * min(last + 1, 4)  # divisions by the number of tokens
        assert counter.get_total_flops() + sums == columns["flops"][i]
