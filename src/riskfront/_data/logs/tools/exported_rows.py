"""Rows that a service exports or that its API answers with: JSON, JSON Lines, CSV or Parquet, with names_like_this."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.tools.json_files import list_of, must_be_object, read_json, read_lines
from riskfront._data.reading.opening import read_frame

#: endings of files that are read
KINDS = (".json", ".jsonl", ".csv", ".parquet")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of an export with names_like_this; texts that are JSON are what they say."""
    if path.suffix.lower() == ".jsonl":
        rows: list[Any] = [row for _, row in read_lines(path)]
    elif path.suffix.lower() == ".json":
        found = read_json(path)
        rows = list_of(found.get("data") if isinstance(found, Mapping) else found, f"'{path}'", "the rows")
    else:
        rows = read_frame(path).to_dict("records")
    return [
        {_snake(str(key)): _known(value) for key, value in must_be_object(row, f"'{path}'").items()} for row in rows
    ]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _known(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
