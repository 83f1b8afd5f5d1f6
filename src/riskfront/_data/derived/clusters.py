"""Rows that belong together, of one patient or one story, as one averaged row: then examples are independent again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from riskfront._data.groups import Groups
from riskfront._support.arrays import Array, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Which cluster each row belongs to; ``first`` is one row of each cluster, in the order of their first rows."""

    codes: IntArray
    first: IntArray

    @classmethod
    def of(cls, groups: Groups) -> Clusters:
        """Clusters without a row are no clusters."""
        _, first, codes = np.unique(groups.codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls(place[codes], first[order])

    def means(self, losses: Array) -> FloatArray:
        """(settings, rows) -> (settings, clusters): the mean over the rows of each cluster that have a value, nan without."""
        order = np.argsort(self.codes, kind="stable")
        sizes = np.bincount(self.codes)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        values = losses[:, order].astype(np.float64)
        known = ~np.isnan(values)
        if known.all():
            return np.add.reduceat(values, starts, axis=1) / sizes
        counts = np.add.reduceat(known.astype(np.int64), starts, axis=1)
        totals = np.add.reduceat(np.where(known, values, 0.0), starts, axis=1)
        return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)

    def groups(self, given: Mapping[str, Groups]) -> dict[str, Groups]:
        """The groups that all rows of a cluster share; others say nothing about a cluster."""
        shared = {name: of for name, of in given.items() if (of.codes[self.first][self.codes] == of.codes).all()}
        return {name: Groups(of.levels, of.codes[self.first]) for name, of in shared.items()}
