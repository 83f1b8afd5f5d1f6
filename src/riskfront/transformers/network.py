"""The adaptive network: the encoder with its exit heads, token predictors and head scores, and a walk through its layers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from riskfront.arrays import Array
from riskfront.transformers.backbone import Backbone, Layer, Packed
from riskfront.transformers.cost import Sizes
from riskfront.transformers.heads import ExitHeads, TokenPredictors


@dataclass(frozen=True)
class Network:
    """Everything that pruning needs.

    Args:
        backbone: the fine-tuned classifier.
        head_scores: (layers, heads), a sum of one in each layer.
        exit_heads, predictors: one after every layer but the last.
    """

    backbone: Backbone
    head_scores: Array
    exit_heads: ExitHeads
    predictors: TokenPredictors
    _sliced: dict[bytes, list[Layer]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sizes(self) -> Sizes:
        b = self.backbone
        return Sizes(b.n_layers, b.n_heads, b.head_size, b.width, b.inner_width, b.n_classes, b.extras)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of all weights."""
        digest = hashlib.sha256(np.ascontiguousarray(self.head_scores).tobytes())
        for module in (self.backbone.model, self.exit_heads, self.predictors):
            for name, value in sorted(module.state_dict().items()):
                digest.update(name.encode() + np.ascontiguousarray(value.cpu().numpy()).tobytes())
        return digest.hexdigest()

    def kept_heads(self, tau_head: float) -> Array:
        """(layers, heads): True where the head's score is at least the threshold."""
        return self.head_scores >= tau_head

    def layers(self, kept_heads: Array) -> list[Layer]:
        """The layers without the other heads; the last ones made are remembered."""
        key = np.packbits(kept_heads).tobytes()
        if key not in self._sliced:
            self._sliced.clear()
            self._sliced[key] = self.backbone.layers(kept_heads)
        return self._sliced[key]


class Walk:
    """Some examples on their way through the layers.

    Args:
        network: the layers' home.
        layers: with the heads that are kept.
        inputs: a padded batch.
        exits, prunes: whether exit heads and token predictors will be asked, so that what they look at is kept.
    """

    def __init__(
        self, network: Network, layers: list[Layer], inputs: dict[str, Tensor], *, exits: bool, prunes: bool
    ) -> None:
        self._network, self._layers, self._exits, self._prunes = network, layers, exits, prunes
        self.batch = network.backbone.embed(inputs)
        self.done = 0  # layers
        self._cls_history: list[Tensor] = []
        self._history: list[Tensor] = []

    def step(self) -> None:
        """One layer further."""
        self.batch = self._layers[self.done](self.batch)
        self.done += 1
        if self._exits:
            self._cls_history.append(self._cls())
        if self._prunes and self.done < len(self._layers):
            self._history.append(self.batch.states)

    def probabilities(self) -> Tensor:
        """(examples, classes): what the exit head here says, or after the last layer the model's own classifier."""
        if self.done == len(self._layers):
            backbone = self._network.backbone
            logits = backbone.classify(backbone.summary(self.batch))
        else:
            logits = self._network.exit_heads(self.done - 1, torch.cat(self._cls_history, dim=1))
        return torch.softmax(logits, dim=1)

    def importance(self) -> Tensor:
        """(tokens,): the predicted score of each token."""
        history = Packed(torch.cat(self._history, dim=1), self.batch.lengths)
        return self._network.predictors.importance(self.done - 1, history)

    def keep_examples(self, keep: Tensor) -> None:
        """All others have left: (examples,) of truth values."""
        tokens = keep[self.batch.owner]
        self.batch = self.batch.only_examples(keep)
        self._cls_history = [states[keep] for states in self._cls_history]
        self._history = [states[tokens] for states in self._history]

    def keep_tokens(self, keep: Tensor) -> None:
        """All others are gone for good: (tokens,) of truth values. [CLS] always stays."""
        keep = keep.clone()
        keep[self.batch.starts] = True
        if bool(keep.all()):
            return
        self.batch = self.batch.only_tokens(keep)
        self._history = [states[keep] for states in self._history]

    def _cls(self) -> Tensor:
        return self.batch.states[self.batch.starts]
