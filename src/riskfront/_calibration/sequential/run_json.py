"""A sequential run as JSON: everything that was told, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront._data.groups import Groups
from riskfront._problems.problem import Problem
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.methods._plan import parameters
from riskfront.methods._registry import rebuild_method

if TYPE_CHECKING:
    from riskfront._calibration.sequential.ask_tell import Sequential

SCHEMA, SCHEMA_VERSION = "riskfront.sequential", 1


def to_content(run: Sequential, told: int | None = None) -> dict[str, Any]:
    log, batches = run._log[:told], run._batches[:told]
    places = sum(batches)
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
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        raise InvalidInputError(f"a sequential run must be a JSON object with schema '{SCHEMA}'; this is not one.")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise InvalidInputError(
            f"this version reads runs of schema version {SCHEMA_VERSION}; got {data.get('schema_version')!r}."
        )
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
