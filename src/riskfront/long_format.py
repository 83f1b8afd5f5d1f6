"""Long tables, one row for each setting and example, from Parquet or CSV files to a LossTable."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront.arrays import Array, IntArray
from riskfront.columns import known, plain
from riskfront.errors import InvalidInputError, StoreError
from riskfront.problem import Problem
from riskfront.table import LossTable
from riskfront.table_file import is_saved_table, open_parquet

_EXAMPLE_NAMES = (
    "example",
    "example_id",
    "sample",
    "sample_id",
    "id",
    "idx",
    "index",
    "row",
    "prompt_id",
    "question_id",
    "item",
)


# the same numbers, to the last bit, as in a Parquet file; from version 3 on pandas reads so by itself
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a long table mean. Empty: to be detected."""

    config_columns: tuple[str, ...] = ()
    example_column: str | None = None
    group_columns: tuple[str, ...] = ()
    loss_columns: tuple[str, ...] = ()
    condition_columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        groups = f"; groups {', '.join(self.group_columns)}" if self.group_columns else ""
        return (
            f"settings {', '.join(self.config_columns)}; examples {self.example_column}; "
            f"losses {', '.join(self.loss_columns)}{groups}"
        )


def read_table(
    path: str | os.PathLike[str],
    problem: Problem | None = None,
    layout: Layout | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
) -> tuple[LossTable, Layout | None]:
    """A table from a file, and what was detected about its columns (None for a saved table, which says it itself).

    Args:
        path: a saved table, or a long table in Parquet or CSV.
        problem: its losses, groups and conditions are the columns to read.
        layout: columns that the user named.
        bounds: of losses.
        binary: losses to declare 0/1 although their file stores them as decimal numbers.
    """
    if Path(path).suffix.lower() in (".parquet", ".pq") and is_saved_table(open_parquet(path)):
        if bounds or binary:
            raise InvalidInputError(
                "a saved table carries its own bounds and types; bounds and binary are for long tables."
            )
        return LossTable.load(path), None
    if "://" in str(path) or Path(path).is_dir():
        from riskfront.store import LossStore  # needs the extra "store"

        return LossStore(path).table(bounds=bounds or None), None
    frame = _read_frame(path)
    return from_long(frame, problem, layout, bounds, binary)


def from_long(
    frame: pd.DataFrame,
    problem: Problem | None = None,
    layout: Layout | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
) -> tuple[LossTable, Layout]:
    """The same from a data frame."""
    if frame.empty:
        raise InvalidInputError("a table must have at least one row; this one is empty.")
    named = _named(frame, problem, layout or Layout(), binary)
    example = named.example_column or _detect_example(frame, named)
    codes, examples = pd.factorize(frame[example])
    if (codes < 0).any():
        raise InvalidInputError(f"every row must have a value for '{example}'; row {int(np.argmin(codes))} has none.")
    blocks = _Blocks(codes, len(examples))
    configs, groups, losses = _detect(frame, named, example, blocks)
    found = Layout(configs, example, groups, losses)
    rows, setting_codes = _settings(frame, configs)
    place = _places(frame, found, setting_codes, codes, rows, examples)
    arrays = {name: _loss(frame, name, place, (len(rows), len(examples)), name in binary) for name in losses}
    settings = frame.loc[:, list(configs)].iloc[rows].reset_index(drop=True)
    _, firsts = np.unique(codes, return_index=True)
    labels: dict[str, Any] = {name: _group_values(frame, name, firsts, example) for name in groups}
    return LossTable(settings, arrays, labels, bounds), found


def _read_frame(path: str | os.PathLike[str]) -> pd.DataFrame:
    suffix = Path(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
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


def _named(frame: pd.DataFrame, problem: Problem | None, given: Layout, binary: Sequence[str]) -> Layout:
    """The layout with the columns that the problem mentions; every named column must exist."""
    losses, groups = list(given.loss_columns), list(given.group_columns)
    for term in problem.terms if problem else ():
        losses.append(term.loss)
        groups += [term.per] if term.per else []
    conditions = [term.given for term in problem.terms if term.given] if problem else []
    asked = [
        *losses,
        *groups,
        *conditions,
        *given.config_columns,
        *([given.example_column] if given.example_column else []),
    ]
    for name in [*asked, *binary]:
        known(name, list(frame.columns), "column")
    clash = set(losses) & {*given.config_columns, given.example_column, *groups}
    if clash:
        raise InvalidInputError(
            f"a column must have one role; '{sorted(map(str, clash))[0]}' is a loss and named as another."
        )
    unique = [tuple(dict.fromkeys(names)) for names in (groups, losses, conditions)]
    return Layout(given.config_columns, given.example_column, *unique)


def _detect_example(frame: pd.DataFrame, named: Layout) -> str:
    """The column that names the examples: by its name, or the only one with every value equally often and most values."""
    taken = {*named.config_columns, *named.group_columns, *named.loss_columns}
    free = [str(column) for column in frame.columns if column not in taken]
    # a column that numbers the rows names no examples, unless there is only one setting and so nothing else varies
    several = any(1 < frame[column].nunique() < len(frame) for column in free)
    free = [column for column in free if not (several and frame[column].is_unique)]
    for name in _EXAMPLE_NAMES:
        for column in free:
            if column.lower() == name:
                return column
    regular = {}
    for column in free:
        counts = frame[column].value_counts(dropna=False)
        if frame[column].dtype.kind != "f" and len(counts) > 1 and counts.nunique() == 1:
            regular[column] = len(counts)
    best = sorted(regular, key=lambda column: -regular[column])
    if not best or (len(best) > 1 and regular[best[0]] == regular[best[1]]):
        raise InvalidInputError(
            "cannot tell which column names the examples; name it (--example-column). "
            f"Columns: {', '.join(map(str, frame.columns))}."
        )
    return best[0]


class _Blocks:
    """The rows of each example side by side, to see what varies within an example and what across examples."""

    def __init__(self, codes: IntArray, n: int) -> None:
        counts = np.bincount(codes, minlength=n)
        self.order = np.argsort(codes, kind="stable")
        self.even = bool((counts == counts[0]).all())
        self.starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self.of_row = codes
        self.n = n

    def constant(self, column: pd.Series) -> bool:
        """Whether the column has one value for each example."""
        values = pd.factorize(column)[0]
        return bool((values == values[self.order[self.starts]][self.of_row]).all())

    def repeated(self, column: pd.Series) -> bool:
        """Whether every example has the same values of this column, each as often: then it tells settings apart."""
        if not self.even:
            return False
        values = np.sort(pd.factorize(column)[0][self.order].reshape(self.n, -1), axis=1)
        return bool((values == values[0]).all())


def _detect(
    frame: pd.DataFrame, named: Layout, example: str, blocks: _Blocks
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Setting, group and loss columns. Columns nobody mentioned that fit no role are left out."""
    for name in named.group_columns:
        if not blocks.constant(frame[name]):
            raise InvalidInputError(
                f"group '{name}' must have one value for each example, the same in all rows of '{example}'."
            )
    # a condition that varies with the setting is stored like a loss, one that does not like a group
    fixed = [
        name for name in named.condition_columns if name not in named.loss_columns and blocks.constant(frame[name])
    ]
    losses = [*named.loss_columns, *(name for name in named.condition_columns if name not in fixed)]
    groups = list(dict.fromkeys([*named.group_columns, *fixed]))
    rest = [str(c) for c in frame.columns if c not in {example, *losses, *groups, *named.config_columns}]
    configs = named.config_columns
    if not configs:
        if not blocks.even:
            raise InvalidInputError(
                f"every example must have one row for each setting; '{example}' has values with different numbers of rows. "
                "Name the setting columns (--config-columns) to learn which rows are missing, or add them."
            )
        configs = tuple(name for name in rest if blocks.repeated(frame[name]) and not blocks.constant(frame[name]))
        if not configs and len(frame) == blocks.n:  # one row an example: a single setting, which nothing tells apart
            configs = tuple(name for name in rest if frame[name].nunique() == 1)
        if not configs:
            raise InvalidInputError(
                "cannot tell which columns hold the settings; name them (--config-columns). "
                f"Columns: {', '.join(map(str, frame.columns))}."
            )
    if not named.loss_columns:  # nobody mentioned a loss: every other number that varies is one
        losses += [
            n for n in rest if n not in configs and frame[n].dtype.kind in "biuf" and not blocks.constant(frame[n])
        ]
    if not losses:
        raise InvalidInputError(f"a table must have at least one loss column; found none among {', '.join(rest)}.")
    return configs, tuple(groups), tuple(dict.fromkeys(losses))


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
) -> IntArray:
    """The flat position of each row in a (settings, examples) array; an error if one is missing or comes twice."""
    place = settings * len(examples) + codes
    counts = np.bincount(place, minlength=len(rows) * len(examples))
    for wrong, words in ((counts == 0, "is missing for"), (counts > 1, "comes more than once for")):
        if wrong.any():
            setting, example = divmod(int(np.argmax(wrong)), len(examples))
            config = {name: plain(frame[name].iloc[rows[setting]]) for name in layout.config_columns}
            raise InvalidInputError(
                f"every setting must have exactly one row for each example; {layout.example_column} = "
                f"{plain(examples[example])!r} {words} the setting {config} ({int(wrong.sum()):,} such cases in all). "
                f"Settings were read from {', '.join(layout.config_columns)}; --config-columns names others."
            )
    return place


def _loss(frame: pd.DataFrame, name: str, place: IntArray, shape: tuple[int, int], binary: bool) -> Array:
    column = frame[name]
    if column.isna().any():
        first = int(column.isna().argmax())
        raise InvalidInputError(
            f"loss '{name}' must have a value in every row; {int(column.isna().sum()):,} have none, the first is row {first}. "
            "Drop those examples for every setting, or decide what a missing outcome costs."
        )
    if column.dtype.kind not in "biuf":
        wrong = int(pd.to_numeric(column, errors="coerce").isna().to_numpy().argmax())
        raise InvalidInputError(f"loss '{name}' must hold numbers; got {column.iloc[wrong]!r} in row {wrong}.")
    values = column.to_numpy()
    if binary:
        if not np.isin(values, (0, 1)).all():
            raise InvalidInputError(
                f"a 0/1 loss must hold only 0 and 1; '{name}' holds {values[~np.isin(values, (0, 1))][0]:g}."
            )
        values = values.astype(bool)
    array = np.empty(shape[0] * shape[1], dtype=values.dtype)
    array[place] = values
    return array.reshape(shape)


def _group_values(frame: pd.DataFrame, name: str, firsts: IntArray, example: str) -> Any:
    values = frame[name].iloc[firsts]
    if values.isna().any():
        where = plain(frame[example].iloc[firsts[int(values.isna().argmax())]])
        raise InvalidInputError(f"group '{name}' must have a value for every example; {example} = {where!r} has none.")
    return values.reset_index(drop=True) if isinstance(values.dtype, pd.CategoricalDtype) else values.to_numpy()
