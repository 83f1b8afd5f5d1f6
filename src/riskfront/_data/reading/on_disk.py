"""Tables larger than memory: the rows of Parquet files are sorted into a store on disk once, which is used from then on.

1. Each piece of the files is read and sorted by setting; its settings, its examples and their groups are listed beside it.
2. The lists are put together: the number of each setting and of each example in the whole table.
3. Settings are written to the store, as many at a time as fit into memory.

Every step leaves whole files behind, with their digests, so that a run that was stopped goes on where it was. Pieces and
settings are tasks of joblib: with a Dask or Ray cluster they run on its workers, which must see the same folders.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riskfront._data.configs import as_settings
from riskfront._data.intake import Intake
from riskfront._data.reading.batches import ParquetFiles, bytes_of
from riskfront._data.reading.codes import GroupOfExamples, JointCodes, two_values
from riskfront._data.reading.column_roles import Layout
from riskfront._data.reading.filters import Filter, kept_rows
from riskfront._data.reading.sorted_piece import SortedPiece, sort_rows
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.task import Task
from riskfront._data.table import LossTable
from riskfront._support.arrays import Array
from riskfront._support.checked_json import DamagedError, check_digests, from_bytes, to_bytes, write_digests
from riskfront._support.cluster import cluster_size
from riskfront._support.files import cache_folder, write_text
from riskfront._support.progress import ProgressBar
from riskfront._support.values import plain
from riskfront.errors import StoreError

_PIECE_ROWS = 1 << 23
_BLOCK_BYTES = 1 << 27  # of losses that are put into the store at a time
_FORMAT = 4  # of the folders below; another one is another folder


class NotOneRowEachError(Exception):
    """Some setting has two rows for some example: how many rows and cells there are."""

    def __init__(self, rows: int, cells: int) -> None:
        super().__init__(rows, cells)
        self.rows, self.cells = rows, cells


@dataclass(frozen=True)
class Piece:
    """Some row groups of one file."""

    number: int
    file: int
    groups: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class Conversion:
    """What is read from which files, into which folder."""

    source: ParquetFiles
    layout: Layout
    keys: tuple[str, ...]
    binary: frozenset[str]
    folder: Path
    filters: tuple[Filter, ...] = ()

    def kind(self, name: str) -> pa.DataType:
        return self.source.schema.field(name).type

    def piece(self, number: int) -> Path:
        return self.folder / "pieces" / f"{number:06d}"


@dataclass(frozen=True)
class Merged:
    """All settings and examples, in the order in which they first come, and their numbers in each piece."""

    configs: list[dict[str, Any]]
    n_examples: int
    groups: Mapping[str, Any]
    settings_of: Sequence[Array]
    examples_of: Sequence[Array]


def read_large(
    source: ParquetFiles,
    layout: Layout,
    keys: Sequence[str],
    bounds: Mapping[str, tuple[float, float]] | None,
    binary: Sequence[str],
    filters: Sequence[Filter] = (),
) -> LossTable:
    """A table whose losses stay on disk, made of the rows of Parquet files that the filters leave."""
    files, content, asked = _identity(source, layout, keys, binary, filters)
    folder = cache_folder() / "tables" / f"{files}-{content}-{asked}"
    work = Conversion(source, layout, tuple(keys), frozenset(binary), folder, tuple(filters))
    done = _read(folder / "done.json")
    if done is None:
        with _said_of(folder):
            for made in folder.parent.glob(f"{files}-*"):  # of these files before they changed
                if made.name.split("-")[1] != content:
                    shutil.rmtree(made, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            _convert(work)
        done = from_bytes((folder / "done.json").read_bytes())
    table = LossStore(folder / "store").table(done["settings"], lazy=True, bounds=bounds)
    intake = Intake(done["read"], done["read"], absent=done["cells"] - done["rows"])
    reason = "--where " + " and ".join(map(str, filters))
    return table.with_intake(intake.without(reason, done["read"] - done["rows"]))


def _read(path: Path) -> dict[str, Any] | None:
    """What was written to a file; None where there is none, or a damaged one: then it is made again."""
    try:
        return from_bytes(path.read_bytes())
    except (FileNotFoundError, DamagedError):
        return None


@contextmanager
def _said_of(folder: Path) -> Iterator[None]:
    """What the system says of a disk, as a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        if (folder / "done.json").exists():  # another process was faster
            return
        raise StoreError(
            f"a table larger than memory needs room in '{folder.parent}' (XDG_CACHE_HOME names another place): "
            f"{error.strerror or error}."
        ) from error


def _identity(
    source: ParquetFiles, layout: Layout, keys: Sequence[str], binary: Sequence[str], filters: Sequence[Filter]
) -> tuple[str, str, str]:
    """Which files, as they are now, and what is read of them."""
    columns = [layout.config_columns, list(keys), layout.group_columns, layout.loss_columns, sorted(binary)]
    columns += [[condition.column, condition.sign, *condition.values] for condition in filters]
    content = [_states(source), list(source.rows), str(source.schema)]
    return _digest([source.name, *source.files]), _digest(content), _digest([_FORMAT, columns])


def _states(source: ParquetFiles) -> list[Any]:
    return [source.state(path) for path in source.files]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def _convert(work: Conversion) -> None:
    before, pieces = _states(work.source), pieces_of(work.source)
    read = sum(piece.rows for piece in pieces)
    _check_room(work, read)
    with ProgressBar("reading a table larger than memory", read) as bar:
        for count in _each(sort_piece, work, [(piece,) for piece in pieces]):
            bar.advance(count)
    rows = sum(SortedPiece(work.piece(piece.number)).n_rows for piece in pieces)
    merged = merge(work, len(pieces))
    cells, seen = len(merged.configs) * merged.n_examples, 0
    store = None if cluster_size() else _opened(work, merged)  # a worker opens it by itself
    with ProgressBar("writing the store", rows) as bar:
        for count in _each(write_settings, work, [(merged, block, store) for block in _blocks(work, merged)]):
            seen += count
            bar.advance(count)
    if _states(work.source) != before:
        shutil.rmtree(work.folder, ignore_errors=True)
        raise StoreError(
            f"files must stay as they are while they are read; some of '{work.source.name}' were written meanwhile. "
            "Run it again."
        )
    if seen != rows:
        raise NotOneRowEachError(rows, cells)
    done = {"read": read, "rows": rows, "cells": cells, "settings": merged.configs}
    write_text(work.folder / "done.json", to_bytes(done).decode())
    shutil.rmtree(work.folder / "pieces", ignore_errors=True)
    shutil.rmtree(work.folder / "counts", ignore_errors=True)


def _check_room(work: Conversion, rows: int) -> None:
    """Sorted pieces and the store are on the disk at the same time; what an earlier run left is part of it."""
    names = work.layout.loss_columns
    cell = sum(1 if name in work.binary else bytes_of(work.kind(name)) for name in names)
    needed = rows * (2 * cell + 4)
    have = sum(path.stat().st_blocks * 512 for path in work.folder.rglob("*") if path.is_file())
    free = shutil.disk_usage(work.folder).free
    if free + have < needed:
        raise StoreError(
            f"a table of {rows:,} rows needs about {needed / 1e9:.1f} GB of disk while it is sorted; '{work.folder.parent}' "
            f"has {free / 1e9:.1f} GB. Free some, or name another place with the environment variable XDG_CACHE_HOME."
        )


def pieces_of(source: ParquetFiles) -> list[Piece]:
    """The files in pieces of some millions of rows, in order."""
    found: list[Piece] = []
    for index, path in enumerate(source.files):
        with pq.ParquetFile(source.opened(path)) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        first = 0
        for last in range(len(sizes)):
            rows = sum(sizes[first : last + 1])
            if rows + max(sizes[last + 1 : last + 2], default=_PIECE_ROWS) > _PIECE_ROWS:
                found.append(Piece(len(found), index, tuple(range(first, last + 1)), rows))
                first = last + 1
    return found


def _each(task: Any, work: Conversion, arguments: Sequence[tuple[Any, ...]]) -> Iterator[int]:
    """Run a task with each of these arguments, on a cluster if there is one; it knows by itself what was done before."""
    workers = cluster_size()
    if not workers:
        return (task(work, *given) for given in arguments)
    calls = (joblib.delayed(task)(work, *given) for given in arguments)
    found: Iterator[int] = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")(calls)
    return found


def sort_piece(work: Conversion, piece: Piece) -> int:
    """Write the rows of a piece that count in the order of their settings; how many were read. What an earlier run left is
    checked."""
    target = work.piece(piece.number)
    if not _is_whole(target):
        layout = work.layout
        filtered = [condition.column for condition in work.filters]
        columns = [*layout.config_columns, *work.keys, *layout.group_columns, *layout.loss_columns, *filtered]
        batches = work.source.file_batches(piece.file, list(dict.fromkeys(columns)), piece.groups)
        if work.filters:
            batches = (kept_rows(batch, work.filters)[0] for batch in batches)
        begun = target.with_suffix(f".{os.getpid()}.{os.urandom(4).hex()}")
        begun.mkdir(parents=True)
        try:
            sort_rows(begun, batches, work.source.schema, layout, work.keys, piece.rows, work.binary)
            write_digests(begun, [path.name for path in begun.iterdir()])
            os.replace(begun, target)
        except OSError:
            if not target.exists():  # another process was faster
                raise
        finally:
            shutil.rmtree(begun, ignore_errors=True)
    return piece.rows


def _is_whole(piece: Path) -> bool:
    """Whether a piece is there as it was written; a damaged one is removed."""
    if not piece.exists():
        return False
    try:
        check_digests(piece)
    except StoreError:
        shutil.rmtree(piece, ignore_errors=True)
        return False
    return True


def merge(work: Conversion, count: int) -> Merged:
    """The settings and examples of all pieces."""
    layout = work.layout
    settings = JointCodes([work.kind(name) for name in layout.config_columns])
    examples = JointCodes([work.kind(name) for name in work.keys])
    groups = {name: GroupOfExamples(name, work.kind(name)) for name in layout.group_columns}
    of: tuple[list[Array], list[Array]] = ([], [])
    for number in range(count):
        piece = SortedPiece(work.piece(number))
        if piece.n_rows == 0:
            of[0].append(np.empty(0, dtype=np.int32))
            of[1].append(np.empty(0, dtype=np.int32))
            continue
        of[0].append(settings.encode(piece.columns("settings")).astype(np.int32))
        numbers = examples.encode(piece.columns("examples"))
        of[1].append(numbers.astype(np.int32))
        for (name, group), column in zip(groups.items(), piece.columns("groups"), strict=True):
            group.declare(piece.declared[name])
            if not group.add(numbers, None, column, examples.count):
                raise two_values(name, layout.example_column)
    values = [[plain(value) for value in column.to_pylist()] for column in settings.values()]
    configs = [dict(zip(layout.config_columns, config, strict=True)) for config in zip(*values, strict=True)]
    as_settings(configs)  # an error where a value cannot be that of a setting
    names = examples.values()
    held = {name: g.values(lambda at: plain(names[0][at].as_py())) for name, g in groups.items()}
    return Merged(configs, examples.count, held, *of)


def _blocks(work: Conversion, merged: Merged) -> list[range]:
    """Settings in runs whose losses fit into memory together."""
    cell = sum(8 if pa.types.is_floating(work.kind(name)) else 1 for name in work.layout.loss_columns)
    cell += len(work.layout.loss_columns) + 1  # where outcomes are missing, and which cells have a row
    step = max(1, _BLOCK_BYTES // max(1, merged.n_examples * cell))
    every = len(merged.configs)
    return [range(first, min(first + step, every)) for first in range(0, every, step)]


def _opened(work: Conversion, merged: Merged) -> LossStore:
    return LossStore(work.folder / "store", Task(merged.n_examples, {"rows": work.folder.name}, merged.groups))


def write_settings(work: Conversion, merged: Merged, block: range, store: LossStore | None) -> int:
    """Write some settings to the store; how many of their cells have a row."""
    counted = work.folder / "counts" / f"{block.start:08d}-{block.stop:08d}"
    known = _read(counted)
    if known is not None:
        return int(known["rows"])
    values, missing, has = _gathered(work, merged, block)
    store = store or _opened(work, merged)
    for row, setting in enumerate(block):
        if merged.configs[setting] not in store:
            gaps = {name: missing[name][row] | ~has[row] if name in missing else ~has[row] for name in values}
            store.write(
                merged.configs[setting],
                {name: np.ma.MaskedArray(of[row], gaps[name]) for name, of in values.items()},
            )
    counted.parent.mkdir(exist_ok=True)
    seen = int(np.count_nonzero(has))
    write_text(counted, to_bytes({"rows": seen}).decode())
    return seen


def _gathered(work: Conversion, merged: Merged, block: range) -> tuple[dict[str, Array], dict[str, Array], Array]:
    """The values (settings of the block, examples) of each loss; where they are missing, of some; which cells have a row."""
    pieces = [SortedPiece(work.piece(number)) for number in range(len(merged.settings_of))]
    shape, names = (len(block), merged.n_examples), work.layout.loss_columns
    has: Array = np.zeros(shape, dtype=bool)
    values = {name: np.zeros(shape, np.result_type(*(piece.dtypes[name] for piece in pieces))) for name in names}
    gapped = [name for name in names if any(name in piece.missing for piece in pieces)]
    missing: dict[str, Array] = {name: np.zeros(shape, dtype=bool) for name in gapped}
    for piece, settings, examples in zip(pieces, merged.settings_of, merged.examples_of, strict=True):
        for start, stop, of_row in piece.stretches(settings, block):
            cell = of_row * shape[1] + examples[piece.rows("example", start, stop)]
            has.reshape(-1)[cell] = True
            for name in names:
                values[name].reshape(-1)[cell] = piece.rows(f"value {name}", start, stop)
                if name in piece.missing:
                    missing[name].reshape(-1)[cell] = piece.rows(f"missing {name}", start, stop)
    return values, missing, has
