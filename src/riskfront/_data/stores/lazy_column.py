"""A column of losses that stays in a store: rows are read, checked against their SHA-256, and forgotten again.

A pass over the whole column may trust the digests that were recorded when its rows were written: hashing takes longer than
reading. Rows that are asked for by number, as tests do, are always checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np

from riskfront._data.stores.row_batches import RowBatches
from riskfront._data.stores.storage import Storage
from riskfront._data.sums import Rows
from riskfront._support.arrays import Array, IntArray
from riskfront.errors import StoreError

_WINDOW_BYTES = 1 << 24  # rows read ahead of whoever goes through the column from top to bottom
_PARALLEL_BYTES = 1 << 21  # less is read faster by one thread


class LazyColumn:
    """Losses (settings, examples), each row in an object of a store.

    Args:
        storage: the store, or what reads from it.
        places: the object of each row, and where in it the row begins.
        stored: the type of each row as it is stored; rows are converted to ``dtype``.
        sha256: the digest that each row had when it was written.
        range: smallest and largest value of the column.
        trusting: leave rows that are read in passing (by slice) unchecked until ``check`` is called.
    """

    def __init__(
        self,
        storage: Storage | RowBatches,
        places: Sequence[tuple[str, int]],
        stored: Sequence[np.dtype[Any]],
        sha256: Sequence[bytes],
        dtype: np.dtype[Any],
        n_examples: int,
        range: tuple[float, float],
        trusting: bool = False,
    ) -> None:
        self._storage, self._places, self._stored, self._sha256 = storage, places, stored, sha256
        self.dtype, self.shape, self.range = dtype, (len(places), n_examples), range
        self._n, self._trusting = n_examples, trusting
        self._step = max(1, _WINDOW_BYTES // max(1, n_examples * dtype.itemsize))  # rows of a window
        self._digests: dict[int, bytes] = {}  # of the rows that were checked
        self._windows: dict[int, Future[Array]] = {}
        self._lock = Lock()
        self._readers = ThreadPoolExecutor(max_workers=storage.readers, thread_name_prefix="riskfront-read")
        self._ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="riskfront-ahead")

    def __getitem__(self, rows: Rows) -> Array:
        if not isinstance(rows, slice):
            return self._read(np.asarray(rows))
        start, stop, step = rows.indices(len(self._places))
        if step != 1 or (stop - start) * self._n * self.dtype.itemsize > _WINDOW_BYTES:
            return self._read(np.arange(start, stop, step), checking=not self._trusting)
        pieces = []
        while start < stop:
            number, first = divmod(start, self._step)
            pieces.append(self._window(number)[first : first + stop - start])
            start += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [self._read(np.arange(0))])

    def row_digests(self) -> list[bytes]:
        """The SHA-256 of each row: as recorded if rows in passing are trusted, else as read, now if need be."""
        recorded = {row: of for row, of in enumerate(self._sha256) if self._trusting and self._alike(row)}
        self.check(np.array([row for row in range(len(self._places)) if row not in recorded], dtype=np.int64))
        return [self._digests.get(row) or recorded[row] for row in range(len(self._places))]

    def check(self, rows: Array | None = None) -> None:
        """Compare these rows, or all, with the digests they were written with, unless that was done before."""
        wanted = range(len(self._places)) if rows is None else rows.tolist()
        missing = [row for row in wanted if row not in self._digests]
        for start in range(0, len(missing), self._step):
            self._read(np.array(missing[start : start + self._step]))

    def part(self, rows: slice) -> LazyColumn:
        """These rows as a column of their own."""
        own = (self._places[rows], self._stored[rows], self._sha256[rows])
        return LazyColumn(self._storage, *own, self.dtype, self._n, self.range, self._trusting)

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process needs to open the same rows: no threads, nothing that was read ahead."""
        rows = (self._storage, self._places, self._stored, self._sha256)
        return LazyColumn, (*rows, self.dtype, self._n, self.range, self._trusting)

    def _window(self, number: int) -> Array:
        """A block of rows; the next one is read meanwhile. Several threads may go through the column side by side."""
        with self._lock:
            near = range(number - 1, number + 2)
            self._windows = {known: window for known, window in self._windows.items() if known in near}
            for wanted in near[1:]:
                if wanted not in self._windows and wanted * self._step < len(self._places):
                    rows = np.arange(len(self._places))[wanted * self._step : (wanted + 1) * self._step]
                    self._windows[wanted] = self._ahead.submit(self._read, rows, checking=not self._trusting)
            window = self._windows[number]
        return window.result()

    def _read(self, rows: Array, *, checking: bool = True) -> Array:
        out = np.empty((len(rows), self._n), dtype=self.dtype)
        if not self._storage.in_place:
            digests = self._read_objects(rows, out, checking)
        elif out.nbytes < _PARALLEL_BYTES:
            digests = [self._read_row(int(row), target, checking) for row, target in zip(rows, out, strict=True)]
        else:  # reading and hashing let other threads run
            digests = list(self._readers.map(self._read_row, rows.tolist(), out, [checking] * len(rows)))
        self._digests.update({row: d for row, d in zip(rows.tolist(), digests, strict=True) if d is not None})
        out.flags.writeable = False
        return out

    def _read_objects(self, rows: Array, out: Array, checking: bool) -> list[bytes | None]:
        """Fill (rows, examples) with one request for all rows of an object, where they are most of what lies between them."""
        objects: dict[str, list[int]] = {}
        for position, row in enumerate(rows.tolist()):
            objects.setdefault(self._places[row][0], []).append(position)
        digests: list[bytes | None] = [None] * len(rows)

        def read(name: str) -> None:
            positions = objects[name]
            sizes = [self._n * self._stored[rows[position]].itemsize for position in positions]
            offsets = [self._places[rows[position]][1] for position in positions]
            first = min(offsets)
            span = max(offset + size for offset, size in zip(offsets, sizes, strict=True)) - first
            if span > 2 * sum(sizes):
                for position in positions:
                    digests[position] = self._read_row(int(rows[position]), out[position], checking)
                return
            together = memoryview(bytearray(span))
            self._storage.read_into(name, first, together)
            for position, offset, size in zip(positions, offsets, sizes, strict=True):
                target = np.frombuffer(together[offset - first : offset - first + size], self._stored[rows[position]])
                digests[position] = self._taken(int(rows[position]), target, out[position], checking)

        list(self._readers.map(read, objects))
        return digests

    def _read_row(self, row: int, out: Array, checking: bool) -> bytes | None:
        """Fill (examples,) with a row; if it is checked, its SHA-256 in the type of the column."""
        target = out if self._alike(row) else np.empty(self._n, self._stored[row])
        self._storage.read_into(*self._places[row], target.data.cast("B"))
        return self._taken(row, target, out, checking)

    def _taken(self, row: int, read: Array, out: Array, checking: bool) -> bytes | None:
        """Put what was read of a row into its place, unless it is there, and check it."""
        if checking and hashlib.sha256(read.data).digest() != self._sha256[row]:
            raise StoreError(
                f"'{self._storage.url}/{self._places[row][0]}' must hold the losses that were written; its SHA-256 differs."
                " The file was changed or damaged: restore it from a copy, or evaluate into a new store."
            )
        if read is not out:
            out[:] = read
        if not checking:
            return None
        return self._sha256[row] if self._alike(row) else hashlib.sha256(out.data).digest()

    def _alike(self, row: int) -> bool:
        """Whether the bytes of a stored row are those of the column: the same type, or 0/1 in a byte."""
        stored = self._stored[row]
        return stored == self.dtype or (self.dtype == np.bool_ and stored.kind in "iub" and stored.itemsize == 1)


class MissingColumn:
    """(settings, examples), True where an outcome is missing; ``held`` are the rows of settings that miss some, in the order
    of their positions."""

    dtype: np.dtype[Any] = np.dtype(np.bool_)
    range = (0.0, 1.0)

    def __init__(self, held: LazyColumn, settings: IntArray, n_settings: int) -> None:
        self._held, self.shape = held, (n_settings, held.shape[1])
        self._row = np.full(n_settings, -1)
        self._row[settings] = np.arange(len(settings))

    def __getitem__(self, rows: Rows) -> Array:
        held = self._row[rows]
        out = np.zeros((len(held), self.shape[1]), dtype=np.bool_)
        if (held >= 0).any():
            out[held >= 0] = self._held[held[held >= 0]]
        return out

    def row_digests(self) -> list[bytes]:
        nothing = hashlib.sha256(bytes(self.shape[1])).digest()
        held = self._held.row_digests()
        return [nothing if row < 0 else held[row] for row in self._row]

    def check(self, rows: Array | None = None) -> None:
        held = self._row if rows is None else self._row[rows]
        self._held.check(held[held >= 0])

    def part(self, rows: slice) -> MissingColumn:
        row = self._row[rows]
        settings = np.flatnonzero(row >= 0)
        first = int(row[settings[0]]) if len(settings) else 0
        return MissingColumn(self._held.part(slice(first, first + len(settings))), settings, len(row))
