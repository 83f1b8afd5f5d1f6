"""Passes: what examples did on their way through all layers, from which every exit threshold can be read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from riskfront._support.arrays import Array, IntArray
from riskfront.transformers._exits.heads import entropy


@dataclass(frozen=True)
class Passes:
    """Examples that went through all layers with the same heads, perhaps with different token thresholds.

    Every threshold above `above` and up to `up_to` keeps the same tokens of that example, so it need not be run again.

    Args:
        examples: (rows,), positions.
        above: see ``up_to``.
        up_to: (rows,).
        tokens: (rows, layers), tokens that entered each layer.
        probabilities: (rows, layers + 1, classes), by the exit head at each depth and by the classifier after the last layer;
            zeros where there is no exit.
    """

    examples: IntArray
    above: Array
    up_to: Array
    tokens: IntArray
    probabilities: Array

    @classmethod
    def joined(cls, parts: Sequence[Passes]) -> Passes:
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))

    def take(self, rows: IntArray) -> Passes:
        return Passes(*(getattr(self, name)[rows] for name in self.__annotations__))

    @cached_property
    def entropies(self) -> Array:
        """(rows, layers + 1): many exit thresholds ask for them."""
        return entropies(self.probabilities)


@dataclass(frozen=True)
class Way:
    """What a pass goes through: heads that are kept, (layers, heads), in one precision."""

    mask: Array
    precision: str

    @property
    def key(self) -> bytes:
        return self.precision.encode() + self.mask.tobytes()


def exit_layers(probabilities: Array, tau_layer: float) -> IntArray:
    """(examples,), from 0: the layers run before the first exit whose entropy is below the threshold, or all.

    Args:
        probabilities: (examples, layers + 1, classes), zeros where there is no exit.
    """
    return leaving_depths(entropies(probabilities), tau_layer)


def leaving_depths(found: Array, tau_layer: float, cut: int | None = None) -> IntArray:
    """The same from the entropies, (examples, layers + 1); at the depth ``cut`` all leave that are left."""
    leaves = found < tau_layer
    leaves[:, -1] = True
    if cut is not None:
        leaves[:, cut] = True
    return leaves.argmax(axis=1)


def entropies(probabilities: Array) -> Array:
    """True entropy in nats over the last axis, as the runtime computes it; infinite where there is no exit."""
    found: Array = entropy(torch.from_numpy(np.ascontiguousarray(probabilities))).numpy()
    found[probabilities.sum(axis=-1) == 0] = np.inf
    return found
