"""Plain values and known names: what must hold of single numbers and names, wherever they are given."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Collection
from typing import Any

import numpy as np

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
