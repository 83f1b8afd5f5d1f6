"""JSON, Parquet files and folders that carry digests, so that damage is found before anything is used.

In a Parquet file the digest stands between the last row group and the footer, where no reader looks: pages are found by their
place from the beginning of the file, the footer by its place from the end.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from riskfront._support.files import write_text
from riskfront.errors import InvalidInputError, RiskfrontError, StoreError

DIGEST = "blake3"


class DamagedError(ValueError):
    """What was read is not what was written; the text says why."""


@contextmanager
def reading(kind: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong while a saved file is read becomes a sentence; ``kind`` is what it holds, such as "certificate"."""
    try:
        yield
    except RiskfrontError:
        raise
    except OSError as error:
        raise StoreError(f"cannot read the {kind} '{path}': {error.strerror}.") from error
    except DamagedError as error:
        raise InvalidInputError(
            f"the {kind} '{path}' must be as it was saved; {error}. It was changed, cut off or damaged: restore it from a "
            "copy, or make it again."
        ) from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
        raise InvalidInputError(f"the {kind} '{path}' is incomplete or malformed: {error}.") from None


def parse_json(text: str | bytes) -> Any:
    """JSON of any origin; one kind of error for all that can be wrong with it."""
    try:
        return json.loads(text)
    except RecursionError:
        raise DamagedError("its values are nested too deeply") from None
    except UnicodeDecodeError:
        raise DamagedError("it is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise DamagedError(f"it is no JSON: {error.msg} in line {error.lineno}") from None
    except ValueError:  # of a whole number
        raise DamagedError("a number has thousands of digits") from None


def check_schema(data: Any, schema: str, version: int, one: str, many: str) -> None:
    """An error if a file holds something else, or a version that is not read; ``one`` and ``many``: "a monitor", "monitors"."""
    if not isinstance(data, Mapping) or data.get("schema") != schema:
        raise InvalidInputError(f"{one} must be a JSON object with schema '{schema}'; this is not one.")
    if (found := data.get("schema_version")) != version:
        raise InvalidInputError(f"this version reads {many} of schema version {version}; got {found!r}.")


def digest_of(content: Any) -> str:
    """The BLAKE3 digest of JSON values, whatever their layout and the order of their keys."""
    return digest_of_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def digest_of_bytes(content: bytes) -> str:
    """The BLAKE3 digest of bytes."""
    from blake3 import blake3  # when it is needed, to keep ``import riskfront`` short

    return str(blake3(content).hexdigest())


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with its digest, which comes last."""
    written = json.loads(json.dumps(dict(content)))
    return {**written, DIGEST: digest_of(written)}


def without_digest(data: Any, *, required: bool = True) -> dict[str, Any]:
    """The content, compared with its digest. A file that somebody wrote by hand may have none."""
    if not isinstance(data, dict):
        raise DamagedError("it must be an object in braces")
    content = {name: value for name, value in data.items() if name != DIGEST}
    if DIGEST in data or required:
        try:
            found = digest_of(content)
        except RecursionError:
            raise DamagedError("its values are nested too deeply") from None
        if data.get(DIGEST) != found:
            raise DamagedError("its content is not what its digest says")
    return content


def to_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(with_digest(content), indent=1) + "\n").encode()


def from_bytes(text: str | bytes, *, required: bool = True) -> dict[str, Any]:
    """What ``to_bytes`` wrote."""
    return without_digest(parse_json(text), required=required)


FILE = "digests.json"


def write_digests(folder: str | os.PathLike[str], files: Iterable[str | os.PathLike[str]]) -> None:
    """Write down the BLAKE3 digests of these files, which are named relative to the folder."""
    root = Path(folder)
    digests = {Path(name).as_posix(): _file_digest(root / name) for name in sorted(str(Path(name)) for name in files)}
    write_text(root / FILE, to_bytes({"files": digests}).decode())


def check_digests(folder: str | os.PathLike[str]) -> None:
    """An error if a file is missing or is not what was written."""
    root = Path(folder)
    try:
        digests = from_bytes((root / FILE).read_bytes())["files"]
        for name, digest in digests.items():
            if _file_digest(root / name) != digest:
                raise DamagedError(f"'{name}' was changed")
    except (OSError, DamagedError, KeyError, TypeError, AttributeError) as error:
        reason = f"'{Path(error.filename).name}' cannot be read" if isinstance(error, OSError) else str(error)
        raise StoreError(
            f"the files in '{root}' must be as they were written; {reason}. Restore the folder from a copy, or make it again."
        ) from None


def _file_digest(path: Path) -> str:
    from blake3 import blake3

    if path.stat().st_size == 0:
        return digest_of_bytes(b"")
    return str(blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest())


_MAGIC = b"riskfront-BLAKE3"
_DIGEST_BYTES = 32
_END = 8  # length of the footer, and "PAR1"


def seal(path: str | os.PathLike[str]) -> None:
    """Add the digest to a Parquet file that was just written."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        start = _footer(file, size)
        file.seek(start)
        footer = file.read()
        file.seek(start)
        file.write(_MAGIC + bytes(_DIGEST_BYTES) + footer)
        file.flush()
        digest = _digest_around(file.fileno(), start + len(_MAGIC))
        file.seek(start + len(_MAGIC))
        file.write(digest)


def check_seal(path: str | os.PathLike[str], *, required: bool = False) -> None:
    """An error if a file is not what was sealed; files of other programs have no seal, unless it is ``required``."""
    try:
        about = os.stat(path)
    except OSError:
        return  # whoever reads it says so
    _check(os.fspath(path), required, about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=64)
def _check(path: str, required: bool, changed: int, size: int, file_number: int) -> None:
    """A file that did not change is read once."""
    with Path(path).open("rb") as file:
        place = _footer(file, size) - len(_MAGIC) - _DIGEST_BYTES
        file.seek(max(0, place))
        held = file.read(len(_MAGIC) + _DIGEST_BYTES) if place > 0 else b""
        if not held.startswith(_MAGIC):
            if required:
                raise _damaged(path, "its digest is missing")
            return
        if held[len(_MAGIC) :] != _digest_around(file.fileno(), place + len(_MAGIC)):
            raise _damaged(path, "its content is not what its digest says")


def _footer(file: IO[bytes], size: int) -> int:
    """Where the footer begins; 0 in what is no Parquet file."""
    file.seek(max(0, size - _END))
    end = file.read(_END)
    start = size - _END - int.from_bytes(end[:4], "little")
    return start if end[4:] == b"PAR1" and start > 0 else 0


def _digest_around(file: int, place: int) -> bytes:
    """Of all bytes except those of the digest itself."""
    from blake3 import blake3

    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
        hashed = blake3(max_threads=blake3.AUTO)
        with view[:place] as before, view[place + _DIGEST_BYTES :] as after:
            hashed.update(before)
            hashed.update(after)
        return bytes(hashed.digest())


def _damaged(path: str, reason: str) -> StoreError:
    return StoreError(
        f"'{path}' must be as it was written; it was changed or damaged ({reason}). Restore it from a copy."
    )
