"""Exits of a second network on the walk of a first: two kinds of exits for the price of one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront.transformers._pruning.network import Network, Walk


def must_share_all_but_exits(first: Network, second: Network) -> None:
    """Only then does an example lose the same tokens on its way through both."""
    one, other = first.layout, second.layout
    same = (
        first.backbone is second.backbone
        and first.predictors is second.predictors
        and np.array_equal(first.head_scores, second.head_scores)
        and one.first_predictor == other.first_predictor
        and one.predictors_look_back == other.predictors_look_back
        and one.pairs == other.pairs
    )
    if not same:
        raise InvalidInputError(
            "traces share their passes only if their networks have the same encoder, token predictors and head scores; these "
            "differ. Trace them one after the other."
        )


class ExitsBeside:
    """What the exits of another network say of the examples of one walk; to be asked at every depth, in order."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._seen: list[Tensor] = []

    def probabilities(self, walk: Walk) -> Tensor:
        """(examples, classes); zeros where there is no exit. After the last layer the model itself answers."""
        layout = self._network.layout
        if walk.is_over:
            return walk.probabilities()
        if walk.depth < layout.first_exit:
            return torch.zeros(len(walk.batch.lengths), self._network.backbone.n_classes)
        self._seen = [*(self._seen if layout.history else []), walk.read_for(layout)]
        return torch.softmax(self._network.exit_heads(walk.depth, torch.cat(self._seen, dim=1)), dim=1)
