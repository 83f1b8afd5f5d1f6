"""Which token matters is known here: the one signal word of each text. Pruning must keep it and drop the noise."""

from typing import Any

import numpy as np
import pytest
import torch

from riskfront.transformers import PruningTrace
from riskfront.transformers._learning.head_training import token_importance
from riskfront.transformers._pruning.network import Network, Setting
from tests.support import tiny_transformers as tiny
from tests.support import transformer_reference as reference

SIGNAL_IDS = range(len(tiny.SPECIAL), len(tiny.SPECIAL) + len(tiny.SIGNALS))


@pytest.fixture(scope="module")
def tau_token(traced: PruningTrace) -> float:
    """The threshold at which about half of the tokens that enter the layers are gone."""
    lengths = traced.tokens.lengths
    for tau in np.geomspace(0.01, 0.5, 60):
        if (traced.passes(float(tau), 0.0).tokens / lengths[:, None]).mean() <= 0.5:
            return float(tau)
    raise AssertionError("no threshold halves the tokens")


def test_the_signal_has_the_highest_score(network: Network, data: Any) -> None:
    tokens, labels = data
    found, _ = token_importance(network.backbone, tokens.padded(np.arange(200)), torch.tensor(labels))
    parts = np.split(found.numpy(), np.cumsum(tokens.lengths)[:-1])
    highest = [ids[1:][scores[1:].argmax()] in SIGNAL_IDS for ids, scores in zip(tokens.ids, parts, strict=True)]
    assert np.mean(highest) > 0.95


def test_pruning_half_of_the_tokens_keeps_the_signal(network: Network, traced: PruningTrace, tau_token: float) -> None:
    kept_signal, kept_noise, chance = [], [], []
    for i in range(0, 200, 2):
        ids = traced.tokens.ids[i]
        left = reference.run(network, traced.tokens, i, Setting(tau_token)).entered[0]
        signal = next(place for place, token in enumerate(ids) if token in SIGNAL_IDS)
        kept_signal.append(signal in left)
        noise = [place for place in range(1, len(ids)) if place != signal]
        kept_noise.append(len(set(noise) & set(left)) / len(noise))
        chance.append((len(left) - 1) / (len(ids) - 1))  # of any one token, if as many were kept at random
    assert np.mean(kept_signal) > 0.97
    assert np.mean(kept_noise) < 0.5
    assert np.mean(chance) < 0.5


def test_accuracy_stays_where_random_dropping_loses_it(
    traced: PruningTrace, network: Network, tau_token: float
) -> None:
    columns = traced.losses(Setting(tau_token), traced.examples)
    full = traced.losses(Setting(), traced.examples)
    assert full["error"].mean() < 0.03
    assert columns["accuracy_drop"].mean() < 0.03
    assert columns["relative_cost"].mean() < 0.5

    rng = np.random.default_rng(0)
    wrong = 0
    for i, ids in enumerate(traced.tokens.ids):
        n = int(traced.passes(tau_token, 0.0).tokens[i, 0])
        keep = np.sort(rng.choice(np.arange(1, len(ids)), size=n - 1, replace=False))
        shorter = torch.tensor(np.concatenate([ids[:1], ids[keep]]))[None].long()
        with torch.no_grad():
            wrong += int(network.backbone.model(input_ids=shorter).logits.argmax() != traced.labels[i])
    assert wrong / len(traced) > 0.15
