"""Plain values and known names: what must hold of single numbers and names, wherever they are given."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from riskfront.errors import InvalidInputError


def is_number(value: object) -> bool:
    """Whether a value is one finite number (and not a truth value)."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return real and math.isfinite(value)  # type: ignore[arg-type]


def whole_number(name: str, value: Any, least: int) -> int:
    """A whole number of at least ``least``; numpy's too."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise InvalidInputError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return number


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value


def known(name: str, names: Collection[str], kind: str) -> str:
    """The name itself if it is one of these; else an error with the nearest one."""
    if name not in names:
        near = difflib.get_close_matches(str(name), [str(k) for k in names], n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        listed = ", ".join(f"'{k}'" for k in names) or "none"
        raise InvalidInputError(f"there is no {kind} '{name}'; known: {listed}.{hint}")
    return name


def to_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """A data frame as lists of plain values; missing numbers become null."""
    return {
        str(name): [None if value != value else value for value in map(plain, frame[name].tolist())]
        for name in frame.columns
    }


def from_columns(columns: Mapping[str, list[Any]]) -> pd.DataFrame:
    """The opposite of ``to_columns``. A missing group stays None; a missing number becomes nan."""

    def kind(name: str, values: list[Any]) -> Any:
        """The type of a column with gaps: numbers, or anything else; None lets pandas see for itself."""
        numbers = None in values and all(value is None or isinstance(value, float) for value in values)
        return object if name == "group" else float if numbers else None

    return pd.DataFrame({name: pd.Series(values, dtype=kind(name, values)) for name, values in columns.items()})
