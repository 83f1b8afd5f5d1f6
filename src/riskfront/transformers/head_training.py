"""Steps 3 and 4: train exit heads and token predictors beside the frozen encoder, all layers together."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from riskfront.arrays import IntArray
from riskfront.errors import InvalidInputError
from riskfront.runtime.progress import ProgressBar
from riskfront.transformers.backbone import Backbone, Packed
from riskfront.transformers.heads import ExitHeads, TokenPredictors, log_softmax_by_example
from riskfront.transformers.importance import token_importance
from riskfront.transformers.tokens import Tokens


@dataclass(frozen=True)
class HeadTraining:
    """How to train the small networks.

    Args:
        epochs: of the exit heads, on the [CLS] states of one pass through the encoder.
        token_rows: token predictors learn from at most as many examples, because scores need gradients; None for all.
        token_epochs: passes over those examples.
        batch_size, learning_rate: of both.
    """

    epochs: int = 10
    token_rows: int | None = 4000
    token_epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("epochs", "token_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.token_rows is not None and self.token_rows < 1:
            raise InvalidInputError(f"token_rows must be at least 1, or None for all; got {self.token_rows}.")
        if not self.learning_rate > 0:
            raise InvalidInputError(f"learning_rate must be above 0; got {self.learning_rate}.")


def train_token_predictors(
    backbone: Backbone,
    tokens: Tokens,
    labels: IntArray,
    how: HeadTraining,
    *,
    seed: int = 0,
    progress: bool | None = None,
) -> TokenPredictors:
    """Cross-entropy between the predicted and the true scores r of each example, summed over layers."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    chosen = rng.permutation(len(tokens))[: how.token_rows]
    tokens, labels = tokens.take(chosen), labels[chosen]
    predictors = _new(TokenPredictors, backbone.n_layers, backbone.width, seed=seed).to(backbone.device)
    optimizer = torch.optim.Adam(predictors.parameters(), lr=how.learning_rate)
    frozen = [parameter.requires_grad for parameter in backbone.model.parameters()]
    backbone.model.requires_grad_(False)
    try:
        with ProgressBar("token predictors", how.token_epochs * len(tokens), shown=progress) as bar:
            for _ in range(how.token_epochs):
                for batch in tokens.shuffled_batches(how.batch_size, rng):
                    inputs = tokens.padded(batch, backbone.device)
                    wanted, states = token_importance(
                        backbone, inputs, torch.from_numpy(labels[batch]).to(backbone.device)
                    )
                    loss = predictor_loss(predictors, states, wanted, inputs["attention_mask"].sum(dim=1))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    bar.advance(len(batch))
    finally:
        for parameter, trains in zip(backbone.model.parameters(), frozen, strict=True):
            parameter.requires_grad_(trains)
    return predictors.eval()


def predictor_loss(predictors: TokenPredictors, states: list[Tensor], wanted: Tensor, lengths: Tensor) -> Tensor:
    """Mean over examples of -sum_l r_l log s_l, summed over layers; `states` are packed, one for each layer."""
    history = torch.cat(states[:-1], dim=1)
    width = states[0].shape[1]
    total = history.new_zeros(())
    for j in range(len(states) - 1):
        seen = Packed(history[:, : (j + 1) * width], lengths)
        total = total - (wanted * log_softmax_by_example(predictors(j, seen.states), seen)).sum() / len(lengths)
    return total


def train_exit_heads(
    backbone: Backbone,
    train: tuple[Tokens, IntArray],
    validation: tuple[Tokens, IntArray],
    how: HeadTraining,
    *,
    seed: int = 0,
    progress: bool | None = None,
) -> ExitHeads:
    """Cross-entropy to the labels, summed over layers; of each head the epoch with the lowest validation loss is kept."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    with ProgressBar("reading for exit heads", len(train[0]) + len(validation[0]), shown=progress) as bar:
        seen = cls_states(backbone, train[0], how.batch_size, bar)
        held = cls_states(backbone, validation[0], how.batch_size, bar)
    targets, held_targets = (torch.tensor(part[1], device=backbone.device) for part in (train, validation))
    heads = _new(ExitHeads, backbone.n_layers, backbone.width, backbone.n_classes, seed=seed).to(backbone.device)
    optimizer = torch.optim.AdamW(heads.parameters(), lr=how.learning_rate, weight_decay=0.01)
    n_exits = backbone.n_layers - 1
    best = [float("inf")] * n_exits
    kept: list[dict[str, Tensor]] = [{}] * n_exits
    with ProgressBar("exit heads", how.epochs, shown=progress) as bar:
        for _ in range(how.epochs):
            order = torch.from_numpy(rng.permutation(len(targets)))
            for batch in order.split(4 * how.batch_size):
                losses = exit_losses(heads, seen[batch], targets[batch])
                optimizer.zero_grad()
                torch.stack(losses).sum().backward()
                optimizer.step()
            with torch.no_grad():
                for j, loss in enumerate(exit_losses(heads, held, held_targets)):
                    if loss < best[j]:
                        best[j], kept[j] = float(loss), copy.deepcopy(heads.heads[j].state_dict())
            bar.advance()
    for head, state in zip(heads.heads, kept, strict=True):
        head.load_state_dict(state)
    return heads.eval()


def exit_losses(heads: ExitHeads, history: Tensor, labels: Tensor) -> list[Tensor]:
    """The cross-entropy of each exit head; `history` is (examples, layers x width)."""
    n_exits = len(heads.heads)
    width = history.shape[1] // (n_exits + 1)
    return [functional.cross_entropy(heads(j, history[:, : (j + 1) * width]), labels) for j in range(n_exits)]


@torch.no_grad()
def cls_states(backbone: Backbone, tokens: Tokens, batch_size: int, bar: ProgressBar | None = None) -> Tensor:
    """(examples, layers x width): the [CLS] states after every layer, side by side."""
    found = torch.empty(len(tokens), backbone.n_layers * backbone.width, device=backbone.device)
    layers = backbone.layers()
    for positions in tokens.batches(batch_size):
        batch = backbone.embed(tokens.padded(positions, backbone.device))
        states = []
        for layer in layers:
            batch = layer(batch)
            states.append(batch.states[batch.starts])
        found[torch.from_numpy(positions)] = torch.cat(states, dim=1)
        if bar is not None:
            bar.advance(len(positions))
    return found


def _new(kind: type, *sizes: int, seed: int):  # type: ignore[no-untyped-def]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(*sizes)
