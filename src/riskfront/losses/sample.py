"""A sample: the losses of every setting on some examples, and what a term says of them.

Samples of one table share its arrays and hold only the positions of their examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from riskfront.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.losses.columns import Column, Computed
from riskfront.losses.derived.combined import combined, example_weights
from riskfront.losses.groups import Groups, as_groups
from riskfront.losses.sums import Rows, Term
from riskfront.losses.values import known


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Some of the examples for which losses and groups are stored.

    Args:
        losses: name -> (settings, stored examples), in memory or read when asked for.
        groups: name -> the group of each stored example.
        examples: positions among the stored examples, in order and perhaps repeated; None for all.
    """

    losses: Mapping[str, Array | Column]
    groups: Mapping[str, Groups]
    examples: IntArray | None = None

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
        """(settings, examples of the sample)."""
        column = self.column(name)
        # asked for by number, rows of a store are compared with what was written
        array = column if isinstance(column, np.ndarray) else column[np.arange(column.shape[0])]
        return array if self.examples is None else array[:, self.examples]

    def is_binary(self, name: str) -> bool:
        return bool(self.column(name).dtype == np.bool_)

    def group(self, name: str) -> Groups:
        """The group of each example of the sample."""
        groups = self.groups[known(name, self.groups, "group")]
        return groups if self.examples is None else Groups(groups.levels, groups.codes[self.examples])

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
        return (self.is_binary(term.loss) or term.above is not None) and not (term.squared or term.is_combined)

    def varies(self, term: Term) -> bool:
        """Whether the condition of a term depends on the setting."""
        return term.given is not None and term.given in self.losses

    def values(self, term: Term, rows: Rows) -> Array:
        """(rows, stored examples): what is summed."""
        values = self.column(term.loss)[rows]
        if term.is_combined:
            weights = None if term.weights is None else self._weights_of_examples(term.weights)
            values = combined(term, values, lambda name: self.column(name)[rows], weights)
        if term.squared:
            return values.astype(np.float64) ** 2
        return values if term.above is None else values > term.above

    def varying_condition(self, term: Term, rows: Rows) -> BoolArray:
        """(rows, stored examples), for a condition that depends on the setting."""
        condition = self.losses[str(term.given)][rows]
        if condition.dtype != np.bool_ and not np.all((condition == 0) | (condition == 1)):
            raise InvalidInputError(
                f"the condition '{term.given}' must hold only 0 and 1; store it as a boolean column."
            )
        return condition.astype(bool, copy=False)

    def _fixed_condition(self, given: str) -> BoolArray:
        """(stored examples,), for a condition that is the same for all settings."""
        groups = self.groups[known(given, {**self.losses, **self.groups}, "condition")]
        if not all(level in (0, 1, True, False) for level in groups.levels):
            raise InvalidInputError(
                f"the condition '{given}' must hold only 0 and 1; got the groups {groups.levels[:5]}."
            )
        return np.asarray([level in (1, True) for level in groups.levels])[groups.codes]

    def _weights_of_examples(self, name: str) -> Array:
        """(stored examples,): known weights, as for covariate shift."""
        return example_weights(name, self.groups[known(name, self.groups, "group")])

    def weights(self, term: Term) -> Array:
        """(stored examples, groups): how often each stored example counts in each group."""
        n = self.n_stored
        counts = np.ones(n, dtype=np.int64) if self.examples is None else np.bincount(self.examples, minlength=n)
        weights = counts[:, None]
        if term.per is not None:
            groups = self.groups[known(term.per, self.groups, "group")]
            weights = weights * (groups.codes[:, None] == np.arange(len(groups.levels)))
        if term.given is not None and not self.varies(term):
            weights = weights * self._fixed_condition(term.given)[:, None]
        return weights

    def sequences(self, term: Term, rows: IntArray) -> tuple[Array, BoolArray | None, list[BoolArray]]:
        """The losses of some settings one by one, in the order of the examples.

        Returns (rows, n) losses, (rows, n) or (1, n) condition or None, and for each group which examples it has, (n,).
        """
        values = self.values(term, rows)
        condition: BoolArray | None = None
        if term.given is not None:
            varies = self.varies(term)
            condition = self.varying_condition(term, rows) if varies else self._fixed_condition(term.given)[None, :]
        if self.examples is not None:
            values = values[:, self.examples]
            condition = None if condition is None else condition[:, self.examples]
        if term.per is None:
            return values, condition, [np.ones(values.shape[1], dtype=bool)]
        groups = self.group(term.per)
        return values, condition, [groups.codes == code for code in range(len(groups.levels))]

    def narrowed(self, term: Term, weights: Array) -> tuple[Sample, Array]:
        """What must be summed with these weights, (stored examples, sums): computed losses leave out what has no weight."""
        needed = self._needed(term)
        used = np.flatnonzero(weights.any(axis=1))
        if len(used) == len(weights) or not all(isinstance(column, Computed) for column in needed.values()):
            return self, weights
        computed = {name: column for name, column in needed.items() if isinstance(column, Computed)}
        groups = {name: Groups(of.levels, of.codes[used]) for name, of in self._needed_groups(term).items()}
        return Sample({name: column.of_examples(used) for name, column in computed.items()}, groups), weights[used]

    def needed_for(self, term: Term, rows: slice) -> Sample:
        """What another process needs to sum a term for these settings: where their losses are, and no more."""
        losses = {name: _rows_of(column, rows) for name, column in self._needed(term).items()}
        return Sample(losses, self._needed_groups(term))

    def _needed(self, term: Term) -> dict[str, Array | Column]:
        return {name: column for name, column in self.losses.items() if name in (*term.losses, term.given)}

    def _needed_groups(self, term: Term) -> dict[str, Groups]:
        """Groups whose values enter the sums themselves."""
        return {name: groups for name, groups in self.groups.items() if name == term.weights}


def all_examples(losses: Mapping[str, Array | Column], groups: Mapping[str, npt.ArrayLike | Groups]) -> Sample:
    """The sample of all examples of these losses; their groups are checked."""
    sample = Sample(losses, {})
    known_groups = {name: as_groups(name, values, sample.n_stored) for name, values in groups.items()}
    for name in known_groups.keys() & losses.keys():
        raise InvalidInputError(f"a name must stand for one thing; got '{name}' as a loss and as a group. Rename one.")
    return replace(sample, groups=known_groups)


def _rows_of(column: Array | Column, rows: slice) -> Array | Column:
    return column[rows] if isinstance(column, np.ndarray) else column.part(rows)
