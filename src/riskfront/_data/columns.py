"""Columns of losses, checked once where a table is made: their numbers, their ranges, their declared bounds."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront._data.sums import Rows, row_blocks
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError

Bounds = tuple[float, float]


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


@runtime_checkable
class Computed(Protocol):
    """Losses that are computed from something smaller, and can be for some of the examples alone."""

    def of_examples(self, examples: IntArray) -> Column: ...


@dataclass(frozen=True, slots=True, eq=False)
class LossArrays:
    """Losses of one shape, (settings, examples), compact, read-only and C-contiguous.

    Attributes:
        values: name -> the losses; where one is missing, some value inside of their range.
        missing: name -> True where an outcome is missing; losses that miss none are not named.
        ranges: name -> the smallest and the largest outcome. bounds: the declared bounds.
    """

    values: dict[str, Array]
    missing: dict[str, BoolArray]
    ranges: dict[str, Bounds]
    bounds: dict[str, Bounds]


def loss_arrays(given: Mapping[str, npt.ArrayLike], n_configs: int, bounds: Mapping[str, Bounds]) -> LossArrays:
    """Losses checked: numbers of one shape, inside their declared bounds. nan, or a masked value, is a missing outcome."""
    for name in bounds:
        known(name, given, "loss")
    if not given:
        raise InvalidInputError("a table must have at least one loss; got none.")
    declared = {name: _checked_bounds(name, pair) for name, pair in bounds.items()}
    arrays: dict[str, Array] = {}
    missing: dict[str, BoolArray] = {}
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
        array, gaps, ranges[name] = _known_part(name, array, values, declared.get(name, (0.0, 1.0)))
        if gaps is not None:
            gaps.flags.writeable = False
            missing[name] = gaps
        if name in declared and _exceeds(ranges[name], declared[name], array.dtype):
            raise InvalidInputError(_outside(name, array, declared[name]))
        compact = _compact(array, declared.get(name, (0.0, 1.0)), ranges[name])
        arrays[name] = compact.view()
        arrays[name].flags.writeable = False
    return LossArrays(arrays, missing, ranges, declared)


def refuse_other_orders(
    configs: object, losses: Mapping[str, object], groups: Mapping[str, object], settings: pd.DataFrame
) -> None:
    """Raise an error if labelled data name the same settings, or the same examples, in another order.

    Values are taken by their positions. A pivoted data frame has its settings and examples sorted, whatever order the list of
    settings or the groups have, and each setting would get the losses of another.
    """
    frames = [(f"loss '{name}'", values) for name, values in losses.items() if isinstance(values, pd.DataFrame)]
    rows: list[tuple[str, pd.Index[Any]]] = [(what, frame.index) for what, frame in frames]
    examples: list[tuple[str, pd.Index[Any]]] = [(what, frame.columns) for what, frame in frames]
    if isinstance(configs, pd.DataFrame):
        rows.append(("the data frame of settings", configs.index))
    series = [(name, values) for name, values in groups.items() if isinstance(values, pd.Series)]
    examples += [(f"group '{name}'", values.index) for name, values in series]
    for labels, kind in ((rows, "settings"), (examples, "examples")):
        for what, index in labels[1:]:
            _must_have_order(labels[0][0], labels[0][1], what, index, kind)
    for what, frame in frames:
        names = [name for name in frame.index.names if name in settings.columns]
        if names:
            listed = pd.MultiIndex.from_frame(settings[names])
            own = pd.MultiIndex.from_arrays([frame.index.get_level_values(str(name)) for name in names], names=names)
            _must_have_order("the list of settings", listed, what, own, "settings")


def _said(label: Any) -> str:
    values = label if isinstance(label, tuple) else (label,)
    return ", ".join(repr(plain(value)) for value in values)


def _must_have_order(first: str, one: pd.Index[Any], second: str, other: pd.Index[Any], kind: str) -> None:
    if len(one) == len(other) and not one.equals(other) and len(one.symmetric_difference(other)) == 0:
        at = int(np.argmax(np.asarray(one != other)))
        raise InvalidInputError(
            f"values are taken by their positions, so labelled data must name {kind} in one order; {first} has "
            f"{_said(one[at])} where {second} has {_said(other[at])}. Bring them into one order, with .reindex or .loc, "
            "or take the labels off with .to_numpy() where positions are right."
        )


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


def bounds_of(name: str, declared: Mapping[str, Bounds], observed: Bounds) -> Bounds:
    """The declared bounds of a loss, (0, 1) by default; an error if its values go beyond the default."""
    low, high = observed
    if name not in declared and (low < 0 or high > 1):
        raise InvalidInputError(
            f"a limit on '{name}' needs bounds: its values run from {low:g} to {high:g}, outside the default (0, 1). "
            f"Declare its range where it is made or read: bounds={{'{name}': (low, high)}}, or --bounds '{name}=low,high'."
        )
    return declared.get(name, (0.0, 1.0))


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
        with contextlib.suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"loss '{name}' must hold numbers; got {_first_text(array)!r}.")
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.kind == "f" and array.itemsize > 8:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _first_text(array: Array) -> Any:
    return next((plain(value) for value in array.ravel() if not isinstance(plain(value), int | float | bool)), None)


def _known_part(
    name: str, array: Array, given: npt.ArrayLike, bounds: Bounds
) -> tuple[Array, BoolArray | None, Bounds]:
    """The losses with 0 where one is missing, as stores have it, where that is (None: nowhere), and the range of the others."""
    masked = np.ma.getmaskarray(np.ma.asarray(given)) if np.ma.is_masked(given) else None
    if masked is None:
        low, high = _range(name, array)
        if not math.isnan(low):
            return array, None, (low, high)
    missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)
    missing = missing if masked is None else missing | masked
    if missing.all():
        return np.zeros_like(array), missing, bounds
    outcomes = _range(name, np.where(missing, array[~missing].min(), array))
    return np.where(missing, array.dtype.type(0), array), missing, outcomes


def _range(name: str, array: Array) -> Bounds:
    """Smallest and largest value, nan if one is; an error that says where if one is infinite."""
    if array.dtype == np.bool_:
        return 0.0, 1.0
    low, high = math.inf, -math.inf
    for block in row_blocks(len(array), array[:1].nbytes):
        smallest, largest = float(array[block].min()), float(array[block].max())
        if math.isnan(smallest) and not np.isinf(array).any():
            return math.nan, math.nan
        if not (math.isfinite(smallest) and math.isfinite(largest)):
            start = 0 if math.isnan(smallest) else block.start
            row, example = (int(index[0]) for index in np.nonzero(np.isinf(array[start:])))
            raise InvalidInputError(
                f"loss '{name}' must be finite; got {array[start + row, example]} for setting {start + row}, example "
                f"{example}. Write nan where there is no outcome: it counts as the worst there can be."
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
