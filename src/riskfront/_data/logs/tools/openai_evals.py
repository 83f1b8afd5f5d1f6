"""OpenAI evals: JSON Lines that begin with the specification of the run and go on with events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, as_score
from riskfront._data.logs.tools.json_files import below, field, must_be_object, read_lines
from riskfront.errors import InvalidInputError

TOOL = "OpenAI evals"


def files(path: Path) -> list[Path]:
    found = below(path, "*.jsonl")
    return found if path.is_file() else [file for file in found if is_log(file)]


def records(path: Path) -> Iterator[Record]:
    spec: dict[str, Any] | None = None
    graded: set[str] = set()
    begun: dict[str, Record] = {}
    for where, line in read_lines(path):
        if "spec" in line:
            spec = dict(must_be_object(line["spec"], where, "the field 'spec'"))
        elif line.get("type") in ("match", "metrics"):
            record = _record(spec, line, where)
            graded.add(record.example)
            yield record
        elif spec is not None and isinstance(line.get("sample_id"), str):
            failed = line.get("type") == "error"
            known = begun.get(line["sample_id"])
            begun[line["sample_id"]] = _begun(spec, line, where, failed or (known is not None and known.failed))
    yield from (record for name, record in begun.items() if name not in graded)


def _record(spec: dict[str, Any] | None, line: Mapping[str, Any], where: str) -> Record:
    if spec is None:
        raise InvalidInputError(
            f"{where}: the specification of the run must come first; the file does not begin with it."
        )
    data = must_be_object(field(line, "data", where, TOOL), where, "the field 'data'")
    known = {"correct": data.get("correct")} if line["type"] == "match" else _numbers(data)
    return Record(
        {"model": _model(spec)},
        _task(spec),
        str(field(line, "sample_id", where, TOOL)),
        {name: as_score(value, name, where) for name, value in known.items()},
        repeat=line.get("event_id", 0),
        answer=data["picked"] if isinstance(data.get("picked"), str) else None,
        where=where,
    )


def _begun(spec: dict[str, Any], line: Mapping[str, Any], where: str, failed: bool) -> Record:
    """A sample of which only events without a grade are known so far."""
    return Record({"model": _model(spec)}, _task(spec), str(line["sample_id"]), {}, where=where, failed=failed)


def _task(spec: Mapping[str, Any]) -> str:
    return str(spec.get("eval_name") or spec.get("base_eval") or "")


def _model(spec: dict[str, Any]) -> str:
    completion = spec.get("completion_fns")
    return ", ".join(map(str, completion)) if isinstance(completion, list) else str(spec.get("model_name") or "")


def _numbers(data: Mapping[str, Any]) -> dict[str, Any]:
    """Texts among the metrics are answers and grades in words."""
    return {name: value for name, value in data.items() if not isinstance(value, str)}


def is_log(file: Path) -> bool:
    """Whether a file is one of this tool, by its first line."""
    with file.open("rb") as opened:
        start = opened.readline()
    return start.lstrip().startswith(b'{"spec"') or b'"run_id"' in start or b'"sampling"' in start
