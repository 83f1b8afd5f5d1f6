"""LossTable: what every setting loses on every example.

The table knows no alpha. It stores raw losses; which examples a limit speaks of, and against which number, belongs to the
limit. Parts of a table (the opt and test halves of a split) share its arrays and hold only the indices of their examples.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import joblib
import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront import columns as checked
from riskfront.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.cluster import cluster_size, shares
from riskfront.columns import Column, Groups
from riskfront.errors import InvalidInputError
from riskfront.fingerprint import fingerprint
from riskfront.splits import positions, split_examples
from riskfront.sums import PartialTotals, Rows, Term, Totals, rows_at_once, weighted_sums
from riskfront.table_file import TableParts, read_parts, write_parts

T = TypeVar("T")
_MANY = 8  # one in this many settings is enough to make the sums of all of them worth computing together


class LossTable:
    """Losses of settings on examples.

    Args:
        configs: the settings: dictionaries with the same keys, or a data frame with one row a setting.
        losses: name -> (n_configs, n_examples). Boolean and integer arrays with bounds (0, 1) are 0/1 losses. Large arrays are
            not copied: do not change them afterwards.
        groups: name -> (n_examples,): a class or other group for each example. Categories of a pandas categorical count as
            groups even if no example has them.
        bounds: name -> (low, high), (0, 1) by default; a limit on a loss needs them to hold.
    """

    def __init__(
        self,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        losses: Mapping[str, npt.ArrayLike],
        groups: Mapping[str, npt.ArrayLike | Groups] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self._configs = checked.settings(configs)
        arrays, self._ranges, self._bounds = checked.losses(losses, len(self._configs), bounds or {})
        self._losses: Mapping[str, Array | Column] = arrays
        self._set_groups(groups or {})
        self._start(None)

    @classmethod
    def of_columns(
        cls,
        configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
        columns: Mapping[str, Column],
        groups: Mapping[str, npt.ArrayLike | Groups] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> LossTable:
        """A table whose losses stay where they are, in a store larger than memory, and are read a block at a time."""
        table = object.__new__(cls)
        table._configs = checked.settings(configs)
        table._losses = dict(columns)
        table._ranges = {name: column.range for name, column in columns.items()}
        table._bounds = checked.declared_bounds(bounds or {}, table._ranges)
        table._set_groups(groups or {})
        table._start(None)
        return table

    def on_demand(self, columns: Mapping[str, Column], groups: Mapping[str, Groups], at_once: int) -> LossTable:
        """The same settings on other examples, evaluated when a test asks for them, ``at_once`` at a time."""
        table = self._part(None)
        table._losses = dict(columns)
        table._set_groups(groups)
        table._at_once, table._origin = at_once, object()
        return table

    def _set_groups(self, groups: Mapping[str, npt.ArrayLike | Groups]) -> None:
        self._groups = {name: checked.groups(name, values, self._n_stored) for name, values in groups.items()}
        for name in self._groups.keys() & self._losses.keys():
            raise InvalidInputError(
                f"a name must stand for one thing; got '{name}' as a loss and as a group. Rename one."
            )

    def _start(self, examples: IntArray | None) -> None:
        """An empty memory for these examples of the table."""
        self._examples = examples
        self._memory: dict[Hashable, Any] = {}
        self._shared: dict[Hashable, Any] = {}
        self._batch: _Batch | None = None
        self._slot = 0
        self._at_once: int | None = None
        self._origin = object()  # the examples of tables with one origin correspond

    @property
    def at_once(self) -> int | None:
        """How many settings a sequential test should look at at a time; None if looking costs nothing."""
        return self._at_once

    @property
    def is_lazy(self) -> bool:
        """Whether losses are read or evaluated when asked for, instead of being held in memory."""
        return not all(isinstance(column, np.ndarray) for column in self._losses.values())

    @property
    def configs(self) -> pd.DataFrame:
        """The settings, one row each."""
        return self._configs.copy()

    @property
    def config_names(self) -> list[str]:
        return list(self._configs.columns)

    @property
    def loss_names(self) -> list[str]:
        return list(self._losses)

    @property
    def group_names(self) -> list[str]:
        return list(self._groups)

    @property
    def n_configs(self) -> int:
        return len(self._configs)

    @property
    def n_examples(self) -> int:
        return self._n_stored if self._examples is None else len(self._examples)

    @property
    def _n_stored(self) -> int:
        return next(iter(self._losses.values())).shape[1]

    def __repr__(self) -> str:
        groups = f", groups {', '.join(self._groups)}" if self._groups else ""
        return (
            f"LossTable({self.n_configs:,} settings ({', '.join(map(str, self.config_names))}) x "
            f"{self.n_examples:,} examples; losses {', '.join(self._losses)}{groups})"
        )

    def _repr_html_(self) -> str:
        from riskfront import views

        rows = [[name, "0/1" if self.is_binary(name) else "number", *self._ranges[name]] for name in self._losses]
        groups = [[name, len(self.group(name).levels)] for name in self._groups]
        return views.card(
            "LossTable",
            {"settings": self.n_configs, "examples": self.n_examples},
            views.table("Losses", ["name", "kind", "smallest", "largest"], rows),
            views.table("Groups", ["name", "levels"], groups) if groups else "",
            views.frame("Settings", self._configs),
        )

    def config(self, row: int) -> dict[str, Any]:
        """One setting as plain Python values."""
        return {str(name): checked.plain(self._configs[name].iloc[row]) for name in self._configs.columns}

    def losses(self, name: str) -> Array:
        """(n_configs, n_examples), read-only. A copy for parts of a table."""
        column = self._column(name)
        # asked for by number, rows of a store are compared with what was written
        array = column if isinstance(column, np.ndarray) else column[np.arange(column.shape[0])]
        return array if self._examples is None else array[:, self._examples]

    def group(self, name: str) -> Groups:
        """The group of each example."""
        groups = self._groups[self._known(name, self._groups, "group")]
        return groups if self._examples is None else Groups(groups.levels, groups.codes[self._examples])

    def bounds(self, name: str) -> tuple[float, float]:
        """The declared bounds of a loss, (0, 1) by default; an error if the losses go beyond the default."""
        low, high = self._ranges[self._known(name, self._losses, "loss")]
        if name not in self._bounds and (low < 0 or high > 1):
            raise InvalidInputError(
                f"a limit on '{name}' needs bounds: its values run from {low:g} to {high:g}, outside the default (0, 1). "
                f"Declare the range it can take, as bounds={{'{name}': (low, high)}} or --bounds '{name}=low,high'."
            )
        return self._bounds.get(name, (0.0, 1.0))

    def observed_range(self, name: str) -> tuple[float, float]:
        """The smallest and the largest value of a loss."""
        return self._ranges[self._known(name, self._losses, "loss")]

    @property
    def declared_bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds that were given, by loss."""
        return dict(self._bounds)

    def is_binary(self, name: str) -> bool:
        """Whether a loss was declared 0/1: boolean, or integer with bounds (0, 1). Rests on the type, never on the values."""
        return bool(self._column(name).dtype == np.bool_)

    def looks_binary(self, name: str) -> bool:
        """Whether a loss that was not declared 0/1 happens to hold no other value; only for hints."""
        column = self._column(name)
        if not isinstance(column, np.ndarray):  # a hint is not worth reading a whole store
            return False
        return column.dtype.kind == "f" and bool(np.all((column == 0) | (column == 1)))

    # ---------------------------------------------------------------- parts

    def split(self, opt_fraction: float, *, seed: int = 0) -> tuple[LossTable, LossTable]:
        """Two parts at random, by example: the first with ``opt_fraction`` of the examples.

        The permutation rests on the raw stream of PCG64, which is fixed for all versions of numpy, so that a certificate
        can be recomputed in years to come. The test part is in random order, which is what betting wants.
        """
        opt, test = split_examples(self.n_examples, opt_fraction, seed)
        return self.subset(opt), self.subset(test)

    def subset(self, examples: npt.ArrayLike) -> LossTable:
        """The part with these examples, by mask or by position, in this order; repetitions are allowed (a bootstrap sample)."""
        chosen = positions(examples, self.n_examples, "example")
        return self._part(chosen if self._examples is None else self._examples[chosen])

    def batch(self, parts: Sequence[npt.ArrayLike]) -> list[LossTable]:
        """Many subsets whose sums over all settings are computed together, by one matrix product."""
        tables = [self.subset(examples) for examples in parts]
        shared = _Batch(tables)
        for slot, table in enumerate(tables):
            table._batch, table._slot = shared, slot
        return tables

    def select(self, rows: npt.ArrayLike) -> LossTable:
        """The table of these settings only, by position or by mask."""
        chosen = positions(rows, self.n_configs, "setting")
        table = self._part(self._examples)
        table._shared = {}
        table._configs = self._configs.iloc[chosen].reset_index(drop=True)
        table._losses = {name: column[chosen] for name, column in self._losses.items()}
        return table

    def _part(self, examples: IntArray | None) -> LossTable:
        part = object.__new__(LossTable)
        part._configs, part._losses, part._groups = self._configs, self._losses, self._groups
        part._ranges, part._bounds = self._ranges, self._bounds
        part._start(examples)
        part._shared, part._origin = self._shared, self._origin
        return part

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of ``compute``, computed once for this part of the data: a front, say, that every alpha shares."""
        if key not in self._memory:
            self._memory[key] = compute()
        found: T = self._memory[key]
        return found

    def shared(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Like ``remember``, for what rests on the settings alone and is the same for all parts of a table: its grid, say."""
        if key not in self._shared:
            self._shared[key] = compute()
        found: T = self._shared[key]
        return found

    def same_settings(self, other: LossTable) -> bool:
        """Whether two tables are parts of one table, so that their rows correspond."""
        return self._configs is other._configs

    def shares_examples(self, other: LossTable) -> bool:
        """Whether two parts of one table have an example in common."""
        if self._origin is not other._origin:
            return False
        if self._examples is None or other._examples is None:
            return self.n_examples > 0 and other.n_examples > 0
        mine = np.zeros(self._n_stored, dtype=bool)
        mine[self._examples] = True
        return bool(mine[other._examples].any())

    def with_groups_of(self, other: LossTable) -> LossTable:
        """The same data; groups that only another table has seen are known here too, without examples."""
        known = dict(self._groups)
        for name in self._groups.keys() & other._groups.keys():
            levels, codes = known[name].levels, known[name].codes
            unseen = tuple(level for level in other._groups[name].levels if level not in levels)
            known[name] = Groups(levels + unseen, codes)
        table = self._part(self._examples)
        table._groups = known
        return table

    # ---------------------------------------------------------------- sums

    def means(self, term: Term | str, rows: IntArray | None = None) -> FloatArray:
        """(settings, groups): the mean of a term in each group; nan where no example was selected."""
        return self.totals(Term(term) if isinstance(term, str) else term, rows).means()

    def totals(self, term: Term, rows: IntArray | None = None) -> Totals:
        """The sums of a term for all settings, or for the given rows."""
        known = self._memory.get(term)
        if rows is None:
            if not isinstance(known, Totals):
                shared = self._batch
                known = shared.totals(term, self._slot) if shared else self._sums(term, self._weights(term))
                self._memory[term] = known
            return known
        if not isinstance(known, Totals) and self._all_are_worth_it(len(rows)):
            known = self.totals(term)
        elif known is None:
            known = self._memory[term] = PartialTotals(self.n_configs)
        if isinstance(known, Totals):
            return known.at(rows)
        partial: PartialTotals = known
        return partial.at(rows, lambda missing: self._sums(term, self._weights(term), missing))

    @staticmethod
    def read_together(parts: Sequence[LossTable], term: Term, rows: IntArray) -> None:
        """Sum a term of these settings in several parts of one table, from a single read of their losses."""
        partial = [part._memory.setdefault(term, PartialTotals(part.n_configs)) for part in parts]
        if any(part._all_are_worth_it(len(rows)) for part in parts) or not all(
            isinstance(p, PartialTotals) for p in partial
        ):
            return
        if any(sums.lacks(rows) for sums in partial):
            weights = [part._weights(term) for part in parts]
            found = parts[0]._sums(term, np.concatenate(weights, axis=1), rows)
            ends = np.cumsum([0] + [weight.shape[1] for weight in weights])
            for sums, start, end in zip(partial, ends[:-1], ends[1:], strict=True):
                sums.put(rows, Totals(found.n[:, start:end], found.total[:, start:end]))

    def _all_are_worth_it(self, rows: int) -> bool:
        """Whether sums of all settings should be computed when those of some are needed.

        A table in memory is read fast, so many are enough. A store is read once for all parts of a batch, but never for one.
        """
        return self._batch is not None if self.is_lazy else _MANY * rows > self.n_configs

    def _sums(self, term: Term, weights: Array, rows: IntArray | None = None) -> Totals:
        workers = cluster_size() if rows is None and self.is_lazy else 0
        if not workers:
            return self._sums_here(term, weights, rows)
        step = rows_at_once(weights, self._counts(term))
        blocks = [self._settings_part(term, part) for part in shares(self.n_configs, step, workers)]
        tasks = (joblib.delayed(LossTable._sums_here)(block, term, weights) for block in blocks)
        return Totals.stack(joblib.Parallel(n_jobs=workers)(tasks), same_n=not self._varies(term))

    def _sums_here(self, term: Term, weights: Array, rows: IntArray | None = None) -> Totals:
        return weighted_sums(
            lambda at: self._values(term, at),
            (lambda at: np.asarray(self._condition(term.given, at))) if self._varies(term) else None,
            weights,
            range(self.n_configs) if rows is None else rows,
            binary=self._counts(term),
        )

    def _varies(self, term: Term) -> bool:
        """Whether the condition of a term depends on the setting."""
        return term.given is not None and term.given in self._losses

    def _counts(self, term: Term) -> bool:
        """Whether the sums of a term are whole numbers."""
        return self.is_binary(term.loss) or term.above is not None

    def _settings_part(self, term: Term, rows: slice) -> LossTable:
        """What a worker of a cluster needs to sum a term for these settings: where their losses are, and no more."""
        part = self._part(None)
        part._shared, part._groups = {}, {}
        part._configs = self._configs.iloc[rows]
        names = [name for name in self._losses if name in (term.loss, term.given)]
        part._losses = {name: self._rows_of_column(name, rows) for name in names}
        return part

    def _rows_of_column(self, name: str, rows: slice) -> Array | Column:
        column = self._column(name)
        return column[rows] if isinstance(column, np.ndarray) else column.part(rows)

    def sequences(self, term: Term, rows: IntArray) -> tuple[Array, BoolArray | None, list[BoolArray]]:
        """The losses of some settings one by one, in the order of the examples.

        Returns (rows, n) losses, (rows, n) or (1, n) condition or None, and for each group which examples it has, (n,).
        """
        values = self._values(term, rows)
        condition = self._condition(term.given, rows)
        if self._examples is not None:
            values = values[:, self._examples]
            condition = None if condition is None else condition[:, self._examples]
        if term.per is None:
            return values, condition, [np.ones(values.shape[1], dtype=bool)]
        groups = self.group(term.per)
        return values, condition, [groups.codes == code for code in range(len(groups.levels))]

    def _values(self, term: Term, rows: Rows) -> Array:
        values = self._column(term.loss)[rows]
        return values if term.above is None else values > term.above

    def _condition(self, given: str | None, rows: Rows) -> BoolArray | None:
        """(rows, stored examples) for a condition that depends on the setting, (1, stored examples) for one that does not."""
        if given is None:
            return None
        if given in self._losses:
            condition = self._losses[given][rows]
            if condition.dtype != np.bool_ and not np.all((condition == 0) | (condition == 1)):
                raise InvalidInputError(
                    f"the condition '{given}' must hold only 0 and 1; store it as a boolean column."
                )
            return condition.astype(bool, copy=False)
        groups = self._groups[self._known(given, {**self._losses, **self._groups}, "condition")]
        truth = [level in (1, True) for level in groups.levels]
        if not all(level in (0, 1, True, False) for level in groups.levels):
            raise InvalidInputError(
                f"the condition '{given}' must hold only 0 and 1; got the groups {groups.levels[:5]}."
            )
        return np.asarray(truth)[groups.codes][None, :]

    def _weights(self, term: Term) -> Array:
        """(stored examples, groups): how often each stored example counts in each group of this part."""
        n = self._n_stored
        counts = np.ones(n, dtype=np.int64) if self._examples is None else np.bincount(self._examples, minlength=n)
        weights = counts[:, None]
        if term.per is not None:
            groups = self._groups[self._known(term.per, self._groups, "group")]
            weights = weights * (groups.codes[:, None] == np.arange(len(groups.levels)))
        if term.given is not None and term.given not in self._losses:
            weights = weights * np.asarray(self._condition(term.given, slice(None))).T
        return weights

    def _column(self, name: str) -> Array | Column:
        return self._losses[self._known(name, self._losses, "loss")]

    @staticmethod
    def _known(name: str, known: Mapping[str, Any], kind: str) -> str:
        return checked.known(name, known, kind)

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one Parquet file."""
        losses = {name: self.losses(name) for name in self._losses}
        groups = {name: self.group(name) for name in self._groups}
        write_parts(TableParts(self._configs, losses, groups, self._bounds), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LossTable:
        """Read a file that ``save`` wrote."""
        parts = read_parts(path)
        table = cls(parts.configs, parts.losses, bounds=parts.bounds)
        table._groups = dict(parts.groups)
        return table

    # ---------------------------------------------------------------- identity

    def check(self, rows: IntArray | None = None) -> None:
        """Compare losses of these settings, or of all, that stay in a store with what was written there."""
        for column in self._losses.values():
            if not isinstance(column, np.ndarray):
                column.check(rows)

    @property
    def sha256(self) -> str:
        """A fingerprint of everything in the table: settings, losses, groups, bounds, and which examples a part has."""
        return self.remember("sha256", self._fingerprint)

    def _fingerprint(self) -> str:
        arrays: dict[str, Array | Column] = {f"loss {name}": column for name, column in self._losses.items()}
        arrays |= {f"group {name}": groups.codes for name, groups in self._groups.items()}
        if self._examples is not None:
            arrays["examples"] = self._examples
        description = {
            "configs": {name: [checked.plain(value) for value in self._configs[name]] for name in self._configs},
            "bounds": {name: self._bounds.get(name, (0.0, 1.0)) for name in self._losses},
            "levels": {name: groups.levels for name, groups in self._groups.items()},
        }
        return fingerprint(description, arrays)


class _Batch:
    """Parts of one table; the first that needs the sums of a term over all settings computes them for all parts."""

    def __init__(self, parts: list[LossTable]) -> None:
        self.parts = parts
        self.found: dict[Term, Totals] = {}

    def totals(self, term: Term, slot: int) -> Totals:
        if term not in self.found:
            weights = np.concatenate([part._weights(term) for part in self.parts], axis=1)
            sums = self.parts[0]._sums(term, weights)
            # one part is read at a time: keep its numbers next to each other
            self.found[term] = Totals(np.asfortranarray(sums.n), np.asfortranarray(sums.total))
        shared = self.found[term]
        groups = shared.total.shape[1] // len(self.parts)
        own = slice(slot * groups, (slot + 1) * groups)
        return Totals(shared.n[:, own], shared.total[:, own])
