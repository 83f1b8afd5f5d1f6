"""Files that are written whole or not at all, temporary folders that are removed in the end, and the user's cache folder."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
    """A temporary path next to ``path`` to write to; it takes the place of ``path`` when the block ends without an error, and
    if it shall be ``durable`` it is on the disk then, so that it survives a loss of power."""
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
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder that one may enter, and not list
        return
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


def remembered(name: str, make: Callable[[], str]) -> str:
    """The text of that name, made once and kept. A file that was cut off or changed is made again."""
    file = cache_folder() / name
    with contextlib.suppress(OSError, ValueError):
        digest, _, text = file.read_text(encoding="utf-8").partition("\n")
        if digest == _text_digest(text):
            return text
    text = make()
    with contextlib.suppress(OSError, StoreError):  # a read-only home costs time, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, f"{_text_digest(text)}\n{text}")
    return text


def cache_folder() -> Path:
    """Where this system keeps such files of a user."""
    if sys.platform == "win32":
        given, default = os.environ.get("LOCALAPPDATA"), Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        given, default = None, Path.home() / "Library" / "Caches"
    else:
        given, default = os.environ.get("XDG_CACHE_HOME"), Path.home() / ".cache"
    return (Path(given) if given else default) / "riskfront"


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
