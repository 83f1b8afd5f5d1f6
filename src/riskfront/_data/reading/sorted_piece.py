"""One piece of a table larger than memory: its rows in the order of their settings, as files that can be read in parts.

settings.parquet   the settings, in the order in which they first come
examples.parquet   the same for examples
groups.parquet     the groups of each example
piece.json         where the rows of each setting begin, types, which of them miss outcomes, categories of groups
example, value <loss>, missing <loss>   a number for each row
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riskfront._data.reading.batches import read_ahead
from riskfront._data.reading.cells import LossValues, only_0_and_1
from riskfront._data.reading.codes import GroupOfExamples, JointCodes, must_be_exact, two_values
from riskfront._data.reading.column_roles import Layout
from riskfront._support.arrays import Array, IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


def sort_rows(
    folder: Path,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    layout: Layout,
    keys: Sequence[str],
    rows: int,
    binary: frozenset[str],
) -> None:
    """Write rows, at most so many, to a folder, in the order of their settings; within a setting they stay in theirs."""
    kinds = {name: schema.field(name).type for name in schema.names}
    settings, examples = (JointCodes([kinds[name] for name in names]) for names in (layout.config_columns, keys))
    groups = {name: GroupOfExamples(name, kinds[name]) for name in layout.group_columns}
    of_setting, of_example = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int32)
    losses = {name: LossValues(name, kinds[name], rows) for name in layout.loss_columns}
    at = 0
    for batch in read_ahead(batches):
        if len(batch) == 0:
            continue
        column = {name: batch.column(index) for index, name in enumerate(batch.schema.names)}
        here = slice(at, at + len(batch))
        of_setting[here] = _coded(settings, column, layout.config_columns)
        must_be_exact(keys, column)
        numbers = _coded(examples, column, keys)
        of_example[here] = numbers
        for name, group in groups.items():
            if not group.add(numbers, None, column[name], examples.count):
                raise two_values(name, layout.example_column)
        for name, loss in losses.items():
            loss.put(here, column[name], at)
        at += len(batch)
    order, starts = _by_setting(of_setting[:at], settings.count)
    del of_setting
    _write(folder, "example", of_example[:at], order)
    types, missing = {}, []
    for name in list(losses):
        loss = losses.pop(name)
        values, gaps = loss.take()[:at], None if loss.missing is None else loss.missing[:at]
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InvalidInputError(
                f"loss '{name}' must be finite; some rows hold infinity. Write nan where there is no outcome: it counts as the "
                "worst there can be."
            )
        if name in binary:
            values = only_0_and_1(name, values if gaps is None else np.ma.MaskedArray(values, gaps))
            values = np.asarray(values)
        _write(folder, f"value {name}", values, order)
        types[name] = values.dtype.str
        if gaps is not None:
            _write(folder, f"missing {name}", gaps, order)
            missing.append(name)
    pq.write_table(_table(layout.config_columns, settings.values()), folder / "settings.parquet")
    pq.write_table(_table(keys, examples.values()), folder / "examples.parquet")
    pq.write_table(_table(list(groups), [group.known() for group in groups.values()]), folder / "groups.parquet")
    declared = {name: [plain(level) for level in group.declared] for name, group in groups.items()}
    starts.tofile(folder / "starts")
    about = {"rows": at, "types": types, "missing": missing, "declared": declared}
    (folder / "piece.json").write_text(json.dumps(about), encoding="utf-8")


class SortedPiece:
    """A folder that ``sort_rows`` wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        about: dict[str, Any] = json.loads((folder / "piece.json").read_text(encoding="utf-8"))
        self.n_rows, self.missing = int(about["rows"]), set(about["missing"])  # losses that miss some
        self.dtypes = {loss: np.dtype(kind) for loss, kind in about["types"].items()}
        self.declared: dict[str, list[Any]] = about[
            "declared"
        ]  # categories of groups, whether an example has them or not

    def columns(self, of: str) -> list[pa.Array]:
        """The value of each column in each of the "settings", of each key in each of the "examples", or of each of their
        "groups"."""
        return [column.combine_chunks() for column in pq.read_table(self._folder / f"{of}.parquet").columns]

    def stretches(self, numbers: Array, block: range) -> Iterator[tuple[int, int, IntArray]]:
        """Rows (from, to) of settings that lie in a block, and of each row the place of its setting in the block.

        ``numbers``: of the settings of the piece in the whole table.
        """
        inside = np.flatnonzero((numbers >= block.start) & (numbers < block.stop))
        starts = np.fromfile(self._folder / "starts", dtype=np.int64)
        for run in np.split(inside, np.flatnonzero(np.diff(inside) != 1) + 1):
            if run.size:
                places = numbers[run].astype(np.int64) - block.start
                yield int(starts[run[0]]), int(starts[run[-1] + 1]), np.repeat(places, starts[run + 1] - starts[run])

    def rows(self, column: str, start: int, stop: int) -> Array:
        """Some rows of a column: "example", "value <loss>" or "missing <loss>"."""
        what, _, loss = column.partition(" ")
        kind = {"example": np.dtype(np.int32), "missing": np.dtype(bool)}.get(what) or self.dtypes[loss]
        path = self._folder / _file_name(column)
        return np.fromfile(path, dtype=kind, count=stop - start, offset=start * kind.itemsize)


def _coded(codes: JointCodes, column: Mapping[str, pa.Array], names: Sequence[str]) -> IntArray:
    found = codes.encode([column[name] for name in names])
    if found.min(initial=0) < 0:
        raise InvalidInputError(f"every row must have a value for {', '.join(names)}; some rows have none.")
    return found


def _by_setting(codes: Array, count: int) -> tuple[IntArray | None, IntArray]:
    """The order that sorts rows by setting, None where they are sorted; and where each setting begins."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=count))])
    if (codes[1:] >= codes[:-1]).all():
        return None, starts
    short = codes.astype(np.uint16) if count <= 1 << 16 else codes  # sorted by radix, several times as fast
    return np.argsort(short, kind="stable"), starts


def _write(folder: Path, name: str, values: Array, order: IntArray | None) -> None:
    (values if order is None else values.take(order)).tofile(folder / _file_name(name))


def _file_name(column: str) -> str:
    return column if column == "example" else hashlib.sha256(column.encode()).hexdigest()[:16]


def _table(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Table:
    decoded = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    return pa.Table.from_arrays(decoded, names=list(names))
