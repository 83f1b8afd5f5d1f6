"""The runtime: texts through the adaptive network at one setting. What is pruned is really not computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from riskfront._support.arrays import Array, IntArray
from riskfront.transformers._backbones.backbone import Layer
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits.heads import entropy
from riskfront.transformers._pruning.network import Network, Walk
from riskfront.transformers._pruning.setting import Setting

AT_ONCE = 8  # times the batch size: so many texts are embedded together, because most of them may need no layer


@dataclass(frozen=True)
class Answers:
    """What was answered, and what it took.

    Args:
        probabilities: (n, classes), of the exit at which each example left.
        layers_run: (n,), from 0.
        tokens: (n, layers), tokens that entered each layer; 0 for layers that were not run.
    """

    probabilities: Array
    layers_run: IntArray
    tokens: Array


@torch.inference_mode()
def answer(network: Network, setting: Setting, tokens: Tokens, *, batch_size: int = 32) -> Answers:
    """Texts that are tokenised already, in batches of similar length.

    Texts that leave before the first layer are found first, many at a time, and only the others fill the batches that go
    through the layers.
    """
    backbone = network.backbone
    layers = network.layers(network.kept_heads(setting.tau_head), setting.precision)
    found = Answers(
        np.zeros((len(tokens), backbone.n_classes), dtype=np.float32),
        np.full(len(tokens), backbone.n_layers),
        np.zeros((len(tokens), backbone.n_layers), dtype=np.int32),
    )
    left = np.arange(len(tokens))
    sieve = setting.tau_layer > 0 and network.layout.first_exit == 0 and len(tokens) > batch_size
    if sieve:
        stays = [
            _leave(_walk(network, layers, setting, tokens, batch), setting, batch, found)
            for batch in tokens.batches(AT_ONCE * batch_size)
        ]
        left = np.sort(np.concatenate(stays))
    for batch in tokens.batches(batch_size, left):
        _through(_walk(network, layers, setting, tokens, batch), setting, batch, found, asked=sieve)
    return found


def _walk(network: Network, layers: list[Layer], setting: Setting, tokens: Tokens, batch: IntArray) -> Walk:
    place = network.backbone.device
    inputs, texts = tokens.padded(batch, place), tokens.packed_texts(batch, place)
    cut = setting.cut(network.backbone.n_layers)
    return Walk(network, layers, inputs, texts, exits=setting.tau_layer > 0, prunes=setting.tau_token > 0, cut=cut)


def _through(walk: Walk, setting: Setting, here: IntArray, found: Answers, *, asked: bool) -> None:
    """Until all have left; `asked`: whether those who leave before the first layer have done so already."""
    cut = setting.cut(walk.n_layers)
    while not walk.is_over:
        if walk.depth == cut:
            found.layers_run[here] = cut
            break
        if setting.tau_layer > 0 and walk.at_exit and not (asked and walk.depth == 0):
            here = _leave(walk, setting, here, found)
            if not len(here):
                return
        if setting.tau_token > 0 and walk.at_predictor:
            walk.keep_tokens(walk.importance() >= setting.tau_token)
        found.tokens[here, walk.depth] = walk.batch.lengths.cpu().numpy()
        walk.step()
    found.probabilities[here] = walk.probabilities().cpu().numpy()


def _leave(walk: Walk, setting: Setting, here: IntArray, found: Answers) -> IntArray:
    """Those whose entropy is below the threshold get their answer; the others are returned."""
    probabilities = walk.probabilities()
    leaves = entropy(probabilities.float()) < setting.tau_layer
    gone = leaves.cpu().numpy()
    if not gone.any():
        return here
    found.probabilities[here[gone]] = probabilities.cpu().numpy()[gone]
    found.layers_run[here[gone]] = walk.depth
    if not gone.all():
        walk.keep_examples(~leaves)
    return here[~gone]
