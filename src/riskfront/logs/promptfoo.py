"""promptfoo: the JSON that ``promptfoo eval --output results.json`` writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, field, list_of, must_be_object, object_of, read_json
from riskfront.logs.record import Record, as_score, measures_of

TOOL = "promptfoo"
_VERSION = 3
_ERROR = 2  # failureReason: the provider failed, so there is no answer to score


def files(path: Path) -> list[Path]:
    found = below(path, "*.json")
    return found if path.is_file() else [file for file in found if b'"promptIdx"' in file.read_bytes()]


def records(path: Path) -> Iterator[Record]:
    where = f"'{path}'"
    log = read_json(path)
    results = field(log, "results", where, TOOL)
    if field(results, "version", where, TOOL) != _VERSION:
        raise InvalidInputError(
            f"{where}: results must be of version {_VERSION}; got {results['version']!r}. Run it with a current {TOOL}."
        )
    task = str(object_of(log, "config", where).get("description") or "promptfoo")
    rows = list_of(field(results, "results", where, TOOL), where, "the field 'results'")
    places = [f"{where}, result {number}" for number in range(1, len(rows) + 1)]
    prompts = _prompts(rows, places)
    for row, place in zip(rows, places, strict=True):
        failed = row.get("failureReason") == _ERROR
        scores = {"score": row.get("score"), **object_of(row, "namedScores", place)}
        usage = object_of(row, "tokenUsage", place)
        yield Record(
            {"model": _provider(field(row, "provider", place, TOOL)), "prompt": _prompt(row, prompts)},
            task,
            _test(row, place),
            {} if failed else {name: as_score(value, name, place) for name, value in scores.items()},
            measures_of(
                cost=row.get("cost"),
                latency=_seconds(row.get("latencyMs")),
                tokens=usage.get("total"),
                input_tokens=usage.get("prompt"),
                output_tokens=usage.get("completion"),
            ),
            repeat=place,
            answer=_output(row.get("response")),
            where=place,
        )


def _prompts(rows: list[Any], places: list[str]) -> dict[str, int]:
    """The prompts by their ids, numbered as in the configuration file.

    ``promptIdx`` counts columns, one for each provider and prompt: one prompt has another index with each provider.
    """
    first: dict[str, int] = {}
    for row, place in zip(rows, places, strict=True):
        index = field(must_be_object(row, place), "promptIdx", place, TOOL)
        name = str(row.get("promptId") or index)
        first[name] = min(first.get(name, index), index) if isinstance(index, int) else len(first)
    return {name: number for number, name in enumerate(sorted(first, key=first.__getitem__))}


def _test(row: Mapping[str, Any], place: str) -> str:
    """The test by what it holds: ``testIdx`` differs between repeats of one test, which depend on each other."""
    index = str(field(row, "testIdx", place, TOOL))
    test = object_of(row, "testCase", place)
    held = {name: test.get(name) for name in ("description", "assert", "threshold")}
    held["vars"] = row.get("vars") or test.get("vars")
    if not held["vars"] and not held["assert"]:
        return index
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()[:16]


def _provider(provider: Any) -> str:
    if isinstance(provider, Mapping):
        return str(provider.get("label") or provider.get("id"))
    return str(provider)


def _prompt(row: Mapping[str, Any], prompts: Mapping[str, int]) -> str:
    prompt = row.get("prompt")
    label = prompt.get("label") if isinstance(prompt, Mapping) else None
    number = prompts[str(row.get("promptId") or row["promptIdx"])]
    # labels default to the whole text of the prompt; the position is what the configuration file shows
    return str(label) if label and len(str(label)) <= 40 and "\n" not in str(label) else f"prompt {number}"


def _output(response: Any) -> str | None:
    output = response.get("output") if isinstance(response, Mapping) else None
    return output if isinstance(output, str) else None


def _seconds(milliseconds: Any) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else None
