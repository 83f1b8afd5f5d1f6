"""Inspect: ``.eval`` logs (a ZIP of JSON, compressed with zstd) and JSON logs."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import OF_ALL_CALLS, Record, Unusable, as_score, measures_of
from riskfront._data.logs.responses import about_prompt, digest_of, mean_logprob, prompt_text
from riskfront._data.logs.tools.json_files import (
    below,
    field,
    list_of,
    must_be_object,
    must_fit,
    object_of,
    parse_json,
    read_json,
    unpacked,
)
from riskfront.errors import InvalidInputError

TOOL = "Inspect"
_VERSION = 2
#: how the model was reached, which changes no answer
_CONNECTION: tuple[str, ...] = ("max_connections", "adaptive_connections", "max_retries")
_CONNECTION += ("timeout", "attempt_timeout", "stream_idle_timeout")
#: how a summary ends that holds the beginning of a long input only
_CUT = "(content truncated)"
_LOOKED_AT = 8  # samples beside their summaries
_TOKENS = ("input_tokens", "output_tokens")
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def files(path: Path) -> list[Path]:
    found = below(path, "*.eval", "*.json")
    return found if path.is_file() else [file for file in found if is_log(file)]


def records(path: Path) -> Iterator[Record]:
    header, samples = _from_zip(path) if path.suffix == ".eval" else _from_json(path)
    evaluated = must_be_object(field(header, "eval", f"'{path}'", TOOL), f"'{path}'", "the field 'eval'")
    version = header.get("version", _VERSION)
    if not isinstance(version, int) or version > _VERSION:
        raise InvalidInputError(f"'{path}': this version reads logs of version {_VERSION}; got {version}.")
    if header.get("invalidated"):
        raise InvalidInputError(f"'{path}': the log was marked as invalid in {TOOL}; remove it.")
    _refuse_stopped_early(header, f"'{path}'")
    setting = _setting(header, evaluated, f"'{path}'")
    of_task = _simple_values(object_of(evaluated, "task_args_passed", f"'{path}'"))
    status = str(header.get("status", "success"))
    for number, sample in enumerate(samples, start=1):
        where = f"'{path}', sample {number}"
        name = str(field(sample, "id", where, TOOL))
        scores = object_of(sample, "scores", where)
        yield Record(
            setting,
            str(evaluated.get("task", "")),
            name,
            _grades(scores, where),
            _measures(sample, setting["model"], where),
            repeat=sample.get("epoch", 1),
            answer=next((score.get("answer") for score in scores.values() if isinstance(score, Mapping)), None),
            text=_completion(sample),
            where=where,
            asked=_asked(sample),
            failed=bool(sample.get("error")),
            about=about_prompt(_input(sample)),
            of_task=of_task,
            when=str(evaluated.get("created") or ""),
            partial=None if status == "success" else f"the evaluation did not end (status '{status}')",
        )


def _refuse_stopped_early(header: Mapping[str, Any], where: str) -> None:
    """Raise an error if samples were left out by early stopping: a model that is run until it looks good looks good."""
    stopping = object_of(object_of(header, "results", where), "early_stopping", where)
    stops = list_of(stopping.get("early_stops") or [], where, "the samples that were stopped early")
    if not stops:
        return
    verdict = object_of(stopping, "metadata", where).get("verdict")
    by = f"'{stopping.get('manager')}'" + ("" if verdict is None else f", verdict '{verdict}'")
    raise InvalidInputError(
        f"{where}: a log must hold all samples; early stopping ({by}) left out {len(stops):,}, by what it had seen so far. "
        "To calibrate, run the task without early_stopping."
    )


def _setting(header: Mapping[str, Any], evaluated: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The model, and whatever it was asked to do: how to generate, the solver."""
    setting = {"model": str(field(evaluated, "model", where, TOOL))}
    configured = (
        object_of(object_of(header, "plan", where), "config", where),
        object_of(evaluated, "model_generate_config", where),
        object_of(evaluated, "solver_args_passed", where),
    )
    for given in configured:
        setting |= {key: value for key, value in _simple_values(given).items() if key not in _CONNECTION}
    return setting | ({"solver": str(evaluated["solver"])} if evaluated.get("solver") else {})


def _input(sample: Mapping[str, Any]) -> str | None:
    """What was asked, as far as it is text; ids of messages are new in every run."""
    asked = sample.get("input")
    return prompt_text(asked if isinstance(asked, str | list) else None)


def _asked(sample: Mapping[str, Any]) -> str | None:
    """A digest of the question and its answer key: whole texts of a million samples would be held twice."""
    asked = _input(sample)
    return None if asked is None else digest_of(f"{asked}\n{sample.get('target')}")


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
    output = sample.get("output")  # which summaries leave out
    said = object_of(output, "usage", where) if isinstance(output, Mapping) else {}
    told = {"tokens": "total_tokens", "input_tokens": "input_tokens", "output_tokens": "output_tokens"}
    several = bool(said) and any(said.get(name) != own.get(name) for name in told.values())
    return measures_of(
        cost=own.get("total_cost"),
        latency=sample.get("total_time"),
        **{name: (said or own).get(of) for name, of in told.items()},
        **{of_all: own.get(name) for name, of_all in OF_ALL_CALLS.items() if several},
        logprob=_logprob(sample),
    )


def _completion(sample: Mapping[str, Any]) -> str | None:
    """The whole text of the answer, which summaries leave out; none where the model called a tool instead."""
    output = sample.get("output")
    if not isinstance(output, Mapping) or not isinstance(output.get("completion"), str):
        return None
    try:
        called = output["choices"][0]["message"].get("tool_calls")
    except (KeyError, IndexError, TypeError, AttributeError):
        called = None
    return None if called else str(output["completion"])


def _logprob(sample: Mapping[str, Any]) -> float | None:
    """The mean log-probability of the tokens of the answer, if they were logged."""
    try:
        return mean_logprob(sample["output"]["choices"][0]["logprobs"]["content"])
    except (KeyError, IndexError, TypeError):
        return None


def _from_json(path: Path) -> tuple[dict[str, Any], Iterable[Any]]:
    log = read_json(path)
    return log, list_of(field(log, "samples", f"'{path}'", TOOL) or [], f"'{path}'", "the samples")


def _from_zip(path: Path) -> tuple[dict[str, Any], Iterable[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member for member in archive.infolist()}
    except (zipfile.BadZipFile, OSError):
        raise InvalidInputError(
            f"'{path}': must be a log of {TOOL}; it is damaged, cut off, or still being written."
        ) from None
    if "header.json" not in members:
        raise InvalidInputError(f"'{path}': the log has no header.json; the evaluation was stopped before its end.")
    header = parse_json(unpacked(path, members["header.json"]), f"'{path}', header.json")
    names = [name for name in members if name.startswith("samples/")]

    def whole(name: str) -> Any:
        return parse_json(unpacked(path, members[name]), f"'{path}', {name}")

    if "summaries.json" in members and not _logs_probabilities(header):
        found = parse_json(unpacked(path, members["summaries.json"]), f"'{path}', summaries.json")
        samples = list_of(found, f"'{path}'", "the samples")
        some = names[:: max(1, len(names) // _LOOKED_AT)]
        cut = any(isinstance(sample, Mapping) and _CUT in json.dumps(sample.get("input")) for sample in samples)
        if not cut and not any(_took_more_calls(whole(name)) for name in some):
            return header, samples
    must_fit(path, [members[name] for name in names])
    return header, map(whole, names)


def _took_more_calls(sample: Any) -> bool:
    """Whether a sample took more tokens than its last response says: those of earlier calls, or of a grader."""
    if not isinstance(sample, Mapping) or not isinstance(sample.get("output"), Mapping):
        return False
    last, all_calls = sample["output"].get("usage"), sample.get("model_usage")
    if not isinstance(last, Mapping) or not isinstance(all_calls, Mapping):
        return False
    return [last.get(name) for name in _TOKENS] != [
        sum(used.get(name) or 0 for used in all_calls.values() if isinstance(used, Mapping)) for name in _TOKENS
    ]


def _logs_probabilities(header: Any) -> bool:
    """Whether the samples hold log-probabilities, which their summaries leave out."""
    try:
        configured = header["plan"]["config"].get("logprobs") or header["eval"]["model_generate_config"].get("logprobs")
    except (KeyError, TypeError, AttributeError):
        return False
    return bool(configured)


def _simple_values(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(key): value if isinstance(value, str | int | float | bool) else str(value) for key, value in given.items()
    }


def is_log(file: Path) -> bool:
    """Whether a file is a log; of JSON its beginning tells, without reading all of a large one."""
    if file.suffix == ".eval":
        return True
    with file.open("rb") as opened:
        start = opened.read(4096)
    return b'"eval"' in start and b'"status"' in start
