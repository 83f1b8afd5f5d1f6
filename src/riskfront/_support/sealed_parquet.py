"""Parquet files that carry a digest of all of their bytes, so that damage is found before anything is decoded.

The digest stands between the last row group and the footer, where no reader of Parquet looks: pages are found by their place
from the beginning of the file, the footer by its place from the end.
"""

from __future__ import annotations

import mmap
import os
from functools import lru_cache
from pathlib import Path
from typing import IO

from riskfront.errors import StoreError

_MAGIC = b"riskfront-BLAKE3"
_DIGEST = 32
_END = 8  # length of the footer, and "PAR1"


def seal(path: str | os.PathLike[str]) -> None:
    """Add the digest to a Parquet file that was just written."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = _footer(file, size)
        file.seek(start)
        footer = file.read()
        file.seek(start)
        file.write(_MAGIC + bytes(_DIGEST) + footer)
        file.flush()
        digest = _digest(file.fileno(), start + len(_MAGIC))
        file.seek(start + len(_MAGIC))
        file.write(digest)


def check_seal(path: str | os.PathLike[str], *, required: bool = False) -> None:
    """An error if a file is not what was sealed; files of other programs have no seal.

    Args:
        required: this file must have one.
    """
    try:
        about = os.stat(path)
    except OSError:
        return  # whoever reads it says so
    _check(os.fspath(path), required, about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=64)
def _check(path: str, required: bool, changed: int, size: int, file_number: int) -> None:
    """A file that did not change is read once."""
    with Path(path).open("rb") as file:
        place = _footer(file, size) - len(_MAGIC) - _DIGEST
        file.seek(max(0, place))
        held = file.read(len(_MAGIC) + _DIGEST) if place > 0 else b""
        if not held.startswith(_MAGIC):
            if required:
                raise _damaged(path, "its digest is missing")
            return
        if held[len(_MAGIC) :] != _digest(file.fileno(), place + len(_MAGIC)):
            raise _damaged(path, "its content is not what its digest says")


def _footer(file: IO[bytes], size: int) -> int:
    """Where the footer begins; 0 in what is no Parquet file."""
    file.seek(max(0, size - _END))
    end = file.read(_END)
    start = size - _END - int.from_bytes(end[:4], "little")
    return start if end[4:] == b"PAR1" and start > 0 else 0


def _digest(file: int, place: int) -> bytes:
    """Of all bytes except those of the digest itself."""
    from blake3 import blake3

    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
        hashed = blake3(max_threads=blake3.AUTO)
        with view[:place] as before, view[place + _DIGEST :] as after:
            hashed.update(before)
            hashed.update(after)
        return bytes(hashed.digest())


def _damaged(path: str, reason: str) -> StoreError:
    return StoreError(
        f"'{path}' must be as it was written; it was changed or damaged ({reason}). Restore it from a copy."
    )
