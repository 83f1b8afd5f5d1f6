"""Writing files so that nothing half-written is ever seen: to a temporary name first, onto the disk, then moved into place."""

from __future__ import annotations

import errno
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
def written_whole(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """A temporary path next to ``path`` to write to; it takes the place of ``path`` when the block ends without an error.

    Args:
        durable: wait until it is on the disk, so that it survives a loss of power.
    """
    target = Path(os.path.realpath(path))  # a link stays a link; the file that it names is written
    check_writable(target)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise StoreError(f"cannot write in '{target.parent}': {error.strerror}.") from error
    temporary = Path(name)
    try:
        yield temporary
        make_usual(temporary)
        if durable:
            sync_file(temporary)
        os.replace(temporary, target)
        if durable:
            sync_folder(target.parent)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"cannot write '{target}': {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Wait until the content of a file is on the disk, so that it survives a loss of power."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """The same for the names in a folder, where the system has a way to do it."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF):
            raise
    finally:
        os.close(handle)


def make_usual(path: Path) -> None:
    """The permissions of any new file: temporary files, and those that safetensors writes, are private to their owner."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole text file, which survives a loss of power, or nothing."""
    with written_whole(path, durable=True) as temporary:
        temporary.write_text(text, encoding="utf-8")
