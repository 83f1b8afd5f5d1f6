"""Named objects in a local folder; the protocol says what object storage must be able to do, too."""

from __future__ import annotations

import errno
import os
import re
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from riskfront._support.files import sync_folder
from riskfront.errors import StoreError


class Storage(Protocol):
    """Named objects. Names are relative, with slashes."""

    url: str
    readers: int  # how many threads should read at a time
    in_place: bool  # whether a piece of an object can be written; if not, an object is written whole

    def read(self, name: str) -> bytes | None:
        """The object, or None if there is none."""

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with the bytes of an object from the offset on."""

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write the object whole; whoever reads at the same time sees the old or the new one."""

    @property
    def exclusive(self) -> bool:
        """Whether of several who ``create`` an object at the same time only one can succeed."""

    def create(self, name: str, data: bytes) -> bool:
        """Write the object whole, and for good, if there is none yet; whether it was written."""

    def write_at(self, name: str, offset: int, size: int, data: memoryview) -> None:
        """Write a piece of an object of ``size`` bytes; what was never written of it is zero."""

    def write_all(self, objects: Mapping[str, bytes | memoryview]) -> None:
        """Write several objects whole, side by side where that is faster."""

    def add_lines(self, folder: str, writer: str, lines: Sequence[bytes]) -> None:
        """Add lines, each whole or not at all, to the files ``*.jsonl`` of a folder. No two processes may share a writer; in
        object storage no two calls may."""

    def lines(self, folder: str, *, to_add: bool) -> Iterator[tuple[str, list[bytes]]]:
        """The files ``*.jsonl`` of a folder with the lines that were added.

        An error if the end of a file is lost, except for whoever goes on ``to_add`` what is missing.
        """

    def names(self, folder: str) -> list[str]:
        """The names of the objects right in a folder, without it."""


def lines_lost(name: str, reason: str) -> StoreError:
    return StoreError(
        f"'{name}' must hold a line for each setting that was added; {reason}. The file was damaged: restore it from a copy, "
        "or run evaluate or tune with this store again, which evaluates what is missing."
    )


def check_size(name: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise StoreError(
            f"'{name}' must have at least {wanted} bytes; got {got}. The file was damaged: restore it from a copy."
        )


def cannot_write(url: str, reason: str) -> str:
    return (
        f"cannot write to the store '{url}': {reason}. What was evaluated before is in the store; "
        "make room or give access, and run the same again to go on."
    )


_COUNT = b"%10d\n"  # of one length, so that it can be written over
_COUNTED = re.compile(rb" *(\d{1,10})\n")


class _Count:
    """How many lines a writer has added, in a file that stays open: to open it each time would take longer than the rest."""

    def __init__(self, writer: str, path: str) -> None:
        self.writer, self._lines = writer, 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
        weakref.finalize(self, os.close, self._file)

    def add(self, lines: int) -> None:
        self._lines += lines
        os.lseek(self._file, 0, os.SEEK_SET)
        if os.write(self._file, _COUNT % self._lines) != len(_COUNT % 0):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class LocalStorage:
    readers = min(4, os.cpu_count() or 1)
    in_place = exclusive = True

    def __init__(self, root: Path) -> None:
        self.root, self.url = root, str(root)
        self._count: _Count | None = None
        if root.exists() and not root.is_dir():
            raise StoreError(f"a store must be a folder; '{root}' is a file. Give another name.")

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, whose working folder may differ, the same folder."""
        return LocalStorage, (self.root.absolute(),)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read '{self.root / name}': {error.strerror}.") from error

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        filled = 0
        try:
            with open(self.root / name, "rb", buffering=0) as file:
                file.seek(offset)
                while filled < buffer.nbytes and (read := file.readinto(buffer[filled:])):
                    filled += read
        except OSError as error:
            raise StoreError(f"cannot read '{self.root / name}': {error.strerror}.") from error
        check_size(f"{self.root / name}", offset + filled, offset + buffer.nbytes)

    def write(self, name: str, data: bytes | memoryview) -> None:
        self._place(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._place(name, data, _put_new, durable=True)
        except FileExistsError:
            return False
        return True

    def _place(
        self, name: str, data: bytes | memoryview, put: Callable[[str, Path], None], *, durable: bool = False
    ) -> None:
        """Write a file under another name and put it in its place; a durable one is on the disk then."""
        target = self.root / name
        temporary = f"{target}.{uuid.uuid4().hex}.partial"
        try:
            os.makedirs(target.parent, exist_ok=True)
            with open(temporary, "wb", buffering=0) as file:
                rest = memoryview(data).cast("B")
                while rest.nbytes:
                    rest = rest[file.write(rest) :]
                if durable:
                    os.fsync(file.fileno())
            put(temporary, target)
            if durable:
                for folder in (target.parent, *target.parent.parents):  # any of them may be as new as the file
                    sync_folder(folder)
                    if folder == self.root.parent:
                        break
        except FileExistsError:
            raise
        except OSError as error:
            raise StoreError(cannot_write(self.url, error.strerror or str(error))) from error
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
            raise StoreError(cannot_write(self.url, error.strerror or str(error))) from error

    def write_all(self, objects: Mapping[str, bytes | memoryview]) -> None:
        for name, data in objects.items():
            self.write(name, data)

    def add_lines(self, folder: str, writer: str, lines: Sequence[bytes]) -> None:
        place = self.root / folder / writer
        text = b"".join([line + b"\n" for line in lines])
        try:
            with open(f"{place}.jsonl", "ab", buffering=0) as file:
                if file.write(text) != len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # after the line: a process that is killed in between leaves a line too many, never one too few
            if self._count is None or self._count.writer != writer:
                self._count = _Count(writer, f"{place}.count")
            self._count.add(len(lines))
        except OSError as error:
            raise StoreError(cannot_write(self.url, error.strerror or str(error))) from error

    def lines(self, folder: str, *, to_add: bool) -> Iterator[tuple[str, list[bytes]]]:
        names = [name for name in self.names(folder) if name.endswith(".jsonl")]
        read = partial(self._lines, to_add=to_add)
        with ThreadPoolExecutor(max_workers=self.readers) as pool:
            yield from zip(names, pool.map(read, [f"{folder}/{name}" for name in names]), strict=True)

    def _lines(self, name: str, *, to_add: bool) -> list[bytes]:
        """The lines of a file, as many as were counted or one more. What has no end was never added."""
        text = self.read(name.removesuffix(".jsonl") + ".count")  # first: lines that come meanwhile are not counted
        counted = _COUNTED.fullmatch(text) if text else None
        lines = (self.read(name) or b"").split(b"\n")[:-1]
        if text and counted is None:
            raise lines_lost(f"{self.root / name}", "their count was damaged")
        if counted and len(lines) < int(counted[1]) and not to_add:
            raise lines_lost(f"{self.root / name}", f"got {len(lines)} of {int(counted[1])}")
        return lines

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / folder))
        except FileNotFoundError:
            return []


def _put_new(temporary: str, target: Path) -> None:
    """A file in its place, unless there is one."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; whoever reads a file that is not whole yet reads it again
        with open(target, "xb") as file:
            file.write(Path(temporary).read_bytes())
            file.flush()
            os.fsync(file.fileno())
