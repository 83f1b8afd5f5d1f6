"""LossTable: what every setting loses on every example.

The table knows no alpha: it stores raw losses, and limits say which examples count. Parts of it share its arrays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront._data.cached_sums import KnownSums, SummedLosses
from riskfront._data.columns import Bounds, Column, bounds_of, declared_bounds, loss_arrays, refuse_other_orders
from riskfront._data.configs import as_settings
from riskfront._data.contents import salt_of, shared_examples, shuffles
from riskfront._data.derived_losses import Clusters
from riskfront._data.groups import Groups
from riskfront._data.identity.fingerprints import COPIES
from riskfront._data.intake import Intake
from riskfront._data.sample import Sample, all_examples
from riskfront._data.splits import CONTENTS, positions, salt_by, split_examples
from riskfront._data.table_file import TableParts, read_parts, write_parts
from riskfront._problems.terms import Term
from riskfront._support import notebook
from riskfront._support.array_digest import BLAKE3, fast_fingerprint, fingerprint
from riskfront._support.arrays import Array, IntArray
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError


class LossTable(SummedLosses):
    """Losses of settings on examples.

    Args:
        configs: the settings: dictionaries with the same keys, or a data frame with one row a setting.
        losses: name -> (n_configs, n_examples). Boolean and integer arrays with bounds (0, 1) are 0/1 losses. Large arrays are
            not copied: do not change them afterwards. nan, or a masked value, is an outcome that is missing: limits count it
            as the worst there can be, objectives are means over what is known.
        groups: name -> (n_examples,): a class or other group for each example. Categories of a pandas categorical count as
            groups even if no example has them.
        bounds: name -> (low, high), (0, 1) by default; a limit on a loss needs them to hold.

    Examples:
        >>> LossTable([{"k": 1}, {"k": 2}], {"error": [[0, 1, 1], [0, 0, 1]]}, groups={"label": ["a", "a", "b"]})
        LossTable(2 settings (k) x 3 examples; losses error, groups label)
    """

    notes: tuple[str, ...] = ()  # sentences on what a guarantee on these examples speaks of
    copies_left_out: int = 0  # copies of its examples that do not count, as the user declared beforehand
    examples_digest: str | None = None  # of the examples themselves in any order, where they are known
    shuffled_by: str | None = None  # what shuffles a split beside the seed, where the examples themselves are known

    def __init__(
        self,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        losses: Mapping[str, npt.ArrayLike],
        groups: Mapping[str, npt.ArrayLike | Groups] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        settings = as_settings(configs)
        given: object = losses
        if isinstance(given, pd.DataFrame) or not isinstance(given, Mapping):
            raise InvalidInputError(
                "losses must be a dictionary: name -> (settings, examples) array, as {'error': array}; got "
                f"{type(losses).__name__}. A table with one row for each setting and example goes to calibrate itself, or to "
                "riskfront.read_table."
            )
        refuse_other_orders(configs, losses, groups or {}, settings)
        found = loss_arrays(losses, len(settings), bounds or {})
        self._hold(settings, all_examples(found.values, groups or {}, found.missing), found.ranges, found.bounds)

    @classmethod
    def of_columns(
        cls,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        columns: Mapping[str, Column],
        groups: Mapping[str, npt.ArrayLike | Groups] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        missing: Mapping[str, Column | Array] | None = None,
        account: Callable[[Collection[str], Collection[str]], Intake] | None = None,
    ) -> LossTable:
        """A table whose losses stay where they are, in a store larger than memory, and are read a block at a time.

        Args:
            missing: name of a loss -> (settings, examples), True where its outcome is missing; the column must hold some
                finite number there, which counts for nothing.
            account: what became of the rows of a table that is computed from something smaller, whose rows are not one
                outcome each: a function of the losses that limits need and of those that are objectives.
        """
        settings = as_settings(configs)
        ranges = {name: column.range for name, column in columns.items()}
        declared = declared_bounds(bounds or {}, ranges)
        table = object.__new__(cls)
        table._hold(settings, all_examples(columns, groups or {}, missing), ranges, declared)
        table._account = account
        return table

    def on_demand(
        self,
        columns: Mapping[str, Column],
        groups: Mapping[str, Groups],
        batch_size: int,
        missing: Mapping[str, Column] | None = None,
    ) -> LossTable:
        """The same settings on other examples, evaluated when a test asks for them, ``batch_size`` at a time."""
        table = self._part(all_examples(columns, groups, missing))
        table._batch_size, table._origin, table.in_content_order = batch_size, object(), True
        return table

    def _hold(
        self, configs: pd.DataFrame, sample: Sample, ranges: Mapping[str, Bounds], bounds: Mapping[str, Bounds]
    ) -> None:
        self._configs, self._sample, self._ranges, self._bounds = configs, sample, ranges, bounds
        self._sums = KnownSums(sample)
        self._memory: dict[Hashable, Any] = {}
        self._shared: dict[Hashable, Any] = {}
        self._batch_size: int | None = None
        self._origin = object()  # the examples of tables with one origin correspond
        self.in_content_order = False  # in a random order by content, whatever order they came in, so that one may bet
        self._clusters: str | None = None
        self.examples_compared = False  # copies were looked for among the examples themselves, such as texts
        self._intake: Intake | None = None
        self._failures: Mapping[str, tuple[float, float]] = {}
        self._unbounded: frozenset[str] = frozenset()
        self._account: Callable[[Collection[str], Collection[str]], Intake] | None = None

    def _part(self, sample: Sample) -> LossTable:
        """The same settings on another sample."""
        part = object.__new__(LossTable)
        part._hold(self._configs, sample, self._ranges, self._bounds)
        part._shared, part._origin, part._clusters = self._shared, self._origin, self._clusters
        part._failures, part._unbounded = self._failures, self._unbounded
        part.examples_compared = self.examples_compared
        return part

    @property
    def intake(self) -> Intake:
        """What became of the rows that the table was made of; of a table made in Python, a row for each outcome."""
        known = self.account((), ())
        return known or self._intake or self.account_of(self.n_configs)

    def account_of(self, n_settings: int) -> Intake:
        """The account of so many settings: a row for each outcome, also of copies of examples that were left out."""
        copies = n_settings * self.copies_left_out
        return Intake.whole(n_settings * self.n_examples + copies).without(COPIES, copies)

    def account(self, limited: Collection[str], objectives: Collection[str]) -> Intake | None:
        """For a table that was computed from other rows, such as those of runs: what became of these rows."""
        return None if self._account is None else self._account(limited, objectives)

    @property
    def failures(self) -> Mapping[str, tuple[float, float]]:
        """Loss -> the smallest and the largest value recorded for failed calls; both must be the worst for every limit."""
        return self._failures

    def with_failures(self, recorded_as: Mapping[str, tuple[float, float]]) -> LossTable:
        """The same table, with the smallest and the largest value that were recorded for failed calls, by loss."""
        return self._with(_failures=dict(recorded_as))

    def without_default_bounds(self, names: Collection[str]) -> LossTable:
        """The same table, where limits on these losses need bounds that were declared: prices and tokens have no usual ones."""
        return self._with(_unbounded=frozenset(names) - set(self._bounds))

    def with_compared_examples(self) -> LossTable:
        """The same table, marked as checked for copies by the examples themselves, which tell more than their losses."""
        return self._with(examples_compared=True)

    def with_intake(self, intake: Intake) -> LossTable:
        """The same table with an account of the rows that it was made of."""
        return self._with(_intake=intake)

    def _with(self, **attributes: Any) -> LossTable:
        table = copy(self)
        vars(table).update(attributes)
        return table

    @property
    def missing(self) -> list[str]:
        """The losses that miss some outcomes."""
        return list(self._sample.missing)

    def n_missing(self, names: Collection[str], rows: IntArray | None = None) -> int:
        """How many (setting, example) pairs of these settings, or of all, miss an outcome of one of these losses."""
        return self._sample.n_missing([name for name in names if name in self._sample.missing], rows)

    @property
    def batch_size(self) -> int | None:
        """How many settings a sequential test should look at at a time; None if looking costs nothing."""
        return self._batch_size

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
        """The group over whose rows each example is a mean, such as "patient"; None where examples are rows."""
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
        """Sizes, losses, groups and the first settings, as HTML."""
        kinds = ("0/1" if self.is_binary(name) else "number" for name in self.loss_names)
        rows = [[name, kind, *self.observed_range(name)] for name, kind in zip(self.loss_names, kinds, strict=True)]
        groups = [[name, len(self.group(name).levels)] for name in self.group_names]
        return notebook.card(
            "LossTable",
            {"settings": self.n_configs, "examples": self.n_examples},
            notebook.table("Losses", ["name", "kind", "smallest", "largest"], rows),
            notebook.table("Groups", ["name", "levels"], groups) if groups else "",
            notebook.frame("Settings", self.configs),
        )

    def config(self, row: int) -> dict[str, Any]:
        """One setting as plain Python values."""
        return {str(name): plain(self._configs[name].iloc[row]) for name in self._configs.columns}

    def losses(self, name: str) -> Array:
        """(n_configs, n_examples), read-only, nan where an outcome is missing. A copy for parts of a table."""
        return self._sample.losses_of(name)

    def outcomes(self, name: str, rows: IntArray) -> Array:
        """(rows, n_examples): the losses of some settings; a masked array if some outcomes are missing."""
        values = self._sample.sequences(Term(name), rows)[0]
        missing = self._sample.missing_of(name, rows)
        return values if missing is None else np.ma.MaskedArray(values, missing)

    def group(self, name: str) -> Groups:
        """The group of each example."""
        return self._sample.group(name)

    def bounds(self, name: str) -> tuple[float, float]:
        """The declared bounds of a loss, (0, 1) by default; an error if the losses go beyond the default, or have none."""
        if name in self._unbounded:
            raise InvalidInputError(
                f"a limit on the mean '{name}' needs the most that it can be, which no log tells; declare it: --bounds "
                f"'{name}=0,MOST', in Python bounds={{'{name}': (0, MOST)}}. Or limit a quantile, which needs none: "
                f"'q0.95({name}) <= ...'."
            )
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

    def split(self, opt_fraction: float, *, seed: int = 0, split_by: str | None = None) -> tuple[LossTable, LossTable]:
        """Two parts at random, by example: the first with ``opt_fraction`` of the examples.

        It rests on the raw stream of PCG64, fixed for all versions of numpy, so that a certificate can be recomputed. Its seed
        is ``seed`` and, because files may be sorted, a digest of the examples; where they say too little for that, a draw from
        the operating system. ``split_by`` is what a certificate says of it.
        """
        by = shuffles(self) if split_by is None else split_by
        salt = salt_by(by, salt_of(self) if by == CONTENTS else b"")
        opt, test = split_examples(self.n_examples, opt_fraction, seed, salt)
        parts = self.subset(opt), self.subset(test)
        for part in parts:
            part.in_content_order = True
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

    def by_cluster(self, name: str, fill: Mapping[str, float] | None = None) -> LossTable:
        """One averaged row for all rows of each patient, story or prompt, so that examples are independent of each other.

        Limits and objectives then speak of the mean over clusters, each counted once however many rows it has, and 0/1 losses
        become shares. Do this before any split: rows of one cluster must not be on both sides. Not for rows that are
        independent anyway: there it only throws examples away.

        Args:
            name: the group that says which rows belong together. Groups that differ within a cluster are left out.
            fill: loss -> what a missing outcome counts as; of other losses the mean is over the rows that know it.
        """
        clusters = Clusters.of(self.group(name))
        missing_as = fill or {}
        losses = {}
        for loss in self.loss_names:
            values = self.losses(loss)
            if loss in missing_as and loss in self.missing:
                values = np.where(np.isnan(values), missing_as[loss], values)
            losses[loss] = clusters.means(values)
        groups = clusters.groups({other: self.group(other) for other in self.group_names if other != name})
        table = LossTable(self._configs, losses, groups, self._bounds)
        table._clusters, table._intake, table._unbounded = name, self.intake, self._unbounded
        table._describe_as(self)
        return table

    def _describe_as(self, other: LossTable) -> None:
        """What is known of the examples beside their losses."""
        self.notes, self.copies_left_out = other.notes, other.copies_left_out
        self.examples_digest = other.examples_digest

    def joined_with(self, other: LossTable) -> LossTable:
        """All examples of two parts of one table that share none: its sums are theirs, added up."""
        whole = self._part(self._sample.joined_with(other._sample))
        whole._sums = KnownSums(whole._sample, parts=[self._sums, other._sums])
        return whole

    def select(self, rows: npt.ArrayLike) -> LossTable:
        """The table of these settings only, by position or by mask."""
        chosen = positions(rows, self.n_configs, "setting")
        losses, missing = (
            {name: column[chosen] for name, column in of.items()} for of in (self._sample.losses, self._sample.missing)
        )
        table = self._part(replace(self._sample, losses=losses, missing=missing))
        table._configs = self._configs.iloc[chosen].reset_index(drop=True)
        table._shared, table.in_content_order = {}, self.in_content_order
        table._describe_as(self)
        return table

    def same_settings(self, other: LossTable) -> bool:
        """Whether two tables are parts of one table, so that their rows correspond."""
        return self._configs is other._configs

    @property
    def repeated(self) -> int:
        """How many examples are repetitions of others, by position."""
        return 0 if self._sample.examples is None else self.n_examples - len(np.unique(self._sample.examples))

    def corresponds_to(self, other: LossTable) -> bool:
        """Whether both are parts of one table, whose examples are known by their positions."""
        return self._origin is other._origin

    def shares_examples(self, other: LossTable, limited: Collection[str] = ()) -> bool:
        """Whether two tables have an example in common: parts of one table by position, all others by content."""
        if self.corresponds_to(other):
            return self._sample.overlaps(other._sample)
        return shared_examples(self, other, limited) > 0

    def with_groups_of(self, other: LossTable) -> LossTable:
        """The same data; groups that only another table has seen are known here too, without examples."""
        part = self._part(self._sample.with_groups_of(other._sample))
        part.in_content_order = self.in_content_order
        return part

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one Parquet file."""
        every = np.arange(self.n_configs)
        losses = {name: self.outcomes(name, every) for name in self.loss_names}
        groups = {name: self.group(name) for name in self.group_names}
        kept = self.intake if self.copies_left_out else self._intake
        write_parts(TableParts(self._configs, losses, groups, self._bounds, self._clusters, kept), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LossTable:
        """Read a file that ``save`` wrote."""
        parts = read_parts(path)
        table = cls(parts.configs, parts.losses, parts.groups, parts.bounds)
        table._clusters, table._intake = parts.clusters, parts.intake
        return table

    def check(self, rows: IntArray | None = None) -> None:
        """Compare the losses of these settings, or of all, with the digests in their store."""
        for column in (*self._sample.losses.values(), *self._sample.missing.values()):
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


def table_digest(configs: pd.DataFrame, sample: Sample, bounds: Mapping[str, Bounds], *, fast: bool = False) -> str:
    """The digest of settings, losses, groups, bounds, and of which examples a part of a table has: SHA-256, or BLAKE3."""
    arrays: dict[str, Array | Column] = {f"loss {name}": column for name, column in sample.losses.items()}
    arrays |= {f"missing {name}": column for name, column in sample.missing.items()}
    arrays |= {f"group {name}": groups.codes for name, groups in sample.groups.items()}
    if sample.examples is not None:
        arrays["examples"] = sample.examples
    description = {
        "configs": {name: list(map(plain, configs[name].tolist())) for name in configs},
        "bounds": {name: bounds.get(name, (0.0, 1.0)) for name in sample.losses},
        "levels": {name: groups.levels for name, groups in sample.groups.items()},
    }
    return (fast_fingerprint if fast else fingerprint)(description, arrays)
