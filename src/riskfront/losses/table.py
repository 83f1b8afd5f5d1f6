"""LossTable: what every setting loses on every example.

The table knows no alpha: it stores raw losses, and limits say which examples count. Parts of it share its arrays.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront.arrays import Array, IntArray
from riskfront.identity.array_digest import BLAKE3
from riskfront.losses.cached_sums import KnownSums
from riskfront.losses.columns import Bounds, Column, bounds_of, declared_bounds, loss_arrays
from riskfront.losses.contents import salt_of, shared_examples
from riskfront.losses.derived.clusters import Clusters
from riskfront.losses.groups import Groups
from riskfront.losses.sample import Sample, all_examples
from riskfront.losses.settings import as_settings
from riskfront.losses.splits import positions, split_examples
from riskfront.losses.summed import SummedLosses
from riskfront.losses.table_digest import table_digest
from riskfront.losses.table_file import TableParts, read_parts, write_parts
from riskfront.losses.values import known, plain

T = TypeVar("T")


class LossTable(SummedLosses):
    """Losses of settings on examples.

    Args:
        configs: the settings: dictionaries with the same keys, or a data frame with one row a setting.
        losses: name -> (n_configs, n_examples). Boolean and integer arrays with bounds (0, 1) are 0/1 losses. Large arrays are
            not copied: do not change them afterwards.
        groups: name -> (n_examples,): a class or other group for each example. Categories of a pandas categorical count as
            groups even if no example has them.
        bounds: name -> (low, high), (0, 1) by default; a limit on a loss needs them to hold.

    Examples:
        >>> LossTable([{"k": 1}, {"k": 2}], {"error": [[0, 1, 1], [0, 0, 1]]}, groups={"label": ["a", "a", "b"]})
        LossTable(2 settings (k) x 3 examples; losses error, groups label)
    """

    def __init__(
        self,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        losses: Mapping[str, npt.ArrayLike],
        groups: Mapping[str, npt.ArrayLike | Groups] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        settings = as_settings(configs)
        arrays, ranges, declared = loss_arrays(losses, len(settings), bounds or {})
        self._hold(settings, all_examples(arrays, groups or {}), ranges, declared)

    @classmethod
    def of_columns(
        cls,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        columns: Mapping[str, Column],
        groups: Mapping[str, npt.ArrayLike | Groups] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> LossTable:
        """A table whose losses stay where they are, in a store larger than memory, and are read a block at a time."""
        settings = as_settings(configs)
        ranges = {name: column.range for name, column in columns.items()}
        declared = declared_bounds(bounds or {}, ranges)
        table = object.__new__(cls)
        table._hold(settings, all_examples(columns, groups or {}), ranges, declared)
        return table

    def on_demand(self, columns: Mapping[str, Column], groups: Mapping[str, Groups], at_once: int) -> LossTable:
        """The same settings on other examples, evaluated when a test asks for them, ``at_once`` at a time."""
        table = self._part(all_examples(columns, groups))
        table._at_once, table._origin, table._in_own_order = at_once, object(), True
        return table

    def _hold(
        self, configs: pd.DataFrame, sample: Sample, ranges: Mapping[str, Bounds], bounds: Mapping[str, Bounds]
    ) -> None:
        self._configs, self._sample, self._ranges, self._bounds = configs, sample, ranges, bounds
        self._sums = KnownSums(sample)
        self._memory: dict[Hashable, Any] = {}
        self._shared: dict[Hashable, Any] = {}
        self._at_once: int | None = None
        self._origin = object()  # the examples of tables with one origin correspond
        self._in_own_order = False
        self._clusters: str | None = None

    def _part(self, sample: Sample) -> LossTable:
        """The same settings on another sample."""
        part = object.__new__(LossTable)
        part._hold(self._configs, sample, self._ranges, self._bounds)
        part._shared, part._origin, part._clusters = self._shared, self._origin, self._clusters
        return part

    @property
    def at_once(self) -> int | None:
        """How many settings a sequential test should look at at a time; None if looking costs nothing."""
        return self._at_once

    @property
    def is_lazy(self) -> bool:
        """Whether losses are read or evaluated when asked for, instead of being held in memory."""
        return self._sample.is_lazy

    @property
    def configs(self) -> pd.DataFrame:
        """The settings, one row each."""
        return self._configs.copy()

    @property
    def clusters(self) -> str | None:
        """What each example is the mean over the rows of, such as "patient"; None where examples are rows."""
        return self._clusters

    @property
    def config_names(self) -> list[str]:
        return list(self._configs.columns)

    @property
    def loss_names(self) -> list[str]:
        return list(self._sample.losses)

    @property
    def group_names(self) -> list[str]:
        return list(self._sample.groups)

    @property
    def n_configs(self) -> int:
        return len(self._configs)

    @property
    def n_examples(self) -> int:
        return self._sample.n_examples

    def __repr__(self) -> str:
        groups = f", groups {', '.join(self.group_names)}" if self.group_names else ""
        return (
            f"LossTable({self.n_configs:,} settings ({', '.join(map(str, self.config_names))}) x "
            f"{self.n_examples:,} examples; losses {', '.join(self.loss_names)}{groups})"
        )

    def _repr_html_(self) -> str:
        from riskfront.losses.table_view import table_view

        return table_view(self)

    def config(self, row: int) -> dict[str, Any]:
        """One setting as plain Python values."""
        return {str(name): plain(self._configs[name].iloc[row]) for name in self._configs.columns}

    def losses(self, name: str) -> Array:
        """(n_configs, n_examples), read-only. A copy for parts of a table."""
        return self._sample.losses_of(name)

    def group(self, name: str) -> Groups:
        """The group of each example."""
        return self._sample.group(name)

    def bounds(self, name: str) -> tuple[float, float]:
        """The declared bounds of a loss, (0, 1) by default; an error if the losses go beyond the default."""
        return bounds_of(name, self._bounds, self.observed_range(name))

    def observed_range(self, name: str) -> tuple[float, float]:
        """The smallest and the largest value of a loss."""
        return self._ranges[known(name, self._ranges, "loss")]

    @property
    def declared_bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds that were given, by loss."""
        return dict(self._bounds)

    def is_binary(self, name: str) -> bool:
        """Whether a loss was declared 0/1: boolean, or integer with bounds (0, 1). Rests on the type, never on the values."""
        return self._sample.is_binary(name)

    def looks_binary(self, name: str) -> bool:
        """Whether a loss that was not declared 0/1 happens to hold no other value; only for hints."""
        return self._sample.looks_binary(name)

    def split(self, opt_fraction: float, *, seed: int = 0, by_contents: bool = True) -> tuple[LossTable, LossTable]:
        """Two parts at random, by example: the first with ``opt_fraction`` of the examples.

        It rests on the raw stream of PCG64, fixed for all versions of numpy, so that a certificate can be recomputed. Its seed
        is ``seed`` and, because files may be sorted, a digest of the examples (without ``by_contents``, as in 0.1, none).
        """
        opt, test = split_examples(self.n_examples, opt_fraction, seed, salt_of(self) if by_contents else b"")
        parts = self.subset(opt), self.subset(test)
        for part in parts:
            part._in_own_order = True
        return parts

    def subset(self, examples: npt.ArrayLike) -> LossTable:
        """The part with these examples, by mask or by position, in this order. They may repeat (a bootstrap sample), but then
        nothing is certified by them."""
        return self._part(self._sample.at(positions(examples, self.n_examples, "example")))

    def batch(self, parts: Sequence[npt.ArrayLike]) -> list[LossTable]:
        """Many subsets whose sums over all settings are computed together, by one matrix product."""
        tables = [self.subset(examples) for examples in parts]
        self.sum_together(tables)
        return tables

    @staticmethod
    def sum_together(parts: Sequence[LossTable], losses: Collection[str] | None = None) -> None:
        """From now on the sums of these parts of one table over all settings are computed together, in one pass; of these
        losses, or of all."""
        for table, sums in zip(parts, KnownSums.batch([table._sample for table in parts], losses), strict=True):
            table._sums = sums

    def by_cluster(self, name: str) -> LossTable:
        """One averaged row for all rows of each patient, story or prompt, so that examples are independent of each other.

        Limits and objectives then speak of the mean over clusters, each counted once however many rows it has, and 0/1 losses
        become shares. Do this before any split: rows of one cluster must not be on both sides. Not for rows that are
        independent anyway: there it only throws examples away.

        Args:
            name: the group that says which rows belong together. Groups that differ within a cluster are left out.
        """
        clusters = Clusters.of(self.group(name))
        losses = {loss: clusters.means(self.losses(loss)) for loss in self.loss_names}
        groups = clusters.groups({other: self.group(other) for other in self.group_names if other != name})
        table = LossTable(self._configs, losses, groups, self._bounds)
        table._clusters = name
        return table

    def joined_with(self, other: LossTable) -> LossTable:
        """All examples of two parts of one table that share none: its sums are theirs, added up."""
        whole = self._part(self._sample.joined_with(other._sample))
        whole._sums = KnownSums(whole._sample, parts=[self._sums, other._sums])
        return whole

    def select(self, rows: npt.ArrayLike) -> LossTable:
        """The table of these settings only, by position or by mask."""
        chosen = positions(rows, self.n_configs, "setting")
        losses = {name: column[chosen] for name, column in self._sample.losses.items()}
        table = self._part(replace(self._sample, losses=losses))
        table._configs = self._configs.iloc[chosen].reset_index(drop=True)
        table._shared, table._in_own_order = {}, self._in_own_order
        return table

    def same_settings(self, other: LossTable) -> bool:
        """Whether two tables are parts of one table, so that their rows correspond."""
        return self._configs is other._configs

    @property
    def repeated(self) -> int:
        """How many examples are repetitions of others, by position."""
        return 0 if self._sample.examples is None else self.n_examples - len(np.unique(self._sample.examples))

    @property
    def in_own_order(self) -> bool:
        """Whether the examples are in a random order of riskfront's own, whatever order they came in, so that one may bet."""
        return self._in_own_order

    def shares_examples(self, other: LossTable, limited: Collection[str] = ()) -> bool:
        """Whether two tables have an example in common: parts of one table by position, all others by content."""
        if self._origin is other._origin:
            return self._sample.overlaps(other._sample)
        return shared_examples(self, other, limited) > 0

    def with_groups_of(self, other: LossTable) -> LossTable:
        """The same data; groups that only another table has seen are known here too, without examples."""
        part = self._part(self._sample.with_groups_of(other._sample))
        part._in_own_order = self._in_own_order
        return part

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one Parquet file."""
        losses = {name: self.losses(name) for name in self.loss_names}
        groups = {name: self.group(name) for name in self.group_names}
        write_parts(TableParts(self._configs, losses, groups, self._bounds, self._clusters), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LossTable:
        """Read a file that ``save`` wrote."""
        parts = read_parts(path)
        table = cls(parts.configs, parts.losses, parts.groups, parts.bounds)
        table._clusters = parts.clusters
        return table

    def check(self, rows: IntArray | None = None) -> None:
        """Compare losses of these settings, or of all, that stay in a store with what was written there."""
        for column in self._sample.losses.values():
            if not isinstance(column, np.ndarray):
                column.check(rows)

    @property
    def fingerprint(self) -> str:
        """Which data these are, in the way that is fastest: BLAKE3 of losses in memory, SHA-256 of those in a store."""
        return self.sha256 if self.is_lazy else self._blake3

    def has_fingerprint(self, recorded: str) -> bool:
        """Whether a fingerprint, of either kind, was made of these data."""
        return recorded == (self._blake3 if recorded.startswith(BLAKE3) else self.sha256)

    @property
    def _blake3(self) -> str:
        return self.remember("blake3", lambda: table_digest(self._configs, self._sample, self._bounds, fast=True))

    @property
    def sha256(self) -> str:
        """A fingerprint of everything in the table: settings, losses, groups, bounds, and which examples a part has."""
        return self.remember("sha256", lambda: table_digest(self._configs, self._sample, self._bounds))
