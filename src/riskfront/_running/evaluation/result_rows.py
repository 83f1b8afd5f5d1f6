"""Where evaluated settings go: memory, or a store; and what their losses must keep to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.columns import declared_bounds
from riskfront._data.groups import all_groups
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.stored_rows import range_of
from riskfront._data.stores.task import Task
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config, config_id
from riskfront._running.evaluation.example_parts import check as check_sequence
from riskfront._support.arrays import Array
from riskfront.errors import InvalidInputError

Bounds = Mapping[str, tuple[float, float]]
GroupsGiven = Mapping[str, Any] | pd.DataFrame | None  # name -> one value for each example


class MemoryRows:
    """Evaluated settings that are held in memory: what a store is, without one."""

    def __init__(self, n_examples: int, groups: GroupsGiven, bounds: Bounds | None, copies: int = 0) -> None:
        self.n_examples, self.copies = n_examples, copies
        self._groups = all_groups(groups, n_examples)
        check_bounds(bounds)
        self._bounds = dict(bounds or {})
        self._rows: dict[str, tuple[Config, Mapping[str, Array]]] = {}

    def __contains__(self, config: Mapping[str, Any]) -> bool:
        return config_id(config) in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def configs(self) -> list[Config]:
        return [dict(config) for config, _ in self._rows.values()]

    @property
    def loss_names(self) -> list[str]:
        return list(next(iter(self._rows.values()))[1]) if self._rows else []

    def write(self, config: Mapping[str, Any], losses: Mapping[str, Array]) -> None:
        check_declared(losses, self._groups, self._bounds)
        self._rows.setdefault(config_id(config), (dict(config), losses))

    def writing_together(self) -> AbstractContextManager[None]:
        """Nothing is written."""
        return nullcontext()

    def table(self, configs: Sequence[Mapping[str, Any]], *, bounds: Bounds | None = None) -> LossTable:
        rows = [self._rows[config_id(config)][1] for config in configs]
        losses = {name: _stacked([row[name] for row in rows]) for name in self.loss_names}
        table = LossTable(configs, losses, self._groups, self._bounds if bounds is None else bounds)
        table.copies_left_out = self.copies
        return table


def _stacked(rows: Sequence[Array]) -> Array:
    """(rows, examples), a masked array if an outcome is missing."""
    return (np.ma.stack if any(map(np.ma.isMaskedArray, rows)) else np.stack)(rows)


RowsOf = LossStore | MemoryRows


def open_rows(
    store: str | os.PathLike[str] | None,
    task: Callable[[], Task],
    examples: Any,
    groups: GroupsGiven,
    bounds: Bounds | None,
    storage_options: Mapping[str, Any] | None = None,
    copies: int = 0,
) -> RowsOf:
    """Where evaluated settings go. The fingerprints of a task are only computed for a store. ``copies`` of the examples were
    left out."""
    check_examples(examples, groups)
    check_bounds(bounds)
    if store is None:
        return MemoryRows(len(examples), groups, bounds, copies)
    return LossStore(store, task(), storage_options=storage_options)


def check_examples(examples: Any, groups: GroupsGiven) -> None:
    check_sequence(examples)
    all_groups(groups, len(examples))


def check_bounds(bounds: Bounds | None) -> None:
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidInputError(
            f"bounds must be a dictionary, name of a loss -> (low, high); got {type(bounds).__name__}."
        )
    declared_bounds(bounds or {}, bounds or {})  # each pair keeps to itself, if it is one


def check_declared(losses: Mapping[str, Array], groups: Iterable[str], bounds: Bounds) -> None:
    """What a table of these losses would refuse: said at the first setting, not when all are evaluated."""
    for name in groups:
        if name in losses:
            raise InvalidInputError(
                f"a name must stand for one thing; got '{name}' as a loss and as a group. Rename one."
            )
    if bounds:
        ranges = {name: range_of(values) or bounds.get(name, (0.0, 1.0)) for name, values in losses.items()}
        declared_bounds(bounds, ranges, {name: values.dtype for name, values in losses.items()})
