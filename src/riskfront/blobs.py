"""Objects in a local folder or behind an fsspec URL. What local files can do and object storage cannot is asked for here."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from riskfront.errors import InvalidInputError, MissingExtraError, StoreError


class Blobs(Protocol):
    """Named objects. Names are relative, with slashes."""

    @property
    def url(self) -> str:
        """Where they are."""

    def read(self, name: str) -> bytes | None:
        """The object, or None if there is none."""

    @property
    def readers(self) -> int:
        """How many threads should read at a time."""

    @property
    def in_place(self) -> bool:
        """Whether a piece of an object can be written; if not, an object is written whole."""

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with the bytes of an object from the offset on."""

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write the object whole; whoever reads at the same time sees the old or the new one."""

    def create(self, name: str, data: bytes) -> bool:
        """Write the object whole if there is none yet; of several who try at the same time, one succeeds."""

    def write_at(self, name: str, offset: int, size: int, data: memoryview) -> None:
        """Write a piece of an object of ``size`` bytes; what was never written of it is zero."""

    def add_line(self, folder: str, writer: str, key: str, line: bytes) -> None:
        """Add a line, whole or not at all, to the files ``*.jsonl`` of a folder; no two processes may share a writer."""

    def names(self, folder: str) -> list[str]:
        """The names of the objects right in a folder, without it."""


def open_blobs(url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Blobs:
    """A local folder for a path or a file:// URL, anything fsspec knows for other URLs."""
    if not isinstance(url, str | os.PathLike) or not os.fspath(url).strip():
        raise InvalidInputError(f"a store must be given by a path or a URL; got {url!r}.")
    text = os.fspath(url)
    if "://" not in text or text.startswith("file://"):
        return LocalBlobs(Path(text.removeprefix("file://")).expanduser())
    return RemoteBlobs(text, options)


class LocalBlobs:
    def __init__(self, root: Path) -> None:
        self.root = root
        if root.exists() and not root.is_dir():
            raise StoreError(f"a store must be a folder; '{root}' is a file. Give another name.")

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, whose working folder may differ, the same folder."""
        return LocalBlobs, (self.root.absolute(),)

    @property
    def url(self) -> str:
        return str(self.root)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read '{self.root / name}': {error.strerror}.") from error

    @property
    def readers(self) -> int:
        return min(4, os.cpu_count() or 1)

    @property
    def in_place(self) -> bool:
        return True

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        filled = 0
        try:
            with open(self.root / name, "rb", buffering=0) as file:
                file.seek(offset)
                while filled < buffer.nbytes and (read := file.readinto(buffer[filled:])):
                    filled += read
        except OSError as error:
            raise StoreError(f"cannot read '{self.root / name}': {error.strerror}.") from error
        _check_size(f"{self.root / name}", offset + filled, offset + buffer.nbytes)

    def write(self, name: str, data: bytes | memoryview) -> None:
        self._place(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._place(name, data, _put_new)
        except FileExistsError:
            return False
        return True

    def _place(self, name: str, data: bytes | memoryview, put: Callable[[str, Path], None]) -> None:
        """Write a file under another name and put it in its place."""
        target = self.root / name
        temporary = f"{target}.{uuid.uuid4().hex}.partial"
        try:
            os.makedirs(target.parent, exist_ok=True)
            with open(temporary, "wb", buffering=0) as file:
                rest = memoryview(data).cast("B")
                while rest.nbytes:
                    rest = rest[file.write(rest) :]
            put(temporary, target)
        except FileExistsError:
            raise
        except OSError as error:
            raise StoreError(_cannot_write(self.url, error.strerror or str(error))) from error
        finally:
            Path(temporary).unlink(missing_ok=True)

    def write_at(self, name: str, offset: int, size: int, data: memoryview) -> None:
        target = self.root / name
        try:
            if not target.exists():
                with open(target, "wb") as file:
                    file.truncate(size)  # takes no room on the disk until it is written
            with open(target, "r+b", buffering=0) as piece:
                piece.seek(offset)
                rest = data.cast("B")
                while rest.nbytes:
                    rest = rest[piece.write(rest) :]
        except OSError as error:
            raise StoreError(_cannot_write(self.url, error.strerror or str(error))) from error

    def add_line(self, folder: str, writer: str, key: str, line: bytes) -> None:
        try:
            with open(self.root / folder / f"{writer}.jsonl", "ab", buffering=0) as file:
                if file.write(line + b"\n") != len(line) + 1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise StoreError(_cannot_write(self.url, error.strerror or str(error))) from error

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / folder))
        except FileNotFoundError:
            return []


class RemoteBlobs:
    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise MissingExtraError("fsspec", "store") from error
        self._url = url.rstrip("/")
        try:
            self._files, root = fsspec.url_to_fs(self._url, **(options or {}))
        except (ValueError, ImportError) as error:
            raise StoreError(f"cannot open the store '{url}': {error}.") from error
        self._root = root.rstrip("/")

    @property
    def url(self) -> str:
        return self._url

    def read(self, name: str) -> bytes | None:
        try:
            found: bytes = self._files.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read '{self._url}/{name}': {error}.") from error
        return found

    @property
    def readers(self) -> int:
        return 16

    @property
    def in_place(self) -> bool:
        return False

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        try:
            data = self._files.cat_file(f"{self._root}/{name}", start=offset, end=offset + buffer.nbytes)
        except OSError as error:
            raise StoreError(f"cannot read '{self._url}/{name}': {error}.") from error
        _check_size(f"{self._url}/{name}", offset + len(data), offset + buffer.nbytes)
        buffer[:] = data

    def write(self, name: str, data: bytes | memoryview) -> None:
        try:
            self._files.pipe_file(f"{self._root}/{name}", bytes(data))
        except OSError as error:
            raise StoreError(_cannot_write(self._url, str(error))) from error

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._files.pipe_file(f"{self._root}/{name}", data, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreError(_cannot_write(self._url, str(error))) from error
        return True

    def write_at(self, name: str, offset: int, size: int, data: memoryview) -> None:
        if offset or size != data.nbytes:
            raise StoreError(f"objects at '{self._url}' can only be written whole.")
        self.write(name, data)

    def add_line(self, folder: str, writer: str, key: str, line: bytes) -> None:
        self.write(f"{folder}/{key}.jsonl", line + b"\n")

    def names(self, folder: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(name).rstrip("/").rsplit("/", 1)[-1] for name in found)


def _put_new(temporary: str, target: Path) -> None:
    """A file in its place, unless there is one."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with open(target, "xb") as file:
            file.write(Path(temporary).read_bytes())


def _check_size(name: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise StoreError(
            f"'{name}' must have at least {wanted} bytes; got {got}. The file was damaged: restore it from a copy."
        )


def _cannot_write(url: str, reason: str) -> str:
    return (
        f"cannot write to the store '{url}': {reason}. What was evaluated before is in the store; "
        "make room or give access, and run the same again to go on."
    )
