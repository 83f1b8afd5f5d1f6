"""Members of ZIP files, whose size is checked before anything is unpacked: a few megabytes may stand for many gigabytes."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from riskfront.errors import InvalidInputError

_ZSTD = 93  # Python's zipfile reads it from 3.14 on; Arrow reads it everywhere
_MOST = 512 * 2**20  # bytes of one member: what JSON takes in memory is some ten times that
_MOST_IN_ALL = 8 * 2**30  # bytes of all samples of a log, which are read one after the other


def must_fit(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """An error if the members of a log say that they are too large together."""
    total = sum(member.file_size for member in members)
    if total > _MOST_IN_ALL:
        raise InvalidInputError(_too_large(path, "its samples", total, _MOST_IN_ALL))


def unpacked(path: Path, member: zipfile.ZipInfo) -> bytes:
    """What a member holds, which is never more than it says."""
    if member.file_size > _MOST:
        raise InvalidInputError(_too_large(path, f"'{member.filename}'", member.file_size, _MOST))
    try:
        content = _from_zstd(path, member) if member.compress_type == _ZSTD else _from_zip(path, member)
    except (OSError, pa.ArrowException, zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError):
        raise InvalidInputError(f"'{path}': '{member.filename}' is damaged.") from None
    if len(content) != member.file_size:
        raise InvalidInputError(
            f"'{path}': '{member.filename}' must have {member.file_size:,} bytes, as it says; it has {len(content):,} or more."
        )
    return content


def _from_zip(path: Path, member: zipfile.ZipInfo) -> bytes:
    with zipfile.ZipFile(path) as archive, archive.open(member) as opened:
        return opened.read(member.file_size + 1)


def _from_zstd(path: Path, member: zipfile.ZipInfo) -> bytes:
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # the local header tells the lengths of the name and of the extra field
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(member.header_offset + 30 + name + extra)
        packed = file.read(member.compress_size)
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        found: bytes = stream.read(member.file_size + 1)
    return found


def _too_large(path: Path, what: str, size: int, most: int) -> str:
    return (
        f"'{path}': {what} must unpack to at most {most / 2**20:,.0f} MB; it says {size / 2**20:,.0f} MB. If the log is yours, "
        "convert it with 'inspect log convert --to json'."
    )
