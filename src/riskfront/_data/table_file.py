"""The parts of a table in one Parquet file: a row a setting, a fixed-size list a loss, the rest in the file's metadata."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from riskfront._data.columns import Bounds
from riskfront._data.groups import Groups
from riskfront._data.intake import Intake
from riskfront._support.arrays import Array
from riskfront._support.checked_json import DamagedError, check_seal, parse_json, reading, seal
from riskfront._support.files import written_whole
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError, StoreError

_KEY = b"riskfront.table"
_VERSION = 2
_ROWS = 512  # settings in a row group


@dataclass(frozen=True, slots=True, eq=False)
class TableParts:
    """Settings, losses (settings, examples), groups and declared bounds of a table."""

    configs: pd.DataFrame
    losses: Mapping[str, Array]
    groups: Mapping[str, Groups]
    bounds: Mapping[str, Bounds]
    clusters: str | None = None
    intake: Intake | None = None


def write_parts(parts: TableParts, path: str | os.PathLike[str]) -> None:
    """Write a table whole, or nothing. 0/1 losses take a bit each."""
    described = {
        "version": _VERSION,
        "configs": {name: [plain(value) for value in parts.configs[name]] for name in parts.configs},
        "bounds": dict(parts.bounds),
        "clusters": parts.clusters,
        "intake": None if parts.intake is None else parts.intake.to_dict(),
        "groups": {name: _packed(groups) for name, groups in parts.groups.items()},
    }
    n = next(iter(parts.losses.values())).shape[1]
    fields = [pa.field(name, pa.list_(pa.from_numpy_dtype(array.dtype), n)) for name, array in parts.losses.items()]
    schema = pa.schema(fields, metadata={_KEY: json.dumps(described)})
    with written_whole(path) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for start in range(0, len(parts.configs), _ROWS):
                block = [_as_lists(array[start : start + _ROWS], n) for array in parts.losses.values()]
                writer.write_table(pa.Table.from_arrays(block, schema=schema))
        seal(temporary)


def read_parts(path: str | os.PathLike[str]) -> TableParts:
    """Read what ``write_parts`` wrote."""
    file = open_parquet(path)
    if not is_saved_table(file):
        raise InvalidInputError(f"'{path}' must be a table saved by riskfront; it is another Parquet file.")
    check_seal(path, required=True)
    with reading("table", path):  # a digest is no signature: whoever sealed it may have written anything
        return _parts(file, parse_json(file.schema_arrow.metadata[_KEY]), path)


def _parts(file: Any, described: dict[str, Any], path: str | os.PathLike[str]) -> TableParts:
    if described["version"] != _VERSION:
        raise InvalidInputError(
            f"this version reads saved tables of version {_VERSION}; '{path}' has {described['version']}. Save the table anew."
        )
    configs = pd.DataFrame({name: pd.Series(values) for name, values in described["configs"].items()})
    losses: dict[str, Array] = {}
    try:
        for name in file.schema_arrow.names:
            flat = file.read(columns=[name]).column(0).combine_chunks().flatten()
            losses[name] = _with_gaps(flat).reshape(len(configs), -1)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"cannot read '{path}': the file is damaged or cut off ({error}).") from None
    n_examples = next(iter(losses.values())).shape[1]
    groups = {name: _unpacked(packed, n_examples) for name, packed in described["groups"].items()}
    bounds = {name: (float(low), float(high)) for name, (low, high) in described["bounds"].items()}
    intake = None if described["intake"] is None else Intake(**described["intake"])
    return TableParts(configs, losses, groups, bounds, described["clusters"], intake)


def open_parquet(path: str | os.PathLike[str]) -> pq.ParquetFile:
    """A Parquet file, or a clear error. One that riskfront wrote must be as it was written."""
    check_seal(path)
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise StoreError(f"cannot read '{path}': no such file.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise StoreError(
            f"cannot read '{path}' as Parquet: it is damaged, cut off or of another format ({error})."
        ) from None


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file is Parquet: by its name, or by its first bytes, since a table may be saved under any name."""
    if Path(path).suffix.lower() in (".parquet", ".pq"):
        return True
    try:
        with Path(path).open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def is_saved_table(file: pq.ParquetFile) -> bool:
    return _KEY in (file.schema_arrow.metadata or {})


def _as_lists(block: Array, n: int) -> pa.FixedSizeListArray:
    flat = np.ascontiguousarray(np.ma.getdata(block)).ravel()
    missing = np.ma.getmaskarray(block).ravel() if np.ma.is_masked(block) else None
    return pa.FixedSizeListArray.from_arrays(pa.array(flat, mask=missing), n)


def _with_gaps(flat: pa.Array) -> Array:
    """The numbers; a masked array if some are null."""
    if flat.null_count == 0:
        return np.asarray(flat.to_numpy(zero_copy_only=False))
    values = flat.fill_null(pa.scalar(0).cast(flat.type)).to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(values, flat.is_null().to_numpy(zero_copy_only=False))


def _packed(groups: Groups) -> dict[str, Any]:
    codes = base64.b64encode(zlib.compress(groups.codes.astype("<i4").tobytes())).decode("ascii")
    return {"levels": list(groups.levels), "codes": codes}


def _unpacked(packed: Mapping[str, Any], n_examples: int) -> Groups:
    size = 4 * n_examples
    try:
        # one byte more than there must be, and not whatever it unpacks to
        unpacked = zlib.decompressobj().decompress(base64.b64decode(packed["codes"]), size + 1)
    except zlib.error:
        unpacked = b""
    if len(unpacked) != size:
        raise DamagedError(f"a group must have {n_examples:,} values")
    codes = np.frombuffer(unpacked, dtype="<i4").astype(np.int64)
    if codes.min(initial=0) < 0 or codes.max(initial=-1) >= len(packed["levels"]):
        raise DamagedError("every value of a group must be one of its levels")
    return Groups(tuple(packed["levels"]), codes)
