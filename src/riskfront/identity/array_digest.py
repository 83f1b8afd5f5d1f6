"""A SHA-256 over described arrays, from one digest a row, so that arrays read row by row from a store have the same one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

from riskfront.arrays import Array

_BLOCK = 1 << 23  # bytes that one thread hashes at a time (the hash releases the interpreter lock)


@runtime_checkable
class Digested(Protocol):
    """An array that knows, or finds out row by row, the SHA-256 of each of its rows."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def row_digests(self) -> list[bytes]: ...


def fingerprint(description: Mapping[str, Any], arrays: Mapping[str, Array | Digested]) -> str:
    """The digest of the description, of each array's name, type and shape, and of the digests of its rows."""
    shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    digest = hashlib.sha256(json.dumps([description, shapes], sort_keys=True).encode())
    for array in arrays.values():
        for part in array.row_digests() if isinstance(array, Digested) else row_digests(array):
            digest.update(part)
    return digest.hexdigest()


def row_digests(array: Array) -> list[bytes]:
    """The SHA-256 of each row of a two-dimensional array; of the whole of any other."""
    if array.size == 0:
        return []
    rows = array if array.ndim == 2 else array.reshape(1, -1)
    step = max(1, _BLOCK // max(1, rows[0].nbytes))
    starts = range(0, len(rows), step)
    if len(starts) == 1:
        return _hashed(rows)
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        blocks = pool.map(lambda start: _hashed(rows[start : start + step]), starts)
        return [digest for block in blocks for digest in block]


def _hashed(rows: Array) -> list[bytes]:
    return [hashlib.sha256(row.data).digest() for row in rows]
