"""evaluate: settings x examples -> a table, in parallel, into a store that a killed run goes on from."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import pandas as pd

from riskfront._data.configs import as_settings
from riskfront._data.identity.fingerprints import Repeats
from riskfront._data.stores.loss_store import LossStore, write_notes
from riskfront._data.stores.task import Task
from riskfront._data.table import LossTable
from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront._running.evaluation.example_parts import examples_that_count
from riskfront._running.evaluation.failing_examples import (
    SKIP_HINT,
    Failures,
    WorkersLostError,
    all_failed,
    all_missing,
    lost_workers,
    warn_of,
    with_evaluated,
)
from riskfront._running.evaluation.outcome import (
    Bounds,
    Evaluated,
    Failure,
    GroupsGiven,
    Losses,
    MemoryRows,
    Outcome,
    RowsOf,
    check_bounds,
    check_declared,
    check_examples,
)
from riskfront._running.evaluation.workers import Evaluator, Workers
from riskfront._support.arrays import Array
from riskfront._support.progress import ProgressBar
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError


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
    repeats: Repeats = "refuse",
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> LossTable:
    """Call ``losses`` at every setting and collect what it returns.

    Args:
        losses: ``losses(config, examples)`` returns name -> one loss for each example.
        examples: a list, an array, a data frame, or anything else with a length and an order. ``losses`` gets it as it is, but
            must not change it, for other settings see the same examples: arrays are read-only, data frames shallow copies.
        configs: the settings: dictionaries with the same keys, or a data frame with one row each.
        store: a path or an fsspec URL. Each setting is written as soon as it is evaluated (behind a URL, with others that are
            evaluated within a second); the same call later goes on where an earlier one was stopped. A store of another
            function, other examples or other groups is refused. Two processes may write to one store, but do not share the
            work: each evaluates what was not there when it began.
        n_jobs: processes, as in joblib; a Dask or Ray cluster by ``joblib.parallel_config``.
        groups: name -> (n_examples,), or a data frame, for limits that hold in every group.
        bounds: name -> (low, high), (0, 1) by default.
        on_error: "raise" stops at the first setting at which ``losses`` fails. "skip" finds the examples on which it fails and
            goes on: their outcomes are missing, as NaN is, and ``calibrate`` counts a missing outcome as the worst there can
            be. No setting is left out. To find them, ``losses`` is called on parts of the examples: at such a setting no more
            than 2,000 times and once for each example, with no more than 12 times all examples. What contradicts ``bounds``
            or ``groups``, and workers that die again and again, stop it in any case.
        repeats: what to do with copies of examples. "refuse" is an error where examples, with their groups, are equal more
            often than independent draws could be; "keep-one" keeps one of each content, so that each counts once in a
            guarantee; "independent" declares that equal examples were drawn independently.
        storage_options: for fsspec, of a store behind a URL, such as {"key": ..., "secret": ..., "endpoint_url": ...}.
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
    check_examples(examples, groups)
    examples, groups, kept = examples_that_count(examples, groups, repeats)
    check_bounds(bounds)
    copies = int(kept.copies.sum())
    rows: RowsOf
    if store is None:
        rows = MemoryRows(len(examples), groups, bounds, copies)
    else:
        task = Task.of(losses, examples, groups, bounds, settings=sorted(settings[0]))
        rows = LossStore(store, task, storage_options=storage_options)
        if kept.notes:
            write_notes(store, kept.notes, storage_options, copies=copies)
    todo = [config for config in settings if config not in rows]
    failures: Failures = {}
    with (
        Workers(losses, examples, n_jobs, gaps=on_error == "skip") as workers,
        ProgressBar("evaluating", len(settings), len(settings) - len(todo), progress) as bar,
        rows.writing_together(),
    ):
        named = [] if groups is None else [str(name) for name in groups]
        declared = partial(check_declared, groups=named, bounds=bounds or {})
        fill(rows, workers, todo, bar, None if on_error == "raise" else failures, declared)
    if not len(rows):
        raise all_failed(failures)
    if failures:
        warn_of(failures, len(settings))
    table = rows.table(settings, bounds=bounds)
    table.notes, table.examples_digest = kept.notes, kept.in_any_order
    return table


def fill(
    rows: RowsOf,
    workers: Evaluator,
    configs: Sequence[Config],
    bar: ProgressBar,
    failures: Failures | None = None,
    check: Callable[[Mapping[str, Array]], None] | None = None,
    names: Sequence[str] = (),
) -> None:
    """Evaluate settings and write each down when it comes.

    Args:
        failures: where failures on these examples go, and no others; None: the first is raised. Their settings are written down
            too, with missing outcomes, once the names of losses are known.
        check: raises an error for losses that contradict what was declared. No other setting is begun then, in any case.
        names: of the losses, if they are known before the first setting is evaluated.
    """
    cells = [(config, rows) for config in configs]
    write_as_they_come(cells, workers.run, bar, failures, lambda: rows.loss_names or names, check)
    known = rows.loss_names or names
    for config, _ in (failures or {}).values():
        if known and config not in rows:
            rows.write(config, all_missing(known, rows.n_examples))


def write_as_they_come(
    cells: Sequence[tuple[Config, RowsOf]],
    run: Callable[[Iterable[Config]], Iterator[tuple[int, Outcome]]],
    bar: ProgressBar,
    failures: Failures | None,
    names: Callable[[], Sequence[str]],
    check: Callable[[Mapping[str, Array]], None] | None = None,
    sizes: Sequence[int] | None = None,
) -> None:
    """Evaluate settings, each for rows of its own; failures are collected, or the first is raised if there is no place for
    them. Then no other setting is begun, but those that workers are busy with are awaited and written down too.

    ``names``: of the losses, as far as they are known by then. ``sizes``: by how much each moves the bar.
    """
    if not cells:
        return
    stopped: list[tuple[int, Failure]] = []
    results = run(config for config, _ in itertools.takewhile(lambda _: not stopped, cells))
    try:
        for index, outcome in results:
            config, rows = cells[index]
            failure = outcome if isinstance(outcome, Failure) else _written(config, outcome, rows, check, names())
            if failure is not None:
                if failures is None or failure.fatal:
                    stopped.append((index, failure))
                else:
                    failures[config_id(config)] = (config, failure)
            bar.advance(1 if sizes is None else sizes[index])
    except WorkersLostError as lost:
        raise lost_workers(lost, [config for config, _ in cells], cells[lost.position or 0][1]) from lost.__cause__
    finally:
        results.close()  # type: ignore[attr-defined]
    if stopped:
        index, failure = stopped[0]
        config, rows = cells[index]
        raise with_evaluated(partial(failure.error, config), rows, "" if failure.fatal else SKIP_HINT)


def _written(
    config: Config,
    outcome: Evaluated,
    rows: RowsOf,
    check: Callable[[Mapping[str, Array]], None] | None,
    names: Sequence[str],
) -> Failure | None:
    """Write down what was evaluated; what went wrong, if anything did."""
    if names and outcome.losses.keys() != set(names):
        reason = f"the losses function must return the same losses at every setting, {sorted(names)}"
        return Failure(f"{reason}; got {sorted(outcome.losses)}")
    try:
        if check is not None:
            check(outcome.losses)
        rows.write(config, outcome.losses)
    except InvalidInputError as problem:
        return Failure(str(problem).rstrip("."), fatal=True)
    return outcome.failure


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
