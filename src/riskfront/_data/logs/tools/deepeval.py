"""DeepEval: test runs as JSON, one file a run, as ``DEEPEVAL_RESULTS_FOLDER`` makes it write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, as_score, measures_of, positive
from riskfront._data.logs.responses import about_prompt
from riskfront._data.logs.tools.json_files import below, field, list_of, must_be_object, object_of, read_json

TOOL = "DeepEval"


def files(path: Path) -> list[Path]:
    found = below(path, "*.json", "*[0-9]_[0-9]*")  # before 4.0 a date without an ending
    if path.is_file():
        return found
    # files with a dot before their names are copies of the latest run
    named = [file for file in found if file.suffix in ("", ".json") and not file.name.startswith(".")]
    return [file for file in named if is_log(file)]


def is_log(file: Path) -> bool:
    """Whether a file is one of this tool, by what it holds."""
    return b'"metricsData"' in file.read_bytes()


def records(path: Path) -> Iterator[Record]:
    run = must_be_object(read_json(path), f"'{path}'")
    setting = _setting(run, path)
    cases = [
        *list_of(field(run, "testCases", f"'{path}'", TOOL), f"'{path}'", "the field 'testCases'"),
        *(run.get("conversationalTestCases") or []),
    ]
    for number, case in enumerate(cases, start=1):
        where = f"'{path}', test case {number}"
        asked = must_be_object(case, where).get("input") or case.get("scenario")
        answer = case["actualOutput"] if isinstance(case.get("actualOutput"), str) else None
        metrics = list_of(case.get("metricsData") or [], where, "the field 'metricsData'")
        named = {str(field(metric, "name", where, TOOL)): metric.get("score") for metric in metrics}
        yield Record(
            setting,
            str(run.get("testFile") or "deepeval"),
            _example(case, asked),
            {name: as_score(score, name, where) for name, score in named.items()},
            measures_of(cost=positive(case.get("tokenCost")), latency=case.get("completionTime")),
            answer=answer,
            text=answer,
            about=about_prompt(asked),
            where=where,
            also={"pass": as_score(case.get("success"), "pass", where)},
            when=path.stem,
        )


def _setting(run: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The model and other hyperparameters of a run; a run that has none is named by its identifier, or by its file."""
    named = {str(key): value for key, value in object_of(run, "hyperparameters", f"'{path}'").items()}
    model = str(named.pop("model", None) or run.get("identifier") or path.stem)
    return {
        "model": model,
        **{key: value if isinstance(value, str | int | float) else str(value) for key, value in named.items()},
    }


def _example(case: Mapping[str, Any], asked: Any) -> str:
    """A test case by what it holds: its name is a position."""
    held = [asked, case.get("expectedOutput"), case.get("context"), case.get("expectedOutcome")]
    if not any(held):
        return str(case.get("name"))
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()[:16]
