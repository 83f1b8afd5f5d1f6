"""The small networks beside the frozen encoder: exit heads and token predictors, at every depth of the layout but the last.

After the last layer the model's own classifier answers, so that the setting without pruning is the full model itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from riskfront.transformers._backbones.backbone import Packed
from riskfront.transformers._exits.layout import Layout

HIDDEN = 32


def two_layers(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_out))


class ExitHeads(nn.Module):
    """At depth d, logits from what the layout lets an exit read, (examples, parts x width)."""

    def __init__(self, layout: Layout, n_layers: int, width: int, n_classes: int) -> None:
        super().__init__()
        self.first = layout.first_exit
        depths = range(layout.first_exit, n_layers)
        self.heads = nn.ModuleList(two_layers(layout.exit_parts(depth) * width, n_classes) for depth in depths)

    def forward(self, depth: int, seen: Tensor) -> Tensor:
        return self.heads[depth - self.first](seen)


class TokenPredictors(nn.Module):
    """At depth d, one logit a token from its states; importance is their softmax over the example."""

    def __init__(self, layout: Layout, n_layers: int, width: int) -> None:
        super().__init__()
        self.first = layout.first_predictor
        depths = range(layout.first_predictor, n_layers)
        self.predictors = nn.ModuleList(two_layers(layout.predictor_parts(depth) * width, 1) for depth in depths)

    def forward(self, depth: int, seen: Tensor) -> Tensor:
        return self.predictors[depth - self.first](seen).squeeze(-1)

    def importance(self, depth: int, seen: Packed) -> Tensor:
        """(tokens,): predicted scores, which sum to one over the tokens that each example has left."""
        return torch.exp(log_softmax_by_example(self(depth, seen.states), seen))


@torch.no_grad()
def fold_standardisation(linear: nn.Linear, mean: Tensor, deviation: Tensor) -> None:
    """Make a layer that was trained on standardised inputs read them as they are, at no cost."""
    weight = linear.weight.double() / deviation.double()
    linear.bias.copy_((linear.bias.double() - weight @ mean.double()).float())
    linear.weight.copy_(weight.float())


def log_softmax_by_example(logits: Tensor, batch: Packed) -> Tensor:
    """Logarithms of the softmax over the tokens of each example, (tokens,)."""
    if len(batch.lengths) == 1:
        return torch.log_softmax(logits, dim=0)
    owner, n = batch.owner, len(batch.lengths)
    highest = logits.new_full((n,), -torch.inf).scatter_reduce(0, owner, logits.detach(), "amax")
    shifted = logits - highest[owner]
    total = logits.new_zeros(n).index_add(0, owner, shifted.exp())
    return shifted - total.log()[owner]


def entropy(probabilities: Tensor) -> Tensor:
    """True entropy in nats over the last axis, 0 log 0 = 0."""
    return torch.special.entr(probabilities).sum(dim=-1)
