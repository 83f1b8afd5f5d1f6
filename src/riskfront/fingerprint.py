"""A SHA-256 over described arrays, block by block on several threads (the hash releases the interpreter lock)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from riskfront.arrays import Array

_BLOCK = 1 << 23


def fingerprint(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """The digest of the description, of each array's name, type and shape, and of the digests of its blocks in C order."""
    shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    digest = hashlib.sha256(json.dumps([description, shapes], sort_keys=True).encode())
    blocks = [
        memoryview(array.data).cast("B")[start : start + _BLOCK]
        for array in arrays.values()
        if array.size
        for start in range(0, array.nbytes, _BLOCK)
    ]
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for part in pool.map(lambda block: hashlib.sha256(block).digest(), blocks):
            digest.update(part)
    return digest.hexdigest()
