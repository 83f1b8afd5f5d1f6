"""Every Eval Ever: instance-level JSON Lines, the exchange format to which lm-eval, Inspect and HELM convert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from riskfront._data.logs.record import Record, as_score, measures_of, seconds
from riskfront._data.logs.responses import about_prompt
from riskfront._data.logs.tools.json_files import below, field, must_be_object, object_of, read_lines
from riskfront.errors import InvalidInputError

TOOL = "Every Eval Ever"


def files(path: Path) -> list[Path]:
    found = below(path, "*.jsonl")
    return found if path.is_file() else [file for file in found if is_log(file)]


def records(path: Path) -> Iterator[Record]:
    for where, line in read_lines(path):
        version = str(field(line, "schema_version", where, TOOL)).removeprefix("instance_level_eval_")
        if not version.startswith("0."):
            raise InvalidInputError(f"{where}: schema version must be 0.x; got {version!r}.")
        evaluation = must_be_object(field(line, "evaluation", where, TOOL), where, "the field 'evaluation'")
        output, usage, speed = (object_of(line, name, where) for name in ("output", "token_usage", "performance"))
        raw = output.get("raw")
        yield Record(
            {"model": str(field(line, "model_id", where, TOOL))},
            str(field(line, "evaluation_name", where, TOOL)),
            str(line.get("sample_hash") or field(line, "sample_id", where, TOOL)),
            {"score": as_score(evaluation.get("score"), "score", where)},
            measures_of(
                latency=seconds(speed.get("latency_ms")),
                tokens=usage.get("total_tokens"),
                input_tokens=usage.get("input_tokens"),
                output_tokens=usage.get("output_tokens"),
                cost=object_of(line, "metadata", where).get("cost"),
            ),
            repeat=(str(line.get("evaluation_result_id")), where),
            answer=raw if isinstance(raw, str) else None,
            about=about_prompt(object_of(line, "input", where).get("raw")),
            where=where,
            failed=bool(line.get("error")),
        )


def is_log(file: Path) -> bool:
    """Whether a file is one of this tool, by its first line."""
    with file.open("rb") as opened:
        return b'"schema_version"' in opened.readline()
