"""Every Eval Ever: instance-level JSON Lines, the exchange format to which lm-eval, Inspect and HELM convert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, field, must_be_object, object_of, read_lines
from riskfront.logs.record import Record, as_score, measures_of

TOOL = "Every Eval Ever"


def files(path: Path) -> list[Path]:
    found = below(path, "*.jsonl")
    return found if path.is_file() else [file for file in found if _is_one(file)]


def records(path: Path) -> Iterator[Record]:
    for where, line in read_lines(path):
        version = str(field(line, "schema_version", where, TOOL)).removeprefix("instance_level_eval_")
        if not version.startswith("0."):
            raise InvalidInputError(f"{where}: schema version must be 0.x; got {version!r}.")
        evaluation = must_be_object(field(line, "evaluation", where, TOOL), where, "the field 'evaluation'")
        output, usage, speed = (object_of(line, name, where) for name in ("output", "token_usage", "performance"))
        latency = speed.get("latency_ms")
        raw = output.get("raw")
        yield Record(
            {"model": str(field(line, "model_id", where, TOOL))},
            str(field(line, "evaluation_name", where, TOOL)),
            str(line.get("sample_hash") or field(line, "sample_id", where, TOOL)),
            {} if line.get("error") else {"score": as_score(evaluation.get("score"), "score", where)},
            measures_of(
                latency=latency / 1000 if isinstance(latency, int | float) else None,
                tokens=usage.get("total_tokens"),
                input_tokens=usage.get("input_tokens"),
                output_tokens=usage.get("output_tokens"),
                cost=object_of(line, "metadata", where).get("cost"),
            ),
            repeat=(str(line.get("evaluation_result_id")), where),
            answer=raw if isinstance(raw, str) else None,
            where=where,
        )


def _is_one(file: Path) -> bool:
    with file.open("rb") as opened:
        return b'"schema_version"' in opened.readline()
