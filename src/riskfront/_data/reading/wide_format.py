"""Wide tables: one row an example, one column a setting, with a second file that says what the settings are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from riskfront._data.intake import Intake
from riskfront._data.reading.batches import Source, read_ahead, sample, whole, with_wider_types
from riskfront._data.reading.cells import numbers_of, only_0_and_1
from riskfront._data.reading.column_roles import Layout
from riskfront._data.reading.filters import Filter, filtered, parse_filters, refused, repeats
from riskfront._data.reading.long_format import example_parts, with_example_key
from riskfront._data.reading.opening import from_path, read_frame
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import Array, BoolArray, FloatArray
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError, LeftOutWarning

_MOSTLY = 0.5  # share of numbers from which on a column of texts was meant as a setting
_MISSING = "none"  # what an empty cell of a settings file means: the setting has no such value


def read_wide(
    path: str | os.PathLike[str],
    problem: Problem | None = None,
    *,
    example_column: str | None = None,
    settings: str | os.PathLike[str] | pd.DataFrame | None = None,
    group_columns: Sequence[str] = (),
    loss: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
    where: str | Sequence[str] = (),
) -> tuple[LossTable, Layout]:
    """A table from a file with one column a setting, and what its columns mean.

    Args:
        path: Parquet or CSV.
        problem: names the loss that the cells hold, and groups.
        example_column: the column, or columns separated by commas, that name the examples; the row number without it.
        settings: a file or data frame with a row a setting: one of its columns holds the names of the wide columns, the
            others are numbers and texts of the settings, which may be objectives as long as they were not computed from
            the outcomes in the wide table. Without it every column of numbers is a setting.
        group_columns: columns with a group of each example, besides those that the problem mentions.
        loss: what the cells hold; without it, the one loss of the problem's limits.
        bounds: of the loss.
        binary: the loss, to declare it 0/1 although stored as decimal numbers.
        where: which examples and settings count, such as "subset == arc" or "bits <= 8".

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> wide = pd.DataFrame({"id": [7, 8, 9], "4 bit": [0.0, 1.0, 0.5], "8 bit": [1.0, 1.0, 0.5]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     wide.to_csv(f"{folder}/w.csv", index=False)
        ...     table, layout = read_wide(f"{folder}/w.csv", example_column="id", loss="score")
        >>> table
        LossTable(2 settings (setting) x 3 examples; losses score)
    """
    described = settings if settings is None or isinstance(settings, pd.DataFrame) else read_frame(settings)
    name, filters = loss or _only_loss(problem, described), parse_filters(where)
    return with_wider_types(
        from_path(path),
        lambda of: _from_source(of, problem, example_column, described, group_columns, name, bounds, binary, filters),
    )


def _from_source(
    source: Source,
    problem: Problem | None,
    example_column: str | None,
    settings: pd.DataFrame | None,
    group_columns: Sequence[str],
    name: str,
    bounds: Mapping[str, tuple[float, float]] | None,
    binary: Sequence[str],
    filters: Sequence[Filter],
) -> tuple[LossTable, Layout]:
    names = list(source.schema.names)
    keys = [] if example_column is None else example_parts(Layout(example_column=example_column), names)
    terms = problem.terms if problem else []
    mentioned = [name for term in terms for name in (term.per, term.given, term.weights)]
    groups = list(dict.fromkeys([*group_columns, *(column for column in mentioned if column is not None)]))
    for group in groups:
        known(group, names, "column")
    about = _only_columns(source, [*keys, *groups]) if settings is None else _described(names, settings)
    columns = about.iloc[:, 0].tolist()
    beside = [condition.column for condition in filters if condition.column not in columns]
    others = [column for column in dict.fromkeys([*keys, *groups, *beside]) if column in names]
    frame, cells = _read(source, others, columns, name)
    frame = with_example_key(frame, example_column)
    if example_column is not None:
        _one_row_each(frame, known(example_column, list(frame.columns), "column"))
    read = cells.size
    if filters:
        frame, about, cells = _kept(frame, about, cells, filters)
    if name in binary:
        cells = only_0_and_1(name, cells)
    _not_computed_from(cells, about, problem)
    labels = {group: frame[group] for group in groups}
    intake = Intake.whole(read).without("--where " + " and ".join(map(str, filters)), read - cells.size)
    table = LossTable(about, {name: cells}, labels, bounds).with_intake(intake)
    return table, Layout(tuple(about.columns), example_column or "row number", tuple(groups), (name,))


def _read(source: Source, others: Sequence[str], columns: Sequence[str], name: str) -> tuple[pd.DataFrame, Array]:
    """The columns that are no settings, and the cells (settings, examples), masked where one is empty."""
    for column in columns:
        if not _is_of_numbers(source.schema.field(column).type) and not _is_empty(source, column):
            raise _no_numbers(source, column, name)
    parts: list[list[Array]] = [[] for _ in columns]
    gaps: list[list[tuple[int, BoolArray]]] = [[] for _ in columns]
    beside, rows = [], 0
    for batch in read_ahead(source.batches([*others, *columns])):
        beside.append(batch.select(list(others)))
        for at, column in enumerate(columns):
            values, missing = numbers_of(column, batch.column(len(others) + at), rows)
            parts[at].append(values)
            if missing is not None:
                gaps[at].append((rows, missing))
        rows += len(batch)
    cells = np.empty((len(columns), rows), np.result_type(*(part.dtype for several in parts for part in several)))
    for at, several in enumerate(parts):
        np.concatenate(several, out=cells[at])
        several.clear()
    schema = pa.schema([source.schema.field(other) for other in others])
    frame = pa.Table.from_batches(beside, schema=schema).to_pandas() if others else pd.DataFrame(index=range(rows))
    if not any(gaps):
        return frame, cells
    mask = np.zeros(cells.shape, dtype=bool)
    for at, found in enumerate(gaps):
        for start, missing in found:
            mask[at, start : start + len(missing)] = missing
    return frame, np.ma.MaskedArray(cells, mask)


def _is_of_numbers(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
    return any(is_kind(kind) for is_kind in kinds)


def _is_empty(source: Source, column: str) -> bool:
    """Whether no row has a value: a setting that failed on every example."""
    return all(batch.column(0).null_count == len(batch) for batch in source.batches([column]))


def _no_numbers(source: Source, column: str, name: str) -> InvalidInputError:
    texts = whole(source, [column]).to_pandas()[column]
    wrong = pd.to_numeric(texts, errors="coerce").isna() & texts.notna()
    where = int(wrong.to_numpy().argmax())
    return InvalidInputError(
        f"the column of a setting must hold its {name} as numbers; '{column}' has {plain(texts.iloc[where])!r} in row {where}."
    )


def _only_loss(problem: Problem | None, settings: pd.DataFrame | None) -> str:
    """The loss that the problem speaks of; objectives that are columns of the settings are not in the cells."""
    own = [] if settings is None else list(settings.columns)
    named = [loss for loss in problem.losses if loss not in own] if problem else ["score"]
    if len(named) != 1:
        raise InvalidInputError(
            f"the cells of a wide table hold one loss; the problem mentions {', '.join(named) or 'none'}. "
            "Make the other a column of the settings file, or write a long table with a row a setting and example."
        )
    return named[0]


def _described(columns: Sequence[str], settings: pd.DataFrame) -> pd.DataFrame:
    """The settings file in the order of its rows, its first column the name of the wide column."""
    shares = {column: settings[column].astype(str).isin(columns).mean() for column in settings}
    name = max(shares, key=lambda column: shares[column]) if shares else None
    if name is None or shares[name] == 0:
        raise InvalidInputError(
            "one column of the settings file must hold the names of the columns of the wide table; none does. "
            f"Settings: {', '.join(map(str, settings.columns))}; wide table: {', '.join(columns[:8])}, ..."
        )
    about = settings[[name, *(column for column in settings.columns if column != name)]].copy()
    about[name] = about[name].astype(str)
    if about[name].duplicated().any():
        twice = about[name][about[name].duplicated()].iloc[0]
        raise InvalidInputError(f"each setting must come once in the settings file; '{twice}' comes more than once.")
    absent = about[~about[name].isin(columns)]
    if len(absent):
        warnings.warn(
            LeftOutWarning(
                f"{len(absent):,} of {len(about):,} settings have no column in the wide table and were left out: "
                f"{', '.join(absent[name][:5])}."
            ),
            stacklevel=2,
        )
    about = about.drop(index=absent.index).reset_index(drop=True)
    for column in about.columns[about.isna().any()]:
        about[column] = about[column].astype(object).where(about[column].notna(), _MISSING)
    return about


def _only_columns(source: Source, taken: Sequence[str]) -> pd.DataFrame:
    """Without a settings file every other column of numbers is a setting, known by its name alone."""
    free = [column.name for column in source.schema if column.name not in taken]
    names = [name for name in free if _is_of_numbers(source.schema.field(name).type)]
    if not names:
        raise InvalidInputError(
            "a wide table must have a column of numbers for each setting; found none. Without --wide, a file is read as one "
            "row a setting and example."
        )
    empty = [name for name in free if name not in names and _is_empty(source, name)]
    if empty:
        warnings.warn(
            LeftOutWarning(
                f"'{empty[0]}' has no value in any row and was left out. If it is a setting that failed on every example, name "
                "the settings in a file (--settings): it then counts as the worst everywhere."
            ),
            stacklevel=2,
        )
    for name in free:
        if pa.types.is_string(kind := source.schema.field(name).type) or pa.types.is_large_string(kind):
            texts = sample(source, [name]).to_pandas()[name].dropna()
            # a setting with a word among its outcomes
            if pd.to_numeric(texts, errors="coerce").notna().mean() > _MOSTLY:
                raise _no_numbers(source, name, "outcomes")
    return pd.DataFrame({"setting": names})


def _kept(
    frame: pd.DataFrame, about: pd.DataFrame, cells: Array, filters: Sequence[Filter]
) -> tuple[pd.DataFrame, pd.DataFrame, Array]:
    """The examples and the settings that a filter leaves: by columns of the settings file, or of the examples."""
    outcomes = about.iloc[:, 0].tolist()
    for condition in filters:
        if condition.column in outcomes:
            raise refused(condition.column)
    of_settings = [condition for condition in filters if condition.column in about.columns]
    of_examples = [condition for condition in filters if condition.column not in about.columns]
    for condition in filters:
        source, axis = (about, 1) if condition in of_settings else (frame, 0)
        if condition.column in source and repeats(source[condition.column], _means(cells, axis)):
            raise refused(condition.column)
    settings, examples = filtered(about, of_settings, ()), filtered(frame, of_examples, outcomes)
    cells = cells[settings.index.to_numpy()][:, examples.index.to_numpy()]
    return examples.reset_index(drop=True), settings.reset_index(drop=True), cells


def _not_computed_from(cells: Array, about: pd.DataFrame, problem: Problem | None) -> None:
    """An objective that repeats the mean outcome of each setting would let the testing examples choose what is tested."""
    for objective in problem.objectives if problem else ():
        if objective.loss in about and repeats(about[objective.loss], _means(cells, 1)):
            raise InvalidInputError(
                f"an objective must not be computed from the outcomes that are tested; '{objective.loss}' follows the mean "
                "outcome of every setting. Name the outcome itself as the objective."
            )


def _means(cells: Array, axis: int) -> FloatArray:
    """The mean of what is known, of each setting or of each example."""
    if not isinstance(cells, np.ma.MaskedArray):
        return np.asarray(cells.mean(axis=axis, dtype=np.float64))
    return np.ma.filled(cells.mean(axis=axis, dtype=np.float64).astype(np.float64), np.nan)


def _one_row_each(frame: pd.DataFrame, example_column: str) -> None:
    if frame[example_column].isna().any():
        where = int(frame[example_column].isna().argmax())
        raise InvalidInputError(f"every row must have a value for '{example_column}'; row {where} has none.")
    if frame[example_column].duplicated().any():
        twice = plain(frame[example_column][frame[example_column].duplicated()].iloc[0])
        raise InvalidInputError(
            f"a wide table must have one row for each example; {example_column} = {twice!r} comes more than once. "
            "Several columns may name an example together: subset,sample."
        )
