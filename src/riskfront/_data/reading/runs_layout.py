"""Files of runs say themselves which of their columns are settings: in the metadata of the Parquet file."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from riskfront._data.reading.batches import Source, whole
from riskfront._data.reading.column_roles import Layout
from riskfront._data.table_file import open_parquet
from riskfront._support.sealed_parquet import check_seal

#: in the metadata of a Parquet file of runs: {"settings": columns, "about": columns of the examples, "left_out": account}
KEY = b"riskfront.runs"


def saved_roles(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The roles that a file of runs names; None for any other file."""
    if Path(path).suffix.lower() not in (".parquet", ".pq"):
        return None
    text = (open_parquet(path).schema_arrow.metadata or {}).get(KEY)
    if text is None:
        return None
    check_seal(path, required=True)
    roles: dict[str, list[str]] = json.loads(text)
    return roles


def recorded_failures(source: Source) -> dict[str, float]:
    """The score that calls which failed have in a file of runs; empty where none failed."""
    names = source.schema.names
    if KEY not in (source.schema.metadata or {}) or not {"score", "failed"} <= set(names):
        return {}
    rows = whole(source, ["score", "failed"]).to_pandas()
    scores = rows["score"][rows["failed"] == 1].dropna()
    return {"score": float(scores.iloc[0])} if len(scores) else {}


def with_saved_roles(schema: pa.Schema, layout: Layout) -> Layout:
    """The layout that the user named; where it is silent, what a file of runs says."""
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        return layout
    roles = json.loads(text)
    return replace(
        layout,
        config_columns=layout.config_columns or tuple(roles["settings"]),
        example_column=layout.example_column or "example",
    )
