"""Data frames as lists of plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from riskfront._support.values import plain


def to_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """A data frame as lists of plain values; missing numbers become null."""
    return {
        str(name): [None if value != value else value for value in map(plain, frame[name].tolist())]
        for name in frame.columns
    }


def from_columns(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The opposite of ``to_columns``. A missing group stays None; a missing number becomes nan."""
    return pd.DataFrame({name: pd.Series(values, dtype=_kind(name, values)) for name, values in columns.items()})


def _kind(name: str, values: list[Any]) -> Any:
    """The type of a column with gaps: numbers, or anything else; None lets pandas see for itself."""
    if name == "group":
        return object
    return float if None in values and all(value is None or isinstance(value, float) for value in values) else None
