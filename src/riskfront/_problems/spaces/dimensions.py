"""The three kinds of dimension a setting can have. Each is checked where it is made.

All share one small interface: `canonical` (a value in the dimension's own type, or an error), `grid`,
`to_unit` / `from_unit` (the interval [0, 1], for samplers), `size` and `to_dict`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

Scalar: TypeAlias = str | int | float | bool

_EXACT = 2**53  # whole numbers up to here are floats too, which unit coordinates need


@dataclass(frozen=True, slots=True)
class Float:
    """Every real number in [low, high], spaced linearly or, with `log=True`, logarithmically.

    Examples:
        >>> list(Float(0.01, 1, log=True).grid(3))
        [0.01, 0.1, 1.0]
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        low, high = plain(self.low), plain(self.high)
        if not (_is_finite(low) and _is_finite(high)):
            raise InvalidInputError(f"Float bounds must be finite numbers; got low={low!r}, high={high!r}.")
        _check_order("Float", low, high, self.log)
        if not math.isfinite(high - low):
            raise InvalidInputError(
                f"Float needs high - low to be a finite number too; got low={low!r}, high={high!r}. Use a smaller range."
            )
        object.__setattr__(self, "low", float(low))
        object.__setattr__(self, "high", float(high))

    @property
    def size(self) -> None:
        """None: there is no end of real numbers."""

    def canonical(self, value: Any) -> float:
        number = plain(value)
        if not _is_number(number) or not self.low <= number <= self.high:
            raise InvalidInputError(f"must be a number in [{self.low:g}, {self.high:g}]; got {value!r}.")
        return float(number)

    def grid(self, points: int) -> Sequence[Scalar]:
        if points == 1:
            return [self.from_unit(0.5)]
        values = (np.geomspace if self.log else np.linspace)(self.low, self.high, points)
        return [float(np.clip(v, self.low, self.high)) for v in values]

    def to_unit(self, value: float) -> float:
        return _interpolate_back(value, self.low, self.high, self.log)

    def from_unit(self, u: float) -> float:
        return float(np.clip(_interpolate(u, self.low, self.high, self.log), self.low, self.high))

    def to_dict(self) -> dict[str, Any]:
        return {"type": "float", "low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True, slots=True)
class Int:
    """Every whole number from low to high, both included.

    Examples:
        >>> list(Int(1, 12).grid(4))
        [1, 5, 8, 12]
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        low, high = plain(self.low), plain(self.high)
        if not all(isinstance(v, int) and not isinstance(v, bool) and abs(v) <= _EXACT for v in (low, high)):
            raise InvalidInputError(
                f"Int bounds must be whole numbers between -2**53 and 2**53; got low={low!r}, high={high!r}."
            )
        _check_order("Int", low, high, self.log)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def canonical(self, value: Any) -> int:
        number = plain(value)
        if not _is_number(number) or not self.low <= number <= self.high or number != int(number):
            raise InvalidInputError(f"must be a whole number in [{self.low}, {self.high}]; got {value!r}.")
        return int(number)

    def at(self, index: int) -> int:
        return self.low + index

    def grid(self, points: int) -> Sequence[Scalar]:
        if points >= self.size:
            return list(range(self.low, self.high + 1))
        if points == 1:
            return [self.from_unit(0.5)]
        values = (np.geomspace if self.log else np.linspace)(self.low, self.high, points)
        return sorted({int(v) for v in np.rint(values)})

    # Each whole number owns the unit interval around it, half a step to either side.
    def to_unit(self, value: int) -> float:
        return _interpolate_back(value, self.low - 0.5, self.high + 0.5, self.log)

    def from_unit(self, u: float) -> int:
        number = _interpolate(u, self.low - 0.5, self.high + 0.5, self.log)
        return min(max(math.floor(number + 0.5), self.low), self.high)

    def to_dict(self) -> dict[str, Any]:
        return {"type": "int", "low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few options without an order: strings, numbers or booleans.

    Examples:
        >>> Choice(["small", "large"]).size
        2
    """

    options: tuple[Scalar, ...]

    def __init__(self, options: Sequence[Scalar]) -> None:
        if isinstance(options, str) or not isinstance(options, Sequence | np.ndarray):
            raise InvalidInputError(f"Choice options must be a list; got {options!r}. Write Choice([...]).")
        choices = tuple(plain(o) for o in options)
        if not choices:
            raise InvalidInputError("Choice options must hold at least one option; got none.")
        for i, option in enumerate(choices):
            if not (isinstance(option, str | bool) or _is_finite(option)):
                raise InvalidInputError(
                    f"Choice options must be strings, finite numbers or booleans; got {option!r}. "
                    'Name the option by a string, such as "none", and look up in your function what it stands for.'
                )
            # 1, 1.0 and True are equal in Python, so samplers and tables could not tell them apart.
            if option in choices[:i]:
                raise InvalidInputError(f"Choice options must differ from one another; got {option!r} twice.")
        object.__setattr__(self, "options", choices)

    @property
    def size(self) -> int:
        return len(self.options)

    def canonical(self, value: Any) -> Scalar:
        wanted = plain(value)
        for option in self.options:
            if isinstance(wanted, bool) == isinstance(option, bool) and wanted == option:
                return option
        raise InvalidInputError(f"must be one of {list(self.options)}; got {value!r}.")

    def at(self, index: int) -> Scalar:
        return self.options[index]

    def grid(self, points: int) -> Sequence[Scalar]:
        return list(self.options)

    def to_unit(self, value: Scalar) -> float:
        return (self.options.index(value) + 0.5) / self.size

    def from_unit(self, u: float) -> Scalar:
        return self.options[min(int(u * self.size), self.size - 1)]

    def to_dict(self) -> dict[str, Any]:
        return {"type": "choice", "options": list(self.options)}


Dimension: TypeAlias = Float | Int | Choice


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    try:
        return _is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def _check_order(kind: str, low: float, high: float, log: bool) -> None:
    if not low < high:
        raise InvalidInputError(
            f"{kind} needs low < high; got low={low!r}, high={high!r}. For a fixed value use Choice([value])."
        )
    if not isinstance(log, bool):
        raise InvalidInputError(f"log of {kind} must be True or False; got {log!r}.")
    if log and low <= 0:
        raise InvalidInputError(f"{kind} with log=True needs low > 0; got low={low!r}.")


def _interpolate(u: float, low: float, high: float, log: bool) -> float:
    if log:
        return math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    return low + u * (high - low)


def _interpolate_back(value: float, low: float, high: float, log: bool) -> float:
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return min(max((value - low) / (high - low), 0.0), 1.0)
