"""Whether importance is worth anything: the full model's answers with tokens and heads dropped by their scores, and at random.

Token predictors and head scores are learnt, so they stand beside the trivial alternative. As many tokens of each text leave at
each depth at random as do by their scores, and as many heads of all layers.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from riskfront._support.arrays import Array, IntArray
from riskfront.transformers._backbones.backbone import Packed
from riskfront.transformers._data.tokens import Tokens
from riskfront.transformers._learning.exit_reading import SAMPLE, walk_through
from riskfront.transformers._pruning.network import Network, Walk
from riskfront.transformers._pruning.thresholds import scores_and_entropies

TOKENS_BELOW = 0.7  # share of tokens' scores below the threshold
HEADS_DROPPED = 0.5
TEXTS = 200  # that are looked at, at most: five passes


@dataclass(frozen=True)
class PruningReport:
    """Accuracy of the full model on validation examples, no exits.

    Args:
        full: nothing dropped.
        tokens_left: share of the tokens that are left, as a mean over layers.
        tokens: see ``tokens_at_random``.
        tokens_at_random: with the others dropped by their scores, and as many at random.
        heads: see ``heads_at_random``.
        heads_at_random: with half of the heads dropped by their scores, and as many at random.
        n: examples.
    """

    full: float
    tokens_left: float
    tokens: float
    tokens_at_random: float
    heads: float
    heads_at_random: float
    n: int

    def __str__(self) -> str:
        return (
            f"the full model is right with {1 - self.tokens_left:.0%} of the tokens dropped by their scores "
            f"{_short(self.tokens)}, at random {_short(self.tokens_at_random)}; with {HEADS_DROPPED:.0%} of the heads dropped "
            f"by theirs {_short(self.heads)}, at random {_short(self.heads_at_random)}; with nothing dropped "
            f"{_short(self.full)} ({self.n:,} validation texts)"
        )

    def warning(self) -> str | None:
        """What is clearly worse than chance, by two standard errors; fewer than 50 examples cannot tell."""
        pairs = {
            "tokens": (self.tokens, self.tokens_at_random),
            "heads": (self.heads, self.heads_at_random),
        }
        worse = [
            name for name, (own, chance) in pairs.items() if self.n >= 50 and own < chance - self._noise(own, chance)
        ]
        if not worse:
            return None
        return (
            f"dropping {' and '.join(worse)} at random hurts less than by their scores: these scores are worth nothing here. "
            "More rows for them (--token-rows, more validation texts) may help."
        )

    def _noise(self, own: float, chance: float) -> float:
        return 2 * math.sqrt((own * (1 - own) + chance * (1 - chance)) / self.n)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> PruningReport:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


@torch.inference_mode()
def report_pruning(
    network: Network, tokens: Tokens, labels: IntArray, *, batch_size: int = 32, seed: int = 0
) -> PruningReport:
    """Five passes over a part of these examples."""
    tokens, labels = tokens.take(np.arange(min(len(tokens), TEXTS))), labels[:TEXTS]
    scores, _ = scores_and_entropies(network, tokens.take(np.arange(min(len(tokens), SAMPLE))), batch_size)
    threshold = float(np.quantile(scores, TOKENS_BELOW))
    drawn = torch.Generator().manual_seed(seed)
    right = np.zeros(2)
    left = 0.0
    for batch in tokens.batches(batch_size):
        by_score, at_random = (_start(network, tokens, batch, None, prunes=True) for _ in range(2))
        whole = len(by_score.batch.states)
        while not by_score.is_over:
            if by_score.at_predictor:
                by_score.keep_tokens(by_score.importance() >= threshold)
                at_random.keep_tokens(as_many_at_random(at_random.batch, by_score.batch.lengths, drawn))
            left += len(by_score.batch.states) / whole * len(batch) / (len(tokens) * network.backbone.n_layers)
            by_score.step()
            at_random.step()
        right += [_right(walk, labels[batch]) for walk in (by_score, at_random)]
    by_tokens, tokens_at_random = right / len(tokens)
    fewer = kept_at_random(network.head_scores, HEADS_DROPPED, seed)
    best = network.kept_heads(float(np.quantile(network.head_scores, HEADS_DROPPED)))
    full, heads, heads_at_random = (
        _accuracy(network, tokens, labels, batch_size, kept) for kept in (None, best, fewer)
    )
    return PruningReport(full, left, by_tokens, tokens_at_random, heads, heads_at_random, len(tokens))


def as_many_at_random(batch: Packed, lengths: Tensor, drawn: torch.Generator) -> Tensor:
    """(tokens,): which tokens stay so that each text keeps these many, [CLS] among them and the others drawn."""
    chance = torch.rand(len(batch.states), generator=drawn).to(batch.states.device)
    chance[batch.starts] = -1.0  # comes first
    order = torch.argsort(2.0 * batch.owner + chance.double())
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - batch.starts[batch.owner]
    return rank < lengths[batch.owner]


def kept_at_random(head_scores: Array, share: float, seed: int) -> Array:
    """(layers, heads): True but for a random share of all heads."""
    kept = np.ones(head_scores.size, dtype=bool)
    drawn = np.random.Generator(np.random.PCG64([seed, 5])).permutation(head_scores.size)
    kept[drawn[: round(share * head_scores.size)]] = False
    return kept.reshape(head_scores.shape)


def _accuracy(network: Network, tokens: Tokens, labels: IntArray, batch_size: int, kept: Array | None) -> float:
    right = 0
    for batch in tokens.batches(batch_size):
        walk = _start(network, tokens, batch, kept, prunes=False)
        while not walk.is_over:
            walk.step()
        right += _right(walk, labels[batch])
    return right / len(tokens)


def _start(network: Network, tokens: Tokens, batch: IntArray, kept: Array | None, *, prunes: bool) -> Walk:
    return walk_through(network, tokens, batch, network.kept_heads(0.0) if kept is None else kept, prunes=prunes)


def _right(walk: Walk, labels: IntArray) -> int:
    return int((walk.probabilities().argmax(dim=1).cpu().numpy() == labels).sum())


def _short(share: float) -> str:
    return f"{share:.3f}".removeprefix("0")
