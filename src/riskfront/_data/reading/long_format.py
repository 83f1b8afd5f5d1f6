"""Long tables, one row for each setting and example, from a stream of rows to a LossTable.

Roles of columns are found in some of the rows and confirmed while all of them are read. Rows go straight into the cells of
their setting and example; a cell without a row, and a row without an outcome, is missing, and nothing is left out for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from riskfront._data.intake import Intake
from riskfront._data.reading.batches import ParquetFiles, Source, bytes_of, read_ahead, sample, whole, with_wider_types
from riskfront._data.reading.cells import Cells, must_hold_numbers, only_0_and_1
from riskfront._data.reading.codes import GroupOfExamples, JointCodes, must_be_exact, run_starts, two_values
from riskfront._data.reading.column_roles import EXAMPLE_NAMES, Layout, detect_layout, guess_layout
from riskfront._data.reading.filters import Filter, KnownBeforehand, kept_rows, parse_filters
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.terms import Term
from riskfront._support.arrays import BoolArray, IntArray
from riskfront._support.progress import ProgressBar
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError

_SMALL = 1 << 17  # rows up to which all of them are looked at to find the roles of the columns
_SOME_EXAMPLES = 200  # whose rows are looked at, all of them, where a sample of rows does not tell
IN_MEMORY = 1 << 30  # bytes of losses; a larger table is sorted into a store on disk
_MANY = 1 << 23  # rows that take seconds to read


class _NotConfirmedError(Exception):
    """Roles that some rows suggested do not fit all of them."""


def read_long(
    source: Source,
    problem: Problem | None = None,
    layout: Layout | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
    where: str | Sequence[str] = (),
) -> tuple[LossTable, Layout]:
    """A table from rows, and what its columns mean; asked for as in ``read_table``."""
    named, filters = layout or Layout(), parse_filters(where)
    return with_wider_types(source, lambda of: _read(of, problem, named, bounds, binary, filters))


def _read(
    source: Source,
    problem: Problem | None,
    named: Layout,
    bounds: Mapping[str, tuple[float, float]] | None,
    binary: Sequence[str],
    filters: Sequence[Filter],
) -> tuple[LossTable, Layout]:
    columns = list(source.schema.names)
    for name in [*binary, *(condition.column for condition in filters)]:
        known(name, columns, "column")
    terms = problem.terms if problem else []
    outcomes = [str(name) for term in terms for name in (*term.losses, term.given)]
    for condition in filters:
        condition.must_not_be_among(outcomes)
    found, sure = find_layout(source, terms, named, filters)
    if _is_large(source, found, filters):
        return _read_large(source, terms, named, found, sure, bounds, binary, filters)
    try:
        return LongRows(source, found, filters, terms, sure).read(bounds, binary), found
    except _NotConfirmedError:
        found = _from_some_examples(source, terms, named, filters, found)
        return LongRows(source, found, filters, terms, sure=True).read(bounds, binary), found


def _is_large(source: Source, layout: Layout, filters: Sequence[Filter]) -> bool:
    """Whether the losses would take more memory than a table in memory may; the rows are counted only if all were too many."""
    if not isinstance(source, ParquetFiles):
        return False
    cell = 1 + sum(bytes_of(source.schema.field(name).type) for name in layout.loss_columns)
    return source.n_rows * cell > IN_MEMORY and _count(source, filters) * cell > IN_MEMORY


def _count(source: ParquetFiles, filters: Sequence[Filter]) -> int:
    """How many rows the filters leave: the columns that they speak of are read, and nothing is kept of them."""
    if not filters:
        return source.n_rows
    kept = 0
    with _progress_of("filtering", source.n_rows) as bar:
        for batch in source.batches(list(dict.fromkeys(condition.column for condition in filters))):
            kept += len(kept_rows(batch, filters)[0])
            bar.advance(len(batch))
    return kept


def _read_large(
    source: Any,
    terms: Sequence[Term],
    named: Layout,
    found: Layout,
    sure: bool,
    bounds: Mapping[str, tuple[float, float]] | None,
    binary: Sequence[str],
    filters: Sequence[Filter],
) -> tuple[LossTable, Layout]:
    from riskfront._data.reading.on_disk import NotOneRowEachError, read_large  # needs the extra "store"

    keys = example_parts(found, source.schema.names)
    try:
        _must_be_known_beforehand(source, terms, found, keys, filters)
        table = read_large(source, found, keys, bounds, binary, filters)
        if sure or not table.intake.absent:
            return table, found
        raise NotOneRowEachError(table.intake.read, table.n_configs * table.n_examples)
    except NotOneRowEachError as counted:
        if sure:
            raise InvalidInputError(
                f"every setting must have exactly one row for each example; some of {counted.rows:,} rows are of the same "
                f"setting and example. Settings were read from {', '.join(found.config_columns)}; leave out "
                "columns that are no settings."
            ) from None
        looked_closer = _from_some_examples(source, terms, named, filters, found)
        return _read_large(source, terms, named, looked_closer, True, bounds, binary, filters)


def _must_be_known_beforehand(
    source: Source, terms: Sequence[Term], layout: Layout, keys: Sequence[str], filters: Sequence[Filter]
) -> None:
    """Raise an error if a filter rests on an outcome: all rows are looked at, also those that it leaves out."""
    if not filters:
        return
    losses = _limited(layout, terms)
    check = KnownBeforehand(filters, layout, keys, losses, source.schema)
    columns = [*layout.config_columns, *keys, *losses, *(condition.column for condition in filters)]
    with _progress_of("checking the filter", source.n_rows) as bar:
        for batch in read_ahead(source.batches(list(dict.fromkeys(columns)))):
            check.add(batch)
            check.kept(batch)
            bar.advance(len(batch))
    check.must_hold()


def _limited(layout: Layout, terms: Sequence[Term]) -> list[str]:
    """The losses that are tested; all of them where nobody says which."""
    names = layout.loss_columns
    return [name for name in names if any(name in term.losses for term in terms)] or list(names)


def find_layout(
    source: Source, terms: Sequence[Term], named: Layout, filters: Sequence[Filter] = ()
) -> tuple[Layout, bool]:
    """What the columns mean, and whether that is sure: all rows of a small source, or only some of a large one, were seen."""
    if named.example_column is not None:
        example_parts(named, source.schema.names)
    flat = _without_nested(source.schema, terms, named)
    seen = _kept(sample(source, flat), filters)
    if len(seen) == 0:
        seen = _first_kept(source, flat, filters)
        if len(seen) == 0:
            raise InvalidInputError(f"a filter must leave some rows; {' and '.join(map(str, filters))} leaves none.")
    frame = with_example_key(seen.to_pandas(), named.example_column)
    if source.n_rows is not None and source.n_rows <= _SMALL:
        return detect_layout(frame, terms, named), True
    to_its_end = source.n_rows is None and not getattr(source, "places", ())
    if to_its_end and len(seen) < _SMALL and not filters:  # all of a text file
        return detect_layout(frame, terms, named), True
    guessed = guess_layout(frame, terms, named)
    return (guessed, False) if guessed is not None else (_from_some_examples(source, terms, named, filters, None), True)


def _without_nested(schema: pa.Schema, terms: Sequence[Term], named: Layout) -> list[str]:
    """The columns of numbers, texts and truth values; lists and records have no role, and must not be given one."""
    nested = [column.name for column in schema if pa.types.is_nested(column.type)]
    asked = {str(name) for term in terms for name in (*term.losses, term.per, term.given, term.weights)}
    asked |= {*named.config_columns, *named.group_columns, *named.loss_columns, str(named.example_column)}
    asked |= {part.strip() for part in str(named.example_column).split(",")}
    for name in nested:
        if name in asked or name.lower() in EXAMPLE_NAMES:
            raise InvalidInputError(
                f"a column with a role must hold numbers, texts or truth values; '{name}' holds {schema.field(name).type}. "
                "Write the part that names a row into a column of its own."
            )
    return [name for name in schema.names if name not in nested]


def _from_some_examples(
    source: Source, terms: Sequence[Term], named: Layout, filters: Sequence[Filter], guessed: Layout | None
) -> Layout:
    """The same from all rows of some examples, wherever they are; or from all rows if it is not known what the examples are."""
    example = named.example_column or (guessed.example_column if guessed else None)
    flat = _without_nested(source.schema, terms, named)
    if example is None or example not in source.schema.names:
        rows = _kept(whole(source, flat), filters)
        return detect_layout(with_example_key(rows.to_pandas(), named.example_column), terms, named)
    some = pc.unique(sample(source, [example]).column(example))[:_SOME_EXAMPLES]
    tables = (pa.Table.from_batches([batch]) for batch in source.batches(flat))
    parts = [_kept(table.filter(pc.is_in(table.column(example), some)), filters) for table in tables]
    return detect_layout(pa.concat_tables(parts).to_pandas(), terms, named)


class LongRows:
    """The rows of a long table while they are read. Unless the layout is ``sure``, rows that do not fit are no error but a
    reason to look closer."""

    def __init__(
        self, source: Source, layout: Layout, filters: Sequence[Filter], terms: Sequence[Term], sure: bool
    ) -> None:
        self._source, self._layout, self._filters, self._terms, self._sure = source, layout, filters, terms, sure
        self._keys = example_parts(layout, source.schema.names)
        kinds = {name: source.schema.field(name).type for name in source.schema.names}
        self._settings = JointCodes([kinds[name] for name in layout.config_columns])
        self._examples = JointCodes([kinds[name] for name in self._keys])
        self._groups = {name: GroupOfExamples(name, kinds[name]) for name in layout.group_columns}
        expected = source.n_rows or getattr(source, "expected_rows", None)
        self._cells = Cells({name: kinds[name] for name in layout.loss_columns}, expected if not filters else None)
        self._read = 0

    def read(self, bounds: Mapping[str, tuple[float, float]] | None = None, binary: Sequence[str] = ()) -> LossTable:
        filtered = [condition.column for condition in self._filters]
        columns = [*self._layout.config_columns, *self._keys, *self._groups, *self._layout.loss_columns, *filtered]
        for name in self._layout.loss_columns:
            must_hold_numbers(name, self._source.schema.field(name).type, self._source.batches([name]))
        losses = _limited(self._layout, self._terms)
        check = KnownBeforehand(self._filters, self._layout, self._keys, losses, self._source.schema)
        with _progress_of("reading", self._source.n_rows) as bar:
            for batch in read_ahead(self._source.batches(list(dict.fromkeys(columns)))):
                self._read += len(batch)
                check.add(batch)
                self._add(check.kept(batch))
                bar.advance(len(batch))
        if self._cells.rows == 0:
            raise InvalidInputError(
                f"a filter must leave some rows; {' and '.join(map(str, self._filters))} leaves none."
                if self._filters
                else "a table must have at least one row; this one is empty."
            )
        check.must_hold()
        return self._finished(bounds, binary)

    def _add(self, batch: pa.RecordBatch) -> None:
        if len(batch) == 0:
            return
        column = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
        must_be_exact(self._keys, column)
        settings = self._coded(self._settings, column, self._layout.config_columns)
        examples = self._coded(self._examples, column, self._keys)
        counts = self._settings.count, self._examples.count
        starts = run_starts([pa.array(examples)])
        for name, group in self._groups.items():
            if not group.add(examples, starts, column[name], counts[1]):
                if self._sure or name in {term.per for term in self._terms} | {term.weights for term in self._terms}:
                    raise two_values(name, self._layout.example_column)
                raise _NotConfirmedError
        losses = {name: column[name] for name in self._layout.loss_columns}
        self._cells.put(settings, examples, losses, counts)

    def _coded(self, codes: JointCodes, column: Mapping[str, pa.Array], names: Sequence[str]) -> IntArray:
        found = codes.encode([column[name] for name in names])
        if found.min() < 0:
            row = int(np.argmin(found))
            values = {name: column[name][row].as_py() for name in names}
            lacking = next(name for name, value in values.items() if value is None or value != value)
            row += self._cells.rows
            if codes is self._examples:
                raise InvalidInputError(f"every row must have a value for '{lacking}'; row {row} has none.")
            raise InvalidInputError(
                f"setting column '{lacking}' must have a value in every row; row {row} has none. "
                "Settings were read from these columns; leave out columns that are no settings."
            )
        return found

    def _finished(self, bounds: Mapping[str, tuple[float, float]] | None, binary: Sequence[str]) -> LossTable:
        counts = self._settings.count, self._examples.count
        n_seen = self._cells.n_seen
        absent = counts[0] * counts[1] - n_seen
        if n_seen < self._cells.rows:
            if not self._sure:
                raise _NotConfirmedError
            self._refuse_repeated(n_seen)
        if absent and not self._sure:
            raise _NotConfirmedError
        columns = zip(self._layout.config_columns, self._settings.values(), strict=True)
        settings = pd.DataFrame({name: column.to_pandas() for name, column in columns})
        groups = {name: group.values(self._example_of) for name, group in self._groups.items()}
        losses = self._cells.losses(counts)
        losses = {name: only_0_and_1(name, array) if name in binary else array for name, array in losses.items()}
        reason = "--where " + " and ".join(map(str, self._filters))
        intake = Intake(self._read, self._read, absent=absent).without(reason, self._read - self._cells.rows)
        return LossTable(settings, losses, groups, bounds).with_intake(intake)

    def _example_of(self, code: int) -> Any:
        values = [plain(part[code].as_py()) for part in self._examples.values()]
        return values[0] if len(values) == 1 else tuple(values)

    def _refuse_repeated(self, n_seen: int) -> None:
        """Find one pair of setting and example that comes twice, and say which."""
        columns = [*self._layout.config_columns, *self._keys, *(f.column for f in self._filters)]
        first: BoolArray = np.zeros(self._settings.count * self._examples.count, dtype=bool)
        for batch in self._source.batches(columns):
            batch, _ = kept_rows(batch, self._filters)
            column = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
            settings = self._settings.encode([column[name] for name in self._layout.config_columns])
            examples = self._examples.encode([column[name] for name in self._keys])
            place = settings * self._examples.count + examples
            twice = first[place]
            order = np.argsort(place, kind="stable")
            twice[order[1:]] |= place[order[1:]] == place[order[:-1]]
            if twice.any():
                row = int(np.argmax(twice))
                config = {name: plain(column[name][row].as_py()) for name in self._layout.config_columns}
                raise InvalidInputError(
                    f"every setting must have exactly one row for each example; {self._layout.example_column} = "
                    f"{self._example_of(int(examples[row]))!r} comes more than once for the setting {config} "
                    f"({self._cells.rows - n_seen:,} such rows in all). "
                    f"Settings were read from {', '.join(self._layout.config_columns)}; leave out columns that are "
                    "no settings."
                )
            first[place] = True


def example_parts(layout: Layout, columns: Sequence[str]) -> list[str]:
    """The columns that name an example together; sample 7 of one subset is not sample 7 of another."""
    example = str(layout.example_column)
    parts = [example] if example in columns else [part.strip() for part in example.split(",")]
    for part in parts if len(parts) > 1 else ():
        if part not in columns:
            raise InvalidInputError(
                f"an example must be named by columns of the file; there is no column '{part}' for the key '{example}'. "
                f"Columns: {', '.join(map(str, columns))}."
            )
    return parts


def _first_kept(source: Source, columns: Sequence[str], filters: Sequence[Filter]) -> pa.Table:
    """The first rows that the filters leave, wherever they are."""
    found: list[pa.RecordBatch] = []
    for batch in source.batches(columns):
        found.append(kept_rows(batch, filters)[0])
        if sum(map(len, found)) >= _SMALL:
            break
    return pa.Table.from_batches(found, schema=pa.schema([source.schema.field(name) for name in columns]))


def _kept(table: pa.Table, filters: Sequence[Filter]) -> pa.Table:
    for condition in filters:
        table = table.filter(pa.array(condition.kept(table.select([condition.column]).to_pandas())))
    return table


def _progress_of(title: str, rows: int | None) -> ProgressBar:
    """A bar for what takes more than two seconds."""
    return ProgressBar(title, rows, 0, None if rows is None or rows > _MANY else False)


def with_example_key(frame: pd.DataFrame, example_column: str | None) -> pd.DataFrame:
    """The frame with a column of tuples for a key such as "subset,sample"; unchanged if one column is the key."""
    if example_column is None or example_column in frame.columns or "," not in example_column:
        return frame
    parts = [part.strip() for part in example_column.split(",")]
    for part in parts:
        if frame[part].isna().any():
            raise InvalidInputError(
                f"every row must have a value for '{part}'; row {int(frame[part].isna().argmax())} has none."
            )
    # tuples, not joined texts: ("a,b", "c") and ("a", "b,c") are two examples
    keys = pd.Series(list(zip(*(frame[part] for part in parts), strict=True)), index=frame.index, dtype=object)
    return frame.assign(**{example_column: keys})
