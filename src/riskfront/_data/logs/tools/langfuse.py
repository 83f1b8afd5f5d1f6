"""Langfuse: exported observations beside exported scores, as JSON, JSON Lines, CSV or Parquet, or as its API answers.

One trace is one answer: the models that it called, what they took together, and the scores of the trace or of its parts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, Unusable, as_number, as_score, measures_of, positive
from riskfront._data.logs.responses import about_prompt, inputs_text
from riskfront._data.logs.tools.json_files import KINDS, below, rows_of
from riskfront.errors import InvalidInputError

_MODEL = ("provided_model_name", "model")
_COST = ("total_cost", "calculated_total_cost")  # the second before 2025


def files(path: Path) -> list[Path]:
    """Files of observations; their scores stand beside them."""
    found = below(path, *(f"*{kind}" for kind in KINDS))
    return found if path.is_file() else [file for file in found if "observations" in file.name.lower()]


def records(path: Path) -> Iterator[Record]:
    scores = _scores(path)
    traces: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for number, row in enumerate(rows_of(path), start=1):
        if not isinstance(row.get("trace_id"), str):
            raise InvalidInputError(f"'{path}', row {number}: an observation must have a trace_id; it has none.")
        traces[row["trace_id"]].append(row)
    for number, (name, parts) in enumerate(traces.items(), start=1):
        called = [part for part in _in_time(parts) if any(isinstance(part.get(key), str) for key in _MODEL)]
        if called:
            yield _record(name, called, scores, f"'{path}', trace {number}")
        else:
            yield Record({"model": ""}, "langfuse", name, {}, left_out="traces that called no model")


def _in_time(parts: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """As they were made: exports begin with the latest."""
    known = all(isinstance(part.get("start_time"), str) for part in parts)
    return sorted(parts, key=lambda part: str(part["start_time"])) if known else parts


def _record(trace: str, parts: list[Mapping[str, Any]], scores: Mapping[str, Mapping[str, Any]], where: str) -> Record:
    first = parts[0]
    asked = first.get("input")
    if not isinstance(asked, str | list | dict) or not asked:
        raise InvalidInputError(
            f"{where}: observations must be exported with their input, on which runs are joined; '{trace}' has none."
        )
    found: dict[str, Any] = {}
    for key in (trace, *(str(part.get("id")) for part in parts)):
        found |= scores.get(key, {})
    prompt = {"prompt": f"{first['prompt_name']} v{first.get('prompt_version')}"} if first.get("prompt_name") else {}
    return Record(
        {"model": " + ".join(dict.fromkeys(_model(part) for part in parts)), **prompt},
        "langfuse",
        hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16],
        {name: _grade(value, name, where) for name, value in found.items()},
        measures_of(
            cost=_total(parts, *_COST),
            latency=_total(parts, "latency"),
            tokens=_usage(parts, "total"),
            input_tokens=_usage(parts, "input"),
            output_tokens=_usage(parts, "output"),
        ),
        repeat=trace,
        answer=parts[-1]["output"] if isinstance(parts[-1].get("output"), str) else None,
        text=parts[-1]["output"] if isinstance(parts[-1].get("output"), str) else None,
        about=about_prompt(inputs_text(asked)),
        where=where,
        failed=parts[-1].get("level") == "ERROR",
        when=str(first.get("start_time") or ""),
    )


def _model(part: Mapping[str, Any]) -> str:
    return str(next(part[key] for key in _MODEL if isinstance(part.get(key), str)))


def _grade(values: Any, name: str, where: str) -> float | Unusable:
    """The mean, where several people or judges gave the same score."""
    numbers = [as_score(value, name, where) for value in values]
    wrong = next((number for number in numbers if isinstance(number, Unusable)), None)
    return wrong if wrong is not None else math.fsum(n for n in numbers if not isinstance(n, Unusable)) / len(numbers)


def _total(parts: list[Mapping[str, Any]], *names: str) -> float | None:
    """The sum over the calls of a trace, of the first of these names that each has; None if one of them is unknown."""
    numbers = [next((n for name in names if (n := positive(part.get(name))) is not None), None) for part in parts]
    known = [as_number(number) for number in numbers if number is not None]
    return math.fsum(known) if len(known) == len(numbers) else None


def _usage(parts: list[Mapping[str, Any]], name: str) -> float | None:
    used = [part.get("usage_details") or part.get("usage") for part in parts]
    return _total([one if isinstance(one, Mapping) else {} for one in used], name)


def _scores(path: Path) -> dict[str, dict[str, list[Any]]]:
    """Trace or observation -> score -> its values."""
    beside = [f for f in sorted(path.parent.iterdir()) if "scores" in f.name.lower() and f.suffix.lower() in KINDS]
    if not beside:
        raise InvalidInputError(
            f"'{path}': scores must stand beside it, in a file with 'scores' in its name; none does."
        )
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for file in beside:
        for row in rows_of(file):
            subject = row.get("subject")  # since version 3 of the API of scores
            of = subject.get("id") if isinstance(subject, Mapping) else row.get("observation_id") or row.get("trace_id")
            name, text = row.get("name"), row.get("string_value")
            if isinstance(of, str) and isinstance(name, str):
                categorical = row.get("data_type") == "CATEGORICAL" and text is not None
                found[of][name].append(text if categorical else row.get("value"))
    return found
