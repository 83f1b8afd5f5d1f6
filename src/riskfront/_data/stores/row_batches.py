"""Rows of a store in object storage that are written together: requests cost time and money there, bytes hardly any.

A batch is an object for each loss, a shard as Zarr calls it, with the rows of some settings one after the other; and, written
last, an object with their markers.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from riskfront._data.stores.storage import Storage
from riskfront.errors import StoreError

_SECONDS = 1.0  # that a row waits for others at most
_NOWHERE = np.iinfo(np.uint64).max  # of a row that a shard has not


class RowBatches:
    """Rows that wait to be written, and where they will be. Whoever reads them meanwhile gets them from memory.

    Outside of ``together`` every row is written at once.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.url, self.readers, self.in_place = storage.url, storage.readers, storage.in_place
        self.lock = threading.RLock()
        self._together = 0
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._rows: dict[str, list[bytes]] = {}
        self._written: dict[str, list[bytes]] = {}  # the last batch: what was written just now is often read next
        self._lines: list[bytes] = []
        self._first, self._room, self._overdue = "", 1, False
        self._timer: threading.Timer | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Rows that are added inside wait for others, a second at most; all are written at the end."""
        self._together += 1
        try:
            yield
        except BaseException:
            with contextlib.suppress(StoreError):  # what went wrong first is what matters
                self.flush()
            raise
        else:
            self.flush()
        finally:
            self._together -= 1

    def __len__(self) -> int:
        """Settings that wait."""
        return len(self._lines) if self._process == os.getpid() else 0

    def add(self, rows: Mapping[str, bytes], line: bytes, *, marker: str, room: int) -> None:
        """Add the rows of a setting, object -> bytes, and the line that marks it, to a batch with ``room`` for so many; its
        first ``marker`` names the object with the lines."""
        with self.lock:
            if self._process != os.getpid():  # a forked process leaves to its parent what waited there
                self._forget()
            self._first, self._room = self._first or marker, room
            for name, row in rows.items():
                found = self._rows.setdefault(name, [])
                found += [bytes(len(row))] * (len(self._lines) - len(found))  # rows without a gap
                found.append(row)
            self._lines.append(line)
            if not self._together or self._overdue or len(self._lines) >= room:
                self.flush()
            elif self._timer is None:
                self._timer = threading.Timer(_SECONDS, self._in_time)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write all that waits. After an error it waits still."""
        with self.lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            if not len(self):
                return
            self._storage.write_all({name: _shard(rows, self._room) for name, rows in self._rows.items()})
            self._storage.add_lines("done", self._first, self._lines)
            self._written, self._rows, self._lines = self._rows, {}, []
            self._first, self._overdue = "", False

    def _in_time(self) -> None:
        with self.lock:
            try:
                self.flush()
            except StoreError:
                self._overdue = True  # whoever adds the next row tries again, and is told

    # ---------------------------------------------------------------- reading

    def read_into(self, name: str, offset: int, buffer: memoryview) -> None:
        """As of a storage; rows that wait, or were written last, are copied."""
        held = self._rows.get(name) or self._written.get(name)
        if held is None:
            self._storage.read_into(name, offset, buffer)
            return
        size = len(held[0])
        for number in range(buffer.nbytes // size):
            buffer[number * size : (number + 1) * size] = held[offset // size + number]

    def __reduce__(self) -> Any:
        """In another process the storage, which has everything then."""
        self.flush()
        return self._storage.__reduce__()


def _shard(rows: list[bytes], room: int) -> bytes:
    """The rows, then where each begins and how long it is; rows that are not there are nowhere."""
    index = np.full((room, 2), _NOWHERE, dtype="<u8")
    sizes = np.array([len(row) for row in rows], dtype=np.uint64)
    index[: len(rows), 1] = sizes
    index[: len(rows), 0] = np.cumsum(sizes) - sizes
    return b"".join([*rows, index.tobytes()])
