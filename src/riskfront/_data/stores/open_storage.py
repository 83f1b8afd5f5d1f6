"""From a path or a URL to the storage behind it; object storage by fsspec, where an object can only be written whole."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any

from riskfront._data.stores.storage import LocalStorage, Storage, cannot_write, check_size, lines_lost
from riskfront._support.checked_json import DamagedError, parse_json
from riskfront.errors import InvalidInputError, MissingExtraError, StoreError

VARIABLE = "RISKFRONT_STORAGE_OPTIONS"
_OPTIONS: ContextVar[Mapping[str, Any] | None] = ContextVar("storage_options", default=None)
_EXAMPLE = '{"endpoint_url": "http://localhost:9000"}'


def open_storage(url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Storage:
    """A local folder for a path or a file:// URL, anything fsspec knows for other URLs, with ``default_options`` unless others
    are given."""
    if not isinstance(url, str | os.PathLike) or not os.fspath(url).strip():
        raise InvalidInputError(f"a store must be given by a path or a URL; got {url!r}.")
    text = os.fspath(url)
    if "://" not in text or text.startswith("file://"):
        return LocalStorage(Path(text.removeprefix("file://")).expanduser())
    return RemoteStorage(text, default_options() if options is None else options)


@contextmanager
def storage_options(options: Mapping[str, Any] | None) -> Iterator[None]:
    """Options for every URL that is opened inside, unless it is given its own."""
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(
            f"storage_options must be a dictionary, such as {_EXAMPLE}; got {type(options).__name__}."
        )
    token = _OPTIONS.set(options if options is not None else _OPTIONS.get())
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def default_options() -> dict[str, Any]:
    """What ``storage_options`` set around the call, or else what the environment variable holds, in JSON."""
    given = _OPTIONS.get()
    if given is not None:
        return dict(given)
    try:
        options = parse_json(os.environ.get(VARIABLE) or "{}")
    except DamagedError as error:
        raise InvalidInputError(f"{VARIABLE} must be JSON, such as {_EXAMPLE}; {error}.") from None
    if not isinstance(options, dict):
        raise InvalidInputError(f"{VARIABLE} must be a JSON object, such as {_EXAMPLE}; got {type(options).__name__}.")
    return options


#: file systems whose ``pipe_file(mode="create")`` is one conditional request; that of others asks first and writes then
_CONDITIONAL = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory"}
_BATCH_SIZE = 500  # objects that one call reads side by side
_PROBE = "uses/only-one"


class RemoteStorage:
    readers, in_place = 16, False

    def __init__(self, url: str, options: Mapping[str, Any] | None) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise MissingExtraError("fsspec", "store") from error
        self.url, self._options = url.rstrip("/"), dict(options or {})
        try:
            self._files, root = fsspec.url_to_fs(self.url, **self._options)
        except Exception as error:  # every file system has errors of its own
            raise StoreError(
                f"cannot open the store '{url}': {_reason(error)}. Check the URL and storage_options (for commands: "
                f"{VARIABLE})."
            ) from error
        self._root = root.rstrip("/")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteStorage, (self.url, self._options)

    def read(self, name: str) -> bytes | None:
        try:
            with self._reading(name):
                found: bytes = self._files.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        return found

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        try:
            with self._reading(name):
                data = self._files.cat_file(f"{self._root}/{name}", start=offset, end=offset + buffer.nbytes)
        except FileNotFoundError as error:
            raise StoreError(f"cannot read '{self.url}/{name}': there is no such object.") from error
        check_size(f"{self.url}/{name}", offset + len(data), offset + buffer.nbytes)
        buffer[:] = data

    def write(self, name: str, data: bytes | memoryview) -> None:
        with self._writing():
            self._files.pipe_file(f"{self._root}/{name}", bytes(data))

    @cached_property
    def exclusive(self) -> bool:
        """Whether a second ``create`` of the same object is refused: some services ignore the condition."""
        protocol = self._files.protocol
        if not _CONDITIONAL & set([protocol] if isinstance(protocol, str) else protocol):
            return False
        with self._writing():
            path = f"{self._root}/{_PROBE}-{uuid.uuid4().hex}"
            self._files.pipe_file(path, b"")
            try:
                self._files.pipe_file(path, b"", mode="create")
            except OSError:
                return True
            finally:
                self._files.rm_file(path)
        return False

    def create(self, name: str, data: bytes) -> bool:
        with self._writing():
            try:
                self._files.pipe_file(f"{self._root}/{name}", data, mode="create")
            except FileExistsError:
                return False
            except OSError:  # services word a refusal differently, and one may follow a success whose answer was lost
                if self.read(name) is None:
                    raise
                return False
        return True

    def write_at(self, name: str, offset: int, size: int, data: memoryview) -> None:
        if offset or size != data.nbytes:
            raise StoreError(f"objects at '{self.url}' can only be written whole.")
        self.write(name, data)

    def write_all(self, objects: Mapping[str, bytes | memoryview]) -> None:
        with self._writing():
            self._files.pipe({f"{self._root}/{name}": bytes(data) for name, data in objects.items()})

    def add_lines(self, folder: str, writer: str, lines: Sequence[bytes]) -> None:
        text = b"".join([line + b"\n" for line in lines])
        self.write(f"{folder}/{writer}.{len(lines)}.jsonl", text)

    def lines(self, folder: str, *, to_add: bool) -> Iterator[tuple[str, list[bytes]]]:
        names = [name for name in self.names(folder) if name.endswith(".jsonl")]
        for start in range(0, len(names), _BATCH_SIZE):
            some = names[start : start + _BATCH_SIZE]
            with self._reading(folder):
                found = self._files.cat([f"{self._root}/{folder}/{name}" for name in some])
            texts = {path.rsplit("/", 1)[-1]: text for path, text in found.items()}
            for name in some:
                *lines, rest = texts.get(name, b"").split(b"\n")
                if rest or name.split(".")[-2] != str(len(lines)):
                    raise lines_lost(f"{self.url}/{folder}/{name}", f"got {len(lines)}, and {len(rest)} bytes more")
                yield name, lines

    def names(self, folder: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            with self._reading(folder):
                found = self._files.ls(f"{self._root}/{folder}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(name).rstrip("/").rsplit("/", 1)[-1] for name in found)

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except (StoreError, FileNotFoundError):
            raise
        except Exception as error:
            raise StoreError(f"cannot read '{self.url}/{name}': {_reason(error)}. {_ADVICE}") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(cannot_write(self.url, _reason(error))) from error


_ADVICE = "Check that its address (endpoint), credentials and network are right; the same call later goes on."


def _reason(error: Exception) -> str:
    """The first line of what a library says; some name only the address that they did not find."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return f"there is no '{said}'" if isinstance(error, FileNotFoundError) and " " not in said else said
