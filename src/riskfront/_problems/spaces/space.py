"""The settings a search may choose from: named dimensions, grids over them, and the identity of one setting.

    space = Space(exit=Float(0, 1), depth=Int(1, 12), model=Choice(["small", "large"]))

The same space in a TOML file, read by `Space.from_toml`:

    [space]
    exit = { type = "float", low = 0, high = 1 }             # log = true for log spacing
    depth = { type = "int", low = 1, high = 12 }
    model = { type = "choice", options = ["small", "large"] }
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront._problems.spaces.dimensions import Choice, Dimension, Float, Int
from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Choice", "Config", "Dimension", "Float", "Int", "Space", "config_id"]

Config: TypeAlias = dict[str, Any]

_KINDS: dict[Any, type[Float] | type[Int] | type[Choice]] = {"float": Float, "int": Int, "choice": Choice}


class Space:
    """Named dimensions, in the order given. A setting ("config") is a dict with one value for each.

    Examples:
        >>> space = Space(threshold=Float(0, 1), model=Choice(["small", "large"]))
        >>> space.grid(3)[:2]
        [{'threshold': 0.0, 'model': 'small'}, {'threshold': 0.0, 'model': 'large'}]
    """

    __slots__ = ("_dimensions",)

    def __init__(self, /, **dimensions: Dimension) -> None:
        if not dimensions:
            raise InvalidInputError("A space must have at least one dimension; got none.")
        for name, dimension in dimensions.items():
            if not isinstance(dimension, Dimension):
                raise InvalidInputError(f"{name} must be a Float, Int or Choice; got {dimension!r}.")
        self._dimensions = dict(dimensions)

    @classmethod
    def from_dict(cls, dimensions: Mapping[str, Dimension | Mapping[str, Any]]) -> Space:
        """From dimensions, or their plain dicts as `to_dict` writes them; names need not be identifiers."""
        for name in dimensions:
            if not isinstance(name, str) or not name:
                raise InvalidInputError(f"Dimension names must be non-empty strings; got {name!r}.")
        return cls(**{k: _parse(k, v) if isinstance(v, Mapping) else v for k, v in dimensions.items()})

    @classmethod
    def from_toml(cls, path: str | Path) -> Space:
        """From the table `[space]` of a TOML file; the layout is at the top of this module."""
        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except RecursionError:
            raise InvalidInputError(f"{path} must be a readable TOML file; its values are nested too deeply.") from None
        except (OSError, ValueError) as error:  # not UTF-8, no TOML, or a number of thousands of digits
            raise InvalidInputError(f"{path} must be a readable TOML file: {error}.") from error
        table = content.get("space")
        if not isinstance(table, dict):
            raise InvalidInputError(f"{path} must have a table [space]; got the keys {sorted(content)}.")
        return cls.from_dict(table)

    def to_dict(self) -> dict[str, Any]:
        return {name: dimension.to_dict() for name, dimension in self._dimensions.items()}

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        return MappingProxyType(self._dimensions)

    @property
    def size(self) -> int | None:
        """How many settings there are; None when a Float makes them endless."""
        total = 1
        for dimension in self._dimensions.values():
            if dimension.size is None:
                return None
            total *= dimension.size
        return total

    def check(self, config: Mapping[str, Any]) -> Config:
        """The config in the space's own types (float, int, or the option itself), or an error that says why."""
        if not isinstance(config, Mapping) or config.keys() != self._dimensions.keys():
            got = sorted(map(str, config)) if isinstance(config, Mapping) else config
            raise InvalidInputError(f"A setting must have exactly the keys {list(self._dimensions)}; got {got!r}.")
        return {name: _canonical_value(name, dimension, config[name]) for name, dimension in self._dimensions.items()}

    def grid(self, points: int | Mapping[str, int]) -> list[Config]:
        """Every combination of `points` values along each Float and Int (all integers if fewer) and all options."""
        return [dict(zip(self._dimensions, values, strict=True)) for values in product(*self.axes(points).values())]

    def axes(self, points: int | Mapping[str, int]) -> dict[str, Sequence[Any]]:
        """The values along each dimension of a grid."""
        counts = {name: 1 for name, d in self._dimensions.items() if isinstance(d, Choice)}
        if isinstance(points, Mapping):
            wanted = self._dimensions.keys() - counts.keys()
            if not wanted <= points.keys() <= self._dimensions.keys():
                raise InvalidInputError(f"points must name {sorted(wanted)}; got {sorted(points)}.")
            counts = {**counts, **points}
        else:
            counts = {name: counts.get(name, points) for name in self._dimensions}
        for name, count in counts.items():
            if not isinstance(plain(count), int) or isinstance(count, bool) or count < 1:
                raise InvalidInputError(f"points must be whole numbers of at least 1; got {count!r} for {name}.")
        return {name: dimension.grid(counts[name]) for name, dimension in self._dimensions.items()}

    def at(self, index: int) -> Config:
        """The setting of this number, 0 to size - 1, in a finite space, without listing the others."""
        config: Config = {}
        for name, dimension in reversed(self._dimensions.items()):
            if isinstance(dimension, Float):
                raise InvalidInputError(f"Only settings of a finite space are numbered; {name} is a Float.")
            index, digit = divmod(index, dimension.size)
            config[name] = dimension.at(digit)
        return {name: config[name] for name in self._dimensions}

    def to_unit(self, config: Mapping[str, Any]) -> FloatArray:
        """The config as a point of the unit cube, shape (n_dimensions,)."""
        checked = self.check(config)
        return np.array([d.to_unit(checked[name]) for name, d in self._dimensions.items()], dtype=np.float64)

    def from_unit(self, u: npt.ArrayLike) -> Config:
        """The config at a point of the unit cube, shape (n_dimensions,)."""
        point = np.asarray(u, dtype=np.float64)
        if point.shape != (len(self._dimensions),) or not ((point >= 0) & (point <= 1)).all():
            raise InvalidInputError(f"u must have shape ({len(self._dimensions)},) and lie in [0, 1]; got {u!r}.")
        return {name: d.from_unit(float(x)) for (name, d), x in zip(self._dimensions.items(), point, strict=True)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._dimensions)

    def __len__(self) -> int:
        return len(self._dimensions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self._dimensions.items()) == list(other._dimensions.items())

    def __hash__(self) -> int:
        return hash(tuple(self._dimensions.items()))

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={dimension!r}' for name, dimension in self._dimensions.items())})"


def _canonical_value(name: str, dimension: Dimension, value: Any) -> Any:
    try:
        return dimension.canonical(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name} {error}") from None


def config_id(config: Mapping[str, Any]) -> str:
    """Sixteen hex digits that name a setting, the same in every run, on every machine and Python version.

    The SHA-256 of the config as canonical JSON: keys sorted, ASCII only, no spaces. Equal numbers have one name:
    1, 1.0 and np.int64(1) are written 1, and -0.0 is written 0, since no dimension tells them apart (Float and Int
    compare by value; Choice refuses options that are equal). True is not 1, "1" is not 1, and np.float32(0.1) is not
    0.1: it is another number. `Space.check` first gives values of other origins the space's own types.
    """
    if not isinstance(config, Mapping):
        raise InvalidInputError(f"A setting must be a dict; got {config!r}.")
    text = json.dumps(_canonical(config), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def _canonical(value: Any) -> Any:
    value = plain(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_canonical(item) for item in value]
    raise InvalidInputError(
        f"Settings must hold strings, finite numbers, booleans, None or lists of them; got {value!r}."
    )


def _parse(name: str, fields: Mapping[str, Any]) -> Dimension:
    arguments = dict(fields)
    kind = _KINDS.get(arguments.pop("type", None))
    if kind is None:
        raise InvalidInputError(f'{name} must have type = "float", "int" or "choice"; got {dict(fields)!r}.')
    try:
        return kind(**arguments)
    except TypeError:
        wanted = "options" if kind is Choice else "low, high and, if wanted, log"
        raise InvalidInputError(f"{name} must have the fields type, {wanted}; got {sorted(fields)}.") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """``rows`` has one dimension for each axis and holds the row of the setting at each cell of the grid.

    Numbers ascend along their axis; other values keep the order in which they first appear.
    """

    axes: tuple[str, ...]
    rows: IntArray

    @classmethod
    def of(cls, configs: pd.DataFrame) -> Grid:
        axes = [name for name in configs.columns if configs[name].nunique() > 1]
        coded = [pd.factorize(configs[name], sort=configs[name].dtype.kind in "biuf") for name in axes]
        shape = tuple(len(levels) for _, levels in coded)
        cells = int(np.prod(shape, dtype=np.int64))
        if cells != len(configs):
            raise InvalidInputError(
                f"this method needs settings that form a full grid; {' x '.join(map(str, shape))} values of "
                f"{', '.join(axes)} make {cells:,} combinations, but the table has {len(configs):,} settings. "
                "Add the missing settings, or use a method that needs no grid, such as pareto-testing."
            )
        # no two settings are equal, so as many settings as cells fill every cell exactly once
        rows = np.zeros(cells, dtype=np.int64)
        if axes:
            rows[np.ravel_multi_index([codes for codes, _ in coded], shape)] = np.arange(cells)
        return cls(tuple(axes), rows.reshape(shape))

    def corners(self) -> IntArray:
        """The rows of the settings at the corners, shape (2,) * axes: index 0 is the low end of an axis, 1 the high end."""
        ends = np.ix_(*[[0, length - 1] for length in self.rows.shape])
        return self.rows[ends]

    def starting_at(self, high: tuple[bool, ...]) -> Grid:
        """The same grid with the axes turned so that the corner with these high ends becomes the origin."""
        turned = self.rows[tuple(slice(None, None, -1) if end else slice(None) for end in high)]
        return Grid(self.axes, turned)

    def declared_corner(self, safest: Mapping[str, str]) -> tuple[bool, ...]:
        """The corner that ``safest`` names, as axis -> "low" or "high"."""
        for name, end in safest.items():
            known(name, self.axes, "axis of the grid")
            if end not in ("low", "high"):
                raise InvalidInputError(f"safest['{name}'] must be 'low' or 'high'; got {end!r}.")
        for name in self.axes:
            if name not in safest:
                raise InvalidInputError(f"safest must name an end for every axis; '{name}' is missing.")
        return tuple(safest[name] == "high" for name in self.axes)
