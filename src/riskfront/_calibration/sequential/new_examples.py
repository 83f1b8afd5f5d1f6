"""New examples of a run in full use: which of them are new, and whether they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront._data.contents import refuse_repeats
from riskfront._data.groups import Groups
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import config_id
from riskfront._support.arrays import IntArray
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront._calibration.sequential.ask_tell import Sequential


def rows_of(run: Sequential, table: LossTable) -> IntArray:
    if not isinstance(table, LossTable):
        raise InvalidInputError(
            f"examples must come as a LossTable, as rf.read_table reads it; got {type(table).__name__}."
        )
    there = {config_id(table.config(row)): row for row in range(table.n_configs)}
    lacking = [config for config in run.configs if config_id(config) not in there]
    if lacking:
        raise InvalidInputError(f"a table must hold every setting of this run; {lacking[0]} is missing.")
    needs = [name for name in run._needs() if name not in {*table.loss_names, *table.group_names}]
    if needs or (run._told.values and not set(run._told.values) <= set(table.loss_names)):
        raise InvalidInputError(f"a table must hold the losses {run._needs()}; it has {table.loss_names}.")
    return np.array([there[config_id(config)] for config in run.configs], dtype=np.int64)


def new_examples(run: Sequential, table: LossTable, names: list[str] | None) -> IntArray:
    """Positions of the examples that were not told before."""
    if names is None:
        _refuse_copies(run, table)
        return np.arange(table.n_examples)
    if len(names) != table.n_examples or len(set(names)) != len(names):
        raise InvalidInputError(
            f"ids must name each of {table.n_examples} examples once; got {len(set(names))} names for {len(names)}."
        )
    known = [at for at, name in enumerate(names) if name in run._ids]
    _refuse_changes(run, table, names, known)
    new = np.array([at for at, name in enumerate(names) if name not in run._ids], dtype=np.int64)
    if len(new):
        _refuse_copies(run, table.subset(new))
    return new


def name_of(value: Any) -> str:
    """The name of an example as a text: 1, 1.0 and "1" are one, since a gap turns a column of numbers into decimals."""
    value = plain(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip()
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text


def _refuse_copies(run: Sequential, table: LossTable) -> None:
    """Raise an error if new examples are copies of each other, or of examples that were told before under other names."""
    refuse_repeats(table)
    if run._told.known.shape[1] and table.shares_examples(_everything(run), run._limited()):
        raise InvalidInputError(
            "examples must be new; some of these were told before, or have the very same losses and groups. Give their "
            "names, tell_table(table, ids=...), always the same ones, and those that were told before do not count again."
        )


def _refuse_changes(run: Sequential, table: LossTable, names: list[str], known: list[int]) -> None:
    if not known:
        return
    places = [run._ids[names[at]] for at in known]
    rows = rows_of(run, table)
    for name in run._limited() & set(table.loss_names):
        now = table.select(rows).subset(known).losses(name).astype(np.float64)
        then = np.where(run._told.missing[name][:, places], np.nan, run._told.values[name][:, places])
        if not np.array_equal(now, then, equal_nan=True):
            raise InvalidInputError(
                f"an outcome is told once; '{name}' of examples that were told before has other values now. Keep what was "
                "told, or begin a new run."
            )


def _groups_used(run: Sequential) -> set[str]:
    """What limits and objectives name beside losses: groups, conditions, weights."""
    terms = [*(limit.term for limit in run.problem.limits), *(one.term for one in run.problem.objectives)]
    named = {name for term in terms for name in (term.per, term.given, term.weights) if name is not None}
    return named | {limit.given for limit in run.problem.limits if limit.given is not None}


def _everything(run: Sequential) -> LossTable:
    every = np.array([0, run._told.known.shape[1]], dtype=np.int64)
    return run._told.part(every).table(range(len(run.configs)), slice(0, 1))


def check_ranges(run: Sequential, table: LossTable) -> None:
    for name in sorted(run._bounded):
        low, high = run._bounds.get(name, (0.0, 1.0))
        values = table.losses(name)
        if np.nanmin(values, initial=low) < low or np.nanmax(values, initial=high) > high:
            raise InvalidInputError(
                f"loss '{name}' must lie in its bounds ({low:g}, {high:g}). Declare its range with bounds=."
            )


def coded(run: Sequential, table: LossTable) -> dict[str, Groups]:
    """The groups of new examples, by the levels that were declared, or that the first examples had."""
    found = {}
    for name in sorted(_groups_used(run) & set(table.group_names)):
        own = table.group(name)
        first = run._told.groups[name].levels if name in run._told.groups else own.levels
        levels = tuple(plain(one) for one in run._groups_given.get(name, first))
        unknown = [level for level in own.levels if level not in levels]
        if unknown:
            raise InvalidInputError(
                f"every group must be known from the beginning; '{name}' has the new value {unknown[0]!r}. Begin a run "
                f"that declares them: groups={{'{name}': [...]}}."
            )
        code = np.array([levels.index(level) for level in own.levels], dtype=np.int64)
        found[name] = Groups(levels, code[own.codes])
    return found
