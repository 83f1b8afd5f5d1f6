"""The settings of a table, checked once where the table is made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


def as_settings(configs: Sequence[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
    """The settings as a data frame with one row each, all different, without missing values."""
    if isinstance(configs, pd.DataFrame):
        frame = configs.reset_index(drop=True).copy()
        frame.columns = [str(name) for name in frame.columns]
    else:
        rows = list(configs)
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise InvalidInputError(
                    f"each setting must be a dictionary; got {type(row).__name__} at position {index}."
                )
            if row.keys() != rows[0].keys():
                raise InvalidInputError(
                    f"all settings must have the same keys; setting 0 has {sorted(map(str, rows[0]))}, "
                    f"setting {index} has {sorted(map(str, row))}."
                )
        frame = pd.DataFrame({str(key): [row[key] for row in rows] for key in (rows[0] if rows else ())})
    if frame.empty:
        raise InvalidInputError("a table must have at least one setting with at least one value; got none.")
    if frame.columns.duplicated().any():
        raise InvalidInputError(f"setting names must differ; got {list(frame.columns)}.")
    for name in frame.columns:
        for index, value in enumerate(map(plain, frame[name].tolist())):
            if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
                raise InvalidInputError(
                    f"setting values must be finite numbers, texts or booleans; got {value!r} for '{name}' in setting "
                    f"{index}. Write a number or a text that means the same."
                )
    repeated = frame.duplicated(keep="first").to_numpy()
    if repeated.any():
        second = int(np.argmax(repeated))
        first = int(np.argmax((frame == frame.iloc[second]).all(axis=1).to_numpy()))
        raise InvalidInputError(
            f"all settings must differ; settings {first} and {second} are both "
            f"{ {name: plain(frame[name].iloc[second]) for name in frame.columns} }. Drop one or average their losses."
        )
    return frame


def numbers_of_settings(configs: pd.DataFrame, name: str, rows: IntArray | None) -> FloatArray:
    """(settings,): a number that each setting has by itself, such as its price."""
    values = configs[name]
    if values.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"a column of the settings must hold a number for every setting to be an objective; '{name}' does not."
        )
    numbers = values.to_numpy(dtype=np.float64)
    return numbers if rows is None else numbers[rows]
