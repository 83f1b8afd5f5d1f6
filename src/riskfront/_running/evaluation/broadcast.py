"""The user's function and examples on their way to the workers: packed once, unpacked once by each."""

from __future__ import annotations

import functools
import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from riskfront._running.evaluation.outcome import Losses
from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError, StoreError

_LOADED: dict[str, tuple[Losses, Any]] = {}  # in a worker process: what was unpacked last
_WITH_CACHE = type(functools.lru_cache(lambda: None))


class ObjectPayload:
    """The objects themselves: for threads."""

    def __init__(self, losses: Losses, examples: Any) -> None:
        self.held = (losses, examples)

    def unpack(self) -> tuple[Losses, Any]:
        return self.held


class FilePayload:
    """A folder that each local process reads once; arrays are mapped, so that all processes share their memory."""

    def __init__(self, folder: str, client: int) -> None:
        self.folder, self.client = folder, client

    @classmethod
    def pack(cls, losses: Losses, examples: Any, folder: Path) -> FilePayload:
        mapped = type(examples) is np.ndarray and not examples.dtype.hasobject
        data = _pickled(losses, None if mapped else examples)
        try:
            (folder / "packed").write_bytes(data)
            if mapped:
                np.save(folder / "examples.npy", examples, allow_pickle=False)
        except OSError as error:
            raise no_room(folder.parent, error) from error
        return cls(str(folder), os.getpid())

    def unpack(self) -> tuple[Losses, Any]:
        if self.folder not in _LOADED:
            end_with(self.client)
            losses, examples = _unpickled((Path(self.folder) / "packed").read_bytes())
            if (Path(self.folder) / "examples.npy").exists():
                examples = np.load(Path(self.folder) / "examples.npy", mmap_mode="r", allow_pickle=False)
            _LOADED.clear()
            _LOADED[self.folder] = (losses, examples)
        return _LOADED[self.folder]


class SentPayload:
    """Bytes that a cluster sends to its workers, for Dask, which keeps one copy on each.

    They stay bytes until a worker asks for them: an error on the way would be Dask's, one while unpacking is ours to explain.
    """

    def __init__(self, data: bytes, arrays: list[Array]) -> None:
        self._data, self._arrays = data, arrays
        self._held: tuple[Losses, Any] | None = None

    @classmethod
    def pack(cls, losses: Losses, examples: Any) -> SentPayload:
        buffers: list[Any] = []
        data = _pickled(losses, examples, buffers)
        return cls(data, [np.asarray(buffer.raw()) for buffer in buffers])

    def __reduce__(self) -> Any:
        return SentPayload, (self._data, self._arrays)

    def unpack(self) -> tuple[Losses, Any]:
        if self._held is None:
            self._held = _unpickled(self._data, self._arrays)
        return self._held


class RayPayload:
    """A reference into Ray's object store, which holds one copy a machine."""

    def __init__(self, losses: Losses, examples: Any) -> None:
        import ray

        self.reference = ray.put(SentPayload.pack(losses, examples))

    def unpack(self) -> tuple[Losses, Any]:
        import ray

        name = self.reference.hex()
        if name not in _LOADED:
            held = ray.get(self.reference).unpack()
            _LOADED.clear()
            _LOADED[name] = held
        return _LOADED[name]


Broadcast = ObjectPayload | FilePayload | SentPayload | RayPayload


class SearchPath:
    """Where the user's own modules are. Pickled before what needs them, it is known in a worker before they are loaded."""

    def __init__(self) -> None:
        installed = tuple({os.path.realpath(prefix) + os.sep for prefix in (sys.prefix, sys.base_prefix)})
        folders = [os.path.abspath(entry) for entry in sys.path]
        self.folders = [f for f in folders if os.path.isdir(f) and not os.path.realpath(f).startswith(installed)]

    def __reduce__(self) -> Any:
        return _search_in, (self.folders,)


def _search_in(folders: list[str]) -> None:
    """Look for modules in these folders first, in this order, as the process does that sent them."""
    missing = [folder for folder in folders if folder not in sys.path and os.path.isdir(folder)]
    sys.path[:0] = missing


def no_room(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"worker processes must be given the examples through the temporary folder '{folder}'; it cannot be written "
        f"({error.strerror or error}). Make room there, set TMPDIR to another folder, or use n_jobs=1."
    )


def _pickled(losses: Losses, examples: Any, buffers: list[Any] | None = None) -> bytes:
    """As bytes; where a list for them is given, the contents of arrays are put there instead of being copied."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            """Functions with a cache would go by name, and workers do not know the modules of scripts and tasks."""
            if type(value) is _WITH_CACHE:
                return _cached_again, (value.__wrapped__, value.cache_parameters())
            return super().reducer_override(value)

    written = io.BytesIO()
    try:
        pickler = Pickler(written, protocol=5, buffer_callback=None if buffers is None else buffers.append)
        pickler.dump((SearchPath(), losses, examples))
    except Exception as error:
        raise InvalidInputError(
            f"the losses function and the examples must be sent to other processes, which failed ({error}). "
            "Use n_jobs=1, or create inside the function what cannot be sent."
        ) from error
    return written.getvalue()


def _cached_again(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _unpickled(data: bytes, arrays: list[Array] | None = None) -> tuple[Losses, Any]:
    import cloudpickle

    _, losses, examples = cloudpickle.loads(data, buffers=arrays)
    return losses, examples


_SECONDS = 1.0
_watched: set[int] = set()


def end_with(client: int) -> None:
    """From now on this process ends soon after ``client``, if that is its parent; on other systems nothing happens."""
    if os.name == "nt" or client == os.getpid() or client in _watched:
        return
    _watched.add(client)
    if os.getppid() == client:
        threading.Thread(target=_watch, args=(client,), daemon=True, name="riskfront-parent").start()


def _watch(client: int) -> None:
    while os.getppid() == client:
        time.sleep(_SECONDS)
    os._exit(1)  # whoever waited for results is gone
