"""Inspect: ``.eval`` logs (a ZIP of JSON, compressed with zstd) and JSON logs."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, field, list_of, must_be_object, object_of, parse_json, read_json
from riskfront.logs.record import Record, Unusable, as_score, measures_of

TOOL = "Inspect"
_VERSION = 2
#: how the model was reached, which changes no answer
_CONNECTION = (
    "max_connections",
    "adaptive_connections",
    "max_retries",
    "timeout",
    "attempt_timeout",
    "stream_idle_timeout",
)
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_ZSTD = 93  # Python's zipfile reads it from 3.14 on; Arrow reads it everywhere


def files(path: Path) -> list[Path]:
    found = below(path, "*.eval", "*.json")
    return found if path.is_file() else [file for file in found if file.suffix == ".eval" or _is_log(file)]


def records(path: Path) -> Iterator[Record]:
    header, samples = _from_zip(path) if path.suffix == ".eval" else _from_json(path)
    evaluated = must_be_object(field(header, "eval", f"'{path}'", TOOL), f"'{path}'", "the field 'eval'")
    version = header.get("version", _VERSION)
    if not isinstance(version, int) or version > _VERSION:
        raise InvalidInputError(f"'{path}': this version reads logs of version {_VERSION}; got {version}.")
    if header.get("invalidated"):
        raise InvalidInputError(f"'{path}': the log was marked as invalid in {TOOL}; remove it.")
    setting = _setting(header, evaluated, f"'{path}'")
    for number, sample in enumerate(list_of(samples, f"'{path}'", "the samples"), start=1):
        where = f"'{path}', sample {number}"
        name = str(field(sample, "id", where, TOOL))
        scores = object_of(sample, "scores", where)
        yield Record(
            setting,
            str(evaluated.get("task", "")),
            name,
            {} if sample.get("error") else _grades(scores, where),
            _measures(sample, setting["model"], where),
            repeat=sample.get("epoch", 1),
            answer=next((score.get("answer") for score in scores.values() if isinstance(score, Mapping)), None),
            where=where,
            asked=_asked(sample) if name.isdigit() else None,  # numbers are given by position, other ids by people
        )


def _setting(header: Mapping[str, Any], evaluated: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The model, and whatever it was asked to do: arguments of the task, how to generate, the solver."""
    setting = {"model": str(field(evaluated, "model", where, TOOL))}
    configured = (
        object_of(evaluated, "task_args_passed", where),
        object_of(object_of(header, "plan", where), "config", where),
        object_of(evaluated, "model_generate_config", where),
        object_of(evaluated, "solver_args_passed", where),
    )
    for given in configured:
        setting |= {str(key): _simple(value) for key, value in given.items() if key not in _CONNECTION}
    return setting | ({"solver": str(evaluated["solver"])} if evaluated.get("solver") else {})


def _asked(sample: Mapping[str, Any]) -> str | None:
    """What was asked, as far as it is text; ids of messages are new in every run."""
    asked = sample.get("input")
    if isinstance(asked, list):
        asked = "\n".join(str(part.get("content")) for part in asked if isinstance(part, Mapping))
    return f"{asked}\n{sample.get('target')}" if isinstance(asked, str) else None


def _grades(scores: Mapping[str, Any], where: str) -> dict[str, float | Unusable]:
    """One number a scorer; a scorer that gives several has one score for each, "scorer/name"."""
    found: dict[str, float | Unusable] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, Mapping) else score
        parts = {f"{name}/{key}": part for key, part in value.items()} if isinstance(value, Mapping) else {name: value}
        found |= {key: _grade(key, part, where) for key, part in parts.items()}
    return found


def _grade(name: str, value: Any, where: str) -> float | Unusable:
    return _GRADES[value] if isinstance(value, str) and value in _GRADES else as_score(value, name, where)


def _measures(sample: Mapping[str, Any], model: str, where: str) -> dict[str, float]:
    usage = object_of(sample, "model_usage", where)
    own = object_of(usage, model if model in usage else next(iter(usage), model), where)
    return measures_of(
        cost=own.get("total_cost"),
        latency=sample.get("total_time"),
        tokens=own.get("total_tokens"),
        input_tokens=own.get("input_tokens"),
        output_tokens=own.get("output_tokens"),
        logprob=_logprob(sample),
    )


def _logprob(sample: Mapping[str, Any]) -> float | None:
    """The mean log-probability of the tokens of the answer, if they were logged."""
    try:
        tokens = sample["output"]["choices"][0]["logprobs"]["content"]
        numbers = [float(token["logprob"]) for token in tokens]
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    return math.fsum(numbers) / len(numbers) if numbers else None


def _from_json(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    log = read_json(path)
    return log, field(log, "samples", f"'{path}'", TOOL) or []


def _from_zip(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member for member in archive.infolist()}
    except (zipfile.BadZipFile, OSError):
        raise InvalidInputError(
            f"'{path}': must be a log of {TOOL}; it is damaged, cut off, or still being written."
        ) from None
    if "header.json" not in members:
        raise InvalidInputError(f"'{path}': the log has no header.json; the evaluation was stopped before its end.")
    header = parse_json(_unpacked(path, members["header.json"]), f"'{path}', header.json")
    if "summaries.json" in members and not _logs_probabilities(header):
        return header, parse_json(_unpacked(path, members["summaries.json"]), f"'{path}', summaries.json")
    names = [name for name in members if name.startswith("samples/")]
    return header, [parse_json(_unpacked(path, members[name]), f"'{path}', {name}") for name in names]


def _logs_probabilities(header: Any) -> bool:
    """Whether the samples hold log-probabilities, which their summaries leave out."""
    try:
        configured = header["plan"]["config"].get("logprobs") or header["eval"]["model_generate_config"].get("logprobs")
    except (KeyError, TypeError, AttributeError):
        return False
    return bool(configured)


def _unpacked(path: Path, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type != _ZSTD:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)  # the local header tells the lengths of the name and of the extra field
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        file.seek(member.header_offset + 30 + name + extra)
        packed = file.read(member.compress_size)
    try:
        return pa.Codec("zstd").decompress(packed, member.file_size).to_pybytes()
    except (OSError, pa.ArrowException):
        raise InvalidInputError(f"'{path}': '{member.filename}' is damaged.") from None


def _simple(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


def _is_log(file: Path) -> bool:
    """Whether a JSON file begins like a log, without reading all of a large one."""
    with file.open("rb") as opened:
        start = opened.read(4096)
    return b'"eval"' in start and b'"status"' in start
