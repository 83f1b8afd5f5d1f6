"""Where the outcomes of one loss are missing, read from a store; settings that miss none have nothing there."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from riskfront._data.stores.lazy_column import LazyColumn
from riskfront._data.sums import Rows
from riskfront._support.arrays import Array, IntArray


class MissingColumn:
    """(settings, examples), True where an outcome is missing.

    Args:
        held: the rows of settings that miss some.
        settings: the positions of these settings, in increasing order.
        n_settings: of the whole column.
    """

    def __init__(self, held: LazyColumn, settings: IntArray, n_settings: int) -> None:
        self._held, self._settings, self._n_settings = held, settings, n_settings
        self._row = np.full(n_settings, -1)
        self._row[settings] = np.arange(len(settings))

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_settings, self._held.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.bool_)

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

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
