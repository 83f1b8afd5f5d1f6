"""MLflow: the result table of an evaluation, as CSV, Parquet or the ``eval_results_table.json`` that a run stores."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront._data.logs.record import Record, Unusable, as_score, measures_of, seconds
from riskfront._data.logs.responses import about_prompt, digest_of, inputs_text
from riskfront._data.logs.tools.json_files import below, read_json
from riskfront._data.reading.opening import read_frame
from riskfront.errors import InvalidInputError

_SCORES = ("/value", "/score")
_GRADES = {"yes": 1.0, "no": 0.0, "pass": 1.0, "fail": 0.0, "true": 1.0, "false": 0.0}


def files(path: Path) -> list[Path]:
    return below(path, "*.parquet", "*.csv", "eval_results_table.json")


def records(path: Path) -> Iterator[Record]:
    frame = _table(path) if path.suffix == ".json" else read_frame(path)
    named = {str(column): _scorer(str(column)) for column in frame.columns}
    expected = _expectations(frame)
    scorers = {column: name for column, name in named.items() if name and name not in expected}
    if not scorers:
        raise InvalidInputError(
            f"'{path}': a result table of MLflow must have a column '<scorer>/value' or '<metric>/score'; it has "
            f"{', '.join(map(str, frame.columns))}."
        )
    for number, columns in enumerate(frame.to_dict("records"), start=1):
        row: dict[Any, Any] = {**_of_trace(columns), **columns}
        where = f"'{path}', row {number}"
        failed = str(row.get("state", "OK")).upper().endswith("ERROR")
        scores = {name: _grade(row[column], name, where) for column, name in scorers.items()}
        yield Record(
            {"model": _run(path)},
            "mlflow",
            _example(row, where),
            scores,
            measures_of(latency=_latency(row), tokens=row.get("token_count")),
            repeat=number,
            answer=next((row[name] for name in ("response", "outputs") if isinstance(row.get(name), str)), None),
            about=about_prompt(_prompt(row)),
            asked=digest_of(_prompt(row)),  # a name that a client gave may be that of another question in another run
            where=where,
            failed=failed,
        )


def _of_trace(row: Mapping[Any, Any]) -> dict[str, Any]:
    """State and duration, which are columns since 3.6 and stand only in the trace before."""
    try:
        info = json.loads(row["trace"])["info"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    named = {"state": "state", "execution_duration": "execution_duration_ms"}
    return {name: info[key] for name, key in named.items() if isinstance(info, dict) and key in info}


def _run(path: Path) -> str:
    """The run that wrote the table: no column names it, so the file or, for a fixed file name, its folder does."""
    return path.parent.name if path.name == "eval_results_table.json" else path.stem


def _scorer(column: str) -> str | None:
    ending = next((ending for ending in _SCORES if column.endswith(ending)), None)
    return column.removesuffix(ending) if ending else None


def _expectations(frame: pd.DataFrame) -> set[str]:
    """What answers were compared with: MLflow 3 lists it as '<name>/value' beside the scores; the trace tells them apart."""
    found: set[str] = set()
    for text in frame["trace"].tolist() if "trace" in frame else ():
        try:
            assessments = json.loads(text)["info"]["assessments"]
            found |= {str(one["assessment_name"]) for one in assessments if "expectation" in one}
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
    return found


def _grade(value: Any, name: str, where: str) -> float | Unusable:
    if isinstance(value, str) and value.strip().lower() in _GRADES:
        return _GRADES[value.strip().lower()]
    return as_score(None if value != value else value, name, where)


def _latency(row: Mapping[Any, Any]) -> float | None:
    """Milliseconds, or, of MLflow 2, seconds of the call."""
    if row.get("execution_duration") is not None:
        return seconds(row["execution_duration"])
    return next((row[name] for name in ("latency", "metrics/latency") if isinstance(row.get(name), int | float)), None)


def _asked(row: Mapping[Any, Any]) -> Any:
    return next((row[name] for name in ("request", "inputs", "input", "question") if row.get(name) is not None), None)


def _prompt(row: Mapping[Any, Any]) -> str | None:
    """What was asked as a text: the inputs of a function are logged as JSON, or, in a CSV file, as Python writes them."""
    asked = _asked(row)
    if isinstance(asked, str) and asked[:1] in ("{", "["):
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return inputs_text(read(asked))
    return inputs_text(asked)


def _example(row: Mapping[Any, Any], where: str) -> str:
    """Traces have an id of their own in every run: runs are joined by the id the client gave, or by what was asked."""
    given = row.get("client_request_id")
    if isinstance(given, str) and given:
        return given
    asked = _asked(row)
    if asked is None:
        raise InvalidInputError(
            f"{where}: a row must have client_request_id, request or inputs, to join runs on; it has none."
        )
    text = asked if isinstance(asked, str) else json.dumps(asked, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def _table(path: Path) -> pd.DataFrame:
    found = read_json(path)
    if not isinstance(found, Mapping) or not {"columns", "data"} <= set(found):
        raise InvalidInputError(f"'{path}': eval_results_table.json must hold 'columns' and 'data'; it does not.")
    return pd.DataFrame(found["data"], columns=found["columns"])
