"""Every Eval Ever: instance-level JSON Lines, the exchange format to which lm-eval, Inspect and HELM convert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, as_score, joined, measures_of, seconds
from riskfront._data.logs.responses import about_prompt
from riskfront._data.logs.tools.json_files import below, field, must_be_object, object_of, read_lines
from riskfront.errors import InvalidInputError

TOOL = "Every Eval Ever"


def files(path: Path) -> list[Path]:
    found = below(path, "*.jsonl")
    return found if path.is_file() else [file for file in found if is_log(file)]


def records(path: Path) -> Iterator[Record]:
    """One record a sample. A sample with several metrics has a line for each, told apart by ``evaluation_result_id``."""
    samples: dict[tuple[Any, ...], list[tuple[str, Record]]] = {}
    for where, line in read_lines(path):
        metric, record = _metric(line), _record(line, where)
        samples.setdefault((record.setting["model"], record.task, record.example), []).append((metric, record))
    several = any(len({metric for metric, _ in found}) > 1 for found in samples.values())
    for found in samples.values():
        if several:
            yield from joined(replace(record, scores={metric: record.scores["score"]}) for metric, record in found)
        else:
            yield from (replace(record, also={metric: record.scores["score"]}) for metric, record in found)


def _record(line: Mapping[str, Any], where: str) -> Record:
    version = str(field(line, "schema_version", where, TOOL)).removeprefix("instance_level_eval_")
    if not version.startswith("0."):
        raise InvalidInputError(f"{where}: schema version must be 0.x; got {version!r}.")
    evaluation = must_be_object(field(line, "evaluation", where, TOOL), where, "the field 'evaluation'")
    output, usage, speed = (object_of(line, name, where) for name in ("output", "token_usage", "performance"))
    answer = _text(output.get("raw"))
    return Record(
        {"model": str(field(line, "model_id", where, TOOL))},
        str(field(line, "evaluation_name", where, TOOL)),
        str(line.get("sample_hash") or field(line, "sample_id", where, TOOL)),
        {"score": as_score(evaluation.get("score"), "score", where)},
        measures_of(
            latency=_latency(speed),
            tokens=usage.get("total_tokens"),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cost=object_of(line, "metadata", where).get("cost"),
        ),
        repeat=where,
        answer=answer,
        about=about_prompt(raw := object_of(line, "input", where).get("raw")),
        # a hash tells the question; beside it, the text may hold other few-shot examples in every run
        asked=raw if isinstance(raw, str) and not line.get("sample_hash") else None,
        where=where,
        failed=bool(line.get("error")),
    )


def _metric(line: Mapping[str, Any]) -> str:
    """The metric that a line grades by; without the name of the evaluation, which is another for every model."""
    name = str(line.get("evaluation_result_id") or "").removeprefix(str(line.get("evaluation_id") or ""))
    return name.strip("#/:") or "score"


def _text(raw: Any) -> str | None:
    """The answer, which converters write as a list of one text."""
    only = raw[0] if isinstance(raw, list) and len(raw) == 1 else raw
    return only if isinstance(only, str) else None


def _latency(speed: Mapping[str, Any]) -> float | None:
    """How long an answer took: some converters write the whole as latency_ms, others the waiting before generation."""
    known = [took for name in ("latency_ms", "generation_time_ms") if (took := seconds(speed.get(name))) is not None]
    return max(known, default=None)


def is_log(file: Path) -> bool:
    """Whether a file is one of this tool, by its first line."""
    with file.open("rb") as opened:
        return b'"schema_version"' in opened.readline()
