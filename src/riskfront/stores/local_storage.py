"""Named objects as files in a local folder."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from riskfront.errors import StoreError
from riskfront.stores.storage import cannot_write, check_size


class LocalStorage:
    def __init__(self, root: Path) -> None:
        self.root = root
        if root.exists() and not root.is_dir():
            raise StoreError(f"a store must be a folder; '{root}' is a file. Give another name.")

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, whose working folder may differ, the same folder."""
        return LocalStorage, (self.root.absolute(),)

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
        check_size(f"{self.root / name}", offset + filled, offset + buffer.nbytes)

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

    def add_line(self, folder: str, writer: str, key: str, line: bytes) -> None:
        try:
            with open(self.root / folder / f"{writer}.jsonl", "ab", buffering=0) as file:
                if file.write(line + b"\n") != len(line) + 1:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise StoreError(cannot_write(self.url, error.strerror or str(error))) from error

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
    except OSError:  # a file system without links
        with open(target, "xb") as file:
            file.write(Path(temporary).read_bytes())
