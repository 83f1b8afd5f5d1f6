"""What a setting costs each example: the paper's relative cost, and floating-point operations counted part by part."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from riskfront._support.arrays import Array, IntArray
from riskfront.transformers._backbones import Extras
from riskfront.transformers._exits import HIDDEN, Layout


@dataclass(frozen=True)
class Sizes:
    """The shape of an adaptive Transformer."""

    n_layers: int
    n_heads: int
    head_size: int
    width: int
    inner_width: int
    n_classes: int
    layout: Layout
    extras: Extras = field(default_factory=Extras)


@dataclass(frozen=True)
class Work:
    """What was run of each example.

    Args:
        heads: (layers,), heads kept in each layer.
        lengths: (examples,), tokens of each example, all of which are embedded.
        tokens: (examples, layers), tokens that enter each layer.
        layers_run: (examples,), from 0.
        exits: whether exit heads run at every depth, `prunes`: whether token predictors do.
        cut: the depth at which the exit answers whatever is left, whether the others run or not; None where there is none.
        by_words: (examples,), whether each left at the exit before the embedding; None where that is not asked.
    """

    heads: IntArray
    lengths: IntArray
    tokens: IntArray
    layers_run: IntArray
    exits: bool
    prunes: bool
    cut: int | None = None
    by_words: Array | None = None

    @property
    def read(self) -> Array:
        """(examples, layers): tokens that the exit and the predictor before each layer read, left by the layer before."""
        return np.concatenate([self.lengths[:, None], self.tokens[:, :-1]], axis=1).astype(np.float64)

    def asked(self, first_exit: int) -> Array:
        """(layers,): whether the exit at each depth below the last is asked."""
        depths = np.arange(self.tokens.shape[1])
        return (depths >= first_exit) & (self.exits | (depths == self.cut))


def relative_cost(sizes: Sizes, work: Work) -> Array:
    """sum_{j <= exit} W_j L_j^2 / (K W L^2) of each example: attention only, as in the paper; 0 before the first layer."""
    squared = work.heads * work.tokens.astype(np.float64) ** 2
    whole = sizes.n_layers * sizes.n_heads * work.lengths.astype(np.float64) ** 2
    return until_leaving(squared, work.layers_run) / whole


def flops(sizes: Sizes, work: Work) -> Array:
    """Floating-point operations of each example; a multiplication and an addition are two.

    Counted: embeddings with their norm, projections, attention, feed-forward, the means that exits read, the exit heads up to
    the one that answers, the classifier, and the token predictors up to the last layer that runs. Not counted: norms,
    activations and softmax inside the layers.
    """
    total = 10.0 * sizes.width * work.lengths  # three embeddings added, and their norm
    total += embedding_flops(sizes, work.lengths)
    total += until_leaving(layer_flops(sizes, work.heads, work.tokens), work.layers_run)
    total += (work.layers_run == sizes.n_layers) * 2 * (sizes.width**2 + sizes.width * sizes.n_classes)
    asked = work.asked(sizes.layout.first_exit)
    if asked.any():
        total += until_leaving(asked * _exit(sizes, work), np.minimum(work.layers_run + 1, sizes.n_layers))
    if work.prunes:
        total += until_leaving(_predictor(sizes, work), work.layers_run)  # where an example leaves, nothing is pruned
    if work.by_words is not None:  # an addition for each class, of each word and each pair
        total = np.where(work.by_words, 0.0, total) + 2.0 * sizes.n_classes * work.lengths
    return total


def embedding_flops(sizes: Sizes, lengths: IntArray) -> Array:
    """(examples,): the projection of embeddings that are narrower than the layers; looking them up is free. `lengths` are
    tokens before any is dropped."""
    return 2.0 * lengths * sizes.extras.embedding_width * sizes.width


def layer_flops(sizes: Sizes, heads: IntArray, tokens: IntArray) -> Array:
    """(examples, layers): projections, attention and feed-forward of every layer; shapes as in `Work`."""
    n, extras = tokens.astype(np.float64), sizes.extras
    kept_width = heads * sizes.head_size
    found: Array = 2 * n * 4 * sizes.width * kept_width + 2 * n**2 * 2 * kept_width
    found += 2 * n * extras.position_rows * kept_width
    found += 2 * n * extras.feed_forward_matrices * sizes.width * sizes.inner_width
    found[:, 0] += 2 * n[:, 0] * extras.first_layer_neighbours * sizes.width**2
    return found


def _exit(sizes: Sizes, work: Work) -> Array:
    """(examples, layers): of the exit at each depth below the last."""
    layout, width, read = sizes.layout, sizes.width, work.read
    found = np.zeros_like(read)
    for depth in range(layout.first_exit, sizes.n_layers):
        head = 2 * HIDDEN * (layout.exit_parts(depth) * width + sizes.n_classes)
        found[:, depth] = head
        if layout.exits == "pooled":  # means of one or two texts as products; distance and product of the two
            texts, others = (2, 5) if layout.pairs else (1, 1)
            found[:, depth] += width * (2 * texts * read[:, depth] + others)
    return found


def _predictor(sizes: Sizes, work: Work) -> Array:
    """(examples, layers): of the token predictor at each depth below the last, on all tokens that came so far."""
    layout, depths = sizes.layout, range(sizes.n_layers)
    parts = np.array([layout.predictor_parts(d) if d >= layout.first_predictor else 0 for d in depths])
    return 2.0 * HIDDEN * (parts * sizes.width + (parts > 0)) * work.read


def until_leaving(values: Array, count: IntArray) -> Array:
    """Of each row, the sum of its first `count` values."""
    summed = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    return summed[np.arange(len(values)), count]
