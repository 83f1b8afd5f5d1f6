"""What data are: digests of sets, arrays, data frames and tensors, from their content and their types."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd


class Describes(Protocol):
    """Whoever knows what the parts of data are, which may be any objects."""

    def of(self, value: Any) -> str:
        """What an object is."""

    def alone(self, value: Any) -> str:
        """The same, as if nothing else had been seen."""

    def attributes(self, held: Mapping[Any, Any]) -> str:
        """What the attributes of an object are."""


def described_data(parts: Describes, value: Any) -> str | None:
    if isinstance(value, set | frozenset):
        return joined("set", [parts.of(type(value)), *sorted(parts.alone(part) for part in value)])
    if isinstance(value, np.ndarray):
        return _described_array(parts, value)
    if isinstance(value, pd.DataFrame):
        columns = (value.iloc[:, at] for at in range(value.shape[1]))
        return joined(
            "frame", [parts.of(value.columns), parts.of(value.index), *(_values(parts, column) for column in columns)]
        )
    if isinstance(value, pd.Series):
        return joined("series", [parts.of(value.name), parts.of(value.index), _values(parts, value)])
    if isinstance(value, pd.Index):
        return joined("index", [parts.of(list(value.names)), _values(parts, value)])
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return _described_tensor(parts, value) if tensor is not None and isinstance(value, tensor) else None


def _described_array(parts: Describes, array: np.ndarray[Any, Any]) -> str:
    header = [array.dtype.str if array.dtype.names is None else str(array.dtype.descr), str(array.shape)]
    if isinstance(array, np.ma.MaskedArray):
        header += [parts.of(np.ma.getmaskarray(array)), parts.of(array.filled())]
        return joined("masked", header)
    if array.dtype.hasobject:
        return joined("objects", [*header, *(parts.of(part) for part in array.ravel().tolist())])
    return joined("array", header, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _values(parts: Describes, column: pd.Series | pd.Index[Any]) -> str:
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        codes = column.cat.codes if isinstance(column, pd.Series) else column.codes  # type: ignore[attr-defined]
        held = [parts.of(kind.categories), parts.of(np.asarray(codes)), str(kind.ordered)]
        return joined("categories", held)
    values = column.to_numpy() if isinstance(kind, np.dtype) else column.to_numpy(dtype=object)
    return joined("column", [str(kind), parts.of(values)])


def _described_tensor(parts: Describes, tensor: Any) -> str:
    held = [str(tensor.dtype), str(tuple(tensor.shape)), parts.attributes(getattr(tensor, "__dict__", {}))]
    if tensor.is_meta:  # it has a shape and no content
        return joined("tensor", held)
    values = tensor.detach()
    values = (values if "strided" in str(values.layout) else values.to_dense()).cpu().contiguous().reshape(-1)
    return joined("tensor", held, values.view(sys.modules["torch"].uint8).numpy().data)


def joined(kind: str, parts: Iterable[str], data: Any = b"") -> str:
    """One digest for a kind, a list of texts, and bytes."""
    digest = hashlib.sha256(kind.encode())
    for part in parts:
        text = part.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(text))
        digest.update(text)
    digest.update(b";")
    digest.update(data)
    return digest.hexdigest()
