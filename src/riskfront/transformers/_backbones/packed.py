"""Packed: the tokens of a batch one after the other in one matrix, without padding.

Projections and feed-forward networks then work on exactly the tokens that are left; only attention needs them by example.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """The tokens of some examples, one after the other; the first of each example is [CLS].

    Args:
        states: (tokens, width).
        lengths: (examples,), each at least 1.
        positions: (tokens,), where each token stood in its text, from 0; rising in each example. By default nothing was
            dropped, and they are 0, 1, 2, ...
        known: what was computed from lengths and positions alone, so that the next layer need not do it again.
    """

    states: Tensor
    lengths: Tensor
    positions: Tensor | None = None
    known: dict[str, Tensor | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def starts(self) -> Tensor:
        """(examples,): where the [CLS] of each example stands."""
        return self.once("starts", lambda: torch.cumsum(self.lengths, 0) - self.lengths)

    @property
    def owner(self) -> Tensor:
        """(tokens,): the example of each token."""
        return self.once(
            "owner",
            lambda: torch.repeat_interleave(
                torch.arange(len(self.lengths), device=self.lengths.device), self.lengths, output_size=len(self.states)
            ),
        )

    @property
    def places(self) -> Tensor:
        """(tokens,): where each token stood in its text."""
        if self.positions is not None:
            return self.positions
        return self.once("places", self._rank)

    @property
    def longest(self) -> int:
        return int(self.once("longest", lambda: self.lengths.max()))

    @property
    def is_even(self) -> bool:
        """Whether all examples are of one length, so that there is nothing to pad."""
        return len(self.lengths) * self.longest == len(self.states)

    @property
    def real(self) -> Tensor | None:
        """(examples, longest): True for tokens, False for padding; None where there is nothing to pad."""
        if self.is_even:
            return None
        return self.once("real", lambda: torch.arange(self.longest, device=self.lengths.device) < self.lengths[:, None])

    def pad(self, values: Tensor) -> Tensor:
        """(tokens, ...) as (examples, longest, ...), zeros where there is no token."""
        shape = (len(self.lengths), self.longest, *values.shape[1:])
        if self.is_even:
            return values.reshape(shape)
        padded = values.new_zeros(shape[0] * shape[1], *shape[2:])
        padded[self._seat()] = values
        return padded.view(shape)

    def unpad(self, padded: Tensor) -> Tensor:
        """(examples, longest, ...) as (tokens, ...)."""
        flat = padded.reshape(-1, *padded.shape[2:])
        return flat if self.is_even else flat[self._seat()]

    def with_states(self, states: Tensor) -> Packed:
        """The same tokens after a layer."""
        return Packed(states, self.lengths, self.positions, self.known)

    def only_tokens(self, keep: Tensor) -> Packed:
        """Without the other tokens: (tokens,) of truth values, True for every [CLS]. Those left keep their positions."""
        lengths = torch.zeros_like(self.lengths).index_add(0, self.owner, keep.to(self.lengths.dtype))
        return Packed(self.states[keep], lengths, self.places[keep])

    def only_examples(self, keep: Tensor) -> Packed:
        """Without the other examples: (examples,) of truth values."""
        tokens = keep[self.owner]
        positions = None if self.positions is None else self.positions[tokens]
        return Packed(self.states[tokens], self.lengths[keep], positions)

    def once(self, name: str, compute: Callable[[], Tensor]) -> Tensor:
        """What `compute` gives for these lengths and positions, computed by the first layer that asks."""
        found = self.known.get(name)
        if found is None:
            found = self.known[name] = compute()
        return found

    def _rank(self) -> Tensor:
        """(tokens,): how many tokens of the example stand before each."""
        return torch.arange(len(self.states), device=self.lengths.device) - self.starts[self.owner]

    def _seat(self) -> Tensor:
        """(tokens,): the row of each token in a padded batch."""
        return self.once("seat", lambda: self.owner * self.longest + self._rank())
