"""The settings to choose from: head and token thresholds as in the paper, many for exits, laid out by validation data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Choice, Space
from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones.precision import PRECISIONS, check_precision, precisions_for
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import entropy
from riskfront.transformers._pruning.network import Network, Walk


@dataclass(frozen=True)
class Grid:
    """How many thresholds of each kind, with 0 (off) among them, the values of lambda, and the precisions to choose from.

    ``depth`` is the number of depths at which the model may be cut, all its layers included: 1 for no cut. ``precision`` None
    is float32; where latency is an objective, every precision in which the model can run on this machine.
    """

    head: int = 18
    token: int = 20
    layer: int = 120
    abstain: Sequence[float] = (0.0,)
    precision: Sequence[str] | None = None
    depth: int = 1

    def __post_init__(self) -> None:
        for name in ("",) if self.precision is not None and not self.precision else self.precision or ():
            check_precision(name)

    def precisions(self, problem: Problem, network: Network) -> tuple[str, ...]:
        """The precisions to choose from; float32, the model's own, where nobody asked and no clock would tell."""
        if self.precision is not None:
            return tuple(self.precision)
        if all(objective.loss != "latency" for objective in problem.objectives):
            return PRECISIONS[:1]
        return precisions_for(network.layers(network.kept_heads(0.0)))


@dataclass(frozen=True)
class Thresholds:
    """Values of each threshold, rising from 0, which is off, the depths, falling from that of the model, and the precisions."""

    tau_head: tuple[float, ...]
    tau_token: tuple[float, ...]
    tau_layer: tuple[float, ...]
    abstain: tuple[float, ...] = (0.0,)
    precision: tuple[str, ...] = ("float32",)
    depth: tuple[int, ...] = (0,)

    @property
    def space(self) -> Space:
        """Exit and abstention thresholds change fastest on the grid: they are free once a pass is made."""
        dimensions: dict[str, Choice] = {}
        if self.precision != ("float32",):
            dimensions["precision"] = Choice(list(self.precision))
        values = {"tau_head": self.tau_head, "tau_token": self.tau_token, "tau_layer": self.tau_layer}
        dimensions |= {name: Choice(list(found)) for name, found in values.items()}
        if len(self.depth) > 1:
            dimensions["depth"] = Choice(list(self.depth))
        if len(self.abstain) > 1:
            dimensions["lambda"] = Choice(list(self.abstain))
        return Space.from_dict(dimensions)


def make_thresholds(
    network: Network, tokens: Tokens, grid: Grid, precision: Sequence[str] = ("float32",), batch_size: int = 32
) -> Thresholds:
    """Thresholds for these validation examples.

    All are quantiles, so that each drops about as many more heads, tokens or layers as the one before. The depth at which an
    example leaves is the number of exits at which no entropy so far was below the threshold; exit thresholds are therefore
    quantiles of the lowest entropy so far, and the last is above every entropy: all leave at the first exit. They cost no pass
    through the model, so there are many.
    Scores sum to one over the tokens left, so they rise as tokens leave: a third of the token thresholds lie in the upper
    tail of the scores that validation examples have when nothing is pruned.
    """
    for name in ("head", "token", "layer", "depth"):
        if getattr(grid, name) < 1:
            raise InvalidInputError(f"n_{name} must be at least 1, which prunes nothing; got {getattr(grid, name)}.")
    network.must_score_tokens(grid.token - 1)
    scores, lowest = scores_and_entropies(network, tokens, batch_size)
    layer = exit_thresholds(lowest, grid.layer, network.backbone.n_classes)
    head, token = quantiles(network.head_scores.ravel(), grid.head), token_thresholds(scores, grid.token)
    depth = depths(network.backbone.n_layers, grid.depth)
    return Thresholds(rounded(head), rounded(token), rounded(layer), tuple(grid.abstain), tuple(precision), depth)


def thresholds_at_shares(
    network: Network,
    tokens: Tokens,
    *,
    head: Sequence[float] = (0.0,),
    token: Sequence[float] = (0.0,),
    n_layer: int = 120,
    batch_size: int = 32,
) -> Thresholds:
    """Few head and token thresholds, each of which costs a pass: those with these shares of all scores below them.

    Exit thresholds, which cost none, are laid out as `make_thresholds` does.
    """
    check_shares(head, token)
    scores, lowest = scores_and_entropies(network, tokens, batch_size)
    tau_head, tau_token = (
        [float(np.quantile(values, share)) if share else 0.0 for share in shares]
        for values, shares in ((network.head_scores.ravel(), head), (scores, token))
    )
    layer = exit_thresholds(lowest, n_layer, network.backbone.n_classes)
    return Thresholds(rounded(tau_head), rounded(tau_token), rounded(layer))


def check_shares(head: Sequence[float], token: Sequence[float]) -> None:
    """Whether thresholds can lie at these shares of the scores."""
    for name, shares in (("head", head), ("token", token)):
        if 0 not in shares or not all(0 <= share < 1 for share in shares):
            raise InvalidInputError(
                f"shares of {name} scores must be from 0 to below 1, with 0 among them; got {shares}."
            )


def depths(n_layers: int, n: int) -> tuple[int, ...]:
    """Numbers of layers at which a model can be cut, evenly spaced from all of them down to 1."""
    return (0,) if n == 1 else tuple(sorted({round(d) for d in np.linspace(1, n_layers, n)}, reverse=True))


def exit_thresholds(lowest: Array, n: int, n_classes: int) -> list[float]:
    """0, quantiles of the lowest entropies so far, and one that is above every entropy; 0 alone for one."""
    return [0.0] if n == 1 else [*quantiles(lowest.ravel(), n - 1), 1.001 * math.log(n_classes)]


def quantiles(scores: Array, n: int) -> list[float]:
    """0, and values between the scores that leave the same share of them below from one to the next."""
    return [0.0, *np.quantile(scores, np.arange(1, n) / n)]


def token_thresholds(scores: Array, n: int) -> list[float]:
    """Two thirds at quantiles; the others rise from there by a constant factor to nearly the largest score."""
    n_tail = n // 3
    body = quantiles(scores, n - n_tail)
    tail = np.geomspace(np.quantile(scores, 1 - 1 / (n - n_tail)), np.quantile(scores, 0.999), n_tail + 1)[1:]
    return [*body, *tail]


@torch.inference_mode()
def scores_and_entropies(network: Network, tokens: Tokens, batch_size: int = 32) -> tuple[Array, Array]:
    """Nothing pruned: the scores of all tokens but [CLS], and the lowest entropy up to each exit, (examples, exits)."""
    layers = network.layers(network.kept_heads(0.0))
    scores, lowest = [], []
    for batch in tokens.batches(batch_size):
        walk = Walk(network, layers, tokens, batch, exits=True, prunes=True)
        entropies = []
        if network.words is not None:
            entropies.append(entropy(network.read_words(tokens, batch)).numpy())
        while walk.depth < len(layers):
            if walk.at_exit:
                entropies.append(entropy(walk.probabilities().float()).cpu().numpy())
            if walk.at_predictor:
                inner = torch.ones(len(walk.batch.states), dtype=torch.bool)
                inner[walk.batch.starts.cpu()] = False
                scores.append(walk.importance().cpu()[inner].numpy())
            walk.step()
        none = math.log(network.backbone.n_classes)  # of nan, at which nobody leaves
        lowest.append(np.minimum.accumulate(np.nan_to_num(np.stack(entropies, axis=1), nan=none), axis=1))
    return np.concatenate(scores), np.concatenate(lowest)


def rounded(values: Sequence[float]) -> tuple[float, ...]:
    """Five digits, so that people can read them; without repetitions."""
    return tuple(sorted({float(f"{value:.5g}") for value in values}))
