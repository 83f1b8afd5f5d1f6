"""OpenAI evals: JSON Lines that begin with the specification of the run and go on with events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, field, must_be_object, read_lines
from riskfront.logs.record import Record, as_score

TOOL = "OpenAI evals"


def files(path: Path) -> list[Path]:
    found = below(path, "*.jsonl")
    return found if path.is_file() else [file for file in found if _is_one(file)]


def records(path: Path) -> Iterator[Record]:
    spec: dict[str, Any] | None = None
    for where, line in read_lines(path):
        if "spec" in line:
            spec = dict(must_be_object(line["spec"], where, "the field 'spec'"))
        elif line.get("type") in ("match", "metrics"):
            if spec is None:
                raise InvalidInputError(
                    f"{where}: the specification of the run must come first; the file does not begin with it."
                )
            data = must_be_object(field(line, "data", where, TOOL), where, "the field 'data'")
            known = {"correct": data.get("correct")} if line["type"] == "match" else _numbers(data)
            yield Record(
                {"model": _model(spec)},
                str(spec.get("eval_name") or spec.get("base_eval") or ""),
                str(field(line, "sample_id", where, TOOL)),
                {name: as_score(value, name, where) for name, value in known.items()},
                repeat=line.get("event_id", 0),
                answer=data["picked"] if isinstance(data.get("picked"), str) else None,
                where=where,
            )


def _model(spec: dict[str, Any]) -> str:
    completion = spec.get("completion_fns")
    return ", ".join(map(str, completion)) if isinstance(completion, list) else str(spec.get("model_name") or "")


def _numbers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Texts among the metrics are answers and grades in words."""
    return {name: value for name, value in data.items() if not isinstance(value, str)}


def _is_one(file: Path) -> bool:
    with file.open("rb") as opened:
        start = opened.readline()
    return start.lstrip().startswith(b'{"spec"') or b'"run_id"' in start or b'"sampling"' in start
