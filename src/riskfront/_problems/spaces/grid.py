"""Settings that form a full grid, for the methods that walk along its axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from riskfront._support.arrays import IntArray
from riskfront._support.values import known
from riskfront.errors import InvalidInputError


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
        rows = np.empty(cells, dtype=np.int64)
        rows[np.ravel_multi_index([codes for codes, _ in coded], shape) if axes else np.zeros(1, dtype=np.int64)] = (
            np.arange(cells)
        )
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
