"""What goes into a table, checked once where the table is made: settings, losses, groups."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront.arrays import Array, IntArray
from riskfront.errors import InvalidInputError
from riskfront.sums import Rows, row_blocks

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A group for each example: ``levels[codes[i]]`` is the group of example i."""

    levels: tuple[Any, ...]
    codes: IntArray


class Column(Protocol):
    """Losses (settings, examples) that are read, or evaluated, when rows of them are asked for."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def range(self) -> Bounds:
        """The smallest and the largest value."""

    def __getitem__(self, rows: Rows) -> Array:
        """(rows, examples)."""

    def row_digests(self) -> list[bytes]:
        """The SHA-256 of each row."""

    def part(self, rows: slice) -> Column:
        """These rows as a column of their own, which can be sent to another process."""

    def check(self, rows: Array | None = None) -> None:
        """Raise an error if these rows, or any, are not as they were written."""


def settings(configs: Sequence[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
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
        for index, value in enumerate(frame[name]):
            if not isinstance(plain(value), str | int | float | bool) or (
                isinstance(plain(value), float) and not math.isfinite(value)
            ):
                raise InvalidInputError(
                    f"setting values must be finite numbers, texts or booleans; got {plain(value)!r} for '{name}' in setting "
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


def losses(
    given: Mapping[str, npt.ArrayLike], n_configs: int, bounds: Mapping[str, Bounds]
) -> tuple[dict[str, Array], dict[str, Bounds], dict[str, Bounds]]:
    """Compact, read-only, C-contiguous arrays of one shape; the range of each; the declared bounds."""
    for name in bounds:
        known(name, given, "loss")
    if not given:
        raise InvalidInputError("a table must have at least one loss; got none.")
    declared = {name: _checked_bounds(name, pair) for name, pair in bounds.items()}
    arrays: dict[str, Array] = {}
    ranges: dict[str, Bounds] = {}
    for name, values in given.items():
        if not isinstance(name, str):
            raise InvalidInputError(f"names of losses must be texts; got {name!r}.")
        array = _numbers(name, values)
        n_examples = next(iter(arrays.values())).shape[1] if arrays else None
        if array.ndim != 2 or array.shape[1] == 0 or array.shape != (n_configs, n_examples or array.shape[1]):
            wanted = f"({n_configs}, {n_examples or 'n_examples'})"
            raise InvalidInputError(
                f"loss '{name}' must have shape {wanted}, one row a setting and at least one example; got {array.shape}."
            )
        ranges[name] = _range(name, array)
        if name in declared and _exceeds(ranges[name], declared[name], array.dtype):
            raise InvalidInputError(_outside(name, array, declared[name]))
        compact = _compact(array, declared.get(name, (0.0, 1.0)), ranges[name])
        arrays[name] = compact.view()
        arrays[name].flags.writeable = False
    return arrays, ranges, declared


def declared_bounds(
    bounds: Mapping[str, Bounds], ranges: Mapping[str, Bounds], kinds: Mapping[str, np.dtype[Any]] | None = None
) -> dict[str, Bounds]:
    """The declared bounds of columns whose ranges, and perhaps types, are known already."""
    for name in bounds:
        known(name, ranges, "loss")
    declared = {name: _checked_bounds(name, pair) for name, pair in bounds.items()}
    for name, (low, high) in declared.items():
        if _exceeds(ranges[name], (low, high), (kinds or {}).get(name, np.dtype(np.float32))):
            raise InvalidInputError(
                f"loss '{name}' must lie in its declared bounds ({low:g}, {high:g}); its values run from "
                f"{ranges[name][0]:g} to {ranges[name][1]:g}."
            )
    return declared


def groups(name: str, values: npt.ArrayLike | Groups, n_examples: int) -> Groups:
    """The levels of a group, sorted, and the level of each example; groups made before keep levels that no example has."""
    if isinstance(values, Groups) and len(values.codes) == n_examples:
        return values
    declared = _declared_levels(values)
    array = np.asarray(values.codes if isinstance(values, Groups) else values)
    if array.shape != (n_examples,):
        raise InvalidInputError(
            f"group '{name}' must have one value for each of {n_examples} examples; got shape {array.shape}."
        )
    # declared categories count even if no example has them: a limit in every group cannot then be certified unseen
    codes, levels = (
        pd.factorize(array, sort=True) if declared is None else (declared.get_indexer(pd.Index(array)), declared)
    )
    if (codes < 0).any():
        missing = int(np.argmax(codes < 0))
        raise InvalidInputError(f"group '{name}' must have a value for every example; example {missing} has none.")
    names = (plain(level) for level in levels)
    return Groups(
        tuple(level if isinstance(level, str | int | float | bool) else str(level) for level in names),
        codes.astype(np.int64),
    )


def all_groups(given: Mapping[str, Any] | pd.DataFrame | None, n_examples: int) -> dict[str, Groups]:
    """The groups of a mapping, or of the columns of a data frame."""
    if given is None:
        return {}
    if not isinstance(given, Mapping | pd.DataFrame):
        raise InvalidInputError(
            f"groups must be a dictionary or a data frame, name -> one value for each example; got {type(given).__name__}. "
            "Write {'label': values}."
        )
    return {str(name): groups(str(name), values, n_examples) for name, values in given.items()}


def _declared_levels(values: Any) -> pd.Index[Any] | None:
    """The categories of a categorical column, also those that no example has."""
    kind = getattr(values, "dtype", None)
    return kind.categories if isinstance(kind, pd.CategoricalDtype) else None


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


def _checked_bounds(name: str, pair: Bounds) -> Bounds:
    try:
        low, high = (float(value) for value in pair)
    except (TypeError, ValueError):
        raise InvalidInputError(f"bounds of '{name}' must be a pair (low, high); got {pair!r}.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInputError(f"bounds of '{name}' must be finite with low < high; got ({low:g}, {high:g}).")
    return low, high


def _numbers(name: str, values: npt.ArrayLike) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInputError(
            f"loss '{name}' must have one value for each setting and example; its rows differ in length."
        ) from None
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(f"loss '{name}' must hold numbers; got {_first_text(array)!r}.") from None
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"loss '{name}' must hold numbers; got {_first_text(array)!r}.")
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise InvalidInputError(f"loss '{name}' must have a value everywhere; got a masked array with masked values.")
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind == "f" and array.itemsize > 8:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _first_text(array: Array) -> Any:
    return next((plain(value) for value in array.ravel() if not isinstance(plain(value), int | float | bool)), None)


def _range(name: str, array: Array) -> Bounds:
    """Smallest and largest value; an error that says where if one is not finite."""
    if array.dtype == np.bool_:
        return 0.0, 1.0
    low, high = math.inf, -math.inf
    for block in row_blocks(len(array), array[:1].nbytes):
        smallest, largest = float(array[block].min()), float(array[block].max())
        if not (math.isfinite(smallest) and math.isfinite(largest)):
            row, example = (int(index[0]) for index in np.nonzero(~np.isfinite(array[block])))
            raise InvalidInputError(
                f"loss '{name}' must be finite everywhere; got {array[block][row, example]} for setting {block.start + row}, "
                f"example {example}. Drop that example for every setting, or decide what a missing outcome costs."
            )
        low, high = min(low, smallest), max(high, largest)
    return low, high


def _exceeds(values: Bounds, bounds: Bounds, kind: np.dtype[Any]) -> bool:
    """Whether values leave their bounds by more than the rounding of single precision: 0.1 as a float32 is above 0.1."""
    slack = 1e-6 * (bounds[1] - bounds[0]) if kind == np.float32 else 0.0
    return values[0] < bounds[0] - slack or values[1] > bounds[1] + slack


def _outside(name: str, array: Array, bounds: Bounds) -> str:
    wide = array.astype(np.float64)
    row, example = (int(index[0]) for index in np.nonzero((wide < bounds[0]) | (wide > bounds[1])))
    return (
        f"loss '{name}' must lie in its declared bounds ({bounds[0]:g}, {bounds[1]:g}); "
        f"got {array[row, example]:g} for setting {row}, example {example}."
    )


def _compact(array: Array, bounds: Bounds, values: Bounds) -> Array:
    """Integers with bounds (0, 1) become booleans, small integers one byte; everything C-contiguous."""
    if array.dtype.kind in "iu":
        if bounds == (0.0, 1.0) and values[0] >= 0 and values[1] <= 1:
            array = array.view(np.bool_) if array.itemsize == 1 and array.flags.c_contiguous else array.astype(np.bool_)
        elif values[0] >= -128 and values[1] <= 127:
            array = array.astype(np.int8, copy=False)
    return np.ascontiguousarray(array)
