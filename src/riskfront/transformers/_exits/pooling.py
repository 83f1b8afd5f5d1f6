"""What exits read: the state of [CLS], or beside it the means of the texts' tokens, of those that are left.

In early layers [CLS] has seen almost nothing of a text, and before the first it is the same for all; the mean of the tokens'
states has. Of two texts it is their relation that counts: hence also the distance and the product of their means.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from riskfront.errors import InvalidInputError

KINDS = ("pooled", "cls")
SPECIAL, FIRST, SECOND = 0, 1, 2  # which text a token is of; special ones are of none


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise InvalidInputError(f"exits must read one of {list(KINDS)}; got {kind!r}.")
    return kind


def must_be_of_kind(model_reads_pairs: bool, given_pairs: bool) -> None:
    """Raise a clear error where pairs come to a model of single texts, or the other way round: it would answer all the same."""
    if model_reads_pairs != given_pairs:
        names = {True: "pairs of texts", False: "single texts"}
        raise InvalidInputError(
            f"this model was trained on {names[model_reads_pairs]} and must be given these; got {names[given_pairs]}."
        )


def first_exit(kind: str) -> int:
    """How many layers run before the first exit: [CLS] says nothing before a layer has filled it."""
    return 1 if kind == "cls" else 0


def n_parts(kind: str, pairs: bool) -> int:
    """How many vectors of the layers' width an exit reads of each layer."""
    if kind == "cls":
        return 1
    return 5 if pairs else 2


def features(kind: str, pairs: bool, states: Tensor, lengths: Tensor, texts: Tensor) -> Tensor:
    """(examples, parts x width): what an exit reads of packed tokens.

    Args:
        kind: "cls" for [CLS] alone; "pooled" for [CLS] and the mean of the text, or of a pair [CLS], both means, their distance
            in each coordinate, and their product.
        pairs: whether the examples are pairs of texts.
        states: (tokens, width), `lengths`: (examples,), the first token of each is [CLS].
        texts: (tokens,), 1 or 2 for the tokens of the first or second text, 0 for special ones.
    """
    cls = states[:1] if len(lengths) == 1 else states[torch.cumsum(lengths, 0) - lengths]
    if kind == "cls":
        return cls
    if not pairs:
        return torch.cat([cls, _means(states, lengths, texts != SPECIAL, cls)], dim=1)
    first, second = (_means(states, lengths, texts == which, cls) for which in (FIRST, SECOND))
    return torch.cat([cls, first, second, (first - second).abs(), first * second], dim=1)


def _means(states: Tensor, lengths: Tensor, chosen: Tensor, otherwise: Tensor) -> Tensor:
    """The mean of the chosen tokens of each example; `otherwise` where none of them is left."""
    if len(lengths) == 1:  # one caller: two small operations
        weights = chosen.to(states.dtype)
        n = float(weights.sum())
        return (weights[None] @ states) / n if n else otherwise
    owner = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    counts = torch.zeros_like(lengths).index_add(0, owner, chosen.to(lengths.dtype))
    places = torch.nonzero(chosen).squeeze(1)
    means = functional.embedding_bag(places, states, torch.cumsum(counts, 0) - counts, mode="mean")
    return torch.where((counts == 0)[:, None], otherwise, means)
