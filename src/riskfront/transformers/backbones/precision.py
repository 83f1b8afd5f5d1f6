"""int8: layers whose matrix products run in 8-bit integers, as one more choice that can be certified.

Every token has a scale of its own, its largest coordinate: what becomes of a text then does not depend on the texts beside it
in a batch, as it would with the usual scale for a whole batch, and a trace says what the runtime will do. Weights have a scale
for each row. Tokens get 7 bits, because products of two 8-bit numbers would overflow in the instructions of older processors.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from riskfront.errors import InvalidInputError
from riskfront.transformers.backbones.layer import Layer, attend
from riskfront.transformers.backbones.packed import Packed

PRECISIONS = ("float32", "int8")
ENGINE = "fbgemm"
STEPS = 63  # of a token's scale, on either side of zero


def check_precision(name: Any) -> str:
    if name not in PRECISIONS:
        raise InvalidInputError(f"precision must be one of {list(PRECISIONS)}; got {name!r}.")
    return str(name)


class Int8Linear:
    """y = x W^T + b with W in 8-bit integers and x rounded token by token.

    Args:
        weight: (outputs, inputs), `bias`: (outputs,) or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = ENGINE  # how weights are packed is a global of torch
        try:
            values = weight.detach().float()
            scales = (values.abs().amax(dim=1) / 127).clamp_min(1e-12).double()
            zeros = torch.zeros(len(scales), dtype=torch.int64)
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", UserWarning
                )  # torch means to move these functions; its version is bounded
                rounded = torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(rounded, None)
        finally:
            torch.backends.quantized.engine = before
        self._bias = None if bias is None else bias.detach().float()

    def __call__(self, tokens: Tensor) -> Tensor:
        largest = tokens.abs().amax(dim=1, keepdim=True).clamp_min_(1e-30)
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            tokens / largest, 1 / STEPS, STEPS + 1, self._packed
        )
        product *= largest
        return product if self._bias is None else product.add_(self._bias)


def in_precision(layers: list[Any], precision: str) -> list[Any]:
    """The same layers, their large matrices in this precision."""
    if check_precision(precision) == "float32":
        return layers
    if ENGINE not in torch.backends.quantized.supported_engines:
        raise InvalidInputError("precision int8 needs an x86 processor; this machine has none. Use float32.")
    made: dict[int, Any] = {}  # a layer that runs several times is made once
    return [made.setdefault(id(layer), _int8(layer)) for layer in layers]


@dataclass(frozen=True)
class Int8Layer:
    """A layer of BERT's kind with its four projections in 8 bits; attention itself, norms and activation as before."""

    layer: Layer
    query_key_value: Int8Linear | None
    attention_output: Int8Linear | None
    into: Int8Linear
    out: Int8Linear

    @classmethod
    def of(cls, layer: Layer) -> Int8Layer:
        joins = layer.query_key_value is not None  # without a head the projection is its bias alone
        return cls(
            layer,
            Int8Linear(*layer.query_key_value) if layer.query_key_value is not None else None,
            Int8Linear(*layer.attention_output) if joins else None,
            *(Int8Linear(linear.weight, linear.bias) for linear in (layer.feed_forward[0], layer.feed_forward[2])),
        )

    def __call__(self, batch: Packed) -> Packed:
        layer = self.layer
        if self.query_key_value is None or self.attention_output is None:
            attended = layer.attention_output[1]
        else:
            attended = self.attention_output(attend(layer, self.query_key_value(batch.states), batch))
        states = layer.attention_norm(attended + batch.states)
        return batch.with_states(layer.output_norm(self.out(layer.feed_forward[1](self.into(states))) + states))


def _int8(layer: Any) -> Int8Layer:
    if type(layer) is not Layer or layer.attention_output[0].device.type != "cpu":
        raise InvalidInputError(
            "precision int8 is for layers built like those of BERT, on a CPU; this model has others. Use float32."
        )
    return Int8Layer.of(layer)
