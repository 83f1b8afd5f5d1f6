"""Wide tables: one row an example, one column a setting, with a second file that says what the settings are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from riskfront.arrays import Array, FloatArray
from riskfront.errors import InvalidInputError, LeftOutWarning
from riskfront.losses.table import LossTable
from riskfront.losses.values import known, plain
from riskfront.problems.problem import Problem
from riskfront.reading.column_roles import Layout
from riskfront.reading.example_keys import with_example_key
from riskfront.reading.filters import Filter, filtered, parse_filters, refused, repeats
from riskfront.reading.incomplete import complete_part, filled
from riskfront.reading.long_format import read_frame
from riskfront.reading.worst_outcomes import worst_outcomes

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
    options = {"group_columns": group_columns, "loss": loss, "bounds": bounds, "binary": binary, "where": where}
    return from_wide(read_frame(path), problem, example_column=example_column, settings=described, **options)  # type: ignore[arg-type]


def from_wide(
    frame: pd.DataFrame,
    problem: Problem | None = None,
    *,
    example_column: str | None = None,
    settings: pd.DataFrame | None = None,
    group_columns: Sequence[str] = (),
    loss: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    binary: Sequence[str] = (),
    where: str | Sequence[str] = (),
) -> tuple[LossTable, Layout]:
    """The same from data frames."""
    frame = with_example_key(frame, example_column)
    if example_column is not None:
        _one_row_each(frame, known(example_column, list(frame.columns), "column"))
    name = loss or _only_loss(problem, settings)
    terms = problem.terms if problem else []
    mentioned = [name for term in terms for name in (term.per, term.given, term.weights)]
    groups = list(dict.fromkeys([*group_columns, *(column for column in mentioned if column is not None)]))
    for group in groups:
        known(group, list(frame.columns), "column")
    about = _only_columns(frame, [example_column, *groups]) if settings is None else _described(frame, settings)
    frame, about = _kept(frame, about, parse_filters(where), name)
    columns = about.iloc[:, 0].tolist()
    values = _cells(frame, columns, name)
    has = ~np.isnan(values)
    worst = None if has.all() else worst_outcomes(problem, {name: values}, bounds)
    rows, examples = complete_part(has, lambda row: f"'{columns[row]}'", worst)
    if worst is not None:
        values = filled(values, has, worst[name])
    cells = _declared(name, values[np.ix_(rows, examples)], frame[columns], binary)
    _not_computed_from(cells, about.iloc[rows], problem)
    labels = {group: frame[group].iloc[examples].reset_index(drop=True) for group in groups}
    table = LossTable(about.iloc[rows].reset_index(drop=True), {name: cells}, labels, bounds)
    return table, Layout(tuple(about.columns), example_column or "row number", tuple(groups), (name,))


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


def _described(frame: pd.DataFrame, settings: pd.DataFrame) -> pd.DataFrame:
    """The settings file in the order of its rows, its first column the name of the wide column."""
    shares = {
        column: settings[column].astype(str).isin([str(name) for name in frame.columns]).mean() for column in settings
    }
    name = max(shares, key=lambda column: shares[column]) if shares else None
    if name is None or shares[name] == 0:
        raise InvalidInputError(
            "one column of the settings file must hold the names of the columns of the wide table; none does. "
            f"Settings: {', '.join(map(str, settings.columns))}; wide table: {', '.join(map(str, frame.columns[:8]))}, ..."
        )
    about = settings[[name, *(column for column in settings.columns if column != name)]].copy()
    about[name] = about[name].astype(str)
    if about[name].duplicated().any():
        twice = about[name][about[name].duplicated()].iloc[0]
        raise InvalidInputError(f"each setting must come once in the settings file; '{twice}' comes more than once.")
    absent = about[~about[name].isin([str(column) for column in frame.columns])]
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


def _only_columns(frame: pd.DataFrame, taken: Sequence[str | None]) -> pd.DataFrame:
    """Without a settings file every other column of numbers is a setting, known by its name alone."""
    names = [str(c) for c in frame.columns if c not in taken and frame[c].dtype.kind in "biuf"]
    if not names:
        raise InvalidInputError(
            "a wide table must have a column of numbers for each setting; found none. Without --wide, a file is read as one "
            "row a setting and example."
        )
    return pd.DataFrame({"setting": names})


def _kept(
    frame: pd.DataFrame, about: pd.DataFrame, filters: Sequence[Filter], name: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The examples and the settings that a filter leaves: by columns of the settings file, or of the examples."""
    outcomes = about.iloc[:, 0].tolist()
    for condition in filters:
        if condition.column in outcomes:
            raise refused(condition.column)
    of_settings = [condition for condition in filters if condition.column in about.columns]
    of_examples = [condition for condition in filters if condition.column not in about.columns]
    if filters:
        cells = pd.DataFrame(_cells(frame, outcomes, name))
        for condition in filters:
            source, axis = (about, 1) if condition in of_settings else (frame, 0)
            if condition.column in source and repeats(source[condition.column], cells.mean(axis=axis).to_numpy()):
                raise refused(condition.column)
    kept = filtered(about, of_settings, ()).reset_index(drop=True)
    return filtered(frame, of_examples, outcomes).reset_index(drop=True), kept


def _cells(frame: pd.DataFrame, columns: Sequence[str], name: str) -> FloatArray:
    """(settings, examples), nan where a cell is empty."""
    frame = frame.rename(columns=str)
    for column in columns:
        if frame[column].dtype.kind not in "biuf":
            wrong = pd.to_numeric(frame[column], errors="coerce").isna() & frame[column].notna()
            where = int(wrong.to_numpy().argmax())
            raise InvalidInputError(
                f"the column of a setting must hold its {name} as numbers; '{column}' has "
                f"{plain(frame[column].iloc[where])!r} in row {where}."
            )
    return np.ascontiguousarray(frame[list(columns)].to_numpy(dtype=np.float64).T)


def _declared(name: str, cells: FloatArray, frame: pd.DataFrame, binary: Sequence[str]) -> Array:
    """Whole numbers if every column holds them, booleans if the user says so; decimals otherwise."""
    if name in binary:
        if not np.isin(cells, (0, 1)).all():
            raise InvalidInputError(
                f"a 0/1 loss must hold only 0 and 1; '{name}' holds {cells[~np.isin(cells, (0, 1))][0]:g}."
            )
        return cells.astype(bool)
    return cells.astype(np.int64) if all(kind.kind in "biu" for kind in frame.dtypes) else cells


def _not_computed_from(cells: Array, about: pd.DataFrame, problem: Problem | None) -> None:
    """An objective that repeats the mean outcome of each setting would let the testing examples choose what is tested."""
    for objective in problem.objectives if problem else ():
        if objective.loss in about and repeats(about[objective.loss], cells.mean(axis=1)):
            raise InvalidInputError(
                f"an objective must not be computed from the outcomes that are tested; '{objective.loss}' follows the mean "
                "outcome of every setting. Name the outcome itself as the objective."
            )


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
