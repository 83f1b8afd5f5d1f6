"""A reference setting: the one that others are compared with, found in a table by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.sums import Totals
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, IntArray
from riskfront._support.values import known
from riskfront.errors import InvalidInputError


def find_reference(configs: pd.DataFrame, name: str) -> int:
    """The row of the only setting that a name stands for.

    The name is a value that no other setting has in any column ("gpt-4"), or values of several columns
    ("model=gpt-4, effort=high").
    """
    rows = _by_columns(configs, name) if _names_columns(configs, name) else _by_value(configs, name)
    if len(rows) != 1:
        found = "none" if len(rows) == 0 else f"{len(rows):,} of them"
        raise InvalidInputError(
            f"a reference must stand for exactly one setting; '{name}' stands for {found}. Name a value that only this "
            f"setting has, or several as 'column=value, column=value', with columns {', '.join(configs.columns)}."
        )
    return int(rows[0])


def drop(reference: Totals, of_settings: Totals) -> Totals:
    """The summed drop from the reference, (settings, groups): what the reference has and the setting has not."""
    return Totals(of_settings.n, reference.total - of_settings.total)


def drops(
    reference: Array, values: Array, condition: BoolArray | None, groups: list[IntArray]
) -> tuple[Array, BoolArray | None, list[IntArray]]:
    """The same one by one: (1, n) values of the reference, (settings, n) of the settings, and what else a sequence has."""
    kind = np.int8 if values.dtype == np.bool_ else np.float64
    return reference.astype(kind) - values.astype(kind), condition, groups


def own_term(term: Term, varies: bool) -> Term:
    """What is summed of each setting for a drop, if setting and reference can be compared example by example."""
    if varies:
        raise InvalidInputError(
            f"a drop must compare two settings on the same examples; '{term.given}' depends on the setting. "
            "Condition it on a group of the examples instead."
        )
    return replace(term, drop_from=None)


def _names_columns(configs: pd.DataFrame, name: str) -> bool:
    pairs = [part.partition("=") for part in name.split(",")]
    return all(sign and column.strip() in configs.columns for column, sign, _ in pairs)


def _by_columns(configs: pd.DataFrame, name: str) -> IntArray:
    mask = np.ones(len(configs), dtype=bool)
    for part in name.split(","):
        column, _, value = part.partition("=")
        mask &= _equal(configs[known(column.strip(), list(configs.columns), "column")], value.strip())
    return np.flatnonzero(mask)


def _by_value(configs: pd.DataFrame, name: str) -> IntArray:
    """Rows that have this value in some column: were one of several meant, another could be taken for it."""
    matches = [np.flatnonzero(_equal(configs[column], name)) for column in configs.columns]
    return np.unique(np.concatenate(matches))


def _equal(column: pd.Series[Any], text: str) -> Any:
    """Where a column holds the value that a text stands for; numbers are compared as numbers."""
    if column.dtype == np.bool_:
        return column.astype(str).eq(text).to_numpy()
    same = np.zeros(len(column), dtype=bool) if column.dtype.kind in "iuf" else column.eq(text).to_numpy()
    try:
        return same | column.eq(float(text)).to_numpy()
    except ValueError:
        return same
