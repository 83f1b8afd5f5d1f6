"""Temporary folders that are removed in the end, and those of processes that were killed when the next one is made."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform != "win32":  # there, folders of killed processes stay
    import fcntl

_PREFIX = "riskfront-"
LOCK = "owner.lock"


@contextmanager
def scratch_folder(parent: Path | None = None, prefix: str = _PREFIX) -> Iterator[Path]:
    """A temporary folder for as long as the context lasts; in `parent`, or where the system has its temporary files.

    It holds a lock, a file named LOCK. Whoever moves the folder to where it shall stay removes that file first.
    """
    parent = parent or Path(tempfile.gettempdir())
    _remove_abandoned(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    lock = None
    try:
        lock = _locked(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.close()


def _locked(folder: Path) -> IO[str] | None:
    """A lock that the system takes back when its process dies, however it dies.

    A process number would not do: numbers are used again, and those of another container mean nothing here.
    """
    if sys.platform == "win32":
        return None
    with contextlib.suppress(OSError):  # a file system without locks: then nobody else removes the folder
        file = (folder / "new.lock").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        (folder / "new.lock").rename(folder / LOCK)  # nobody ever sees it unlocked while its process lives
        return file
    return None


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Folders of this user whose lock nobody holds."""
    if sys.platform == "win32":
        return
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # gone meanwhile, locked, or not ours
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
