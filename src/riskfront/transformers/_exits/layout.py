"""Where the small networks stand between the layers, and what each of them reads.

Depth d means: after d layers. Depth 0 is before the first, on the embeddings; after the last layer the model's own classifier
answers and no token is left to be dropped, so that exits and token predictors stand at depths below the number of layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.transformers._exits.pooling import check_kind, n_parts


@dataclass(frozen=True, slots=True)
class Layout:
    """The stations of a network.

    Args:
        exits: what exits read, "pooled" or "cls"; see `pooling.features`.
        pairs: whether the examples are pairs of texts.
        first_exit: see ``first_predictor``.
        first_predictor: the depth of the first exit and of the first token predictor, 0 or 1.
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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Layout:
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

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
