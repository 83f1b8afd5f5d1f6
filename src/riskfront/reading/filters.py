"""Filters: which rows of a file count, by what is known of a setting or an example, never by its outcome."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront.arrays import BoolArray, FloatArray
from riskfront.errors import InvalidInputError
from riskfront.losses.values import known

_FILTER = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>==|!=|<=|>=|=|<|>|\s+in\s+)\s*(?P<value>.+?)\s*$")
_MANY, _SAME = 8, 0.995  # settings or examples from which on a correlation of this size is no accident
_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


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
        values = match["value"].split(",") if sign == "in" else [match["value"]]
        return cls(match["column"].strip("`"), sign, tuple(value.strip().strip("'\"") for value in values))

    def kept(self, frame: pd.DataFrame) -> BoolArray:
        """(rows,): where the condition holds; never where the value is missing."""
        column = frame[known(self.column, list(frame.columns), "column")]
        if column.dtype.kind in "iuf":
            numbers = [_number(value, self) for value in self.values]
            if self.sign == "in":
                return column.isin(numbers).to_numpy()
            return np.asarray(_SIGNS[self.sign](column.to_numpy(), numbers[0]) & column.notna().to_numpy())
        texts = column.astype(str)
        if self.sign == "in":
            return np.asarray(texts.isin(self.values) & column.notna())
        if self.sign in ("<", "<=", ">", ">="):
            raise InvalidInputError(f"'{self.sign}' compares numbers; '{self.column}' holds texts. Use ==, != or in.")
        return np.asarray(_SIGNS[self.sign](texts, self.values[0]) & column.notna())


def parse_filters(where: str | Sequence[str]) -> list[Filter]:
    """Conditions that must all hold."""
    return [Filter.parse(text) for text in ([where] if isinstance(where, str) else where)]


def filtered(frame: pd.DataFrame, filters: Sequence[Filter], outcomes: Collection[str]) -> pd.DataFrame:
    """The rows where all conditions hold. A condition on an outcome is refused: it would choose by what is tested."""
    mask = np.ones(len(frame), dtype=bool)
    for condition in filters:
        if condition.column in outcomes:
            raise refused(condition.column)
        mask &= condition.kept(frame)
    if filters and not mask.any():
        raise InvalidInputError(f"a filter must leave some rows; {' and '.join(map(_text, filters))} leaves none.")
    return frame[mask] if filters else frame


def must_be_known_beforehand(
    frame: pd.DataFrame, filters: Sequence[Filter], example: str, settings: Sequence[str], losses: Sequence[str]
) -> None:
    """A filtered column must belong to the example or to the setting; what varies with both is an outcome, and so is what
    repeats the mean outcome of either."""
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


def repeats(values: pd.Series, means: FloatArray) -> bool:
    """Whether a column is computed from outcomes, of which these are the means: the count of models that were right, say."""
    if values.dtype.kind not in "iuf":
        return False
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


def _text(condition: Filter) -> str:
    return f"{condition.column} {condition.sign} {', '.join(condition.values)}"


def _number(text: str, condition: Filter) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"'{condition.column}' holds numbers; the filter compares it with {text!r}.") from None
