"""Files of runs say themselves which of their columns are settings: in the metadata of the Parquet file."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from riskfront.losses.table_file import open_parquet
from riskfront.reading.column_roles import Layout

#: in the metadata of a Parquet file of runs: {"settings": columns, "about": columns of the examples}
KEY = b"riskfront.runs"


def saved_roles(path: str | os.PathLike[str]) -> dict[str, list[str]] | None:
    """The roles that a file of runs names; None for any other file."""
    if Path(path).suffix.lower() not in (".parquet", ".pq"):
        return None
    text = (open_parquet(path).schema_arrow.metadata or {}).get(KEY)
    return None if text is None else json.loads(text)


def with_saved_roles(path: str | os.PathLike[str], layout: Layout) -> Layout:
    """The layout that the user named; where it is silent, what a file of runs says."""
    roles = saved_roles(path)
    if roles is None:
        return layout
    return replace(
        layout,
        config_columns=layout.config_columns or tuple(roles["settings"]),
        example_column=layout.example_column or "example",
    )
