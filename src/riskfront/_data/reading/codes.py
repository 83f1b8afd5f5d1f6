"""Values as small whole numbers, in the order in which they first come: which setting a row has, and which example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront.errors import InvalidInputError

_FEW_RUNS = 8  # at most one in so many rows begins a run of equal values: then runs are looked up instead of rows
_DENSE = 1 << 24  # whole numbers, or pairs of codes, in a range of at most this many are looked up in an array
_UNSEEN = -2  # an example whose group has not been seen
_EXACT = {16: 1 << 11, 32: 1 << 24, 64: 1 << 53}  # bits of a decimal -> from where on it skips whole numbers
_FEW = 1 << 12  # rows that are looked up without any of this


class Codes:
    """The different values of one column, each with its number."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._numbers: dict[Any, int] = {}
        self._parts: list[pa.Array] = []  # new values, in order
        self._table: IntArray | None = None  # value - base -> its number, or -1
        self._base = 0
        self.count = 0

    def encode(self, column: pa.Array) -> IntArray:
        """(rows,): the number of each value; -1 where there is none."""
        starts = run_starts([column])
        if starts is None:
            return self._encode(column)
        return np.repeat(self._encode(column.take(pa.array(starts))), np.diff(starts, append=len(column)))

    def values(self) -> pa.Array:
        """The different values, by their numbers."""
        kind = self._kind.value_type if pa.types.is_dictionary(self._kind) else self._kind
        return pa.concat_arrays(self._parts) if self._parts else pa.array([], kind)

    def _encode(self, column: pa.Array) -> IntArray:
        if pa.types.is_integer(column.type) and not column.null_count:
            found = self._by_table(column.to_numpy())
            if found is not None:
                return found
        self._leave_table()
        numbers: IntArray
        if pa.types.is_dictionary(column.type):
            used = pc.unique(column.indices).drop_null()  # a dictionary may name values that no row has
            numbers = np.full(len(column.dictionary) + 1, -1, dtype=np.int64)
            numbers[used.to_numpy()] = self._numbered(column.dictionary.take(used))
        else:
            column = column.dictionary_encode()
            numbers = np.append(self._numbered(column.dictionary), -1)
        indices = column.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(column.dictionary))
        return numbers.take(indices.to_numpy())

    def _numbered(self, values: pa.Array) -> IntArray:
        """(values,): the numbers of different values; those not seen before get the next ones. nan is no value."""
        known, found, fresh = self._numbers, np.empty(len(values), dtype=np.int64), []
        for at, value in enumerate(values.to_pylist()):
            if value is None or value != value:
                found[at] = -1
                continue
            number = known.get(value)
            if number is None:
                number = known[value] = self.count
                self.count += 1
                fresh.append(at)
            found[at] = number
        if fresh:
            self._parts.append(values.take(pa.array(fresh)))
        return found

    def _by_table(self, values: Array) -> IntArray | None:
        """The same for whole numbers that lie close together; None where they do not."""
        if self._numbers or (self._table is None and len(values) < _FEW):
            return None
        if values.dtype == np.uint64 and int(values.max()) >= 1 << 62:
            return None
        values = values.astype(np.int64, copy=False)
        low, high = int(values.min()), int(values.max())
        if self._table is not None:
            low, high = min(low, self._base), max(high, self._base + len(self._table) - 1)
        if high - low >= _DENSE:
            self._leave_table()
            return None
        if self._table is None or high - low >= len(self._table):
            wider = np.full(high - low + 1, -1, dtype=np.int64)
            if self._table is not None:
                start = self._base - low
                wider[start : start + len(self._table)] = self._table
            self._table, self._base = wider, low
        at = values - self._base if self._base else values
        found = self._table.take(at)
        if found.min() < 0:
            fresh = pd.unique(values[found < 0])  # in the order in which they first come
            self._table[fresh - self._base] = self.count + np.arange(len(fresh))
            self.count += len(fresh)
            self._parts.append(pa.array(fresh).cast(self._kind))
            found = self._table.take(at)
        return found

    def _leave_table(self) -> None:
        """Numbers that lie too far apart for an array go into a dictionary from now on."""
        if self._table is not None:
            self._numbers = {value: number for number, value in enumerate(self.values().to_pylist())}
            self._table = None


class JointCodes:
    """The different combinations of several columns, each with its number."""

    def __init__(self, kinds: Sequence[pa.DataType]) -> None:
        self._columns = [Codes(kind) for kind in kinds]
        self._pairs = [_Pairs() for _ in kinds[1:]]

    @property
    def count(self) -> int:
        return self._pairs[-1].count if self._pairs else self._columns[0].count

    def encode(self, columns: Sequence[pa.Array]) -> IntArray:
        """(rows,): the number of the combination of each row; -1 where a column has no value."""
        starts = run_starts(columns)
        if starts is None:
            return self._encode(columns)
        at = pa.array(starts)
        found = self._encode([column.take(at) for column in columns])
        return np.repeat(found, np.diff(starts, append=len(columns[0])))

    def values(self) -> list[pa.Array]:
        """The value of each column in each combination, by their numbers."""
        at, codes = np.arange(self.count), list[IntArray]()
        for pairs in self._pairs[::-1]:
            first, second = pairs.members()
            codes.append(second[at])
            at = first[at]
        codes.append(at)
        return [known.values().take(pa.array(of)) for known, of in zip(self._columns, codes[::-1], strict=True)]

    def _encode(self, columns: Sequence[pa.Array]) -> IntArray:
        found, *others = (known.encode(column) for known, column in zip(self._columns, columns, strict=True))
        for pairs, other in zip(self._pairs, others, strict=True):
            found = pairs.encode(found, other)
        return found


class _Pairs:
    """The different pairs of two codes, each with its number."""

    def __init__(self) -> None:
        self._table = np.full((0, 0), -1, dtype=np.int64)
        self._numbers: dict[int, int] | None = None  # where a table would be too large
        self._members: list[Array] = []
        self.count = 0

    def encode(self, first: IntArray, second: IntArray) -> IntArray:
        if len(first) == 0:
            return np.empty(0, dtype=np.int64)
        if first.min() < 0 or second.min() < 0:
            has = (first >= 0) & (second >= 0)
            found = np.full(len(first), -1, dtype=np.int64)
            found[has] = self.encode(first[has], second[has])
            return found
        if self._numbers is not None or not self._reaches((int(first.max()) + 1, int(second.max()) + 1)):
            return self._by_numbers(first, second)
        width = self._table.shape[1]
        at = first * width + second
        flat = self._table.reshape(-1)
        found = flat.take(at)
        if found.min() < 0:
            fresh = pd.unique(at[found < 0])
            flat[fresh] = self.count + np.arange(len(fresh))
            self._add(fresh // width, fresh % width)
            found = flat.take(at)
        return found

    def members(self) -> tuple[IntArray, IntArray]:
        """The two codes of each pair."""
        both = np.concatenate(self._members, axis=1) if self._members else np.empty((2, 0), dtype=np.int64)
        return both[0], both[1]

    def _add(self, first: IntArray, second: IntArray) -> None:
        self._members.append(np.stack([first, second]))
        self.count += len(first)

    def _reaches(self, shape: tuple[int, int]) -> bool:
        """Whether the table reaches so far, after it was made larger if need be."""
        old = self._table.shape
        if shape[0] <= old[0] and shape[1] <= old[1]:
            return True
        wanted = [have if need <= have else max(need, 2 * have) for need, have in zip(shape, old, strict=True)]
        if wanted[0] * wanted[1] > _DENSE:
            first, second = self.members()
            self._numbers = {int(key): number for number, key in enumerate((first << 32) | second)}
            return False
        table = np.full(wanted, -1, dtype=np.int64)
        table[: old[0], : old[1]] = self._table
        self._table = table
        return True

    def _by_numbers(self, first: IntArray, second: IntArray) -> IntArray:
        known = self._numbers if self._numbers is not None else {}
        rows, keys = pd.factorize((first << 32) | second)
        fresh = np.array([key for key in keys.tolist() if key not in known], dtype=np.int64)
        known.update(zip(fresh.tolist(), range(self.count, self.count + len(fresh)), strict=True))
        self._add(fresh >> 32, fresh & 0xFFFFFFFF)
        return np.array([known[key] for key in keys.tolist()], dtype=np.int64)[rows]


class GroupOfExamples:
    """One column that has one value for each example."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self._name, self._kind, self._codes = name, kind, Codes(kind)
        self._of: IntArray = np.zeros(0, dtype=np.int64)
        self.declared: dict[Any, None] = {}  # categories, whether an example has them or not

    def add(self, examples: IntArray, starts: IntArray | None, column: pa.Array, count: int) -> bool:
        """Take in some rows; False if an example has two values. ``starts``: where runs of rows of one example begin."""
        if count > len(self._of):
            more = np.full(max(count, 2 * len(self._of)) - len(self._of), _UNSEEN, dtype=np.int64)
            self._of = np.concatenate([self._of, more])
        codes = self._codes.encode(column)
        if pa.types.is_dictionary(column.type):
            self.declare(column.dictionary.to_pylist())
        if starts is not None:
            changed = np.flatnonzero(codes[1:] != codes[:-1]) + 1
            if not np.isin(changed, starts, assume_unique=True).all():
                return False
            examples, codes = examples[starts], codes[starts]
        before = self._of.take(examples)
        if before.min() == _UNSEEN:
            fresh = before == _UNSEEN
            self._of[examples[fresh]] = codes[fresh]
            before = self._of.take(examples)
        return bool((before == codes).all())

    def declare(self, levels: Iterable[Any]) -> None:
        """These are groups, even if no example has them."""
        self.declared.update(dict.fromkeys(levels))

    def known(self) -> pa.Array:
        """(examples,): the value of each; null where there is none."""
        codes = self._of[self._of != _UNSEEN]
        return self._codes.values().take(pa.array(codes, mask=codes < 0))

    def values(self, example_of: Any) -> Any:
        found = self.known()
        if found.null_count:
            where = example_of(int(np.argmin(self._of[self._of != _UNSEEN])))
            raise InvalidInputError(f"group '{self._name}' must have a value for every example; {where!r} has none.")
        if pa.types.is_dictionary(self._kind):  # levels that no example has count as groups, too
            return pd.Series(pd.Categorical(found.to_pandas(), categories=list(self.declared)))
        return found.to_pandas().to_numpy()


def two_values(group: str, example: str | None) -> InvalidInputError:
    return InvalidInputError(
        f"group '{group}' must have one value for each example, the same in all rows of '{example}'."
    )


def run_starts(columns: Sequence[pa.Array]) -> IntArray | None:
    """Where runs of rows with equal values begin; None where they are too short to help."""
    n = len(columns[0])
    if n < _FEW or any(column.null_count for column in columns):
        return None
    changed: BoolArray = np.zeros(n - 1, dtype=bool)
    for column in columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            values = column.indices.to_numpy()
        elif pa.types.is_floating(kind) or pa.types.is_integer(kind):
            values = column.to_numpy()
        else:
            values = column.dictionary_encode().indices.to_numpy()
        changed |= values[1:] != values[:-1]
        if np.count_nonzero(changed) * _FEW_RUNS > n:
            return None
    return np.concatenate([[0], np.flatnonzero(changed) + 1])


def must_be_exact(names: Sequence[str], columns: Mapping[str, pa.Array]) -> None:
    """Refuse names of examples that may have been rounded: decimals that are so large skip whole numbers."""
    for name in names:
        kind = columns[name].type
        if pa.types.is_floating(kind) and len(columns[name]):
            values = np.abs(columns[name].to_numpy(zero_copy_only=False))
            largest = float(np.fmax.reduce(values))
            if largest >= _EXACT[kind.bit_width]:
                raise InvalidInputError(
                    f"names of examples must be exact; '{name}' holds decimals as large as {largest:g}, which are rounded. "
                    "Store them as whole numbers or as texts (in a CSV file: with a letter in front)."
                )
