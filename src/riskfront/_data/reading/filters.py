"""Filters: which rows of a file count, by what is known of a setting or an example, never by its outcome."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from riskfront._data.reading.cells import numbers_of
from riskfront._data.reading.codes import Codes, JointCodes
from riskfront._data.reading.column_roles import Layout
from riskfront._support.arrays import BoolArray, FloatArray
from riskfront._support.values import known
from riskfront.errors import InvalidInputError

_FILTER = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>==|!=|<=|>=|=|<|>|\s+in\s+)\s*(?P<value>.+?)\s*$")
_LISTED = re.compile(r"\s*(?:'[^']*'|\"[^\"]*\"|[^,]+)\s*")
_UNSEEN = -2
_FEW_TEXTS = 50  # texts that are compared with outcomes one by one
_MANY, _SAME = 8, 0.995  # settings or examples from which on a correlation of this size is no accident
_SHARPER = 0.2  # a step of rounding over the standard error of a mean, so that to agree is no accident
_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FAILED = (
    "failed"  # a call gave no answer: some fail with every setting, so that it looks like a column of the examples
)


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition, such as ``task == mbpp``, ``bits <= 8`` or ``task in mbpp, arc``."""

    column: str
    sign: str
    values: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Filter:
        match = _FILTER.match(text)
        if match is None:
            raise InvalidInputError(
                f"a filter must read like 'task == mbpp', 'bits <= 8' or 'task in mbpp, arc'; got {text!r}."
            )
        sign = match["sign"].strip()
        values = _LISTED.findall(match["value"]) if sign == "in" else [match["value"]]
        return cls(match["column"].strip("`"), sign, tuple(_unquoted(value) for value in values))

    def kept(self, frame: pd.DataFrame) -> BoolArray:
        """(rows,): where the condition holds; never where the value is missing."""
        return np.logical_or.reduce(self.by_value(frame))

    def by_value(self, frame: pd.DataFrame) -> list[BoolArray]:
        """The same for each value that is compared with; several for "in" alone."""
        column = with_numbers(frame[known(self.column, list(frame.columns), "column")])
        has, sign = column.notna().to_numpy(), "==" if self.sign == "in" else self.sign
        if column.dtype.kind in "iuf":
            array = column.to_numpy()
            # in the type of the column: 0.1 in single precision is 0.1, and large whole numbers stay whole
            return [np.asarray(_SIGNS[sign](array, _number(value, self, array.dtype)) & has) for value in self.values]
        if sign in ("<", "<=", ">", ">="):
            raise InvalidInputError(f"'{self.sign}' compares numbers; '{self.column}' holds texts. Use ==, != or in.")
        texts = column.astype(str).to_numpy(dtype=object)
        return [np.asarray(_SIGNS[sign](texts, value) & has, dtype=bool) for value in self.values]

    def must_have_met(self, met: Sequence[bool]) -> None:
        """A value that no row has is a slip of the pen: the rows that were meant would be left out."""
        for value, found in zip(self.values, met, strict=True):
            if not found and self.sign == "in":
                raise InvalidInputError(
                    f"every value of a filter must occur; no row has {self.column} = {value!r}. Quote values that hold commas: "
                    f"{self.column} in 'a, b', c."
                )

    def must_not_be_among(self, outcomes: Collection[str]) -> None:
        """A condition on an outcome is refused: it would choose by what is tested."""
        if self.column in outcomes or self.column == _FAILED:
            raise refused(self.column)

    def __str__(self) -> str:
        return f"{self.column} {self.sign} {', '.join(self.values)}"


def parse_filters(where: str | Sequence[str]) -> list[Filter]:
    """Conditions that must all hold."""
    return [Filter.parse(text) for text in ([where] if isinstance(where, str) else where)]


def filtered(frame: pd.DataFrame, filters: Sequence[Filter], outcomes: Collection[str]) -> pd.DataFrame:
    """The rows where all conditions hold. A condition on an outcome is refused: it would choose by what is tested."""
    for condition in filters:
        condition.must_not_be_among(outcomes)
    mask, met = _where_all_hold(frame, filters)
    for condition, found in zip(filters, met, strict=True):
        condition.must_have_met(found.tolist())
    if filters and not mask.any():
        raise InvalidInputError(f"a filter must leave some rows; {' and '.join(map(str, filters))} leaves none.")
    return frame[mask] if filters else frame


def _where_all_hold(frame: pd.DataFrame, filters: Sequence[Filter]) -> tuple[BoolArray, list[BoolArray]]:
    """(rows,): where all conditions hold; and for each condition which of its values some row has."""
    mask, met = np.ones(len(frame), dtype=bool), []
    for condition in filters:
        found = condition.by_value(frame)
        met.append(np.array([bool(one.any()) for one in found]))
        mask &= np.logical_or.reduce(found)
    return mask, met


def must_be_known_beforehand(
    frame: pd.DataFrame, filters: Sequence[Filter], example: str, settings: Sequence[str], losses: Sequence[str]
) -> None:
    """Refuse a filter on an outcome: a column that varies with example and setting, or repeats the mean outcome of either."""
    for condition in filters:
        if condition.column in (example, *settings):
            continue
        keys = [[example], list(settings)]
        groups = [frame.groupby(key, observed=True) for key in keys]
        own = [by for by in groups if by[condition.column].nunique(dropna=False).max() == 1]
        if not own:
            raise refused(condition.column)
        for by in own:
            numbers = [loss for loss in losses if frame[loss].dtype.kind in "biuf"]
            if any(repeats(by[condition.column].first(), by[loss].mean().to_numpy()) for loss in numbers):
                raise refused(condition.column)


def kept_rows(batch: pa.RecordBatch, filters: Sequence[Filter]) -> tuple[pa.RecordBatch, list[BoolArray]]:
    """The rows where all conditions hold; and for each condition which of its values some row has."""
    if not filters:
        return batch, []
    columns = dict.fromkeys(condition.column for condition in filters)
    mask, met = _where_all_hold(batch.select(list(columns)).to_pandas(), filters)
    return batch.filter(pa.array(mask)), met


class KnownBeforehand:
    """The same check for rows that come in batches, all of them, also those that the filters leave out."""

    def __init__(
        self,
        filters: Sequence[Filter],
        layout: Layout,
        example: Sequence[str],
        losses: Sequence[str],
        schema: pa.Schema,
    ) -> None:
        self._filters = filters
        self._met = [np.zeros(len(condition.values), dtype=bool) for condition in filters]
        self._asked = [f for f in filters if f.column not in (*example, *layout.config_columns)]
        self._settings = [f.column for f in filters if f.column in layout.config_columns]
        named = [*(f.column for f in self._asked), *self._settings]
        self._owners = [_Owner(example, named, losses, schema)] if self._asked else []
        if named:
            self._owners.append(_Owner(layout.config_columns, named, losses, schema))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows where all conditions hold."""
        kept, met = kept_rows(batch, self._filters)
        for before, now in zip(self._met, met, strict=True):
            before |= now
        return kept

    def add(self, batch: pa.RecordBatch) -> None:
        for owner in self._owners:
            owner.add(batch)

    def must_hold(self) -> None:
        """Raise an error if a filtered column belongs neither to the examples nor to the settings, or repeats outcomes."""
        for condition, met in zip(self._filters, self._met, strict=True):
            condition.must_have_met(met.tolist())
        for condition in self._asked:
            own = [owner for owner in self._owners if owner.constant[condition.column]]
            if not own or any(owner.repeats(condition.column) for owner in own):
                raise refused(condition.column)
        for column in self._settings:
            if self._owners[-1].states_means(column):
                raise refused(column)


class _Owner:
    """Examples, or settings: which columns have one value for each of them, and their mean outcomes."""

    def __init__(
        self, columns: Sequence[str], filtered: Sequence[str], losses: Sequence[str], schema: pa.Schema
    ) -> None:
        self._columns, self._codes = columns, JointCodes([schema.field(name).type for name in columns])
        self._values = {name: Codes(schema.field(name).type) for name in filtered}
        self._of = {name: np.zeros(0, dtype=np.int64) for name in filtered}
        self.constant = dict.fromkeys(filtered, True)
        self._sums: dict[str, FloatArray] = {name: np.zeros((4, 0)) for name in losses}

    def add(self, batch: pa.RecordBatch) -> None:
        column = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
        owner = self._codes.encode([column[name] for name in self._columns])
        count = self._codes.count
        for name, codes in self._values.items():
            of = np.concatenate([self._of[name], np.full(count - len(self._of[name]), _UNSEEN, dtype=np.int64)])
            value = codes.encode(column[name])
            fresh = of[owner] == _UNSEEN
            of[owner[fresh]] = value[fresh]
            self.constant[name] &= bool((of[owner] == value).all())
            self._of[name] = of
        for name, sums in self._sums.items():
            values, gaps = numbers_of(name, column[name])
            known_ones = np.ones(len(values)) if gaps is None else (~gaps).astype(np.float64)
            more: FloatArray = np.zeros((4, count))
            more[0], more[1] = np.bincount(owner, values * known_ones, count), np.bincount(owner, known_ones, count)
            more[2] = np.bincount(owner, minlength=count)
            more[3] = np.bincount(owner, np.square(values, dtype=np.float64) * known_ones, count)
            more[:, : sums.shape[1]] += sums
            self._sums[name] = more

    def states_means(self, name: str) -> bool:
        """Whether a column of numbers states the mean outcome of each of these, with which it was computed."""
        column = self._values[name].values()
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            return False
        numbers = column.to_numpy(zero_copy_only=False).astype(np.float64)[self._of[name]]
        return any(states_means(numbers, sums) for sums in self._sums.values())

    def repeats(self, name: str) -> bool:
        codes = self._of[name]
        values = self._values[name].values().take(pa.array(codes, mask=codes < 0)).to_pandas()
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [sums[0] / sums[1] for sums in self._sums.values()]
            shares = [sums[1] / sums[2] for sums in self._sums.values()]  # of outcomes that are there at all
            return any(repeats(values, numbers) for numbers in (*means, *shares))


def states_means(values: FloatArray, sums: FloatArray) -> bool:
    """Whether numbers of settings are their sums or means of an outcome, or of its opposite, perhaps in per cent and rounded. A
    setting may well explain its mean, but not far more sharply than the mean is known.

    Args:
        values: (settings,).
        sums: (4, settings), of the outcome, of rows that know it, of all rows, and of its square.
    """
    known_ones = np.isfinite(values) & (sums[1] > 0)
    values, counts = values[known_ones], sums[1, known_ones]
    if len(np.unique(values)) < _MANY:
        return False
    means, squares = sums[0, known_ones] / counts, sums[3, known_ones] / counts
    error = float(np.median(np.sqrt(np.clip(squares - means**2, 0, None) / counts)))
    if error < 1e-9 * np.abs(means).max():  # the same on all examples: known beforehand, like a price
        return False
    for scale in (1.0, 100.0, counts):
        sharp = [12, *(d for d in range(7) if 10.0**-d < _SHARPER * error * np.median(scale))]
        candidates = [scale * means, scale * (1 - means)]
        if any(np.abs(values - np.round(of, d)).max() < 1e-6 * np.max(scale) for of in candidates for d in sharp):
            return True
    return False


def repeats(values: pd.Series, means: FloatArray) -> bool:
    """Whether a column is computed from outcomes, of which these are the means: the count of models that were right, say, or
    the word "failed" where all of them were wrong."""
    if values.dtype.kind not in "iuf":
        texts = values.astype(str).where(values.notna())
        known_ones = texts.dropna().unique()
        return len(known_ones) <= _FEW_TEXTS and any(repeats((texts == text).astype(int), means) for text in known_ones)
    numbers, means = values.to_numpy(dtype=np.float64), np.asarray(means, dtype=np.float64)
    both = np.isfinite(numbers) & np.isfinite(means)
    numbers, means = numbers[both], means[both]
    if len(numbers) < _MANY or numbers.std() == 0 or means.std() == 0:
        return False
    return bool(abs(np.corrcoef(numbers, means)[0, 1]) > _SAME)


def refused(column: str) -> InvalidInputError:
    return InvalidInputError(
        f"a filter must rest on what is known before the outcome; '{column}' is an outcome, or computed from one. "
        "Filter by a column of the examples (a task, a language) or of the settings."
    )


def _number(text: str, condition: Filter, kind: np.dtype[Any]) -> Any:
    """The number that a text stands for, in the type of the column it is compared with."""
    try:
        if kind.kind in "iu":
            return int(text)
    except ValueError:
        pass  # a decimal number between two whole ones
    try:
        return kind.type(float(text)) if kind.kind == "f" else float(text)
    except ValueError:
        raise InvalidInputError(f"'{condition.column}' holds numbers; the filter compares it with {text!r}.") from None


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def with_numbers(column: pd.Series) -> pd.Series:
    """Decimals of fixed precision, and truth values of which some are missing, as numbers; everything else as it is."""
    if column.dtype != object:
        return column
    kinds = {type(value) for value in column.dropna()}
    if kinds and kinds <= {Decimal}:
        return column.astype(np.float64)
    return column
