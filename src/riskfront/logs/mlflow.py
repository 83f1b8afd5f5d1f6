"""MLflow: the result table of an evaluation, as CSV, Parquet or the ``eval_results_table.json`` that a run stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, read_json
from riskfront.logs.record import Record, Unusable, as_score, measures_of
from riskfront.reading.long_format import read_frame

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
    for number, row in enumerate(frame.to_dict("records"), start=1):
        where = f"'{path}', row {number}"
        failed = str(row.get("state", "OK")).upper().endswith("ERROR")
        scores = {name: _grade(row[column], name, where) for column, name in scorers.items()}
        duration = row.get("execution_duration")
        yield Record(
            {"model": _run(path)},
            "mlflow",
            _example(row, where),
            {} if failed else scores,
            measures_of(
                latency=duration / 1000 if isinstance(duration, int | float) else None, tokens=row.get("token_count")
            ),
            repeat=number,
            answer=str(row["response"]) if isinstance(row.get("response"), str) else None,
            where=where,
        )


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
        except (ValueError, TypeError, KeyError):
            continue
    return found


def _grade(value: Any, name: str, where: str) -> float | Unusable:
    if isinstance(value, str) and value.strip().lower() in _GRADES:
        return _GRADES[value.strip().lower()]
    return as_score(None if value != value else value, name, where)


def _example(row: Mapping[Any, Any], where: str) -> str:
    """Traces have an id of their own in every run: runs are joined by the id the client gave, or by what was asked."""
    given = row.get("client_request_id")
    if isinstance(given, str) and given:
        return given
    asked = next((row[name] for name in ("request", "inputs", "input", "question") if row.get(name) is not None), None)
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
