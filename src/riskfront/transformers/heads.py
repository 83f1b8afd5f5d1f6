"""The small networks beside the frozen encoder: exit heads and token predictors, one after every layer but the last.

After the last layer the model's own classifier answers, so that the setting without pruning is the full model itself, and
no token is left to be dropped. Each network sees the states of its layer and of all earlier layers, side by side.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riskfront.transformers.backbone import Packed

HIDDEN = 32


def two_layers(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_out))


class ExitHeads(nn.Module):
    """After layer j (from 0), logits from the [CLS] states of layers 0..j, (examples, (j + 1) width)."""

    def __init__(self, n_layers: int, width: int, n_classes: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(two_layers((j + 1) * width, n_classes) for j in range(n_layers - 1))

    def forward(self, layer: int, history: Tensor) -> Tensor:
        return self.heads[layer](history)


class TokenPredictors(nn.Module):
    """After layer j, one logit a token from its states in layers 0..j; importance is their softmax over the example."""

    def __init__(self, n_layers: int, width: int) -> None:
        super().__init__()
        self.predictors = nn.ModuleList(two_layers((j + 1) * width, 1) for j in range(n_layers - 1))

    def forward(self, layer: int, history: Tensor) -> Tensor:
        return self.predictors[layer](history).squeeze(-1)

    def importance(self, layer: int, history: Packed) -> Tensor:
        """(tokens,): predicted scores, which sum to one over the tokens that each example has left."""
        return torch.exp(log_softmax_by_example(self(layer, history.states), history))


def log_softmax_by_example(logits: Tensor, batch: Packed) -> Tensor:
    """Logarithms of the softmax over the tokens of each example, (tokens,)."""
    owner, n = batch.owner, len(batch.lengths)
    highest = logits.new_full((n,), -torch.inf).scatter_reduce(0, owner, logits.detach(), "amax")
    shifted = logits - highest[owner]
    total = logits.new_zeros(n).index_add(0, owner, shifted.exp())
    return shifted - total.log()[owner]


def entropy(probabilities: Tensor) -> Tensor:
    """True entropy in nats over the last axis, 0 log 0 = 0."""
    return torch.special.entr(probabilities).sum(dim=-1)
