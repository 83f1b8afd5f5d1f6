"""What a store is made of: rows that one process appends, and markers of the settings that are complete."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from riskfront._problems.spaces.space import Config
from riskfront._support.arrays import Array, BoolArray
from riskfront._support.checked_json import DamagedError, parse_json
from riskfront.errors import MissingExtraError

ROWS = 1024  # settings in a part of a local store
SHARDED_ROWS = 1 << 20  # and of one in object storage: an array has no size there until it is written
_TOGETHER = 64  # settings that are written together in object storage
_CHUNK_BYTES = 1 << 23


_PART = re.compile(r"parts/[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TYPES = re.compile(r"[|<][biuf][1248]")
_DIGEST = b', "blake3": "%s"'


@dataclass(frozen=True, slots=True)
class Gaps:
    """Outcomes of one loss of one setting that are missing: how many, the digest of their array, and its rows in a chunk."""

    count: int
    sha256: str
    rows: int

    @classmethod
    def of(cls, missing: BoolArray, rows: int) -> Gaps:
        return cls(int(missing.sum()), hashlib.sha256(missing.data).hexdigest(), rows)


@dataclass(frozen=True, slots=True)
class Loss:
    """What a marker says about one loss of one setting; ``rows`` of its array share a chunk.

    ``low`` and ``high`` are None if every outcome is missing.
    """

    dtype: str
    low: float | None
    high: float | None
    sha256: str
    rows: int
    missing: Gaps | None = None

    @classmethod
    def of(cls, values: Array, rows: int, missing: BoolArray | None = None, gaps: Gaps | None = None) -> Loss:
        digest = hashlib.sha256(values.data).hexdigest()
        low, high = range_of(values if missing is None else values[~missing]) or (None, None)
        return cls(values.dtype.str, low, high, digest, rows, gaps)

    def to_dict(self) -> dict[str, Any]:
        """The same as ``asdict``, in a fifth of its time: it is written for every loss of every setting."""
        found = {name: getattr(self, name) for name in ("dtype", "low", "high", "sha256", "rows")}
        return {**found, "missing": None if self.missing is None else asdict(self.missing)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Loss:
        gaps = data.get("missing")
        return cls(**{**data, "missing": None if gaps is None else Gaps(**gaps)})


@dataclass(frozen=True, slots=True)
class Marker:
    """A setting that is complete, and where its row is."""

    config: Config
    part: str
    row: int
    losses: Mapping[str, Loss]

    def to_json(self) -> bytes:
        """A line with a digest of what stands before it."""
        losses = {name: loss.to_dict() for name, loss in self.losses.items()}
        about = {"config": dict(self.config), "part": self.part, "row": self.row, "losses": losses}
        said = json.dumps(about, allow_nan=False).encode()[:-1]
        return said + _DIGEST % _digest(said) + b"}"

    @classmethod
    def from_json(cls, text: bytes) -> Marker:
        """What ``to_json`` made; a DamagedError for anything else."""
        said = text[: -len(_DIGEST % _digest(b"")) - 1]
        if text != said + _DIGEST % _digest(said) + b"}":
            raise DamagedError("its content is not what its digest says")
        data = parse_json(text)
        try:
            losses = {name: Loss.from_dict(loss) for name, loss in data["losses"].items()}
            marker = cls(data["config"], data["part"], data["row"], losses)
            whole = _PART.fullmatch(marker.part) and isinstance(marker.config, dict)
            whole = whole and _is_number(marker.row, 0, SHARDED_ROWS)
            if not whole or not losses or not all(_is_whole(name, loss) for name, loss in losses.items()):
                raise DamagedError("it names no row of this store")
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"a part is missing or of another kind ({error})") from None
        return marker


def _digest(text: bytes) -> bytes:
    from blake3 import blake3

    return str(blake3(text).hexdigest(32 // 2)).encode()


def _is_whole(name: str, loss: Loss) -> bool:
    """Whether a loss can be in a store: its row is inside of it, and its numbers are numbers."""
    inside = quote(name, safe=" ") not in ("", ".", "..")
    types = isinstance(loss.dtype, str) and _TYPES.fullmatch(loss.dtype)
    numbers = all(isinstance(value, int | float) for value in (loss.low, loss.high)) or loss.low is loss.high is None
    written: list[Loss | Gaps] = [loss] if loss.missing is None else [loss, loss.missing]
    rows = all(isinstance(of.sha256, str) and _SHA256.fullmatch(of.sha256) and _is_number(of.rows, 1) for of in written)
    return bool(inside and types and numbers and rows)


def _is_number(value: Any, low: int, high: int = ROWS) -> bool:
    return type(value) is int and low <= value <= high


@dataclass(slots=True)
class Part:
    """Rows that one process appends to, ``size`` at most; ``chunks`` says how many of each loss are in one object."""

    name: str
    dtypes: Mapping[str, np.dtype[Any]]
    chunks: Mapping[str, int]
    process: int
    size: int = ROWS
    rows: int = 0
    gapped: set[str] = field(default_factory=set)  # losses with an array of missing outcomes

    def takes(self, losses: Mapping[str, Array]) -> bool:
        fits = losses.keys() == self.dtypes.keys() and all(
            np.can_cast(values.dtype, self.dtypes[name], "safe") for name, values in losses.items()
        )
        return fits and self.rows < self.size and self.process == os.getpid()

    def next_row(self) -> int:
        self.rows += 1
        return self.rows - 1

    @property
    def together(self) -> int:
        """Settings that share their objects, the same for all losses in object storage."""
        return min(self.chunks.values())

    def to_next_object(self) -> None:
        """The next row begins an object of its own."""
        self.rows = -(-self.rows // self.together) * self.together


def array_name(part: str, loss: str) -> str:
    """The array of a loss in a part; any name will do for a loss."""
    return f"{part}/{quote(loss, safe=' ')}"


def place(part: str, loss: str, row: int, rows: int, row_bytes: int) -> tuple[str, int]:
    """The chunk that holds a row, and where in it the row begins."""
    return f"{array_name(part, loss)}/{row // rows}.0", row % rows * row_bytes


def rows_in_chunk(row_bytes: int) -> int:
    """Some megabytes of rows share a file: to make files is slow."""
    return int(max(1, min(ROWS, _CHUNK_BYTES // row_bytes)))


def rows_in_shard(row_bytes: int) -> int:
    """Rows that share an object in object storage, where an object is written whole, and kept in memory until then."""
    return int(max(1, min(_TOGETHER, _CHUNK_BYTES // row_bytes)))


def missing_of(values: Array) -> BoolArray | None:
    """(examples,): where a masked array is masked; None if it is nowhere, and for any other array."""
    return np.array(np.ma.getmaskarray(values)) if np.ma.is_masked(values) else None


def range_of(values: Array) -> tuple[float, float] | None:
    """The smallest and the largest outcome that is not missing; None if all are."""
    if np.ma.isMaskedArray(values):
        values = np.ma.compressed(values)
    return (float(values.min()), float(values.max())) if values.size else None


def gaps_folder(part: str) -> str:
    """Where the missing outcomes of a part are."""
    return part.replace("parts/", "missing/", 1)


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
    *,
    sharded: bool = False,
) -> dict[str, bytes]:
    """The files by which Zarr knows a group with these arrays: name -> (shape, chunks, type), uncompressed.

    Where they are ``sharded``, each row of a chunk may be there or not, as ``stores/row_batches.py`` writes them.
    They are made in memory and written by the store, each whole, so that processes that make one store cannot collide.
    """
    try:
        import zarr
        from zarr.codecs import BytesCodec, ShardingCodec
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
            # a shard: rows one after the other, and behind them an index that says where each begins
            serializer=ShardingCodec(chunk_shape=(1, shape[-1]), index_codecs=[BytesCodec()]) if sharded else "auto",
            chunk_key_encoding={"name": "v2", "separator": "."},
            dimension_names=("settings", "examples")[-len(shape) :],
        )
    return {name: text.to_bytes() for name, text in files.items()}
