"""promptfoo: the JSON that ``promptfoo eval --output results.json`` writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, field, read_json
from riskfront.logs.record import Record, as_score, measures_of

TOOL = "promptfoo"
_VERSION = 3
_ERROR = 2  # failureReason: the provider failed, so there is no answer to score


def files(path: Path) -> list[Path]:
    found = below(path, "*.json")
    return found if path.is_file() else [file for file in found if b'"promptIdx"' in file.read_bytes()]


def records(path: Path) -> Iterator[Record]:
    where = f"'{path}'"
    results = field(read_json(path), "results", where, TOOL)
    if field(results, "version", where, TOOL) != _VERSION:
        raise InvalidInputError(
            f"{where}: results must be of version {_VERSION}; got {results['version']!r}. Run it with a current {TOOL}."
        )
    task = str((read_json(path).get("config") or {}).get("description") or "promptfoo")
    for number, row in enumerate(field(results, "results", where, TOOL), start=1):
        place = f"{where}, result {number}"
        failed = row.get("failureReason") == _ERROR
        scores = {"score": row.get("score"), **(row.get("namedScores") or {})}
        usage = row.get("tokenUsage") or {}
        yield Record(
            {"model": _provider(field(row, "provider", place, TOOL)), "prompt": _prompt(row, place)},
            task,
            str(field(row, "testIdx", place, TOOL)),
            {} if failed else {name: as_score(value, name, place) for name, value in scores.items()},
            measures_of(cost=row.get("cost"), latency=_seconds(row.get("latencyMs")), tokens=usage.get("total")),
            repeat=number,
            answer=_output(row.get("response")),
        )


def _provider(provider: Any) -> str:
    if isinstance(provider, Mapping):
        return str(provider.get("label") or provider.get("id"))
    return str(provider)


def _prompt(row: Mapping[str, Any], place: str) -> str:
    prompt = row.get("prompt")
    label = prompt.get("label") if isinstance(prompt, Mapping) else None
    index = field(row, "promptIdx", place, TOOL)
    # labels default to the whole text of the prompt; the position is what the configuration file shows
    return str(label) if label and len(str(label)) <= 40 and "\n" not in str(label) else f"prompt {index}"


def _output(response: Any) -> str | None:
    output = response.get("output") if isinstance(response, Mapping) else None
    return output if isinstance(output, str) else None


def _seconds(milliseconds: Any) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else None
