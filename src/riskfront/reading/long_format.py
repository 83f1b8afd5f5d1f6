"""Long tables, one row for each setting and example, from Parquet or CSV files to a LossTable."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError, StoreError
from riskfront.losses.table import LossTable
from riskfront.losses.table_file import is_parquet, is_saved_table, open_parquet
from riskfront.losses.values import known, plain
from riskfront.problems.problem import Problem
from riskfront.reading.column_roles import Layout, detect_layout
from riskfront.reading.example_keys import with_example_key
from riskfront.reading.filters import filtered, must_be_known_beforehand, parse_filters
from riskfront.reading.incomplete import complete_part, filled, where_known
from riskfront.reading.runs_layout import with_saved_roles
from riskfront.reading.worst_outcomes import worst_outcomes

# the same numbers, to the last bit, as in a Parquet file; from version 3 on pandas reads so by itself
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


def read_table(
    path: str | os.PathLike[str],
    problem: Problem | None = None,
    *,
    layout: Layout | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
    where: str | Sequence[str] = (),
) -> tuple[LossTable, Layout | None]:
    """A table from a file, and what was detected about its columns (None for a saved table, which says it itself).

    Args:
        path: a saved table, or a long table in Parquet or CSV.
        problem: its losses, groups and conditions are the columns to read.
        layout: columns that the user named.
        bounds: of losses.
        binary: losses to declare 0/1 although their file stores them as decimal numbers.
        where: which rows count, such as "task == mbpp"; by columns of the examples or the settings, never by an outcome.

    Examples:
        >>> import tempfile
        >>> import pandas as pd
        >>> long = pd.DataFrame({"threshold": [0.1, 0.1, 0.9, 0.9], "example": [0, 1, 0, 1], "error": [0, 1, 0, 0]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     long.to_parquet(f"{folder}/losses.parquet")
        ...     table, layout = read_table(f"{folder}/losses.parquet")
        >>> table
        LossTable(2 settings (threshold) x 2 examples; losses error)
    """
    if is_parquet(path) and is_saved_table(open_parquet(path)):
        if bounds or binary or where:
            raise InvalidInputError(
                "a saved table carries its own bounds and types; bounds, binary and where are for long tables."
            )
        return LossTable.load(path), None
    if "://" in os.fspath(path) or Path(path).is_dir():
        from riskfront.stores.store import LossStore  # needs the extra "store"

        return table_of(LossStore(path), bounds=bounds or None), None
    if not Path(path).exists():
        raise StoreError(f"cannot read '{path}': no such file or folder.")
    frame = read_frame(path)
    return from_long(frame, problem, with_saved_roles(path, layout or Layout()), bounds, binary, where)


def table_of(store: Any, **options: Any) -> LossTable:
    """The table of a store of evaluate."""
    if getattr(store, "part", None) is not None:
        raise InvalidInputError(
            f"the {store.part} part of a tune run must not be calibrated on: its settings were chosen by the losses of these "
            "very examples. tune has tested them on others: use its certificate, or evaluate the settings on new examples."
        )
    table: LossTable = store.table(**options)
    return table


def from_long(
    frame: pd.DataFrame,
    problem: Problem | None = None,
    layout: Layout | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
    where: str | Sequence[str] = (),
) -> tuple[LossTable, Layout]:
    """The same from a data frame."""
    if frame.empty:
        raise InvalidInputError("a table must have at least one row; this one is empty.")
    for name in binary:
        known(name, list(frame.columns), "column")
    named, terms, filters = layout or Layout(), problem.terms if problem else (), parse_filters(where)
    frame = whole = with_example_key(frame, named.example_column)
    frame = filtered(frame, filters, [str(name) for term in terms for name in (*term.losses, term.given)])
    found = detect_layout(frame, terms, named)
    must_be_known_beforehand(whole, filters, str(found.example_column), found.config_columns, found.loss_columns)
    codes, examples = pd.factorize(frame[found.example_column])
    rows, setting_codes = _settings(frame, found.config_columns)
    place, has = _places(frame, found, setting_codes, codes, rows, examples)
    arrays = {name: _loss(frame, name, place, has.shape) for name in found.loss_columns}
    settings = frame.loc[:, list(found.config_columns)].iloc[rows].reset_index(drop=True)
    _, firsts = np.unique(codes, return_index=True)
    has = where_known(arrays, has)
    worst = None if has.all() else worst_outcomes(problem, arrays, bounds)
    kept, seen = complete_part(
        has, lambda row: str({name: plain(settings[name].iloc[row]) for name in settings}), worst
    )
    settings, firsts, part = settings.iloc[kept], firsts[seen], np.ix_(kept, seen)
    if worst is not None:
        arrays = {name: filled(array, has, worst[name]) for name, array in arrays.items()}
    arrays = {name: _compact(name, array[part], name in binary) for name, array in arrays.items()}
    labels = {name: _group_values(frame, name, firsts, str(found.example_column)) for name in found.group_columns}
    return LossTable(settings, arrays, labels, bounds), found


def _limited(problem: Problem | None, found: Layout) -> list[str]:
    """The losses that limits speak of; what an example costs may well be known before."""
    limited = {loss for limit in (problem.limits if problem else ()) for loss in limit.term.losses}
    return [loss for loss in found.loss_columns if loss in limited]


def read_frame(path: str | os.PathLike[str]) -> pd.DataFrame:
    suffix = Path(path).suffix.lower()
    if is_parquet(path):
        try:
            return open_parquet(path).read().to_pandas()
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read '{path}': the file is damaged or cut off ({error}).") from None
    if suffix in (".csv", ".tsv", ".txt", ".gz"):
        _refuse_repeated_names(path, "\t" if suffix == ".tsv" else ",")
        try:
            # only an empty cell is missing: "NA" and "None" may be settings, and are no numbers in a loss
            return pd.read_csv(
                path,
                sep="\t" if suffix == ".tsv" else ",",
                keep_default_na=False,
                na_values=[""],
                **_EXACT,
            )
        except FileNotFoundError:
            raise StoreError(f"cannot read '{path}': no such file.") from None
        except (OSError, ValueError, pd.errors.ParserError, EOFError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"cannot read '{path}' as CSV: {reason}.") from None
    raise InvalidInputError(f"a table must be a .parquet, .csv or .tsv file; got '{path}'.")


def _refuse_repeated_names(path: str | os.PathLike[str], separator: str) -> None:
    """pandas would rename the second of two columns with one name; nobody could tell which was certified."""
    try:
        header = (
            pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, encoding="utf-8-sig").iloc[0].tolist()
        )
    except (OSError, ValueError, pd.errors.ParserError, EOFError, IndexError):
        return  # reading the whole file says what is wrong
    repeated = sorted({str(name) for name in header if header.count(name) > 1})
    if repeated:
        raise InvalidInputError(f"column names must differ; '{repeated[0]}' comes more than once in '{path}'.")


def _settings(frame: pd.DataFrame, configs: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """The first row of each setting, in order of appearance, and the setting of each row."""
    for name in configs:
        if frame[name].isna().any():
            raise InvalidInputError(
                f"setting column '{name}' must have a value in every row; row {int(frame[name].isna().argmax())} has none."
            )
    codes = frame.groupby(list(configs), sort=False, observed=True).ngroup().to_numpy(dtype=np.int64)
    _, rows = np.unique(codes, return_index=True)
    return rows, codes


def _places(
    frame: pd.DataFrame, layout: Layout, settings: IntArray, codes: IntArray, rows: IntArray, examples: Any
) -> tuple[IntArray, BoolArray]:
    """The flat position of each row in a (settings, examples) array, and which of those there are; none may come twice."""
    place = settings * len(examples) + codes
    counts = np.bincount(place, minlength=len(rows) * len(examples))
    if (counts > 1).any():
        setting, example = divmod(int(np.argmax(counts > 1)), len(examples))
        config = {name: plain(frame[name].iloc[rows[setting]]) for name in layout.config_columns}
        raise InvalidInputError(
            f"every setting must have exactly one row for each example; {layout.example_column} = "
            f"{plain(examples[example])!r} comes more than once for the setting {config} "
            f"({int((counts > 1).sum()):,} such cases in all). "
            f"Settings were read from {', '.join(layout.config_columns)}; --config-columns names others."
        )
    return place, (counts == 1).reshape(len(rows), len(examples))


def _loss(frame: pd.DataFrame, name: str, place: IntArray, shape: tuple[int, ...]) -> Array:
    """(settings, examples): what is missing is nan, or 0 in a column of whole numbers that lacks rows."""
    column = frame[name]
    if column.dtype.kind not in "biuf":
        texts = np.array([not isinstance(plain(value), int | float | None) for value in column], dtype=bool)
        if texts.any() or not column.notna().any():
            no_numbers = texts & pd.to_numeric(column, errors="coerce").isna().to_numpy()
            where = int((no_numbers if no_numbers.any() else texts).argmax())
            raise InvalidInputError(f"loss '{name}' must hold numbers; got {column.iloc[where]!r} in row {where}.")
        column = column.astype(np.float64)
    values = column.to_numpy()
    array = np.full(shape[0] * shape[1], np.nan if values.dtype.kind == "f" else 0, dtype=values.dtype)
    array[place] = values
    return array.reshape(shape)


def _compact(name: str, values: Array, binary: bool) -> Array:
    """The array as it is, or as booleans if it is declared 0/1."""
    if not binary:
        return values
    if not np.isin(values, (0, 1)).all():
        raise InvalidInputError(
            f"a 0/1 loss must hold only 0 and 1; '{name}' holds {values[~np.isin(values, (0, 1))][0]:g}."
        )
    return values.astype(bool)


def _group_values(frame: pd.DataFrame, name: str, firsts: IntArray, example: str) -> Any:
    values = frame[name].iloc[firsts]
    if values.isna().any():
        where = plain(frame[example].iloc[firsts[int(values.isna().argmax())]])
        raise InvalidInputError(f"group '{name}' must have a value for every example; {example} = {where!r} has none.")
    return values.reset_index(drop=True) if isinstance(values.dtype, pd.CategoricalDtype) else values.to_numpy()
