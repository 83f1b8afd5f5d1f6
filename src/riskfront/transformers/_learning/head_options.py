"""How exit heads and token predictors are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from riskfront.errors import InvalidInputError

_EPOCHS, _STEPS = 10, 400  # that exit heads get at least; of each the best epoch is kept, so more do no harm


@dataclass(frozen=True)
class HeadTraining:
    """How to train the small networks.

    Args:
        epochs: of the exit heads, on what they read in one pass through the encoder. None: ten, and more for few rows, until
            they have had 400 steps; with less, heads learn less than a linear classifier does.
        rows: exit heads learn from at most as many examples, because what they read is held in memory; None for all.
        pruned: let exit heads learn from pruned texts too, each example once as it is and once with tokens and heads dropped.
            None: for single texts. Not for pairs, where tokens bring little and exits lost a tenth by it (QQP), nor for exits
            that read [CLS], which are the paper's.
        token_rows: token predictors learn from at most as many examples, because scores need gradients; None for all.
        token_epochs: passes over those examples.
        batch_size: see ``learning_rate``.
        learning_rate: of both.
        standardise: let exit heads learn from standardised inputs; False to see what it brings.
        temperature: of each exit, set on validation examples, so that entropies mean the same at every depth; it brought
            nothing on AG News and QQP.
    """

    epochs: int | None = None
    rows: int | None = 10_000
    pruned: bool | None = None
    token_rows: int | None = 4000
    token_epochs: int = 1
    batch_size: int = 32
    learning_rate: float = 1e-3
    standardise: bool = True
    temperature: bool = False

    def __post_init__(self) -> None:
        for name in ("token_epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.epochs is not None and self.epochs < 1:
            raise InvalidInputError(f"epochs must be at least 1, or None for enough; got {self.epochs}.")
        for name in ("rows", "token_rows"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 1, or None for all; got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise InvalidInputError(f"learning_rate must be above 0; got {self.learning_rate}.")

    def learns_from_pruned(self, exits: str, pairs: bool) -> bool:
        """Whether exits that read this, of single texts or of pairs, learn from pruned texts too."""
        return exits != "cls" and not pairs if self.pruned is None else self.pruned

    @property
    def exit_batch(self) -> int:
        """What exit heads learn from at a time: their networks are small."""
        return 4 * self.batch_size

    def exit_epochs(self, rows: int) -> int:
        """Epochs of the exit heads on so many rows."""
        if self.epochs is not None:
            return self.epochs
        return max(_EPOCHS, math.ceil(_STEPS * self.exit_batch / max(rows, self.exit_batch)))
