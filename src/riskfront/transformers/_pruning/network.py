"""The adaptive network: the encoder with its exit heads, token predictors and head scores, and a walk through its layers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from riskfront._support.arrays import Array
from riskfront.transformers._backbones.backbone import Backbone, Layer, Packed
from riskfront.transformers._backbones.precision import in_precision
from riskfront.transformers._exits.heads import ExitHeads, TokenPredictors
from riskfront.transformers._exits.layout import Layout
from riskfront.transformers._exits.pooling import features
from riskfront.transformers._pruning.cost import Sizes


@dataclass(frozen=True)
class Network:
    """Everything that pruning needs.

    Args:
        backbone: the fine-tuned classifier.
        head_scores: (layers, heads), a sum of one in each layer.
        exit_heads: see ``predictors``.
        predictors: one at every depth of the layout.
        layout: where they stand and what they read.
    """

    backbone: Backbone
    head_scores: Array
    exit_heads: ExitHeads
    predictors: TokenPredictors
    layout: Layout
    _sliced: dict[bytes, list[Layer]] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, as multiprocessing and joblib need it: layers that were cut to size are made again where they arrive."""
        return {**self.__dict__, "_sliced": {}}

    @property
    def sizes(self) -> Sizes:
        b = self.backbone
        return Sizes(b.n_layers, b.n_heads, b.head_size, b.width, b.inner_width, b.n_classes, self.layout, b.extras)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of all weights and of the layout."""
        digest = hashlib.sha256(np.ascontiguousarray(self.head_scores).tobytes() + repr(self.layout).encode())
        for module in (self.backbone.model, self.exit_heads, self.predictors):
            for name, value in sorted(module.state_dict().items()):
                digest.update(name.encode() + np.ascontiguousarray(value.cpu().numpy()).tobytes())
        return digest.hexdigest()

    def kept_heads(self, tau_head: float) -> Array:
        """(layers, heads): True where the head's score is at least the threshold."""
        return self.head_scores >= tau_head

    def layers(self, kept_heads: Array, precision: str = "float32") -> list[Layer]:
        """The layers without the other heads, in this precision; the last ones made are remembered."""
        key = precision.encode() + np.packbits(kept_heads).tobytes()
        if key not in self._sliced:
            self._sliced.clear()
            self._sliced[key] = in_precision(self.backbone.layers(kept_heads), precision)
        return self._sliced[key]


class Walk:
    """Some examples on their way through the layers.

    Args:
        network: the layers' home.
        layers: with the heads that are kept.
        inputs: a padded batch.
        texts: (tokens,), which text each token of the batch is of; see `Tokens.packed_texts`.
        exits: see ``prunes``.
        prunes: whether exit heads and token predictors will be asked, so that what they look at is kept.
        cut: a depth at which the exit will be asked even where no other is.
    """

    def __init__(
        self,
        network: Network,
        layers: list[Layer],
        inputs: dict[str, Tensor],
        texts: Tensor,
        *,
        exits: bool,
        prunes: bool,
        cut: int | None = None,
    ) -> None:
        self._network, self._layers, self._layout = network, layers, network.layout
        self._exits, self._prunes, self._cut = exits, prunes, cut
        self.batch, self._texts = network.backbone.embed(inputs), texts
        self.depth = 0  # layers behind us
        self._seen: list[Tensor] = []  # by exits
        self._history: list[Tensor] = []  # seen by token predictors
        self._look()

    def step(self) -> None:
        """One layer further."""
        self.batch = self._layers[self.depth](self.batch)
        self.depth += 1
        self._look()

    @property
    def n_layers(self) -> int:
        return len(self._layers)

    @property
    def is_over(self) -> bool:
        """Whether all layers are behind us."""
        return self.depth == len(self._layers)

    @property
    def at_exit(self) -> bool:
        """Whether an answer can be had here, the model's own after the last layer included."""
        return self.depth >= self._layout.first_exit

    @property
    def at_predictor(self) -> bool:
        """Whether tokens can be dropped here."""
        return self._layout.first_predictor <= self.depth < len(self._layers)

    def probabilities(self) -> Tensor:
        """(examples, classes): what the exit head here says, or after the last layer the model's own classifier."""
        if self.depth == len(self._layers):
            backbone = self._network.backbone
            logits = backbone.classify(backbone.summary(self.batch))
        else:
            logits = self._network.exit_heads(self.depth, _side_by_side(self._seen))
        return torch.softmax(logits, dim=1)

    def read_for(self, layout: Layout) -> Tensor:
        """(examples, parts x width): what an exit of this layout reads here."""
        return features(layout.exits, layout.pairs, self.batch.states, self.batch.lengths, self._texts)

    def importance(self) -> Tensor:
        """(tokens,): the predicted score of each token."""
        seen = Packed(_side_by_side(self._history), self.batch.lengths)
        return self._network.predictors.importance(self.depth, seen)

    def keep_examples(self, keep: Tensor) -> None:
        """All others have left: (examples,) of truth values."""
        tokens = keep[self.batch.owner]
        self.batch = self.batch.only_examples(keep)
        self._texts = self._texts[tokens]
        self._seen = [values[keep] for values in self._seen]
        self._history = [states[tokens] for states in self._history]

    def keep_tokens(self, keep: Tensor) -> None:
        """All others are gone for good: (tokens,) of truth values. [CLS] always stays."""
        keep = keep.clone()
        keep[self.batch.starts] = True
        if bool(keep.all()):
            return
        self.batch = self.batch.only_tokens(keep)
        self._texts = self._texts[keep]
        self._history = [states[keep] for states in self._history]

    def _look(self) -> None:
        """Keep what the networks here and, if they look back, further on will read."""
        layout = self._layout
        if not layout.history:
            self._seen = []
        if not layout.predictors_look_back:
            self._history = []
        if self.depth == len(self._layers):
            return
        asked = self._exits or self.depth == self._cut or (self._cut is not None and layout.history)
        if asked and self.at_exit:
            self._seen.append(self.read_for(layout))
        if self._prunes and self.at_predictor:
            self._history.append(self.batch.states)


def _side_by_side(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
