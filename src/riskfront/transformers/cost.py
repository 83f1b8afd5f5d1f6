"""What a setting costs each example: the paper's relative cost, and floating-point operations counted part by part."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from riskfront.arrays import Array, IntArray
from riskfront.transformers.backbones import Extras
from riskfront.transformers.heads import HIDDEN


@dataclass(frozen=True)
class Sizes:
    """The shape of an adaptive Transformer."""

    n_layers: int
    n_heads: int
    head_size: int
    width: int
    inner_width: int
    n_classes: int
    extras: Extras = field(default_factory=Extras)


def relative_cost(sizes: Sizes, heads: IntArray, tokens: IntArray, layers_run: IntArray) -> Array:
    """sum_{j <= exit} W_j L_j^2 / (K W L^2) of each example.

    Args:
        heads: (layers,), heads kept in each layer.
        tokens: (examples, layers), tokens that enter each layer; all of them enter the first.
        layers_run: (examples,), from 1.
    """
    squared = heads * tokens.astype(np.float64) ** 2
    whole = sizes.n_layers * sizes.n_heads * tokens[:, 0].astype(np.float64) ** 2
    return _sum_of_first(squared, layers_run) / whole


def flops(sizes: Sizes, heads: IntArray, tokens: IntArray, layers_run: IntArray, *, exits: bool, prunes: bool) -> Array:
    """Floating-point operations of each example; a multiplication and an addition are two.

    Counted: projections, attention, feed-forward, the classifier or the exit heads up to the one that answers, and token
    predictors after every layer that another layer follows. Not counted: embeddings, norms, activations, softmax.

    Args:
        heads, tokens, layers_run: as for `relative_cost`.
        exits: whether exit heads run at all, `prunes`: whether token predictors do.
    """
    n = tokens.astype(np.float64)
    total = embedding_flops(sizes, tokens[:, 0]) + _sum_of_first(layer_flops(sizes, heads, tokens), layers_run)
    seen = np.arange(1, sizes.n_layers + 1) * sizes.width
    last = layers_run == sizes.n_layers
    if exits:
        head = 2 * (seen * HIDDEN + HIDDEN * sizes.n_classes) * np.ones_like(n)
        head[:, -1] = 0
        total += _sum_of_first(head, layers_run)
    total += last * 2 * (sizes.width**2 + sizes.width * sizes.n_classes)
    if prunes:
        predictor = 2 * (seen * HIDDEN + HIDDEN) * n
        total += _sum_of_first(predictor, layers_run - 1)  # after the last layer that runs nothing is left to prune for
    return total


def embedding_flops(sizes: Sizes, lengths: IntArray) -> Array:
    """(examples,): the projection of embeddings that are narrower than the layers; looking embeddings up is free.

    Args:
        lengths: (examples,), tokens before any is dropped.
    """
    return 2.0 * lengths * sizes.extras.embedding_width * sizes.width


def layer_flops(sizes: Sizes, heads: IntArray, tokens: IntArray) -> Array:
    """(examples, layers): projections, attention and feed-forward of every layer; shapes as for `relative_cost`."""
    n, extras = tokens.astype(np.float64), sizes.extras
    kept_width = heads * sizes.head_size
    found: Array = 2 * n * 4 * sizes.width * kept_width + 2 * n**2 * 2 * kept_width
    found += 2 * n * extras.position_rows * kept_width
    found += 2 * n * extras.feed_forward_matrices * sizes.width * sizes.inner_width
    found[:, 0] += 2 * n[:, 0] * extras.first_layer_neighbours * sizes.width**2
    return found


def _sum_of_first(values: Array, count: IntArray) -> Array:
    """Of each row, the sum of its first `count` values."""
    summed = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    return summed[np.arange(len(values)), count]
