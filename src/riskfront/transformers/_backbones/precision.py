"""Layers whose matrix products run in 8-bit integers or with 16-bit weights: one more choice that can be certified.

In int8 every text has a scale of its own, as torch's dynamic quantisation gives a batch: what becomes of a text does not depend
on the texts beside it, and a trace says what the runtime will do. One text at a time this is a single kernel. Weights have a
scale for each row. Tokens get 7 bits, because products of two 8-bit numbers would overflow in the instructions of older
processors. float16 halves what is read from memory, which is most of the time of one text, and rounds nothing but weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from riskfront.errors import InvalidInputError
from riskfront.transformers._backbones.layer import Layer, Packed, attend

PRECISIONS = ("float32", "int8", "float16")
ENGINE = "fbgemm"


def check_precision(name: Any) -> str:
    if name not in PRECISIONS:
        raise InvalidInputError(f"precision must be one of {list(PRECISIONS)}; got {name!r}.")
    return str(name)


@contextmanager
def _packing() -> Iterator[None]:
    """How weights are packed is a global of torch, which warns that it will move these functions: its version is bounded."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        torch.backends.quantized.engine = before


class Int8Linear:
    """y = x W^T + b with W, (outputs, inputs), in 8-bit integers and x rounded text by text."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        values = weight.detach().float()
        scales = (values.abs().amax(dim=1) / 127).clamp_min(1e-12).double()
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with _packing():
            rounded = torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach().float())

    def __call__(self, tokens: Tensor, batch: Packed) -> Tensor:
        """Of the tokens of this batch, one text after the other."""
        product = torch.ops.quantized.linear_dynamic
        if len(batch.lengths) == 1:
            return product(tokens, self._packed, True)
        return torch.cat([product(text, self._packed, True) for text in tokens.split(batch.lengths.tolist())])


class Float16Linear:
    """y = x W^T + b with W in half precision; the sums are in single."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        found = None if bias is None else bias.detach().float()
        with _packing():
            self._packed = torch.ops.quantized.linear_prepack_fp16(weight.detach().float(), found)

    def __call__(self, tokens: Tensor, batch: Packed) -> Tensor:
        """As Int8Linear; here no token sees another."""
        return torch.ops.quantized.linear_dynamic_fp16(tokens, self._packed)


Product = Int8Linear | Float16Linear
_PRODUCTS: dict[str, Callable[[Tensor, Tensor | None], Product]] = {"int8": Int8Linear, "float16": Float16Linear}


def in_precision(layers: list[Any], precision: str) -> list[Any]:
    """The same layers, their large matrices in this precision."""
    if check_precision(precision) == "float32":
        return layers
    if ENGINE not in torch.backends.quantized.supported_engines:
        raise InvalidInputError(f"precision {precision} needs an x86 processor; this machine has none. Use float32.")
    if not all(_is_plain(layer) for layer in layers):
        raise InvalidInputError(
            f"precision {precision} is for layers built like those of BERT, on a CPU; this model has others. Use float32."
        )
    made: dict[int, Any] = {}  # a layer that runs several times is made once
    for layer in layers:
        if id(layer) not in made:
            made[id(layer)] = PackedLayer.of(layer, _PRODUCTS[precision])
    return [made[id(layer)] for layer in layers]


def precisions_for(layers: list[Any]) -> tuple[str, ...]:
    """The precisions in which these layers can run on this machine."""
    can = ENGINE in torch.backends.quantized.supported_engines and all(_is_plain(layer) for layer in layers)
    return PRECISIONS if can else PRECISIONS[:1]


def _is_plain(layer: Any) -> bool:
    weight = layer.attention_output[0] if type(layer) is Layer else None
    return weight is not None and weight.device.type == "cpu" and weight.dtype == torch.float32


@dataclass(frozen=True)
class PackedLayer:
    """A layer of BERT's kind with its four projections in fewer bits; attention itself, norms and activation as before."""

    layer: Layer
    query_key_value: Product | None
    attention_output: Product | None
    into: Product
    out: Product

    @classmethod
    def of(cls, layer: Layer, make: Callable[[Tensor, Tensor | None], Product]) -> PackedLayer:
        joins = layer.query_key_value is not None  # without a head the projection is its bias alone
        return cls(
            layer,
            make(*layer.query_key_value) if layer.query_key_value is not None else None,
            make(*layer.attention_output) if joins else None,
            *(make(linear.weight, linear.bias) for linear in (layer.feed_forward[0], layer.feed_forward[2])),
        )

    def __call__(self, batch: Packed) -> Packed:
        layer = self.layer
        if self.query_key_value is None or self.attention_output is None:
            attended = layer.attention_output[1]
        else:
            attended = self.attention_output(attend(layer, self.query_key_value(batch.states, batch), batch), batch)
        states = layer.attention_norm(attended + batch.states)
        inner = layer.feed_forward[1](self.into(states, batch))
        return batch.with_states(layer.output_norm(self.out(inner, batch) + states))
