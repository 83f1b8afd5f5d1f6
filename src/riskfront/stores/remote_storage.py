"""Named objects behind an fsspec URL, in object storage say, where an object can only be written whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskfront.errors import MissingExtraError, StoreError
from riskfront.stores.storage import cannot_write, check_size


class RemoteStorage:
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
        check_size(f"{self._url}/{name}", offset + len(data), offset + buffer.nbytes)
        buffer[:] = data

    def write(self, name: str, data: bytes | memoryview) -> None:
        try:
            self._files.pipe_file(f"{self._root}/{name}", bytes(data))
        except OSError as error:
            raise StoreError(cannot_write(self._url, str(error))) from error

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._files.pipe_file(f"{self._root}/{name}", data, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreError(cannot_write(self._url, str(error))) from error
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
