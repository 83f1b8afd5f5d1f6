"""What a sequential run takes in: its JSON, with everything that was told in its order, and new examples, if they are new."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront._calibration.certificates.uses_of_test_set import DataDigests, UseOfTestSet
from riskfront._data.contents import loss_fingerprints, refuse_repeats, some_settings
from riskfront._data.groups import Groups
from riskfront._data.identity.fingerprints import are_positions, digest_in_any_order
from riskfront._data.problem_fit import check_complete
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import config_id
from riskfront._support.arrays import IntArray
from riskfront._support.checked_json import check_schema
from riskfront._support.object_digest import fingerprint_data
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.methods._plan import parameters
from riskfront.methods._registry import rebuild_method

if TYPE_CHECKING:
    from riskfront._calibration.sequential.ask_tell import Sequential

_TOLD_APART = 0.5  # share of examples whose losses no other has, from which copies are known without names
SCHEMA, SCHEMA_VERSION = "riskfront.sequential", 1


def to_content(run: Sequential, told: int | None = None) -> dict[str, Any]:
    log, batches = run._log[:told], run._batches[:told]
    places = sum(batches)
    times = len(batches if run._full else log)
    names = list(run._told.values)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "configs": run.configs,
        "problem": run.problem.to_dict(),
        "method": run._method.name,
        "parameters": parameters(run._method),
        "examples": run._n,
        "planning": run._n_opt,
        "order": run._order.tolist(),
        "bounds": {name: list(pair) for name, pair in run._bounds.items()},
        "groups": {name: [plain(one) for one in np.asarray(of).tolist()] for name, of in run._groups_given.items()},
        "full": run._full,
        "known_by": [asdict(data) for data in (run._known_by[:told] if run._full else run._known_by)],
        "earlier": [[found, use.to_dict()] for found, use in run._earlier if found <= times],
        "told": [list(cell) for cell in log],
        "outcomes": {name: [_value(run, name, row, int(run._place[at])) for row, at in log] for name in names},
    }
    if run._full:
        content |= {
            "batches": batches,
            "ids": [name for name, place in run._ids.items() if place < places],
            "told": [],
            "outcomes": {name: _columns(run, name, places) for name in names},
            "example_groups": {
                name: {"levels": list(of.levels), "codes": of.codes[:places].tolist()}
                for name, of in run._told.groups.items()
            },
        }
    return content


def _value(run: Sequential, name: str, row: int, place: int) -> float | None:
    return None if run._told.missing[name][row, place] else float(run._told.values[name][row, place])


def _columns(run: Sequential, name: str, places: int) -> list[list[float | None]]:
    """The outcomes of all settings on each of the first examples."""
    found: list[list[float | None]] = run._told.values[name][:, :places].T.tolist()
    for row, place in np.argwhere(run._told.missing[name][:, :places]):
        found[place][row] = None
    return found


def from_content(cls: type[Sequential], data: Mapping[str, Any]) -> Sequential:
    """The run that ``to_content`` described."""
    check_schema(data, SCHEMA, SCHEMA_VERSION, "a sequential run", "runs")
    made = cls.__new__(cls)
    made._set(
        [dict(config) for config in data["configs"]],
        Problem.from_dict(data["problem"]),
        rebuild_method(data["method"], data["parameters"]),
        int(data["examples"]),
        int(data["planning"]),
        np.array(data["order"], dtype=np.int64),
        dict(data["groups"]),
        {name: (float(low), float(high)) for name, (low, high) in data["bounds"].items()},
    )
    if data["full"]:
        _restore_tables(made, data)
    elif data["full"] is not None:
        made._use(full=False)
        for at, (row, example) in enumerate(data["told"]):
            outcome = {name: values[at] for name, values in data["outcomes"].items()}
            made.tell((made.configs[row], example), outcome)
    made._known_by[:] = [
        DataDigests(one["exact"], tuple(one["limited"]), tuple(one["others"])) for one in data["known_by"]
    ]
    made._earlier = [(int(found), UseOfTestSet(**use)) for found, use in data["earlier"]]
    return made


def _restore_tables(run: Sequential, data: Mapping[str, Any]) -> None:
    run._use(full=True)
    run._batches = [int(count) for count in data["batches"]]
    run._ids = {str(name): place for place, name in enumerate(data["ids"])}
    if len(run._ids) != sum(run._batches):
        raise InvalidInputError("a sequential run must name each of its examples once; this one does not.")
    if not run._batches:
        return
    outcomes = {}
    for name, columns in data["outcomes"].items():
        values = np.array(columns, dtype=np.float64).T  # None becomes nan
        outcomes[name] = np.ma.masked_invalid(values)
    groups = {
        name: Groups(tuple(of["levels"]), np.array(of["codes"], dtype=np.int64))
        for name, of in data["example_groups"].items()
    }
    run._told.add_columns(outcomes, groups)


def digests_of(examples: Any) -> list[DataDigests]:
    """By which other questions to these examples are known, if examples were given and are no mere positions."""
    if isinstance(examples, int | np.integer) or are_positions(examples):
        return []
    try:
        exact = fingerprint_data(examples)
    except InvalidInputError:
        return []
    in_any_order = digest_in_any_order(examples)
    return [DataDigests(exact, () if in_any_order is None else (in_any_order,))]


def shuffle_of(run: Sequential, told: int, n: int) -> IntArray:
    """The order in which n new examples count, after so many were told: drawn when the run began. A draw of its own at each
    telling would let whoever tells the same examples again after a restart wait for a lucky order."""
    drawn = hashlib.sha256(run._order.tobytes() + f"{told} {n}".encode()).digest()
    return np.random.default_rng(int.from_bytes(drawn[:16], "big")).permutation(n)


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
        if run._batches:
            _refuse_without_names(table)
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
    refuse_repeats(table, run._limited())
    told = [_examples_told(run, 0, run._told.known.shape[1])] if run._batches else []
    ends = np.cumsum(run._batches, dtype=np.int64)
    for end, n in zip(ends.tolist(), run._batches, strict=True):
        if n == table.n_examples:  # few 0/1 losses are known again as a whole table only
            told.append(_examples_told(run, end - n, end).subset(np.argsort(shuffle_of(run, end - n, n))))
    if any(table.shares_examples(one, run._limited()) for one in told):
        raise InvalidInputError(
            "examples must be new; some of these were told before, or have the very same losses and groups. Give their "
            "names, tell_table(table, ids=...), always the same ones, and those that were told before do not count again."
        )


def _refuse_without_names(table: LossTable) -> None:
    """Raise an error where part of a table that was told before could not be known again."""
    alone = (
        np.unique(loss_fingerprints(table, some_settings(table), table.loss_names), return_counts=True)[1] == 1
    ).sum()
    if alone < _TOLD_APART * table.n_examples:
        raise InvalidInputError(
            f"examples that come in several tables must have names, tell_table(table, ids=...), unless their losses tell them "
            f"apart; {table.n_examples - alone:,} of these {table.n_examples:,} have the same losses as others, so that one "
            "that is told twice would count twice."
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


def _examples_told(run: Sequential, start: int, end: int) -> LossTable:
    """All settings on the examples between two places."""
    places = np.array([start, end], dtype=np.int64)
    return run._told.part(places).table(range(len(run.configs)), slice(0, 1))


def check_outcomes(run: Sequential, table: LossTable) -> None:
    """Raise an error for outcomes that no test could count, before they count."""
    for name in sorted(set(run._complete) & set(table.missing)):
        check_complete(run._complete[name], name)
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
