"""``riskfront calibrate --sequential``: labels come daily, and one looks daily."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

import riskfront as rf
from riskfront._calibration.monitoring.outcome_files import only_one
from riskfront._calibration.sequential.ask_tell import Sequential
from riskfront._calibration.sequential.taken_in import name_of
from riskfront._cli.options import MethodOptions, TableOptions
from riskfront._data.reading.column_roles import Layout
from riskfront._problems.problem import Problem
from riskfront._support.files import check_writable
from riskfront.errors import InvalidInputError

_NAMES = "name of the example"  # a column that is added, to know examples again


def tell_file(
    state: Path, file: str, problem: Problem, columns: TableOptions, by: MethodOptions, examples: int | None
) -> tuple[rf.Certificate, int]:
    """Tell a run the examples of a file, begin it if there is none; what is certified now, and how many examples were new."""
    check_writable(state)
    with only_one(state):
        table, names = _read(file, problem, columns)
        if state.is_file():
            run = Sequential.load(state)
            if run.problem != problem:
                raise InvalidInputError(
                    f"a sequential run asks one question: '{state}' has the limits {', '.join(map(str, run.problem.limits))} "
                    f"at delta {run.problem.delta:g}. Give the same, or another state."
                )
        else:
            if examples is None:
                raise InvalidInputError(
                    "a sequential run must know about how many examples will come in all: say so with --examples at first."
                )
            bounds = {name: table.bounds(name) for limit in problem.limits for name in limit.bounded}
            groups = {name: list(table.group(name).levels) for name in table.group_names if name != _NAMES}
            run = Sequential(table.configs, problem, examples=examples, method=by.made(), bounds=bounds, groups=groups)
        new = run.tell_table(table, ids=names)
        certificate = run.certificate()
        run.save(state)
        return certificate, new


def _read(file: str, problem: Problem, columns: TableOptions) -> tuple[rf.LossTable, list[str]]:
    """A long table with the names of its examples."""
    if columns.wide or columns.where or columns.clusters or columns.binary:
        raise InvalidInputError(
            "--sequential reads long tables as they are: --wide, --where, --clusters and --binary are not for it."
        )
    kind = Path(file).suffix.lower()
    if kind not in (".parquet", ".pq", ".csv"):
        raise InvalidInputError(
            f"new examples must come as a Parquet or CSV file, a row a setting and example; got '{file}'."
        )
    frame = pd.read_csv(file) if kind == ".csv" else pd.read_parquet(file)
    bounds = columns.declared_bounds()
    found = rf.read_table(frame, problem, layout=columns.layout(), bounds=bounds)[1] or Layout()
    example = found.example_column
    if example is None or example not in frame.columns:
        raise InvalidInputError(
            "examples must have names, by which they are known again: name their column with --example-column; got "
            f"{example!r}."
        )
    frame[_NAMES] = [name_of(value) for value in frame[example]]
    wanted = replace(found, group_columns=(*found.group_columns, _NAMES))
    table, _ = rf.read_table(frame, problem, layout=wanted, bounds=bounds)
    group = table.group(_NAMES)
    return table, [str(group.levels[code]) for code in group.codes]
