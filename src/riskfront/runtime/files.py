"""Writing files so that nothing half-written is ever seen: to a temporary name first, then moved into place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from riskfront.errors import StoreError


def check_writable(path: str | os.PathLike[str]) -> None:
    """An error if a file could not be written here."""
    target = Path(path)
    if target.is_dir():
        raise StoreError(f"an output must be a file; '{target}' is a directory. Give a file name in it.")
    if not target.parent.is_dir():
        raise StoreError(f"the directory of an output must exist; '{target.parent}' does not. Create it first.")
    if not os.access(target.parent, os.W_OK):
        raise StoreError(f"the directory of an output must be writable; '{target.parent}' is not.")


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path next to ``path`` to write to; it takes the place of ``path`` when the block ends without an error."""
    check_writable(path)
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise StoreError(f"cannot write in '{target.parent}': {error.strerror}.") from error
    temporary = Path(name)
    try:
        yield temporary
        make_usual(temporary)
        os.replace(temporary, target)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write '{target}': {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def make_usual(path: Path) -> None:
    """The permissions of any new file: temporary files, and those that safetensors writes, are private to their owner."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole text file, or nothing."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
