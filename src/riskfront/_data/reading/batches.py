"""Where rows come from: files, folders of files, URLs and data frames, all as a stream of Arrow record batches.

A source knows its columns before anything is read, reads the columns that are asked for and no others, and can be read again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from riskfront.errors import InvalidInputError, StoreError

ROWS = 1 << 17  # in a batch: larger ones take fresh memory each time, which costs more than to read them
LONGEST_ROW = 1 << 28  # bytes of a row of a text file
_PIECES, _PIECE_ROWS = 4, 1 << 15  # a sample of a large source: so many places, so many rows at each


class Source(Protocol):
    """Rows that can be read more than once."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def n_rows(self) -> int | None:
        """How many rows there are; None where only reading tells."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, in this order, from the first row to the last."""

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some rows from several places."""


def sample(source: Source, columns: Sequence[str]) -> pa.Table:
    """Some rows from several places of a source, or all of a small one."""
    return pa.Table.from_batches(source.pieces(columns), schema=_only(source.schema, columns))


def whole(source: Source, columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of these columns, or of all."""
    names = source.schema.names if columns is None else columns
    return pa.Table.from_batches(source.batches(names), schema=_only(source.schema, names))


T = TypeVar("T")


def with_wider_types(source: Source, read: Callable[[Source], T]) -> T:
    """What a function makes of all rows of a source, whose later rows may need wider types than its first ones."""
    while True:
        try:
            return read(source)
        except WiderTypesError as narrow:
            source = narrow.source


def read_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; the next one is read while this one is worked on."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="riskfront-read") as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


@dataclass(frozen=True)
class InMemory:
    """A table in memory."""

    table: pa.Table
    name: str = "the data"

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(self.table.select(list(columns)).to_batches(max_chunksize=ROWS))

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.n_rows <= _PIECES * _PIECE_ROWS:
            yield from self.batches(columns)
            return
        for piece in range(_PIECES):
            start = (self.n_rows - _PIECE_ROWS) * piece // (_PIECES - 1)
            yield from self.table.select(list(columns)).slice(start, _PIECE_ROWS).to_batches()


def state_of_file(path: str) -> list[Any]:
    """What changes when a file of this machine is written again."""
    known = os.stat(path)
    return [os.path.abspath(path), known.st_size, known.st_mtime_ns, known.st_ctime_ns]  # a time may be set, ctime not


@dataclass(frozen=True)
class ParquetFiles:
    """One Parquet file, or several that hold parts of one table; ``values`` are the hive partitions of each.

    ``state`` says what changes when a file is written again.
    """

    name: str
    files: Sequence[str]
    values: Sequence[Mapping[str, str | None]]
    schema: pa.Schema
    rows: Sequence[int]
    opened: Callable[[str], Any] = field(default=str)
    state: Callable[[str], list[Any]] = field(default=state_of_file)

    @property
    def n_rows(self) -> int:
        return sum(self.rows)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for index in range(len(self.files)):
            yield from self.file_batches(index, columns)

    def file_batches(
        self, index: int, columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file, or of some of its row groups."""
        with said(self.files[index]), pq.ParquetFile(self.opened(self.files[index])) as file:
            stored = self._stored(file, columns)
            # one by one: over all row groups at once, the reader keeps every byte that it has read
            for group in range(file.num_row_groups) if groups is None else groups:
                for batch in file.iter_batches(ROWS, row_groups=[group], columns=stored):
                    yield self._whole(batch, index, columns)

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.n_rows <= _PIECES * _PIECE_ROWS:
            yield from self.batches(columns)
            return
        places: list[tuple[int, int]] = []
        for index, path in enumerate(self.files):
            with said(path), pq.ParquetFile(self.opened(path)) as file:
                places += [(index, group) for group in range(file.num_row_groups)]
        chosen = sorted({(len(places) - 1) * piece // (_PIECES - 1) for piece in range(_PIECES)})
        for place in chosen:
            index, group = places[place]
            with said(self.files[index]), pq.ParquetFile(self.opened(self.files[index])) as file:
                wanted = self._stored(file, columns)
                # the last row group is looked at from its end, so that the sample has the last rows
                found = next(file.iter_batches(len(chosen) * _PIECE_ROWS, row_groups=[group], columns=wanted))
                start = max(0, len(found) - _PIECE_ROWS) if place == chosen[-1] else 0
                yield self._whole(found.slice(start, _PIECE_ROWS), index, columns)

    def _stored(self, file: pq.ParquetFile, columns: Sequence[str]) -> list[str]:
        names = set(file.schema_arrow.names)
        return [name for name in columns if name in names]

    def _whole(self, batch: pa.RecordBatch, index: int, columns: Sequence[str]) -> pa.RecordBatch:
        """The batch in the types of all files, with partitions as columns and what this file lacks as nulls."""
        arrays = []
        for name in columns:
            kind, at = self.schema.field(name).type, batch.schema.get_field_index(name)
            if name in self.values[index]:
                arrays.append(pa.repeat(pa.scalar(self.values[index][name], pa.string()).cast(kind), len(batch)))
                if at >= 0 and not _says(batch.column(at), arrays[-1]):
                    raise InvalidInputError(
                        f"a partition must say what the file says; '{self.files[index]}' lies in {name} = "
                        f"{self.values[index][name]} and holds rows with another value. Move the file, or remove the column."
                    )
            elif at >= 0:
                column = batch.column(at)
                arrays.append(column if column.type == kind else column.cast(kind))
            else:
                arrays.append(pa.nulls(len(batch), kind))
        return pa.RecordBatch.from_arrays(arrays, schema=_only(self.schema, columns))


Stream = Callable[[pa.Schema | None, Sequence[str] | None, int], Iterator[pa.RecordBatch]]  # with the bytes of a block


class WiderTypesError(Exception):
    """Later rows of a text file do not fit the types or the length of its first rows; ``source`` reads it so that they fit."""

    def __init__(self, source: TextFile) -> None:
        super().__init__(source.name)
        self.source = source


@dataclass(frozen=True)
class TextFile:
    """CSV or JSON lines, compressed or not. Its types are those of its first rows, until others are seen."""

    name: str
    schema: pa.Schema
    stream: Stream
    whole_schema: Callable[[], pa.Schema] | None = None  # of all rows, where later ones may have other columns or types
    places: Sequence[pa.RecordBatch] = ()  # rows from several places of a large file, in types of their own
    expected_rows: int | None = None  # by the length of these rows
    block: int = 1 << 20  # bytes that are parsed at a time: larger ones do not stay in the cache
    n_rows: None = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = _only(self.schema, columns)
        with said(self.name):
            try:
                for batch in self.stream(self.schema, columns, self.block):
                    found = batch.select(list(columns))
                    yield found if found.schema.equals(wanted) else found.cast(wanted)
            except pa.ArrowInvalid as error:
                raise self._wider(str(error)) or error from None

    def _wider(self, said: str) -> WiderTypesError | None:
        """What to read instead, if the error is that of one column whose type was too narrow."""
        if is_too_long(said) and self.block < LONGEST_ROW:
            return WiderTypesError(replace(self, block=16 * self.block))
        if self.whole_schema is not None:
            found = self.whole_schema()
            return None if found.equals(self.schema) else WiderTypesError(replace(self, schema=found))
        named = re.search(r"CSV column #(\d+)", said)
        if named is None or "conversion error" not in said:
            return None
        at = int(named[1])
        narrow = self.schema.field(at)
        digits = re.search(r"invalid value '[+-]?\d+'", said)  # of more digits than a number can hold
        kind = pa.float64() if pa.types.is_integer(narrow.type) and digits is None else pa.string()
        if narrow.type == kind:
            return None
        return WiderTypesError(replace(self, schema=self.schema.set(at, pa.field(narrow.name, kind))))

    def pieces(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows from several places that were looked at, or the first ones."""
        if self.places:
            wanted = _only(self.schema, columns)
            yield from (batch.select(list(columns)).slice(0, _PIECE_ROWS).cast(wanted) for batch in self.places)
            return
        left = _PIECES * _PIECE_ROWS
        for batch in self.batches(columns):
            yield batch.slice(0, left)
            left -= len(batch)
            if left <= 0:
                return


def is_too_long(said: str) -> bool:
    """Whether Arrow complains of a row that is longer than a block."""
    return "straddling object" in said


def _says(column: pa.Array, partition: pa.Array) -> bool:
    """Whether a stored column agrees with the partition that its file lies in."""
    try:
        return bool(as_numbers(column).cast(partition.type).equals(partition))
    except pa.ArrowInvalid:
        return False


def _only(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in columns])


@contextmanager
def said(path: str) -> Iterator[None]:
    """What Arrow says of a damaged file, as a sentence."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(f"cannot read '{path}': no such file.") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, StoreError):
            raise
        reason = " ".join(str(error).split()).rstrip(".")
        raise StoreError(f"cannot read '{path}': it is damaged, cut off or of another format ({reason}).") from None


def bytes_of(kind: pa.DataType) -> int:
    """What a loss of this type takes in memory: everything but decimals starts as a byte."""
    return int(kind.bit_width) // 8 if pa.types.is_floating(kind) else 1


def as_numbers(column: pa.Array) -> pa.Array:
    """Decimals of fixed precision and half precision as doubles; the values of a dictionary; everything else as it is."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        return pc.cast(column, pa.float64())
    return column
