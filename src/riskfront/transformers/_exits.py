"""Exits and token predictors: where they stand between the layers, what they read, and the small networks themselves.

Depth d means: after d layers. Depth 0 is before the first, on the embeddings; after the last layer the model's own classifier
answers and no token is left to be dropped, so that the setting without pruning is the full model itself.

An exit reads the state of [CLS], or beside it the means of the texts' tokens, of those that are left. In early layers [CLS] has
seen almost nothing of a text, and before the first it is the same for all; the mean of the tokens' states has. Of two texts
it is their relation that counts: hence also the distance and the product of their means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones import Packed

KINDS = ("pooled", "cls")
SPECIAL, FIRST, SECOND = 0, 1, 2  # which text a token is of; special ones are of none
HIDDEN = 32
BUCKETS = 1 << 15  # of hashed words and pairs of words


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise InvalidInputError(f"exits must read one of {list(KINDS)}; got {kind!r}.")
    return kind


def must_be_of_kind(model_reads_pairs: bool, given_pairs: bool) -> None:
    """Raise a clear error where pairs come to a model of single texts, or the other way round: it would answer all the same."""
    if model_reads_pairs != given_pairs:
        names = {True: "pairs of texts", False: "single texts"}
        raise InvalidInputError(
            f"this model was trained on {names[model_reads_pairs]} and must be given these; got {names[given_pairs]}."
        )


def first_exit(kind: str) -> int:
    """How many layers run before the first exit: [CLS] says nothing before a layer has filled it."""
    return 1 if kind == "cls" else 0


def n_parts(kind: str, pairs: bool) -> int:
    """How many vectors of the layers' width an exit reads of each layer."""
    if kind == "cls":
        return 1
    return 5 if pairs else 2


def features(kind: str, pairs: bool, states: Tensor, lengths: Tensor, texts: Tensor) -> Tensor:
    """(examples, parts x width): what an exit reads of packed tokens.

    Args:
        kind: "cls" for [CLS] alone; "pooled" for [CLS] and the mean of the text, or of a pair [CLS], both means, their distance
            in each coordinate, and their product.
        pairs: whether the examples are pairs of texts.
        states: (tokens, width), `lengths`: (examples,), the first token of each is [CLS].
        texts: (tokens,), 1 or 2 for the tokens of the first or second text, 0 for special ones.
    """
    cls = states[:1] if len(lengths) == 1 else states[torch.cumsum(lengths, 0) - lengths]
    if kind == "cls":
        return cls
    if not pairs:
        return torch.cat([cls, _means(states, lengths, texts != SPECIAL, cls)], dim=1)
    first, second = (_means(states, lengths, texts == which, cls) for which in (FIRST, SECOND))
    return torch.cat([cls, first, second, (first - second).abs(), first * second], dim=1)


def _means(states: Tensor, lengths: Tensor, chosen: Tensor, otherwise: Tensor) -> Tensor:
    """The mean of the chosen tokens of each example; `otherwise` where none of them is left. Nothing waits for a device."""
    if len(lengths) == 1 and states.device.type == "cpu":  # one caller: two small operations
        weights = chosen.to(states.dtype)
        n = float(weights.sum())
        return (weights[None] @ states) / n if n else otherwise
    each = torch.arange(len(lengths), device=lengths.device)
    owner = torch.repeat_interleave(each, lengths, output_size=len(states))
    counts = torch.zeros_like(lengths).index_add(0, owner, chosen.to(lengths.dtype))
    sums = functional.embedding_bag(
        torch.arange(len(states), device=states.device),
        states,
        torch.cumsum(lengths, 0) - lengths,
        mode="sum",
        per_sample_weights=chosen.to(states.dtype),
    )
    return torch.where((counts == 0)[:, None], otherwise, sums / counts[:, None])


@dataclass(frozen=True, slots=True)
class Layout:
    """The stations of a network.

    Args:
        exits: what exits read, "pooled" or "cls"; see `features`.
        pairs: whether the examples are pairs of texts.
        first_exit: the depth of the first exit, `first_predictor`: of the first token predictor, 0 or 1.
        history: whether each also reads what stood at the depths before its own, side by side, as in the paper.
        token_history: the same for token predictors, where it is not the same as for exits.
    """

    exits: str = "pooled"
    pairs: bool = False
    first_exit: int = 0
    first_predictor: int = 0
    history: bool = False
    token_history: bool | None = None

    def __post_init__(self) -> None:
        check_kind(self.exits)
        if {self.first_exit, self.first_predictor} - {0, 1}:
            raise InvalidInputError(
                f"the first exit and the first predictor stand at depth 0 or 1; got {self.first_exit} and "
                f"{self.first_predictor}."
            )
        if self.exits == "cls" and self.first_exit == 0:
            raise InvalidInputError(
                "an exit that reads [CLS] must stand after a layer: before the first it is always the same."
            )

    @classmethod
    def of(cls, kind: str, pairs: bool) -> Layout:
        """The layout of this package for "pooled", that of the paper for "cls"."""
        if check_kind(kind) == "cls":
            return cls("cls", pairs, first_exit=1, first_predictor=1, history=True)
        return cls(kind, pairs)

    @property
    def predictors_look_back(self) -> bool:
        """Whether token predictors read what stood at the depths before their own."""
        return self.history if self.token_history is None else self.token_history

    def exit_parts(self, depth: int) -> int:
        """Vectors of the layers' width that the exit at this depth reads."""
        return n_parts(self.exits, self.pairs) * (depth - self.first_exit + 1 if self.history else 1)

    def predictor_parts(self, depth: int) -> int:
        """Vectors of the layers' width that the token predictor at this depth reads of each token."""
        return depth - self.first_predictor + 1 if self.predictors_look_back else 1


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
        """(tokens,): predicted scores, which sum to one over the tokens that each example has left; see `to_scores`."""
        return to_scores(log_softmax_by_example(self(depth, seen.states), seen))


class WordExit(nn.Module):
    """Before the embedding: a linear classifier on hashed words and pairs of neighbouring words, which costs microseconds.

    logits = b + sum of w[h] / sqrt(n) over the n words and pairs h of a text. What a text gets does not depend on its batch.
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(BUCKETS, n_classes))
        self.bias = nn.Parameter(torch.zeros(n_classes))

    def forward(self, words: Sequence[Array]) -> Tensor:
        """(examples, classes): logits from the word numbers of each example."""
        hashed = [word_buckets(one) for one in words]
        counts = np.array([len(one) for one in hashed])
        ends = torch.from_numpy(np.cumsum(counts) - counts)
        sums = functional.embedding_bag(torch.from_numpy(np.concatenate(hashed)), self.weight, ends, mode="sum")
        return sums / torch.from_numpy(np.sqrt(np.maximum(counts, 1)).astype(np.float32))[:, None] + self.bias


def word_buckets(words: Array) -> Array:
    """(words + pairs,): the bucket of each word and of each pair of neighbours."""
    numbers = np.asarray(words).astype(np.uint32)
    pairs = (numbers[:-1] * np.uint32(0x85EBCA6B)) ^ (numbers[1:] * np.uint32(0xC2B2AE35) + np.uint32(1))
    mixed = np.concatenate([numbers, pairs]) * np.uint32(0x9E3779B1)
    return ((mixed ^ (mixed >> np.uint32(15))) % np.uint32(BUCKETS)).astype(np.int64)


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


def to_scores(logarithms: Tensor) -> Tensor:
    """Scores from their logarithms. Where states became too large for their type a score is nan: such tokens stay, and the text
    has no answer."""
    return logarithms.exp().nan_to_num(nan=1.0)


def entropy(probabilities: Tensor) -> Tensor:
    """True entropy in nats over the last axis, 0 log 0 = 0."""
    return torch.special.entr(probabilities).sum(dim=-1)
