"""evaluate: settings x examples -> a table, in parallel, into a store that a killed run goes on from."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from riskfront.arrays import Array
from riskfront.errors import EvaluationError, InvalidInputError
from riskfront.evaluation.examples import check as check_sequence
from riskfront.evaluation.outcome import Failure, Losses, Outcome
from riskfront.evaluation.workers import Evaluator, Workers, WorkersLostError
from riskfront.losses.columns import declared_bounds
from riskfront.losses.groups import all_groups
from riskfront.losses.settings import as_settings
from riskfront.losses.table import LossTable
from riskfront.losses.values import plain
from riskfront.runtime.progress import ProgressBar
from riskfront.spaces.space import Config, Space, config_id
from riskfront.stores.store import LossStore
from riskfront.stores.task import Task

Bounds = Mapping[str, tuple[float, float]]
Failures = dict[str, tuple[Config, Failure]]  # by the name of the setting
GroupsGiven = Mapping[str, Any] | pd.DataFrame | None  # name -> one value for each example
SKIP_HINT = ", or leave such settings out with on_error='skip'"
_NAMED = 8  # settings that a sentence names


def evaluate(
    losses: Losses,
    examples: Any,
    configs: Iterable[Mapping[str, Any]] | pd.DataFrame,
    *,
    store: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    groups: GroupsGiven = None,
    bounds: Bounds | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    progress: bool | None = None,
) -> LossTable:
    """Call ``losses`` at every setting and collect what it returns.

    Args:
        losses: ``losses(config, examples)`` returns name -> one loss for each example.
        examples: a list, an array, a data frame, or anything else with a length and an order. ``losses`` gets it as it is, but
            must not change it, for other settings see the same examples: arrays are read-only, data frames shallow copies.
        configs: the settings: dictionaries with the same keys, or a data frame with one row each.
        store: a path or an fsspec URL. Each setting is written as soon as it is evaluated; the same call later goes on where
            an earlier one was stopped. A store of another function, other examples or other groups is refused.
        n_jobs: processes, as in joblib; a Dask or Ray cluster by ``joblib.parallel_config``.
        groups: name -> (n_examples,), or a data frame, for limits that hold in every group.
        bounds: name -> (low, high), (0, 1) by default.
        on_error: "raise" stops at the first setting at which ``losses`` fails; "skip" leaves it out and warns at the end. What
            contradicts ``bounds`` or ``groups``, and workers that die, stop it in any case.
        progress: show a progress bar; by default on a terminal only.

    Examples:
        >>> import numpy as np
        >>> def losses(config, examples):
        ...     return {"error": examples < config["level"]}
        >>> evaluate(losses, np.linspace(0, 1, 100), [{"level": 0.1}, {"level": 0.2}])
        LossTable(2 settings (level) x 100 examples; losses error)
    """
    settings = as_configs(configs)
    check_on_error(on_error)
    rows = open_rows(store, lambda: _task(losses, examples, groups, bounds, settings), examples, groups, bounds)
    todo = [config for config in settings if config not in rows]
    failures: Failures = {}
    with (
        Workers(losses, examples, n_jobs) as workers,
        ProgressBar("evaluating", len(settings), len(settings) - len(todo), progress) as bar,
    ):
        declared = partial(
            check_declared, groups=[] if groups is None else [str(name) for name in groups], bounds=bounds or {}
        )
        fill(rows, workers, todo, bar, None if on_error == "raise" else failures, SKIP_HINT, declared)
    if failures:
        warn_of(failures, len(settings))
    return rows.table([config for config in settings if config_id(config) not in failures], bounds=bounds)


class MemoryRows:
    """Evaluated settings that are held in memory: what a store is, without one."""

    def __init__(self, n_examples: int, groups: GroupsGiven, bounds: Bounds | None) -> None:
        self.n_examples = n_examples
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

    def table(self, configs: Sequence[Mapping[str, Any]], *, bounds: Bounds | None = None) -> LossTable:
        rows = [self._rows[config_id(config)][1] for config in configs]
        losses = {name: np.stack([row[name] for row in rows]) for name in self.loss_names}
        return LossTable(configs, losses, self._groups, self._bounds if bounds is None else bounds)


RowsOf = LossStore | MemoryRows


def open_rows(
    store: str | os.PathLike[str] | None,
    task: Callable[[], Task],
    examples: Any,
    groups: GroupsGiven,
    bounds: Bounds | None,
) -> RowsOf:
    """Where evaluated settings go. The fingerprints of a task are only computed for a store."""
    check_examples(examples, groups)
    check_bounds(bounds)
    return MemoryRows(len(examples), groups, bounds) if store is None else LossStore(store, task())


def fill(
    rows: RowsOf,
    workers: Evaluator,
    configs: Sequence[Config],
    bar: ProgressBar,
    failures: Failures | None = None,
    hint: str = "",
    check: Callable[[Mapping[str, Array]], None] | None = None,
) -> None:
    """Evaluate settings and write each down when it comes; failures are collected, or the first is raised if there is no
    place for them. Then no other setting is begun, but those that workers are busy with are awaited and written down too.

    Args:
        hint: what else could be done about a failure.
        check: raises an error for losses that contradict what was declared. No other setting is begun then, in any case.
    """
    stopped: list[tuple[Config, Failure]] = []
    results = workers.run(itertools.takewhile(lambda _: not stopped, configs))
    try:
        for index, outcome in results:
            config = configs[index]
            outcome = _written(config, outcome, rows, check)
            if isinstance(outcome, Failure):
                if failures is None or outcome.fatal:
                    stopped.append((config, outcome))
                else:
                    failures[config_id(config)] = (config, outcome)
            bar.advance()
    except WorkersLostError as lost:
        raise _lost(lost, configs, rows) from lost.__cause__
    finally:
        results.close()  # type: ignore[attr-defined]
    if stopped:
        config, failure = stopped[0]
        raise _with_evaluated(partial(failure.error, config), rows, "" if failure.fatal else hint)


def _written(
    config: Config, outcome: Outcome, rows: RowsOf, check: Callable[[Mapping[str, Array]], None] | None
) -> Outcome:
    """The outcome, if it is in the rows now; else why it cannot be there."""
    if isinstance(outcome, Failure):
        return outcome
    known = rows.loss_names
    if known and outcome.keys() != set(known):
        reason = f"the losses function must return the same losses at every setting, {sorted(known)}"
        return Failure(f"{reason}; got {sorted(outcome)}")
    try:
        if check is not None:
            check(outcome)
        rows.write(config, outcome)
    except InvalidInputError as problem:
        return Failure(str(problem).rstrip("."), fatal=True)
    return outcome


def as_configs(configs: Iterable[Mapping[str, Any]] | pd.DataFrame) -> list[Config]:
    """Settings as dictionaries of plain values, checked to be different from each other and alike in their keys."""
    if isinstance(configs, pd.DataFrame):
        frame = as_settings(configs)
        columns = {name: [plain(value) for value in frame[name]] for name in frame.columns}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if isinstance(configs, str | Mapping | Space) or not isinstance(configs, Iterable):
        advice = (
            "Use space.grid(10) for a grid of it." if isinstance(configs, Space) else "One setting is a list of one."
        )
        raise InvalidInputError(
            f"configs must be a list of dictionaries or a data frame; got {type(configs).__name__}. {advice}"
        )
    listed = list(configs)
    as_settings(listed)
    return [{str(name): plain(value) for name, value in config.items()} for config in listed]


def check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "skip"):
        raise InvalidInputError(f"on_error must be 'raise' or 'skip'; got {on_error!r}.")


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
        ranges = {name: (float(values.min()), float(values.max())) for name, values in losses.items()}
        declared_bounds(bounds, ranges, {name: values.dtype for name, values in losses.items()})


def _task(losses: Losses, examples: Any, groups: GroupsGiven, bounds: Bounds | None, settings: list[Config]) -> Task:
    return Task.of(losses, examples, groups, bounds, settings=sorted(settings[0]))


def _with_evaluated(error_of: Callable[[str], EvaluationError], rows: RowsOf, hint: str) -> EvaluationError:
    """The error with what was evaluated before, and with a sentence that says where that is."""
    stored = isinstance(rows, LossStore)
    if stored:
        kept = f"The {len(rows)} settings evaluated before are in the store: correct it and run again to go on"
    else:
        kept = f"The {len(rows)} settings evaluated before are in this error's 'evaluated'"
    error = error_of(f"{kept}{hint}.")
    error.n_evaluated, error.in_store, error.can_skip = len(rows), stored, bool(hint)
    if isinstance(rows, MemoryRows) and len(rows):
        error.evaluated = rows.table(rows.configs)
    return error


def _lost(lost: WorkersLostError, configs: Sequence[Config], rows: RowsOf) -> EvaluationError:
    busy = [configs[position] for position in lost.positions]
    named = ", ".join(str(config) for config in busy[:_NAMED])
    more = f" and {len(busy) - _NAMED} more" if len(busy) > _NAMED else ""
    problem = (
        f"workers must live until all settings are evaluated; they were lost ({lost.reason}) while these settings were under "
        f"way or next: {named}{more}. One of them ends its process, or needs more memory than there is."
    )
    return _with_evaluated(partial(EvaluationError, problem, busy[0] if busy else {}), rows, "")


def warn_of(failures: Failures, total: int) -> None:
    """Say what was left out; an error if that is everything."""
    config, failure = next(iter(failures.values()))
    if len(failures) == total:
        raise replace(failure, reason=f"All {total} settings failed, the first so: {failure.reason}").error(config, "")
    warnings.warn(
        f"{len(failures)} of {total} settings were left out because the losses function failed at them; "
        f"the first: {failure.reason}, at the setting {config}.",
        stacklevel=3,
    )
