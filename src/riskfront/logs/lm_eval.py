"""lm-evaluation-harness: ``samples_<task>_<date>.jsonl`` beside ``results_<date>.json``, written with --log_samples."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront.errors import InvalidInputError
from riskfront.logs.json_files import below, field, list_of, must_be_object, object_of, read_json, read_lines
from riskfront.logs.record import Record, as_score

TOOL = "lm-evaluation-harness"
_NAME = re.compile(r"^samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl$")


def files(path: Path) -> list[Path]:
    return below(path, "samples_*.jsonl")


def records(path: Path) -> Iterator[Record]:
    name = _NAME.match(path.name)
    if name is None:
        raise InvalidInputError(f"'{path}': the name must read samples_<task>_<date>.jsonl, as {TOOL} writes it.")
    setting = _setting(path, name["date"])
    for where, line in read_lines(path):
        metrics = list_of(field(line, "metrics", where, TOOL), where, "the field 'metrics'")
        scores = {str(metric): as_score(line.get(str(metric)), str(metric), where) for metric in metrics}
        responses = line.get("filtered_resps")
        yield Record(
            setting,
            name["task"],
            # the id is a position, which --limit and --samples change; the hash is the document itself
            str(line.get("doc_hash") or field(line, "doc_id", where, TOOL)),
            scores,
            _confidence(responses),
            repeat=line.get("doc_id", 0),  # a dataset may hold one document twice
            variant=str(line.get("filter", "none")),
            answer=responses[0]
            if isinstance(responses, list) and responses and isinstance(responses[0], str)
            else None,
            where=where,
        )


def _setting(path: Path, date: str) -> dict[str, Any]:
    """What ran, from the results file of the same date; from the folder if there is none."""
    results = path.with_name(f"results_{date}.json")
    if not results.exists():
        return {"model": path.parent.name}
    found = must_be_object(read_json(results), f"'{results}'")
    config = object_of(found, "config", f"'{results}'")
    setting = {"model": str(found.get("model_name") or config.get("model") or path.parent.name)}
    for name in ("model_args", "gen_kwargs"):
        setting[name] = _text(config.get(name))
    setting["chat_template"] = str(found.get("chat_template_sha") or "")[:8]
    setting["system_instruction"] = str(found.get("system_instruction_sha") or "")[:8]
    shots = {str(number) for number in object_of(found, "n-shot", f"'{results}'").values()}
    return {**setting, "shots": ", ".join(sorted(shots))}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={json.dumps(part)}" for key, part in value.items())
    return "" if value is None else str(value)


def _confidence(responses: Any) -> dict[str, float]:
    """Of a multiple-choice question: the log-probability of the likeliest choice among the choices."""
    try:
        likelihoods = [float(pair[0]) for pair in responses]
    except (TypeError, ValueError, IndexError, KeyError):
        return {}
    if len(likelihoods) < 2 or not all(isinstance(pair, list) for pair in responses):
        return {}
    top = max(likelihoods)
    return {"logprob": -math.log(sum(math.exp(value - top) for value in likelihoods))}
