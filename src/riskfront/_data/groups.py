"""The group of each example (its class, its user, its language), coded as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront._support.arrays import IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """A group for each example: ``levels[codes[i]]`` is the group of example i."""

    levels: tuple[Any, ...]
    codes: IntArray

    def at(self, positions: Any) -> Groups:
        """Those of the examples at these positions, or in this slice; levels that none of them has stay."""
        return Groups(self.levels, self.codes[positions])

    def members(self) -> list[IntArray]:
        """For each level the positions of its examples, in their order; all of them together take no more room than codes."""
        order = np.argsort(self.codes, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.codes, minlength=len(self.levels)))[:-1])


def as_groups(name: str, values: npt.ArrayLike | Groups, n_examples: int) -> Groups:
    """The levels of a group, sorted, and the level of each example; groups made before keep levels that no example has."""
    if isinstance(values, Groups) and len(values.codes) == n_examples:
        return values
    kind = getattr(values, "dtype", None)
    declared = kind.categories if isinstance(kind, pd.CategoricalDtype) else None
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
    names = (level if isinstance(level, str | int | float | bool) else str(level) for level in map(plain, levels))
    return Groups(tuple(names), codes.astype(np.int64))


def all_groups(given: Mapping[str, Any] | pd.DataFrame | None, n_examples: int) -> dict[str, Groups]:
    """The groups of a mapping, or of the columns of a data frame."""
    if given is None:
        return {}
    if not isinstance(given, Mapping | pd.DataFrame):
        raise InvalidInputError(
            f"groups must be a dictionary or a data frame, name -> one value for each example; got {type(given).__name__}. "
            "Write {'label': values}."
        )
    return {str(name): as_groups(str(name), values, n_examples) for name, values in given.items()}
