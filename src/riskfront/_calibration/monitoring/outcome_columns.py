"""Columns of outcomes as numbers and as names of groups, whatever they came as."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

NO_GROUP = "(missing)"
_TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


class Columns:
    """Equally long columns by name, of a mapping or a data frame."""

    def __init__(self, given: Any) -> None:
        if not hasattr(given, "keys") or not hasattr(given, "__getitem__"):
            raise InvalidInputError(
                "outcomes must be columns by name, such as {'error': [0, 1, 0]}, or a data frame; got "
                f"{type(given).__name__}."
            )
        self._columns: Mapping[str, Any] = {str(name): given[name] for name in given.keys()}  # noqa: SIM118
        lengths = {name: np.size(values) for name, values in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInputError(f"columns of outcomes must be equally long; got {lengths}.")
        self.number = next(iter(lengths.values()), 0)

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    @property
    def names(self) -> list[str]:
        return list(self._columns)

    def numbers(self, name: str) -> FloatArray:
        """(n,): nan where there is no number."""
        values = self._columns[name]
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float64), np.nan).reshape(-1)
        found = np.asarray(values).reshape(-1)
        if found.dtype.kind in "bifu":
            return found.astype(np.float64)
        return np.array([_number(value) for value in found], dtype=np.float64)

    def labels(self, name: str) -> tuple[IntArray, list[str]]:
        """The place of each value among the names of groups, (n,), and the names: the same for 1, 1.0, "1" and numpy's 1."""
        codes, values = pd.factorize(np.asarray(self._columns[name]).reshape(-1))
        places: dict[str, int] = {}
        named = [places.setdefault(label(value), len(places)) for value in values]
        none = places.setdefault(NO_GROUP, len(places))  # code -1: no value
        return np.array([*named, none], dtype=np.int64)[codes], list(places)

    def texts(self, name: str) -> list[str]:
        return [str(plain(value)) for value in np.asarray(self._columns[name]).reshape(-1)]


def label(value: Any) -> str:
    """The name of a group."""
    value = plain(value)
    if value is None or value != value or value == "":  # nan is not itself
        return NO_GROUP
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _number(value: Any) -> float:
    """nan for what is none: an outcome that cannot be read is missing."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return _TRUTH.get(str(value).strip().lower(), np.nan)
