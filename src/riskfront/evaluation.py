"""evaluate: settings x examples -> a table, in parallel, into a store that a killed run goes on from."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from riskfront import columns as checked
from riskfront.arrays import Array
from riskfront.errors import InvalidInputError
from riskfront.outcome import Failure, Losses
from riskfront.progress import ProgressBar
from riskfront.space import Config, config_id
from riskfront.store import LossStore
from riskfront.table import LossTable
from riskfront.task import Task
from riskfront.workers import Evaluator, Workers

Bounds = Mapping[str, tuple[float, float]]


def evaluate(
    losses: Losses,
    examples: Any,
    configs: Sequence[Mapping[str, Any]] | pd.DataFrame,
    *,
    store: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    groups: Mapping[str, npt.ArrayLike] | None = None,
    bounds: Bounds | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    progress: bool | None = None,
) -> LossTable:
    """Call ``losses`` at every setting and collect what it returns.

    Args:
        losses: ``losses(config, examples)`` returns name -> one loss for each example.
        examples: anything with a length; it goes to ``losses`` as it is.
        configs: the settings: dictionaries with the same keys, or a data frame with one row each.
        store: a path or an fsspec URL. Each setting is written as soon as it is evaluated; the same call later goes on where
            an earlier one was stopped. A store of another function, other examples or other groups is refused.
        n_jobs: processes, as in joblib; a Dask or Ray cluster by ``joblib.parallel_config``.
        groups: name -> (n_examples,), for limits that hold in every group.
        bounds: name -> (low, high), (0, 1) by default.
        on_error: "raise" stops at the first setting at which ``losses`` fails; "skip" leaves it out and warns at the end.
        progress: show a progress bar; by default on a terminal only.
    """
    settings = as_configs(configs)
    if on_error not in ("raise", "skip"):
        raise InvalidInputError(f"on_error must be 'raise' or 'skip'; got {on_error!r}.")
    rows = open_rows(store, lambda: _task(losses, examples, groups, bounds, settings), examples, groups, bounds)
    todo = [config for config in settings if config not in rows]
    failures: dict[str, tuple[Config, Failure]] = {}
    with (
        Workers(losses, examples, n_jobs) as workers,
        ProgressBar("evaluating", len(settings), len(settings) - len(todo), progress) as bar,
    ):
        hint = ", or leave such settings out with on_error='skip'"
        fill(rows, workers, todo, bar, None if on_error == "raise" else failures, hint)
    if failures:
        _warn(failures, len(settings))
    return rows.table([config for config in settings if config_id(config) not in failures], bounds=bounds)


class MemoryRows:
    """Evaluated settings that are held in memory: what a store is, without one."""

    def __init__(
        self, n_examples: int, groups: Mapping[str, npt.ArrayLike | checked.Groups] | None, bounds: Bounds | None
    ) -> None:
        self.n_examples = n_examples
        self._groups = {name: checked.groups(name, values, n_examples) for name, values in (groups or {}).items()}
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
        self._rows.setdefault(config_id(config), (dict(config), losses))

    def table(self, configs: Sequence[Mapping[str, Any]], *, bounds: Bounds | None = None) -> LossTable:
        rows = [self._rows[config_id(config)][1] for config in configs]
        losses = {name: np.stack([row[name] for row in rows]) for name in self.loss_names}
        return LossTable(configs, losses, self._groups, self._bounds if bounds is None else bounds)


RowsOf = LossStore | MemoryRows


def open_rows(
    store: str | os.PathLike[str] | None,
    task: Callable[[], Task],
    examples: Any,
    groups: Mapping[str, npt.ArrayLike] | None,
    bounds: Bounds | None,
) -> RowsOf:
    """Where evaluated settings go. The fingerprints of a task are only computed for a store."""
    check_examples(examples, groups)
    return MemoryRows(len(examples), groups, bounds) if store is None else LossStore(store, task())


def fill(
    rows: RowsOf,
    workers: Evaluator,
    configs: Sequence[Config],
    bar: ProgressBar,
    failures: dict[str, tuple[Config, Failure]] | None = None,
    hint: str = "",
) -> None:
    """Evaluate settings and write each down when it comes; failures are collected, or the first is raised if there is no
    place for them. Then no other setting is begun, but those that workers are busy with are awaited and written down too.
    """
    stopped: list[tuple[Config, Failure]] = []
    results = workers.run(itertools.takewhile(lambda _: not stopped, configs))
    try:
        for index, outcome in results:
            config = configs[index]
            known = rows.loss_names
            if isinstance(outcome, dict) and known and outcome.keys() != set(known):
                reason = f"the losses function must return the same losses at every setting, {sorted(known)}"
                outcome = Failure(f"{reason}; got {sorted(outcome)}")
            if isinstance(outcome, dict):
                rows.write(config, outcome)
            elif failures is None:
                stopped.append((config, outcome))
            else:
                failures[config_id(config)] = (config, outcome)
            bar.advance()
    finally:
        results.close()  # type: ignore[attr-defined]
    if stopped:
        config, failure = stopped[0]
        _raise(failure, config, rows, hint)


def as_configs(configs: Sequence[Mapping[str, Any]] | pd.DataFrame) -> list[Config]:
    """Settings as dictionaries of plain values, checked to be different from each other and alike in their keys."""
    frame = checked.settings(configs)
    if isinstance(configs, pd.DataFrame):
        columns = {name: [checked.plain(value) for value in frame[name]] for name in frame.columns}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{str(name): checked.plain(value) for name, value in config.items()} for config in configs]


def check_examples(examples: Any, groups: Mapping[str, npt.ArrayLike] | None) -> None:
    try:
        if isinstance(examples, Mapping):
            raise TypeError
        n_examples = len(examples)
    except TypeError:
        raise InvalidInputError(
            f"examples must be a sequence, like a list, an array or a data frame; got {type(examples).__name__}."
        ) from None
    if n_examples == 0:
        raise InvalidInputError("there must be at least one example; got none.")
    for name, values in (groups or {}).items():
        checked.groups(name, values, n_examples)


def _task(
    losses: Losses, examples: Any, groups: Mapping[str, Any] | None, bounds: Bounds | None, settings: list[Config]
) -> Task:
    return Task.of(losses, examples, groups, bounds, settings=sorted(settings[0]))


def _raise(failure: Failure, config: Config, rows: RowsOf, hint: str) -> None:
    if isinstance(rows, LossStore):
        kept = f"The {len(rows)} settings evaluated before are in the store: correct it and run again to go on"
    else:
        kept = f"The {len(rows)} settings evaluated before are in this error's 'evaluated'"
    error = failure.error(config, f"{kept}{hint}.")
    if isinstance(rows, MemoryRows) and len(rows):
        error.evaluated = rows.table(rows.configs)
    raise error


def _warn(failures: Mapping[str, tuple[Config, Failure]], total: int) -> None:
    config, failure = next(iter(failures.values()))
    if len(failures) == total:
        raise failure.error(config, f"All {total} settings failed; this is the first.")
    warnings.warn(
        f"{len(failures)} of {total} settings were left out because the losses function failed at them; "
        f"the first: {failure.reason}, at the setting {config}.",
        stacklevel=3,
    )
