"""A sample: the losses of every setting on some examples, and what a term says of them.

Samples of one table share its arrays and hold only the positions of their examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from riskfront._data.columns import Column, Computed
from riskfront._data.derived_losses import combined, example_weights
from riskfront._data.groups import Groups, as_groups
from riskfront._data.sums import Rows, row_blocks
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.values import known
from riskfront.errors import InvalidInputError

_MANY_GROUPS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some of the examples for which losses and groups are stored.

    Args:
        losses: name -> (settings, stored examples), in memory or read when asked for.
        groups: name -> the group of each stored example.
        examples: positions among the stored examples, in order and perhaps repeated; None for all.
        missing: name of a loss -> (settings, stored examples), True where its outcome is missing and the stored value means
            nothing; only losses that miss some are named.
    """

    losses: Mapping[str, Array | Column]
    groups: Mapping[str, Groups]
    examples: IntArray | None = None
    missing: Mapping[str, Array | Column] = field(default_factory=dict)

    @property
    def n_configs(self) -> int:
        return next(iter(self.losses.values())).shape[0]

    @property
    def n_stored(self) -> int:
        return next(iter(self.losses.values())).shape[1]

    @property
    def n_examples(self) -> int:
        return self.n_stored if self.examples is None else len(self.examples)

    @property
    def is_lazy(self) -> bool:
        """Whether losses are read or evaluated when asked for, instead of being held in memory."""
        return not all(isinstance(column, np.ndarray) for column in self.losses.values())

    def looks_binary(self, name: str) -> bool:
        """Whether a loss that is not 0/1 happens to hold no other value; a hint is not worth reading a whole store."""
        column = self.column(name)
        if not isinstance(column, np.ndarray):
            return False
        return column.dtype.kind == "f" and bool(np.all((column == 0) | (column == 1)))

    def at(self, examples: IntArray) -> Sample:
        """The sample of these examples of this one."""
        return replace(self, examples=examples if self.examples is None else self.examples[examples])

    def joined_with(self, other: Sample) -> Sample:
        """The examples of this one, then those of another sample of the same stored examples."""
        both = [np.arange(s.n_stored) if s.examples is None else s.examples for s in (self, other)]
        return replace(self, examples=np.concatenate(both))

    def halves(self) -> tuple[Sample, Sample]:
        """Every other example, and the rest."""
        examples = np.arange(self.n_stored) if self.examples is None else self.examples
        return replace(self, examples=examples[0::2]), replace(self, examples=examples[1::2])

    def overlaps(self, other: Sample) -> bool:
        """Whether two samples of the same stored examples have one in common."""
        if self.examples is None or other.examples is None:
            return self.n_examples > 0 and other.n_examples > 0
        mine = np.zeros(self.n_stored, dtype=bool)
        mine[self.examples] = True
        return bool(mine[other.examples].any())

    def column(self, name: str) -> Array | Column:
        """(settings, stored examples)."""
        return self.losses[known(name, self.losses, "loss")]

    def losses_of(self, name: str) -> Array:
        """(settings, examples of the sample), nan where an outcome is missing."""
        array = self._whole(self.column(name))
        if name in self.missing:
            array = np.where(self._whole(self.missing[name]), np.nan, array)
        return array if self.examples is None else array[:, self.examples]

    def missing_of(self, name: str, rows: IntArray) -> BoolArray | None:
        """(rows, examples of the sample), True where an outcome is missing; None for a loss that misses none."""
        if name not in self.missing:
            return None
        array = self.missing[name][rows]
        return array if self.examples is None else array[:, self.examples]

    def n_missing(self, names: Sequence[str], rows: IntArray | None = None) -> int:
        """How many pairs of a setting and an example miss an outcome of one of these losses."""
        count, at = 0, np.arange(self.n_configs) if rows is None else rows
        for block in row_blocks(len(at), self.n_stored) if names else ():
            gaps = [self.missing_of(name, at[block]) for name in names]
            count += int(np.logical_or.reduce([part for part in gaps if part is not None]).sum())
        return count

    @staticmethod
    def _whole(column: Array | Column) -> Array:
        """All of a column; rows of a store that are asked for by number are compared with what was written."""
        return column if isinstance(column, np.ndarray) else column[np.arange(column.shape[0])]

    def is_binary(self, name: str) -> bool:
        return bool(self.column(name).dtype == np.bool_)

    def group(self, name: str) -> Groups:
        """The group of each example of the sample."""
        groups = self.groups[known(name, self.groups, "group")]
        return groups if self.examples is None else groups.at(self.examples)

    def with_groups_of(self, other: Sample) -> Sample:
        """The same losses; groups that only another sample has seen are known here too, without examples."""
        known_groups = dict(self.groups)
        for name in self.groups.keys() & other.groups.keys():
            mine = self.groups[name]
            unseen = tuple(level for level in other.groups[name].levels if level not in mine.levels)
            known_groups[name] = Groups(mine.levels + unseen, mine.codes)
        return replace(self, groups=known_groups)

    # ---------------------------------------------------------------- what a term says

    def counts(self, term: Term) -> bool:
        """Whether the sums of a term are whole numbers."""
        if term.squared or term.is_combined:
            return False
        if term.above is not None:
            return True
        fill = term.filled_with(term.loss) if {term.loss, term.given} & self.missing.keys() else None
        return self.is_binary(term.loss) and fill in (None, 0.0, 1.0)

    def varies(self, term: Term) -> bool:
        """Whether the examples that count depend on the setting."""
        varies = term.given is not None and term.given in self.losses
        return varies or any(name in self.missing and term.filled_with(name) is None for name in term.losses)

    def values(self, term: Term, rows: Rows) -> Array:
        """(rows, stored examples): what is summed."""
        values = self._filled(term, term.loss, rows)
        if term.is_combined:
            name = term.weights  # known ones, as for covariate shift
            weights = None if name is None else example_weights(name, self.groups[known(name, self.groups, "group")])
            values = combined(term, values, lambda name: self._filled(term, name, rows), weights)
        if term.squared:
            return values.astype(np.float64) ** 2
        return values if term.above is None else values > term.above

    def _filled(self, term: Term, name: str, rows: Rows) -> Array:
        """(rows, stored examples): a loss, with what the term counts a missing outcome as.

        Where it is not known whether the condition holds, it is taken to hold, with the worst outcome.
        """
        values, fill = self.column(name)[rows], term.filled_with(name)
        if fill is None:
            return values
        gaps = [self.missing[of][rows] for of in {name, term.given or name} if of in self.missing]
        if not gaps:
            return values
        missing = np.logical_or.reduce(gaps)
        if values.dtype == np.bool_ and fill in (0.0, 1.0):
            return values | missing if fill else values & ~missing
        return np.where(missing, np.float64(fill), values)  # in double precision: a fill that is rounded may pass

    def varying_condition(self, term: Term, rows: Rows) -> BoolArray:
        """(rows, stored examples), for a condition that depends on the setting, and for outcomes that must be known."""
        needed = (name for name in term.losses if name in self.missing and term.filled_with(name) is None)
        known_ones = [~self.missing[name][rows] for name in needed]
        if term.given is None or term.given not in self.losses:
            return np.logical_and.reduce(known_ones)
        condition = self.losses[term.given][rows]
        if condition.dtype != np.bool_ and not np.all((condition == 0) | (condition == 1)):
            raise InvalidInputError(
                f"the condition '{term.given}' must hold only 0 and 1; store it as a boolean column."
            )
        condition = condition.astype(bool, copy=False)
        if term.given in self.missing:
            gaps = self.missing[term.given][rows]
            condition = condition & ~gaps if term.filled_with(term.loss) is None else condition | gaps
        return np.logical_and.reduce([condition, *known_ones]) if known_ones else condition

    def _fixed_condition(self, given: str) -> BoolArray:
        """(stored examples,), for a condition that is the same for all settings."""
        groups = self.groups[known(given, {**self.losses, **self.groups}, "condition")]
        if not all(level in (0, 1, True, False) for level in groups.levels):
            raise InvalidInputError(
                f"the condition '{given}' must hold only 0 and 1; got the groups {groups.levels[:5]}."
            )
        return np.asarray([level in (1, True) for level in groups.levels])[groups.codes]

    def counted(self, term: Term) -> IntArray:
        """(stored examples,): how often each stored example counts."""
        n = self.n_stored
        counts = np.ones(n, dtype=np.int64) if self.examples is None else np.bincount(self.examples, minlength=n)
        if term.given is not None and term.given not in self.losses:
            counts = counts * self._fixed_condition(term.given)
        return counts

    def weights(self, term: Term) -> Array:
        """(stored examples, groups): how often each stored example counts in each group."""
        counts = self.counted(term)
        weights = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))  # a byte for most
        if term.per is None:
            return weights[:, None]
        groups = self.groups[known(term.per, self.groups, "group")]
        return (weights * (groups.codes == np.arange(len(groups.levels))[:, None])).T  # each group side by side

    def many_groups(self, term: Term) -> Groups | None:
        """The groups of a term, if they are too many for an array of examples x groups; else None."""
        groups = None if term.per is None else self.groups[known(term.per, self.groups, "group")]
        return groups if groups is not None and len(groups.levels) > _MANY_GROUPS else None

    def sequences(self, term: Term, rows: IntArray) -> tuple[Array, BoolArray | None, list[IntArray]]:
        """The losses of some settings one by one, in the order of the examples.

        Returns (rows, n) losses, (rows, n) or (1, n) condition or None, and for each group the positions of its examples.
        """
        values = self.values(term, rows)
        condition: BoolArray | None = None
        if self.varies(term):
            condition = self.varying_condition(term, rows)
        if term.given is not None and term.given not in self.losses:
            fixed = self._fixed_condition(term.given)[None, :]
            condition = fixed if condition is None else condition & fixed
        if self.examples is not None:
            values = values[:, self.examples]
            condition = None if condition is None else condition[:, self.examples]
        if term.per is None:
            return values, condition, [np.arange(values.shape[1])]
        return values, condition, self.group(term.per).members()

    def narrowed(self, term: Term, weights: Array) -> tuple[Sample, Array]:
        """What must be summed with these weights, (stored examples, sums): computed losses leave out what has no weight."""
        needed, gaps = self._needed(term, self.losses), self._needed(term, self.missing)
        if not all(isinstance(column, Computed) for column in (*needed.values(), *gaps.values())):
            return self, weights
        used = np.flatnonzero(weights.any(axis=1))
        if len(used) == len(weights):
            return self, weights
        groups = {name: of.at(used) for name, of in self._needed_groups(term).items()}
        losses, missing = (
            {name: column.of_examples(used) for name, column in of.items() if isinstance(column, Computed)}
            for of in (needed, gaps)
        )
        return Sample(losses, groups, missing=missing), weights[used]

    def needed_for(self, term: Term, rows: slice) -> Sample:
        """What another process needs to sum a term for these settings: where their losses are, and no more."""
        losses, missing = (
            {name: _rows_of(column, rows) for name, column in self._needed(term, of).items()}
            for of in (self.losses, self.missing)
        )
        return Sample(losses, self._needed_groups(term), missing=missing)

    @staticmethod
    def _needed(term: Term, columns: Mapping[str, Array | Column]) -> dict[str, Array | Column]:
        return {name: column for name, column in columns.items() if name in (*term.losses, term.given)}

    def _needed_groups(self, term: Term) -> dict[str, Groups]:
        """Groups whose values enter the sums themselves."""
        return {name: groups for name, groups in self.groups.items() if name == term.weights}


def all_examples(
    losses: Mapping[str, Array | Column],
    groups: Mapping[str, npt.ArrayLike | Groups],
    missing: Mapping[str, Array | Column] | None = None,
) -> Sample:
    """The sample of all examples of these losses; their groups are checked."""
    sample = Sample(losses, {}, missing=dict(missing or {}))
    known_groups = {name: as_groups(name, values, sample.n_stored) for name, values in groups.items()}
    for name in known_groups.keys() & losses.keys():
        raise InvalidInputError(f"a name must stand for one thing; got '{name}' as a loss and as a group. Rename one.")
    return replace(sample, groups=known_groups)


def _rows_of(column: Array | Column, rows: slice) -> Array | Column:
    return column[rows] if isinstance(column, np.ndarray) else column.part(rows)
