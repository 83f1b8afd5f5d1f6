"""A digest over described arrays.

SHA-256 from one digest a row, so that arrays read row by row from a store, where rows were hashed when they were written, have
the same one. BLAKE3 of blocks of rows, several times as fast, where all of a large array is hashed now: such a digest says so
in front, so that either kind can be compared later.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from riskfront._support.arrays import Array

T = TypeVar("T")

BLAKE3 = "blake3:"  # in front of a digest that was made of BLAKE3 digests
_BLOCK = 1 << 23  # bytes that one thread hashes at a time (the hash releases the interpreter lock)
_FAST_BLOCK = 1 << 18  # bytes of one BLAKE3 digest: never change it, or old digests cannot be compared
_BYTES_PER_TURN = 1 << 22  # bytes that a thread takes before it asks for more: asking costs as much as a small block


def fingerprint(description: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """The digest of the description, of each array's name, type and shape, and of the digests of its rows: its own
    ``row_digests``, where it has such a method."""
    rows = (row_digests(a) if isinstance(a, np.ndarray) else a.row_digests() for a in arrays.values())
    return _joined(description, arrays, rows)


def fast_fingerprint(description: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """The same with BLAKE3, of blocks of rows instead of single ones. Arrays that stay in a store are read for it."""
    return BLAKE3 + _joined(description, arrays, (_block_digests(array) for array in arrays.values()))


def _joined(description: Mapping[str, Any], arrays: Mapping[str, Any], digests: Iterable[Sequence[bytes]]) -> str:
    shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    digest = hashlib.sha256(json.dumps([description, shapes], sort_keys=True).encode())
    for parts in digests:
        digest.update(b"".join(parts))
    return digest.hexdigest()


def row_digests(array: Array) -> list[bytes]:
    """The SHA-256 of each row of a two-dimensional array; of the whole of any other."""
    if array.size == 0:
        return []
    rows = array if array.ndim == 2 else array.reshape(1, -1)
    blocks = _in_threads(lambda block: [hashlib.sha256(row.data).digest() for row in block], rows, _BLOCK)
    return [digest for block in blocks for digest in block]


def _block_digests(array: Any) -> list[bytes]:
    """The BLAKE3 digest of each block of rows; how many make a block rests on the length of a row alone."""
    from blake3 import blake3  # with the first large table, to keep ``import riskfront`` short

    if 0 in array.shape:
        return []
    rows = array if len(array.shape) == 2 else array.reshape(1, -1)

    def digest(block: Array) -> bytes:
        return bytes(blake3(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data).digest())

    return _in_threads(digest, rows, _FAST_BLOCK)


def _in_threads(function: Callable[[Array], T], rows: Any, size: int) -> list[T]:
    """What a function makes of each block of rows of about this many bytes, on all cores."""
    step = max(1, size // max(1, rows.shape[1] * rows.dtype.itemsize))
    starts = range(0, rows.shape[0], step)
    if len(starts) == 1:
        return [function(rows[0:step])]
    run = max(1, _BYTES_PER_TURN // size)
    runs = [starts[first : first + run] for first in range(0, len(starts), run)]
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        found = pool.map(lambda run: [function(rows[start : start + step]) for start in run], runs)
        return [one for several in found for one in several]
