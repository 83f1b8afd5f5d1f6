"""What people give as data: a table, a store of losses, or the path or URL of either."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from riskfront.errors import InvalidInputError, LeftOutWarning
from riskfront.losses.table import LossTable
from riskfront.losses.table_file import is_parquet, is_saved_table, open_parquet
from riskfront.problems.limits import Limit
from riskfront.problems.problem import Problem
from riskfront.reading.column_roles import Layout
from riskfront.reading.long_format import read_table, table_of


@runtime_checkable
class HoldsTable(Protocol):
    """A LossStore, say."""

    def table(self) -> LossTable: ...


Data = LossTable | HoldsTable | str | os.PathLike[str]
Bounds = Mapping[str, tuple[float, float]]


def as_table(
    data: Data, problem: Problem | None = None, bounds: Bounds | None = None, clusters: str | None = None
) -> LossTable:
    """The table itself, with one row a cluster if some are named. Of a long table in a file, the columns that the problem
    needs, with the bounds that are declared."""
    if clusters is not None:
        return clustered(_rows(data, problem, bounds, (clusters,)), clusters, problem)
    return _rows(data, problem, bounds)


def clustered(table: LossTable, name: str, problem: Problem | None = None) -> LossTable:
    """One averaged row a cluster, unless that was done before; an error if the problem needs what a mean row has not."""
    if table.clusters is not None:
        if table.clusters == name:
            return table
        raise InvalidInputError(f"rows must be averaged once; these are means over '{table.clusters}' already.")
    made = table.by_cluster(name)
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
    if not isinstance(data, str | os.PathLike) or not is_long_file(data):
        return _rows(data, None, None)
    named, clusters = layout or Layout(), () if table.clusters is None else (table.clusters,)
    named = replace(named, config_columns=tuple(table.config_names), group_columns=(*named.group_columns, *clusters))
    wanted = proxies_of(problem)
    bounds = {name: pair for name, pair in table.declared_bounds.items() if name in wanted.losses}
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftOutWarning)
        try:
            return read_table(data, wanted, layout=named, bounds=bounds, **options)[0]
        except LeftOutWarning as gaps:
            raise InvalidInputError(
                f"unlabelled examples must have every proxy at every setting, as the labelled ones do. {gaps}"
            ) from None


def proxies_of(problem: Problem) -> Problem:
    """What unlabelled examples must tell: the proxies of the limits, in their groups and under their conditions."""
    limits = [limit for limit in problem.limits if limit.proxy is not None]
    if not limits:
        raise InvalidInputError(
            "unlabelled examples help with limits that name a proxy, as 'error <= 0.05 proxy judge'; none does."
        )
    asked = dict.fromkeys(Limit(str(of.proxy), at_most=0.5, per=of.per, given=of.given) for of in limits)
    return Problem(list(asked), minimize=[str(limits[0].proxy)])


def _rows(data: Data, problem: Problem | None, bounds: Bounds | None, groups: tuple[str, ...] = ()) -> LossTable:
    if isinstance(data, LossTable):
        if bounds:
            raise InvalidInputError(
                "a table carries its own bounds; declare them where it is made: LossTable(..., bounds=)."
            )
        return data
    if isinstance(data, str | os.PathLike):
        return read_table(data, problem, layout=Layout(group_columns=groups), bounds=bounds)[0]
    if isinstance(data, HoldsTable) and not isinstance(data, type):
        return table_of(data, bounds=bounds) if bounds else table_of(data)
    raise InvalidInputError(
        f"data must be a LossTable, a LossStore, or the path of a file or store of losses; got {type(data).__name__}."
    )


def is_long_file(data: Data) -> bool:
    """Whether this is the path of a file without bounds of its own: neither a store nor a saved table."""
    if not isinstance(data, str | os.PathLike) or is_store(data):
        return False
    return not (is_parquet(data) and is_saved_table(open_parquet(data)))


def notes_of(data: Data) -> tuple[str, ...]:
    """Sentences that a store has on what a guarantee on its examples speaks of; none for tables."""
    if isinstance(data, str | os.PathLike) and is_store(data):
        from riskfront.stores.store import LossStore  # needs the extra "store"

        data = LossStore(data)
    return () if isinstance(data, type) else tuple(getattr(data, "notes", ()))


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a path must be that of a store: a folder or a URL."""
    return "://" in os.fspath(path) or Path(path).is_dir()
