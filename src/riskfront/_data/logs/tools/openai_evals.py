"""OpenAI evals: JSON Lines that begin with the specification of the run and go on with events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, as_score, joined, measures_of
from riskfront._data.logs.responses import about_prompt, digest_of
from riskfront._data.logs.tools.json_files import below, field, must_be_object, object_of, read_lines
from riskfront.errors import InvalidInputError

TOOL = "OpenAI evals"


def files(path: Path) -> list[Path]:
    found = below(path, "*.jsonl")
    return found if path.is_file() else [file for file in found if is_log(file)]


def records(path: Path) -> Iterator[Record]:
    """One record an answer. An eval may grade one answer by several events: a match and metrics."""
    spec: dict[str, Any] | None = None
    graded: dict[str, list[Record]] = {}
    begun: dict[str, Record] = {}
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for where, line in read_lines(path):
        if "spec" in line:
            spec = dict(must_be_object(line["spec"], where, "the field 'spec'"))
        elif line.get("type") in ("match", "metrics"):
            record = _record(spec, line, where)
            graded.setdefault(record.example, []).append(record)
        elif spec is not None and isinstance(line.get("sample_id"), str):
            name = str(line["sample_id"])  # of which only events without a grade are known so far
            failed = line.get("type") == "error" or (name in begun and begun[name].failed)
            begun[name] = Record({"model": _model(spec)}, _task(spec), name, {}, where=where, failed=failed)
            if line.get("type") == "sampling":
                calls.setdefault(line["sample_id"], []).append(object_of(line, "data", where))
    for name, found in graded.items():
        answers = joined(found)
        sampled = calls.get(name, [])
        yield from answers if len(answers) != 1 or len(sampled) != 1 else [_with_call(answers[0], sampled[0])]
    yield from (record for name, record in begun.items() if name not in graded)


def _with_call(record: Record, call: Mapping[str, Any]) -> Record:
    """An answer with what was logged of the only call that it took: the prompt, the text and the tokens."""
    usage, sampled = call.get("usage"), call.get("sampled")
    took = usage if isinstance(usage, Mapping) else {}
    only = sampled[0] if isinstance(sampled, list) and len(sampled) == 1 else sampled
    return replace(
        record,
        text=only if isinstance(only, str) else None,
        about=about_prompt(_prompt(call.get("prompt"))),
        measures=measures_of(
            tokens=took.get("total_tokens"),
            input_tokens=took.get("prompt_tokens"),
            output_tokens=took.get("completion_tokens"),
        ),
    )


def _prompt(prompt: Any) -> str | None:
    """The text of a prompt: the messages of a chat one after the other."""
    if not isinstance(prompt, list):
        return prompt if isinstance(prompt, str) else None
    texts = [message.get("content") for message in prompt if isinstance(message, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def _record(spec: dict[str, Any] | None, line: Mapping[str, Any], where: str) -> Record:
    if spec is None:
        raise InvalidInputError(
            f"{where}: the specification of the run must come first; the file does not begin with it."
        )
    data = must_be_object(field(line, "data", where, TOOL), where, "the field 'data'")
    # texts among the metrics are answers and grades in words
    numbers = {name: value for name, value in data.items() if not isinstance(value, str)}
    known = {"correct": data.get("correct")} if line["type"] == "match" else numbers
    return Record(
        {"model": _model(spec)},
        _task(spec),
        str(field(line, "sample_id", where, TOOL)),
        {name: as_score(value, name, where) for name, value in known.items()},
        repeat=line.get("event_id", 0),
        asked=digest_of(data.get("expected")) if line["type"] == "match" else None,
        answer=data["picked"] if isinstance(data.get("picked"), str) else None,
        where=where,
    )


def _task(spec: Mapping[str, Any]) -> str:
    return str(spec.get("eval_name") or spec.get("base_eval") or "")


def _model(spec: dict[str, Any]) -> str:
    completion = spec.get("completion_fns")
    return ", ".join(map(str, completion)) if isinstance(completion, list) else str(spec.get("model_name") or "")


def is_log(file: Path) -> bool:
    """Whether a file is one of this tool, by its first line."""
    with file.open("rb") as opened:
        start = opened.readline()
    return start.lstrip().startswith(b'{"spec"') or b'"run_id"' in start or b'"sampling"' in start
