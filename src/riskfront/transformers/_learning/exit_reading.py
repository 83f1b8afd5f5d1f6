"""What exit heads learn from: what exits read of texts as they are, and of texts on their way with tokens and heads dropped.

An exit that has only seen whole texts is lost among pruned ones: the mean of twenty tokens is not that of fifty. On AG News
the exit after the first layer was right on 85 % of whole texts and 66 % of pruned ones; heads that learn from both keep 86 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from riskfront._support.arrays import Array, IntArray
from riskfront._support.progress import ProgressBar
from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import ExitHeads, Layout, TokenPredictors, n_parts
from riskfront.transformers._pruning.network import Network, Walk
from riskfront.transformers._pruning.thresholds import scores_and_entropies

_EPOCHS, _STEPS = 10, 400  # that exit heads get at least; of each the best epoch is kept, so more do no harm
TOKEN_SHARES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.85)  # of scores that lie below the threshold of a pruned pass
HEAD_SHARES = (0.0, 0.0, 0.25)
SAMPLE = 128  # examples whose scores give those thresholds
Labelled = tuple[Tokens, IntArray]


@dataclass(frozen=True)
class HeadTraining:
    """How to train the small networks.

    Args:
        epochs: of the exit heads, on what they read in one pass through the encoder. None: ten, and more for few rows, until
            they have had 400 steps; with less, heads learn less than a linear classifier does.
        rows: exit heads learn from at most as many examples, because what they read is held in memory; None for all.
        pruned: let exit heads learn from pruned texts too, each example once as it is and once with tokens and heads dropped.
            None: for single texts. Not for pairs, where tokens bring little and exits lost a tenth by it (QQP), nor for exits
            that read [CLS], which are the paper's.
        token_rows: token predictors learn from at most as many examples, because scores need gradients; None for all.
        token_epochs: passes over those examples.
        batch_size: examples a step, of token predictors; exit heads take larger steps.
        learning_rate: of exit heads and token predictors.
        standardise: let exit heads learn from standardised inputs; False to see what it brings.
        temperature: of each exit, set on validation examples, so that entropies mean the same at every depth; it brought
            nothing on AG News and QQP.
    """

    epochs: int | None = None
    rows: int | None = 10_000
    pruned: bool | None = None
    token_rows: int | None = 4000
    token_epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 1e-3
    standardise: bool = True
    temperature: bool = False

    def __post_init__(self) -> None:
        none = {"epochs": ", or None for enough", "rows": ", or None for all", "token_rows": ", or None for all"}
        for name in ("token_epochs", "batch_size", *none):
            value = getattr(self, name)
            if not (value is None and name in none) and value < 1:
                raise InvalidInputError(f"{name} must be at least 1{none.get(name, '')}; got {value}.")
        if not self.learning_rate > 0:
            raise InvalidInputError(f"learning_rate must be above 0; got {self.learning_rate}.")

    def learns_from_pruned(self, exits: str, pairs: bool) -> bool:
        """Whether exits that read this, of single texts or of pairs, learn from pruned texts too."""
        return exits != "cls" and not pairs if self.pruned is None else self.pruned

    @property
    def exit_batch(self) -> int:
        """What exit heads learn from at a time: their networks are small."""
        return 4 * self.batch_size

    def exit_epochs(self, rows: int) -> int:
        """Epochs of the exit heads on so many rows."""
        if self.epochs is not None:
            return self.epochs
        return max(_EPOCHS, math.ceil(_STEPS * self.exit_batch / max(rows, self.exit_batch)))


@dataclass(frozen=True)
class ExitInputs:
    """What exits read, (passes, depths, parts x width), and labels, of training and of validation examples.

    Passes of whole texts come first, then those of the same texts pruned, if there are any.
    """

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    n_validation: int

    @property
    def whole(self) -> tuple[Tensor, Tensor]:
        """Validation examples as they are."""
        return self.validation[0][: self.n_validation], self.validation[1][: self.n_validation]

    @property
    def pruned(self) -> tuple[Tensor, Tensor] | None:
        """Validation examples with tokens dropped."""
        if len(self.validation[1]) == self.n_validation:
            return None
        return self.validation[0][self.n_validation :], self.validation[1][self.n_validation :]


def read_for_exits(
    backbone: Backbone,
    layout: Layout,
    train: Labelled,
    validation: Labelled,
    how: HeadTraining,
    *,
    pruned_by: Network | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> ExitInputs:
    """One pass over the examples that exit heads learn from; with `pruned_by` a second one, each batch at its own threshold."""
    chosen = rows_to_read(len(train[0]), how, seed)
    parts = ((train[0].take(chosen), train[1][chosen]), validation)
    passes = 1 if pruned_by is None else 2
    found: list[tuple[Tensor, Tensor]] = []
    with ProgressBar("reading for exit heads", passes * sum(len(part[0]) for part in parts), shown=progress) as bar:
        for tokens, labels in parts:
            read = [exit_features(backbone, layout, tokens, how.batch_size, bar)]
            if pruned_by is not None:
                read.append(pruned_features(pruned_by, tokens, how.batch_size, seed=seed, bar=bar))
            targets = torch.tensor(labels, device=backbone.device)
            found.append((torch.cat(read), targets.repeat(len(read))))
    return ExitInputs(found[0], found[1], len(validation[0]))


def rows_to_read(n: int, how: HeadTraining, seed: int = 0) -> IntArray:
    """The examples that exit heads learn from, drawn at random from `n`."""
    return np.random.Generator(np.random.PCG64([seed, 3])).permutation(n)[: how.rows]


@torch.no_grad()
def exit_features(
    backbone: Backbone, layout: Layout, tokens: Tokens, batch_size: int, bar: ProgressBar | None = None
) -> Tensor:
    """(examples, depths, parts x width): what each exit reads of its own depth, of whole texts."""
    return _features(without_exits(backbone, layout), tokens, batch_size, [(0.0, 0.0)], bar=bar)


@torch.no_grad()
def pruned_features(
    network: Network, tokens: Tokens, batch_size: int, *, seed: int = 0, bar: ProgressBar | None = None
) -> Tensor:
    """The same where each batch has a token and a head threshold of its own, drawn at random."""
    scores, _ = scores_and_entropies(network, tokens.take(np.arange(min(len(tokens), SAMPLE))), batch_size)
    taus = [
        (float(np.quantile(scores, token)), float(np.quantile(network.head_scores, head)) if head else 0.0)
        for token in TOKEN_SHARES
        for head in HEAD_SHARES
    ]
    return _features(network, tokens, batch_size, taus, seed=seed, bar=bar)


def _features(
    network: Network,
    tokens: Tokens,
    batch_size: int,
    taus: Sequence[tuple[float, float]],
    *,
    seed: int = 0,
    bar: ProgressBar | None = None,
) -> Tensor:
    """Every batch at one of the thresholds, of tokens and of heads."""
    rng = np.random.Generator(np.random.PCG64([seed, 4]))
    backbone, layout = network.backbone, network.layout
    width = n_parts(layout.exits, layout.pairs) * backbone.width
    found = torch.empty(len(tokens), backbone.n_layers - layout.first_exit, width, device=backbone.device)
    for positions in tokens.batches(batch_size):
        tau_token, tau_head = taus[int(rng.integers(len(taus)))]
        layers = network.layers(network.kept_heads(tau_head))
        walk = Walk(network, layers, tokens, positions, exits=False, prunes=tau_token > 0)
        read = []
        while True:
            if walk.at_exit:
                read.append(walk.read_for(layout))
            if walk.depth == backbone.n_layers - 1:
                break
            if tau_token > 0 and walk.at_predictor:
                walk.keep_tokens(walk.importance() >= tau_token)
            walk.step()
        found[torch.from_numpy(positions)] = torch.stack(read, dim=1)
        if bar is not None:
            bar.advance(len(positions))
    return found


def without_exits(
    backbone: Backbone, layout: Layout, predictors: TokenPredictors | None = None, head_scores: Array | None = None
) -> Network:
    """A network whose exits nobody asks."""
    scores = np.ones((backbone.n_layers, backbone.n_heads)) if head_scores is None else head_scores
    exits = ExitHeads(layout, backbone.n_layers, backbone.width, backbone.n_classes)
    predictors = predictors or TokenPredictors(layout, backbone.n_layers, backbone.width)
    return Network(backbone, scores, exits, predictors, layout)
