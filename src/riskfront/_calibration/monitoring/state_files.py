"""Files that hold the state of a monitor: replaced whole, on the disk when the call returns, for one process at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from riskfront._support.files import check_writable, sync_file, sync_folder
from riskfront.errors import StoreError

if sys.platform != "win32":  # there, two processes with one state are not kept apart
    import fcntl


def write_durably(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file; after a crash at any moment it holds the old content or the new one.

    The temporary file always has the same name, so that none is left behind by a process that was killed again and again.
    """
    target = Path(os.path.realpath(path))
    check_writable(target)
    temporary = target.with_name(f".{target.name}.new")
    try:
        temporary.write_bytes(content)
        sync_file(temporary)
        os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write '{target}': {error.strerror or error}.") from error


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of a state file, which the system takes back when its process dies; an error if another one holds it."""
    if sys.platform == "win32":
        yield
        return
    try:
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as error:
        raise StoreError(f"cannot lock the state '{path}': {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"one process at a time may use a state; another one is using '{path}'. Give each its own state."
            ) from None
        yield
