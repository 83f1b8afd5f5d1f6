"""promptfoo: the JSON that ``promptfoo eval --output results.json`` writes, of versions 2 and 3."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, as_score, measures_of, positive, seconds
from riskfront._data.logs.responses import about_prompt, inputs_text
from riskfront._data.logs.tools.json_files import below, field, list_of, must_be_object, object_of, read_json
from riskfront.errors import InvalidInputError

TOOL = "promptfoo"
_VERSIONS = (2, 3)
_ERROR = 2  # failureReason: the provider failed, and the score 0 that is logged is no scorer's
_NO_FAILURE = (
    0  # with an error beside it, the call failed all the same; an assertion that fails has a reason of its own
)
_LABEL = 40  # labels default to the whole text of the prompt


def files(path: Path) -> list[Path]:
    found = below(path, "*.json")
    return found if path.is_file() else [file for file in found if is_log(file)]


def records(path: Path) -> Iterator[Record]:
    where = f"'{path}'"
    log = read_json(path)
    results = field(log, "results", where, TOOL)
    if field(results, "version", where, TOOL) not in _VERSIONS:
        raise InvalidInputError(
            f"{where}: results must be of version 2 or 3; got {results['version']!r}. Run it with a current {TOOL}."
        )
    task = str(object_of(log, "config", where).get("description") or "promptfoo")
    rows = list_of(field(results, "results", where, TOOL), where, "the field 'results'")
    transformed = _transformed(object_of(log, "config", where).get("providers"))
    asked: Counter[tuple[str, str, str]] = Counter()
    for number, row in enumerate(rows, start=1):
        place = f"{where}, result {number}"
        setting = {"model": _provider(field(row, "provider", place, TOOL)), "prompt": _prompt(row, place)}
        test = _test(row, place)
        key = (setting["model"], setting["prompt"], test)
        asked[key] += 1
        usage = object_of(object_of(row, "response", place), "tokenUsage", place) or object_of(row, "tokenUsage", place)
        scores = {"score": row.get("score"), **object_of(row, "namedScores", place)}
        yield Record(
            setting,
            task,
            test,
            {name: as_score(value, name, place) for name, value in scores.items()},
            measures_of(
                # what came from a cache took no call
                cost=None if _is_cached(row) else positive(row.get("cost")),
                latency=None if _is_cached(row) else seconds(row.get("latencyMs")),
                tokens=positive(usage.get("total")),
                input_tokens=positive(usage.get("prompt")),
                output_tokens=positive(usage.get("completion")),
            ),
            repeat=asked[key],
            answer=_output(row.get("response")),
            about=about_prompt(_variables(row, place)),
            # of a repeat that came from the cache nothing is known
            text=None
            if transformed(row, place) or (asked[key] > 1 and _is_cached(row))
            else _output(row.get("response")),
            where=place,
            failed=_has_failed(row),
            also={"pass": as_score(row.get("success"), "pass", place)},
            when=str(results.get("timestamp") or ""),
        )


def is_log(file: Path) -> bool:
    """Whether a file is one of this tool, by what it holds."""
    content = file.read_bytes()
    return b'"promptIdx"' in content or b'"namedScores"' in content


def _has_failed(row: Mapping[str, Any]) -> bool:
    """Version 2 gives no reason: what was never graded and has an error is a call that failed."""
    if row.get("failureReason") is None:
        return bool(row.get("error")) and not row.get("gradingResult")
    return bool(row["failureReason"] == _ERROR or (row["failureReason"] == _NO_FAILURE and row.get("error")))


def _variables(row: Mapping[str, Any], place: str) -> str:
    """What differs between tests: the values of their variables, whatever prompt they are put into."""
    values = row.get("vars") or object_of(row, "testCase", place).get("vars")
    return inputs_text(must_be_object(values, place, "the field 'vars'") if values else {}) or ""


def _test(row: Mapping[str, Any], place: str) -> str:
    """The test by what it holds: ``testIdx`` differs between repeats of one test, which depend on each other."""
    test = object_of(row, "testCase", place)
    held = {name: test.get(name) for name in ("description", "assert", "threshold")}
    held["vars"] = row.get("vars") or test.get("vars")
    if not held["vars"] and not held["assert"]:
        return str(field(row, "testIdx", place, TOOL))
    return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()[:16]


def _is_cached(row: Mapping[str, Any]) -> bool:
    response = row.get("response")
    return isinstance(response, Mapping) and response.get("cached") is True


def _transformed(providers: Any) -> Callable[[Mapping[str, Any], str], bool]:
    """Of a result, whether its output is what a transformation made of the response, which is not logged."""
    listed = providers if isinstance(providers, list) else []
    named = {_provider(one) for one in listed if isinstance(one, Mapping) and one.get("transform")}

    def of(row: Mapping[str, Any], place: str) -> bool:
        options = object_of(object_of(row, "testCase", place), "options", place)
        return bool(options.get("transform") or options.get("postprocess")) or _provider(row["provider"]) in named

    return of


def _provider(provider: Any) -> str:
    if isinstance(provider, Mapping):
        return str(provider.get("label") or provider.get("id"))
    return str(provider)


def _prompt(row: Mapping[str, Any], place: str) -> str:
    """The prompt by its text, which ``promptId`` digests: ``promptIdx`` counts within one file, and once for each provider."""
    prompt = row.get("prompt")
    label = str((prompt.get("label") if isinstance(prompt, Mapping) else prompt) or "")
    digest = str(row.get("promptId") or "") or (hashlib.sha256(label.encode()).hexdigest() if label else "")
    if not digest:
        return f"prompt {field(row, 'promptIdx', place, TOOL)}"
    start = " ".join(label.split())
    return f"{start[:_LABEL].strip()}{'...' if len(start) > _LABEL else ''} #{digest[:6]}".strip()


def _output(response: Any) -> str | None:
    output = response.get("output") if isinstance(response, Mapping) else None
    return output if isinstance(output, str) else None
