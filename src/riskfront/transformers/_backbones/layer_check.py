"""Whether the layers on packed tokens compute what the model itself computes, on inputs that would tell.

Layer by layer, each from the model's own states, so that errors cannot cancel or drown: the difference is measured against what
the layer changes. New models have weights so small that all tokens get the same attention, and any other attention would pass:
long examples are compared with queries large enough for heads to prefer some tokens to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from riskfront.transformers._backbones.family import Family, UnsupportedError
from riskfront.transformers._backbones.packed import Packed

LONGEST = 150  # beyond the windows and the exact distances of all families
TOLERANCE = 1e-3  # of what a layer changes
SPREAD = 3.0  # of attention scores when sharpened


def check(family: Family) -> None:
    """Raise `UnsupportedError` unless the model and its layers agree."""
    dtype = next(family.model.parameters()).dtype
    if dtype not in (torch.float32, torch.float64):
        raise UnsupportedError(f"its weights are {dtype}; load it in single precision")
    longest = min(LONGEST, family.max_length)
    with torch.inference_mode():
        compare(family, telling_inputs(family, sorted({min(longest, 16), min(longest, 7), 2})))
        with sharpened(family):
            compare(family, telling_inputs(family, sorted({longest, max(2, longest * 3 // 5)})))


def compare(family: Family, inputs: dict[str, Tensor]) -> None:
    found = family.model(**inputs, output_hidden_states=True)
    mask = inputs["attention_mask"].bool()
    lengths = mask.sum(dim=1)
    states = [padded[mask] for padded in found.hidden_states]
    if len(states) != len(family.modules) + 1:
        raise UnsupportedError(f"it has {len(states) - 1} layers where {len(family.modules)} were found")
    embedded = family.embed(inputs)[mask]
    _must_agree(embedded, states[0], states[0], "embeddings")
    every_head = np.ones(int(family.config.num_attention_heads), dtype=bool)
    last = len(family.modules) - 1
    for j in range(last + 1):
        batch = family.layer(j, every_head)(Packed(states[j], lengths))
        after, before = batch.states, states[j]
        if j == last:
            after, before = family.finish(after), family.finish(before)
        _must_agree(after, states[j + 1], states[j + 1] - before, f"layer {j + 1}")
    _must_agree(family.classify(family.summary(batch)), found.logits, found.logits, "classifier")


def _must_agree(found: Tensor, wanted: Tensor, change: Tensor, name: str) -> None:
    """The difference must be small beside what happens here, or at least beside rounding."""
    if found.shape != wanted.shape:
        raise UnsupportedError(f"its {name} gives {tuple(wanted.shape)} numbers, not {tuple(found.shape)}")
    allowed = TOLERANCE * change.norm() + 1e-6 * wanted.norm()
    if not (found - wanted).norm() <= allowed:
        raise UnsupportedError(f"its {name} computes something else")


def telling_inputs(family: Family, lengths: list[int]) -> dict[str, Tensor]:
    """Examples of these lengths, with padding and, where the model knows two texts, a second text."""
    longest = max(lengths)
    vocabulary, padding = int(family.config.vocab_size), getattr(family.config, "pad_token_id", None) or 0
    ids = torch.from_numpy(np.random.default_rng(0).integers(vocabulary, size=(len(lengths), longest)))
    ids[ids == padding] = (padding + 1) % vocabulary
    mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
    inputs = {"input_ids": torch.where(mask.bool(), ids, padding), "attention_mask": mask}
    if (getattr(family.config, "type_vocab_size", 0) or 0) > 1:
        inputs["token_type_ids"] = (torch.arange(longest) > 3).long() * mask
    return {name: value.to(next(family.model.parameters()).device) for name, value in inputs.items()}


@contextmanager
def sharpened(family: Family) -> Iterator[None]:
    """While it lasts, queries are so large that scores of attention differ by about SPREAD; then weights are as before."""
    weights = {w.data_ptr(): w for j in range(len(family.modules)) for w in family.queries(j)}  # each once
    before = [weight.clone() for weight in weights.values()]
    try:
        for weight in weights.values():
            size = (
                float(weight.norm()) / len(weight) ** 0.5
            )  # of queries, and about that of keys, to states of size one
            weight.mul_(max(1.0, SPREAD / max(size, 1e-3) ** 2))
        yield
    finally:
        for weight, values in zip(weights.values(), before, strict=True):
            weight.copy_(values)
