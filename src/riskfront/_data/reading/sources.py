"""What people give as data: a table, a store of losses, a data frame, or the path or URL of any of these."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from riskfront._data.problem_fit import limited_losses, worst_in_every_limit
from riskfront._data.reading.batches import Source, with_wider_types
from riskfront._data.reading.column_roles import (
    PAID,
    Layout,
    holds_runs,
    price_bounds,
    recorded_failures,
    refuse_copied_prompts,
    with_saved_roles,
)
from riskfront._data.reading.long_format import read_long
from riskfront._data.reading.opening import from_frame, from_path, holds_parts, parts_of
from riskfront._data.table import LossTable
from riskfront._data.table_file import is_parquet, is_saved_table, open_parquet
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront.errors import InvalidInputError


@runtime_checkable
class HoldsTable(Protocol):
    """A LossStore, say."""

    def table(self) -> LossTable: ...


Data = Any  # LossTable, HoldsTable, a path or URL, or a data frame with the Arrow stream protocol
Bounds = Mapping[str, tuple[float, float]]


def read_table(
    data: Data,
    problem: Problem | None = None,
    *,
    layout: Layout | None = None,
    bounds: Bounds | None = None,
    binary: Sequence[str] = (),
    where: str | Sequence[str] = (),
) -> tuple[LossTable, Layout | None]:
    """A table from a file or a data frame, and what was detected about its columns (None where the data say it themselves).

    Args:
        data: a saved table; a store; or a long table, with one row for each setting and example: a Parquet, CSV or JSON-lines
            file, a folder or glob of Parquet files, the URL of any of these, or a data frame.
        problem: its losses, groups and conditions are the columns to read.
        layout: columns that the user named.
        bounds: of losses.
        binary: losses to declare 0/1 although they are stored as decimal numbers.
        where: which rows count, such as "task == mbpp"; by columns of the examples or the settings, never by an outcome.

    Examples:
        >>> import pandas as pd
        >>> long = pd.DataFrame({"threshold": [0.1, 0.1, 0.9, 0.9], "example": [0, 1, 0, 1], "error": [0, 1, 0, 0]})
        >>> table, layout = read_table(long)
        >>> table
        LossTable(2 settings (threshold) x 2 examples; losses error)
    """
    made = _made_before(data, bounds, binary, where)
    if made is not None:
        return made, None
    named = layout or Layout()
    if isinstance(data, str | os.PathLike):
        source: Source | None = from_path(data)
    else:
        source = None if isinstance(data, type) else from_frame(data)
    if source is None:
        raise InvalidInputError(
            "data must be a LossTable, a LossStore, a data frame, or the path of a file or store of losses; got "
            f"{type(data).__name__}."
        )
    refuse_copied_prompts(source)
    paid = holds_runs(source.schema)
    if paid and problem is not None:
        limited = {loss for limit in problem.limits for loss in limit.term.losses}
        known = {name: pair for name, pair in price_bounds(source.schema).items() if name in limited}
        bounds = {**known, **(bounds or {})}
    table, found = read_long(source, problem, with_saved_roles(source.schema, named), bounds, binary, where)
    table = table.with_failures(with_wider_types(source, recorded_failures))
    return table.without_default_bounds(PAID) if paid else table, found


def _made_before(
    data: Data, bounds: Bounds | None, binary: Sequence[str], where: str | Sequence[str]
) -> LossTable | None:
    """What is a table already, in memory, in a file or in a store; None for rows."""
    if isinstance(data, LossTable):
        if bounds or binary or where:
            raise InvalidInputError(
                "a table carries its own bounds and types; declare them where it is made: LossTable(..., bounds=)."
            )
        return data
    if isinstance(data, str | os.PathLike):
        if is_store(data):
            from riskfront._data.stores.loss_store import LossStore  # needs the extra "store"

            return table_of(LossStore(data), bounds=bounds or None)
        if _is_saved(data):
            if bounds or binary or where:
                raise InvalidInputError(
                    "a saved table carries its own bounds and types; bounds, binary and where are for long tables."
                )
            return LossTable.load(data)
        return None
    if isinstance(data, HoldsTable) and not isinstance(data, type):
        return table_of(data, bounds=bounds) if bounds else table_of(data)
    return None


def table_of(store: Any, **options: Any) -> LossTable:
    """The table of a store of evaluate."""
    if getattr(store, "part", None) is not None:
        raise InvalidInputError(
            f"the {store.part} part of a tune run must not be calibrated on: its settings were chosen by the losses of these "
            "very examples. tune has tested them on others: use its certificate, or evaluate the settings on new examples."
        )
    table: LossTable = store.table(**options)
    return table


def as_table(
    data: Data, problem: Problem | None = None, bounds: Bounds | None = None, clusters: str | None = None
) -> LossTable:
    """The table itself, with one row a cluster if some are named. Of a long table in a file, the columns that the problem
    needs, with the bounds that are declared."""
    layout = Layout(group_columns=() if clusters is None else (clusters,))
    table, _ = read_table(data, problem, layout=layout, bounds=bounds)
    return table if clusters is None else clustered(table, clusters, problem)


def clustered(table: LossTable, name: str, problem: Problem | None = None) -> LossTable:
    """One averaged row a cluster, unless that was done before; an error if the problem needs what a mean row has not."""
    if table.clusters is not None:
        if table.clusters == name:
            return table
        raise InvalidInputError(f"rows must be averaged once; these are means over '{table.clusters}' already.")
    fill = {} if problem is None else worst_in_every_limit(problem, table)
    made = table.by_cluster(name, fill)
    if problem is not None:
        worst = table.n_missing(limited_losses(problem)) - table.intake.absent
        made = made.with_intake(table.intake.with_worst(worst))
    for term in problem.terms if problem else ():
        for group in (term.per, term.weights, term.given):
            if group in table.group_names and group not in made.group_names:
                raise InvalidInputError(
                    f"'{group}' must be the same in all rows of a {name} to be spoken of; it differs within some. "
                    "Keep the rows of one kind, with where= or --where, or take the two as one cluster."
                )
        if term.given in table.loss_names:
            raise InvalidInputError(
                f"a mean over the rows of a {name} has no condition that differs between them; got given '{term.given}'. "
                f"Write a ratio: a column that is '{term.loss}' where '{term.given}' holds and else 0, / {term.given}."
            )
    return made


def as_unlabelled(data: Data, problem: Problem, table: LossTable) -> LossTable:
    """Examples without labels, in the settings of a labelled table and with as many rows a cluster as it has: one."""
    found = read_unlabelled(data, problem, table)
    return found if table.clusters is None else clustered(found, table.clusters, proxies_of(problem))


def read_unlabelled(
    data: Data, problem: Problem, table: LossTable, layout: Layout | None = None, **options: Any
) -> LossTable:
    """The same, row by row. Of a long table in a file, the columns of the proxies, of their groups and their conditions, with
    the bounds that the labelled table declares."""
    wanted = proxies_of(problem)
    if not is_long_file(data):
        found, _ = read_table(data)
    else:
        named, clusters = layout or Layout(), () if table.clusters is None else (table.clusters,)
        groups = (*named.group_columns, *clusters)
        named = replace(named, config_columns=tuple(table.config_names), group_columns=groups)
        bounds = {name: pair for name, pair in table.declared_bounds.items() if name in wanted.losses}
        found, _ = read_table(data, wanted, layout=named, bounds=bounds, **options)
    if gaps := sorted(set(found.missing) & set(wanted.losses)):
        raise InvalidInputError(
            "unlabelled examples must have every proxy at every setting, as the labelled ones do; some of "
            f"'{gaps[0]}' are missing."
        )
    return found


def proxies_of(problem: Problem) -> Problem:
    """What unlabelled examples must tell: the proxies of the limits, in their groups and under their conditions."""
    limits = [limit for limit in problem.limits if limit.proxy is not None]
    if not limits:
        raise InvalidInputError(
            "unlabelled examples help with limits that name a proxy, as 'error <= 0.05 proxy judge'; none does."
        )
    asked = dict.fromkeys(Limit(str(of.proxy), at_most=0.5, per=of.per, given=of.given) for of in limits)
    return Problem(list(asked), minimize=[str(limits[0].proxy)])


def is_long_file(data: Data) -> bool:
    """Whether these are rows without bounds of their own: neither a store nor a table."""
    if isinstance(data, str | os.PathLike):
        return not is_store(data) and not _is_saved(data)
    return not isinstance(data, LossTable | HoldsTable)


def _is_saved(path: str | os.PathLike[str]) -> bool:
    text = os.fspath(path)
    if "://" in text or not os.path.isfile(text):
        return False
    return is_parquet(text) and is_saved_table(open_parquet(text))


def notes_of(data: Data) -> tuple[str, ...]:
    """Sentences that a store has on what a guarantee on its examples speaks of; none for tables."""
    if isinstance(data, str | os.PathLike) and is_store(data):
        from riskfront._data.stores.loss_store import LossStore  # needs the extra "store"

        data = LossStore(data)
    return () if isinstance(data, type) else tuple(getattr(data, "notes", ()))


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a path must be that of a store: a folder or a URL that holds no Parquet or text files."""
    text = os.fspath(path)
    if "://" in text:
        kinds = (".parquet", ".pq", ".csv", ".tsv", ".json", "*")
        names = [link.rpartition("/")[2] for link in text.split("::")]  # zip://losses.csv::https://host/a.zip
        return not any(kind in name for name in names for kind in kinds) and not holds_parts(text)
    folder = Path(text)
    if not folder.is_dir():
        return False
    return (folder / "zarr.json").exists() or (folder / "task.json").exists() or not parts_of(folder)
