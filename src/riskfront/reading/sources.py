"""What people give as data: a table, a store of losses, or the path or URL of either."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from riskfront.errors import InvalidInputError
from riskfront.losses.table import LossTable
from riskfront.losses.table_file import is_parquet, is_saved_table, open_parquet
from riskfront.problems.problem import Problem
from riskfront.reading.long_format import read_table, table_of


@runtime_checkable
class HoldsTable(Protocol):
    """A LossStore, say."""

    def table(self) -> LossTable: ...


Data = LossTable | HoldsTable | str | os.PathLike[str]
Bounds = Mapping[str, tuple[float, float]]


def as_table(data: Data, problem: Problem | None = None, bounds: Bounds | None = None) -> LossTable:
    """The table itself. Of a long table in a file, the columns that the problem needs, with the bounds that are declared."""
    if isinstance(data, LossTable):
        if bounds:
            raise InvalidInputError(
                "a table carries its own bounds; declare them where it is made: LossTable(..., bounds=)."
            )
        return data
    if isinstance(data, str | os.PathLike):
        return read_table(data, problem, bounds=bounds)[0]
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
