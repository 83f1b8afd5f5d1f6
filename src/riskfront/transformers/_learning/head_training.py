"""Steps 2 to 4: scores of heads and tokens by gradients, then token predictors and exit heads, all depths together.

Both learn from standardised inputs, with statistics of training rows: in early layers what tells examples apart is a thousandth
of a state's size, and networks that see it unscaled learn nothing. Scales are folded into the first linear layer afterwards.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from riskfront._support.arrays import Array, IntArray
from riskfront._support.progress import ProgressBar
from riskfront.transformers._backbones import Packed
from riskfront.transformers._backbones.backbone import Backbone
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._exits import (
    ExitHeads,
    Layout,
    TokenPredictors,
    WordExit,
    fold_standardisation,
    log_softmax_by_example,
)
from riskfront.transformers._learning.exit_reading import ExitInputs, HeadTraining, Labelled

WORD_STEPS, WORD_RATE = 60, 0.05
SAMPLE = 256  # examples whose tokens' states give the scale of what token predictors read


def train_word_exit(train: Labelled, validation: Labelled, n_classes: int) -> WordExit:
    """All examples at each step; the step with the lowest validation loss is kept, so that entropies mean what they say."""
    read, held = (tokens.words(np.arange(len(tokens))) for tokens, _ in (train, validation))
    wanted, truth = (torch.tensor(labels) for _, labels in (train, validation))
    found, lowest = WordExit(n_classes), math.inf
    kept: dict[str, Tensor] = {}
    optimizer = torch.optim.Adam(found.parameters(), lr=WORD_RATE)
    for _ in range(WORD_STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(found(read), wanted).backward()
        optimizer.step()
        with torch.no_grad():
            loss = float(functional.cross_entropy(found(held), truth))
        if loss < lowest:
            lowest, kept = loss, {name: value.clone() for name, value in found.state_dict().items()}
    found.load_state_dict(kept)
    return found.eval()


def head_importance(
    backbone: Backbone, tokens: Tokens, labels: IntArray, *, batch_size: int = 32, progress: bool | None = None
) -> Array:
    """(layers, heads): the mean over examples of |Attn^T dL/dAttn|, scaled to a sum of one in each layer.

    The output of a head enters the next projection linearly, so its product with the gradient is the same before and after
    that projection; here it is taken before, where the heads stand side by side.
    """
    total = torch.zeros(backbone.n_layers, backbone.n_heads, dtype=torch.float64)
    outputs: list[Tensor] = []  # of the heads, layer after layer; a layer may run several times

    def catch(module: Any, inputs: tuple[Tensor, ...]) -> None:
        outputs.append(inputs[0])

    hooks = [linear.register_forward_pre_hook(catch) for linear in dict.fromkeys(backbone.attention_outputs)]
    try:
        with ProgressBar("scoring heads", len(tokens), shown=progress) as bar, torch.enable_grad():
            for batch in tokens.batches(batch_size):
                outputs.clear()
                logits = backbone.model(**tokens.padded(batch, backbone.device)).logits
                wanted = torch.from_numpy(labels[batch]).to(backbone.device)
                # summed, so that each example has the gradient of its own loss
                loss = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
                for j, (output, gradient) in enumerate(zip(outputs, torch.autograd.grad(loss, outputs), strict=True)):
                    product = (output.detach() * gradient).view(len(batch), -1, backbone.n_heads, backbone.head_size)
                    total[j] += product.sum(dim=(1, 3)).abs().double().sum(dim=0).cpu()
                bar.advance(len(batch))
    finally:
        for hook in hooks:
            hook.remove()
    return (total / total.sum(dim=1, keepdim=True).clamp_min(1e-300)).numpy()


def token_importance(backbone: Backbone, inputs: dict[str, Tensor], labels: Tensor) -> tuple[Tensor, list[Tensor]]:
    """One pass through the model: the scores r of a padded batch, and the states at every depth, both packed.

    r_l = || df(x, y)/de_l * e_l ||_2, scaled to a sum of one over each example; f is the probability of the true class y and
    e_l the word embedding of token l. The gradient of log f is the same up to that scale, and stays where f is near 1.
    """
    words = backbone.word_embeddings(inputs["input_ids"]).detach().requires_grad_()
    hook = backbone.word_embeddings.register_forward_hook(lambda module, given, output: words)
    try:
        with torch.enable_grad():
            found = backbone.model(**inputs, output_hidden_states=True)
            true = torch.log_softmax(found.logits.double(), dim=1).gather(1, labels[:, None]).sum()
            (gradient,) = torch.autograd.grad(true, words)
    finally:
        hook.remove()
    mask = inputs["attention_mask"].bool()
    scores = (gradient * words).detach().double().norm(dim=2) * mask
    scores = scores / scores.sum(dim=1, keepdim=True).clamp_min(1e-300)
    return scores[mask].float(), [states.detach()[mask] for states in found.hidden_states]


def train_token_predictors(
    backbone: Backbone,
    layout: Layout,
    tokens: Tokens,
    labels: IntArray,
    how: HeadTraining,
    *,
    seed: int = 0,
    progress: bool | None = None,
) -> TokenPredictors:
    """Cross-entropy between the predicted and the true scores r of each example, summed over depths."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    chosen = rng.permutation(len(tokens))[: how.token_rows]
    tokens, labels = tokens.take(chosen), labels[chosen]
    predictors = _new(TokenPredictors, layout, backbone.n_layers, backbone.width, seed=seed).to(backbone.device)
    optimizer = torch.optim.Adam(predictors.parameters(), lr=how.learning_rate)
    scale = Scale.of(state_sample(backbone, layout, tokens.take(np.arange(min(len(tokens), SAMPLE))), how.batch_size))
    with ProgressBar("token predictors", how.token_epochs * len(tokens), shown=progress) as bar:
        for _ in range(how.token_epochs):
            for batch in tokens.shuffled_batches(how.batch_size, rng):
                inputs, truth = tokens.padded(batch, backbone.device), torch.from_numpy(labels[batch])
                wanted, states = token_importance(backbone, inputs, truth.to(backbone.device))
                seen = scale(torch.stack(states[layout.first_predictor : backbone.n_layers], dim=1))
                loss = predictor_loss(predictors, layout, seen, wanted, inputs["attention_mask"].sum(dim=1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                bar.advance(len(batch))
    for k, predictor in enumerate(predictors.predictors):
        fold_standardisation(
            predictor[0],
            *(reads(layout.predictors_look_back, part[None], k)[0] for part in (scale.mean, scale.deviation)),
        )
    return predictors.eval()


def predictor_loss(
    predictors: TokenPredictors, layout: Layout, seen: Tensor, wanted: Tensor, lengths: Tensor
) -> Tensor:
    """Mean over examples of -sum_l r_l log s_l, summed over depths; `seen` is (tokens, depths, width)."""
    total = seen.new_zeros(())
    for k in range(seen.shape[1]):
        here = Packed(reads(layout.predictors_look_back, seen, k), lengths)
        scores = log_softmax_by_example(predictors(layout.first_predictor + k, here.states), here)
        total = total - (wanted * scores).sum() / len(lengths)
    return total


@torch.no_grad()
def state_sample(backbone: Backbone, layout: Layout, tokens: Tokens, batch_size: int) -> Tensor:
    """(tokens, depths, width): the states of all tokens at every depth of a token predictor."""
    layers, found = backbone.layers(), []
    for positions in tokens.batches(batch_size):
        batch = backbone.embed(tokens.padded(positions, backbone.device))
        states = [batch.states]
        for layer in layers[:-1]:
            batch = layer(batch)
            states.append(batch.states)
        found.append(torch.stack(states[layout.first_predictor :], dim=1))
    return torch.cat(found)


def fit_exit_heads(
    backbone: Backbone,
    layout: Layout,
    read: ExitInputs,
    how: HeadTraining,
    *,
    seed: int = 0,
    progress: bool | None = None,
) -> ExitHeads:
    """Cross-entropy to the labels, summed over depths; of each head the epoch with the lowest validation loss is kept.

    Where it is asked for, validation examples also set a temperature for each exit.
    """
    train, validation = read.train, read.validation
    heads: ExitHeads = _new(ExitHeads, layout, backbone.n_layers, backbone.width, backbone.n_classes, seed=seed)
    heads.to(backbone.device)
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    optimizer = torch.optim.AdamW(heads.parameters(), lr=how.learning_rate, weight_decay=0.01)
    best = [float("inf")] * len(heads.heads)
    kept: list[dict[str, Tensor]] = [{}] * len(heads.heads)
    scale = Scale.of(train[0]) if how.standardise else Scale.none(train[0])
    held = scale(validation[0])
    epochs = how.exit_epochs(len(train[1]))
    with ProgressBar("exit heads", epochs, shown=progress) as bar:
        for _ in range(epochs):
            order = torch.from_numpy(rng.permutation(len(train[1])))
            for batch in order.split(how.exit_batch):
                losses = exit_losses(heads, layout, scale(train[0][batch]), train[1][batch])
                optimizer.zero_grad()
                torch.stack(losses).sum().backward()
                optimizer.step()
            with torch.no_grad():
                for k, loss in enumerate(exit_losses(heads, layout, held, validation[1])):
                    if loss < best[k]:
                        best[k], kept[k] = float(loss), copy.deepcopy(heads.heads[k].state_dict())
            bar.advance()
    for k, state in enumerate(kept):
        head: Any = heads.heads[k]
        head.load_state_dict(state)
        if how.temperature:
            with torch.no_grad():
                temperature = best_temperature(head(reads(layout.history, held, k)), validation[1])
                head[2].weight /= temperature
                head[2].bias /= temperature
        fold_standardisation(
            head[0], *(reads(layout.history, part[None], k)[0] for part in (scale.mean, scale.deviation))
        )
    return heads.eval()


def exit_losses(heads: ExitHeads, layout: Layout, seen: Tensor, labels: Tensor) -> list[Tensor]:
    """The cross-entropy of each exit head; `seen` is (examples, depths, parts x width)."""
    return [
        functional.cross_entropy(heads(layout.first_exit + k, reads(layout.history, seen, k)), labels)
        for k in range(seen.shape[1])
    ]


def reads(look_back: bool, seen: Tensor, k: int) -> Tensor:
    """(rows, inputs): of (rows, depths, width), what the k-th network reads; if it looks back, all depths up to its own."""
    return seen[:, : k + 1].flatten(1) if look_back else seen[:, k]


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of every input, (depths, width)."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, seen: Tensor) -> Scale:
        """From (rows, depths, width); what does not vary is not blown up."""
        mean = seen.mean(dim=0)
        deviation = (seen - mean).square_().mean(dim=0).sqrt()
        return cls(mean, torch.where(deviation > 1e-5 * mean.abs().clamp_min(1e-3), deviation, torch.inf))

    @classmethod
    def none(cls, seen: Tensor) -> Scale:
        return cls(torch.zeros_like(seen[0]), torch.ones_like(seen[0]))

    def __call__(self, seen: Tensor) -> Tensor:
        return (seen - self.mean) / self.deviation


def best_temperature(logits: Tensor, labels: Tensor) -> float:
    """The number that logits are divided by for the lowest cross-entropy, from 1/4 to 8 in small steps."""
    tried = torch.logspace(-2, 3, 101, base=2, device=logits.device)
    losses = [functional.cross_entropy(logits / t, labels) for t in tried]
    return float(tried[int(torch.stack(losses).argmin())])


def _new(kind: type, *sizes: Any, seed: int):  # type: ignore[no-untyped-def]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind(*sizes)
