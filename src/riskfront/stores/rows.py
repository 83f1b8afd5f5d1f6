"""What a store is made of: rows that one process appends, and markers of the settings that are complete."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from riskfront.arrays import Array
from riskfront.errors import MissingExtraError
from riskfront.spaces.space import Config

ROWS = 1024  # settings in a part
_CHUNK_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class Loss:
    """What a marker says about one loss of one setting; ``rows`` of its array share a chunk."""

    dtype: str
    low: float
    high: float
    sha256: str
    rows: int

    @classmethod
    def of(cls, values: Array, rows: int) -> Loss:
        digest = hashlib.sha256(values.data).hexdigest()
        return cls(values.dtype.str, float(values.min()), float(values.max()), digest, rows)


@dataclass(frozen=True, slots=True)
class Marker:
    """A setting that is complete, and where its row is."""

    config: Config
    part: str
    row: int
    losses: Mapping[str, Loss]

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), allow_nan=False).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Marker:
        data = json.loads(text)
        losses = {name: Loss(**loss) for name, loss in data["losses"].items()}
        return cls(data["config"], data["part"], data["row"], losses)


@dataclass(slots=True)
class Part:
    """Rows that one process appends to."""

    name: str
    dtypes: Mapping[str, np.dtype[Any]]
    chunks: Mapping[str, int]
    process: int
    rows: int = 0

    def takes(self, losses: Mapping[str, Array]) -> bool:
        fits = losses.keys() == self.dtypes.keys() and all(
            np.can_cast(values.dtype, self.dtypes[name], "safe") for name, values in losses.items()
        )
        return fits and self.rows < ROWS and self.process == os.getpid()

    def next_row(self) -> int:
        self.rows += 1
        return self.rows - 1


def array_name(part: str, loss: str) -> str:
    """The array of a loss in a part; any name will do for a loss."""
    return f"{part}/{quote(loss, safe=' ')}"


def place(part: str, loss: str, row: int, rows: int, row_bytes: int) -> tuple[str, int]:
    """The chunk that holds a row, and where in it the row begins."""
    return f"{array_name(part, loss)}/{row // rows}.0", row % rows * row_bytes


def rows_in_chunk(row_bytes: int, in_place: bool) -> int:
    """A chunk is a row where it must be written whole, and some megabytes of rows where not: making files is slow."""
    return int(max(1, min(ROWS, _CHUNK_BYTES // row_bytes))) if in_place else 1


def stored(values: Array) -> Array:
    """Small integers take one byte; everything contiguous and little-endian."""
    if values.dtype.kind in "iu" and values.size and values.min() >= -128 and values.max() <= 127:
        values = values.astype(np.int8)
    return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))


def common_type(losses: Sequence[Loss]) -> np.dtype[Any]:
    """The type that holds all these rows without loss."""
    kinds = {loss.dtype for loss in losses}
    return np.dtype(next(iter(kinds))) if len(kinds) == 1 else np.result_type(*(np.dtype(kind) for kind in kinds))


def zarr_metadata(
    arrays: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]],
    groups: Sequence[str] = (),
    attributes: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """The files by which Zarr knows a group with these arrays: name -> (shape, chunks, type), uncompressed.

    They are made in memory and written by the store, each whole, so that processes that make one store cannot collide.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError("zarr", "store") from error
    files: dict[str, Any] = {}
    root = zarr.create_group(zarr.storage.MemoryStore(files), attributes=dict(attributes or {}))
    for name in groups:
        root.create_group(name)
    for name, (shape, chunks, dtype) in arrays.items():
        root.create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            compressors=None,
            chunk_key_encoding={"name": "v2", "separator": "."},
            dimension_names=("settings", "examples")[-len(shape) :],
        )
    return {name: text.to_bytes() for name, text in files.items()}
