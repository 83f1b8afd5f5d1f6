"""Rows of a long table on their way into arrays: one cell for each setting and example, filled in whatever order rows come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from riskfront._data.reading.batches import as_numbers
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError

_MOST_CELLS = 1 << 33


class Cells:
    """Losses (settings, examples) that grow as settings and examples are seen; ``rows`` are to come, if that is known."""

    def __init__(self, losses: Mapping[str, pa.DataType], rows: int | None) -> None:
        self._rows = rows
        self._columns = {name: LossValues(name, kind) for name, kind in losses.items()}
        self._shape = (0, 0)  # of the arrays: settings x examples, or examples x settings
        self._by_example = False  # whether the rows of one example lie side by side
        self._seen: BoolArray = np.zeros(0, dtype=bool)
        self.rows = 0

    def put(
        self, settings: IntArray, examples: IntArray, columns: Mapping[str, pa.Array], counts: tuple[int, int]
    ) -> None:
        """Write rows into the cells of their setting and example. ``counts``: settings and examples seen so far."""
        if self.rows == 0:
            self._begin(settings, examples, counts)
        self._reach(counts)
        outer, inner = (examples, settings) if self._by_example else (settings, examples)
        place = outer * self._shape[1] + inner
        self._seen[place] = True
        for name, column in columns.items():
            self._columns[name].put(place, column, self.rows)
        self.rows += len(place)

    @property
    def n_seen(self) -> int:
        """How many cells have a row."""
        return int(np.count_nonzero(self._seen))

    def losses(self, counts: tuple[int, int]) -> dict[str, Array]:
        """(settings, examples) of each loss; masked where a value is missing. The cells are given up."""
        complete = self.n_seen == counts[0] * counts[1]
        lacking = None if complete else ~self._finished(self._seen, counts)
        found: dict[str, Array] = {}
        for name, column in self._columns.items():
            values = self._finished(column.take(), counts)
            gaps = None if column.missing is None else self._finished(column.missing, counts)
            if lacking is not None:
                gaps = lacking if gaps is None else gaps | lacking
            found[name] = values if gaps is None else np.ma.MaskedArray(values, gaps)
        return found

    def _finished(self, flat: Array, counts: tuple[int, int]) -> Array:
        cells = flat.reshape(self._shape)
        return np.ascontiguousarray((cells.T if self._by_example else cells)[: counts[0], : counts[1]])

    def _begin(self, settings: IntArray, examples: IntArray, counts: tuple[int, int]) -> None:
        """How rows come decides how cells lie, and how many are made room for."""
        changes = [np.count_nonzero(codes[1:] != codes[:-1]) for codes in (settings, examples)]
        self._by_example = bool(2 * changes[1] < changes[0])
        outer, inner = counts[::-1] if self._by_example else counts
        if self._rows is not None and outer > 1:
            outer = max(outer, -(-self._rows // inner))
        self._make((outer, inner))

    def _reach(self, counts: tuple[int, int]) -> None:
        wanted = counts[::-1] if self._by_example else counts
        if wanted[0] <= self._shape[0] and wanted[1] <= self._shape[1]:
            return
        # by half as much again: growing one by one would copy everything every time
        pairs = zip(wanted, self._shape, strict=True)
        self._make(tuple(have if need <= have else max(need, have + have // 2) for need, have in pairs))

    def _make(self, shape: Any) -> None:
        cells = shape[0] * shape[1]
        if cells > _MOST_CELLS:
            raise InvalidInputError(
                f"every setting must have a row for nearly every example; {shape[0]:,} x {shape[1]:,} cells are too many for "
                f"the {self.rows:,} rows so far. Do other columns name the settings or the examples? Call the "
                "column of the examples 'example', and leave out columns that are no settings."
            )
        self._seen = _moved(self._seen, self._shape, shape)
        for column in self._columns.values():
            column.move(self._shape, shape)
        self._shape = shape


class LossValues:
    """One loss: the smallest type that holds it, and where a value is missing, if any is."""

    def __init__(self, name: str, kind: pa.DataType, size: int = 0) -> None:
        self._name = name
        self._values: Array = np.zeros(size, dtype=_first_type(kind))
        self.missing: BoolArray | None = None

    def put(self, place: IntArray | slice, column: pa.Array, row: int) -> None:
        values, gaps = numbers_of(self._name, column, row)
        if values.dtype != self._values.dtype:
            self._values = self._values.astype(_wide_enough(values, self._values.dtype), copy=False)
        self._values[place] = values
        if gaps is not None:
            if self.missing is None:
                self.missing = np.zeros(len(self._values), dtype=bool)
            self.missing[place] = gaps

    def move(self, old: tuple[int, int], new: tuple[int, int]) -> None:
        self._values = _moved(self._values, old, new)
        self.missing = None if self.missing is None else _moved(self.missing, old, new)

    def take(self) -> Array:
        """The values, which are given up: two copies of a large table need not fit into memory."""
        values, self._values = self._values, np.zeros(0)
        return values


def numbers_of(name: str, column: pa.Array, row: int = 0) -> tuple[Array, BoolArray | None]:
    """(rows,): a loss as numbers, and where it is missing (None: nowhere); an error that names a value that is no number."""
    column = as_numbers(column)
    kind = column.type
    if len(column) and column.null_count == len(column) and not pa.types.is_boolean(kind):  # of no type at all, perhaps
        return np.zeros(len(column), dtype=_first_type(kind)), np.ones(len(column), dtype=bool)
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        known = column.drop_null()
        wrong = known[0].as_py() if len(known) else None
        raise InvalidInputError(f"loss '{name}' must hold numbers; got {wrong!r} in row {row}.")
    if column.null_count:
        gaps = column.is_null(nan_is_null=pa.types.is_floating(kind)).to_numpy(zero_copy_only=False)
        return column.fill_null(pa.scalar(0).cast(kind)).to_numpy(zero_copy_only=False), gaps
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind != "f":
        return values, None
    # the sum of some values is nan if one of them is, or if infinities cancel: then each is looked at
    if not np.isnan(np.add.reduce(values, dtype=np.float64)):
        return values, None
    gaps = np.isnan(values)
    return (np.where(gaps, 0, values), gaps) if gaps.any() else (values, None)


def must_hold_numbers(name: str, kind: pa.DataType, batches: Iterable[pa.RecordBatch]) -> None:
    """Raise an error if a column holds texts; it names the first that is no number, wherever that is."""
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return
    row, first = 0, None
    for batch in batches:
        texts = batch.column(0).to_pylist()
        wrong = next((at for at, text in enumerate(texts) if text is not None and not _is_number(text)), None)
        if wrong is not None:
            raise InvalidInputError(f"loss '{name}' must hold numbers; got {texts[wrong]!r} in row {row + wrong}.")
        first = next((text for text in texts if text is not None), None) if first is None else first
        row += len(texts)
    if first is None:  # every outcome is missing
        return
    raise InvalidInputError(f"loss '{name}' must hold numbers; got the text {first!r}.")


def _is_number(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _first_type(kind: pa.DataType) -> np.dtype[Any]:
    if pa.types.is_boolean(kind):
        return np.dtype(bool)
    if pa.types.is_integer(kind):
        return np.dtype(np.int8)
    return np.dtype(np.float32 if kind == pa.float32() else np.float64)


def _wide_enough(values: Array, kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type that holds what is there and what comes: whole numbers take a byte as long as all of them fit."""
    if values.dtype.kind in "iu" and kind == np.int8:
        fits = len(values) == 0 or (values.min() >= -128 and values.max() <= 127)
        return kind if fits else np.dtype(np.int64 if values.dtype != np.uint64 else np.uint64)
    return kind if values.dtype.kind in "iu" and kind.kind in "iu" else np.result_type(kind, values.dtype)


def _moved(flat: Array, old: tuple[int, int], new: tuple[int, int]) -> Array:
    """The same cells in arrays of another shape."""
    wider = np.zeros(new, dtype=flat.dtype)
    wider[: old[0], : old[1]] = flat.reshape(old)
    return wider.reshape(-1)


def only_0_and_1(name: str, values: Array) -> Array:
    """Numbers that are declared 0/1, as booleans."""
    known = values.compressed() if isinstance(values, np.ma.MaskedArray) else values
    wrong = (known != 0) & (known != 1)
    if wrong.any():
        raise InvalidInputError(f"a 0/1 loss must hold only 0 and 1; '{name}' holds {known[wrong].reshape(-1)[0]:g}.")
    return values.astype(bool)
