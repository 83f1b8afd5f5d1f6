"""lm-evaluation-harness: ``samples_<task>_<date>.jsonl`` beside ``results_<date>.json``, written with --log_samples."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, Unusable, as_score
from riskfront._data.logs.responses import about_prompt, digest_of, prompt_text
from riskfront._data.logs.tools.json_files import (
    below,
    field,
    list_of,
    must_be_object,
    numbered_lines,
    object_of,
    read_json,
)
from riskfront.errors import InvalidInputError

TOOL = "lm-evaluation-harness"
_NAME = re.compile(r"^samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.jsonl$")


def files(path: Path) -> list[Path]:
    found = below(path, "samples_*.jsonl")
    return found if path.is_file() else [file for file in found if not _is_converted(file)]


def _is_converted(file: Path) -> bool:
    """Whether Every Eval Ever wrote the file, which gives samples of lm-eval the same name."""
    with file.open("rb") as opened:
        return opened.read(40).lstrip().startswith(b'{"schema_version"')


def records(path: Path) -> Iterator[Record]:
    name = _NAME.match(path.name)
    if name is None:
        raise InvalidInputError(f"'{path}': the name must read samples_<task>_<date>.jsonl, as {TOOL} writes it.")
    setting, known = _setting(path, name["date"]), _metrics(path, name["date"], name["task"])
    templated = bool(setting.get("chat_template"))
    seen: Counter[str] = Counter()
    task, shared = name["task"], dict[str, str]()
    for number, line in numbered_lines(path):
        variant = str(line["filter"]) if "filter" in line else _by_order(known, seen, str(line.get("doc_id")))
        metrics = line.get("metrics")
        if type(metrics) is not list:
            where = f"'{path}', line {number}"
            listed = known.get(variant) if metrics is None else None
            metrics = listed or list_of(field(line, "metrics", where, TOOL), where, "the field 'metrics'")
        responses = line.get("filtered_resps")
        yield Record(
            setting,
            task,
            # the id is a position, which --limit and --samples change; the hash is the document itself
            str(line.get("doc_hash") or field(line, "doc_id", f"'{path}', line {number}", TOOL)),
            {str(metric): _score(line.get(str(metric)), metric, path, number) for metric in metrics},
            _confidence(responses),
            repeat=line.get("doc_id", 0),  # a dataset may hold one document twice
            variant=shared.setdefault(variant, variant),
            answer=responses[0] if type(responses) is list and responses and type(responses[0]) is str else None,
            about=about_prompt(_prompt(line.get("arguments"), templated)),
            asked=None if line.get("doc_hash") else digest_of(line.get("doc")),
            where=number,
            when=name["date"],
            text=_text_of(line.get("resps")),
        )


def _score(value: Any, metric: Any, path: Path, number: int) -> float | Unusable:
    if type(value) is float and math.isfinite(value):  # most are: no words are made for them
        return value
    return as_score(value, str(metric), f"'{path}', line {number}")


def _metrics(path: Path, date: str, task: str) -> dict[str, list[str]]:
    """The metrics of a task by filter, for samples that do not list them (before 0.4.7): results name them "acc,none"."""
    results = path.with_name(f"results_{date}.json")
    if not results.exists():
        return {}
    measured = object_of(object_of(read_json(results), "results", f"'{results}'"), task, f"'{results}'")
    found: dict[str, list[str]] = {}
    for name in measured:
        metric, comma, kind = str(name).rpartition(",")
        if comma and not metric.endswith("_stderr"):
            found.setdefault(kind, []).append(metric)
    return found


def _by_order(known: Mapping[str, list[str]], seen: Counter[str], document: str) -> str:
    """The filter of a sample that does not name it: samples come filter by filter, in the order of the results."""
    seen[document] += 1
    filters = list(known) or ["none"]
    return filters[seen[document] - 1] if seen[document] <= len(filters) else filters[-1]


def _prompt(arguments: Any, templated: bool) -> Any:
    """The text that the model was given, of several choices that of the first: [[text, ...]], or by name in later versions.

    Messages are logged as JSON. What a model's own chat template made of them is no prompt that a request holds.
    """
    try:
        text = arguments["gen_args_0"]["arg_0"] if type(arguments) is dict else arguments[0][0]
    except (KeyError, IndexError, TypeError):
        return None
    if type(text) is str and text.startswith('[{"role"'):
        try:
            return prompt_text(json.loads(text))
        except ValueError:
            return text
    return None if templated else text


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


def _text_of(responses: Any) -> str | None:
    """The whole text that was generated, before filters: [[text]]."""
    try:
        text = responses[0][0]
    except (KeyError, IndexError, TypeError):
        return None
    return text if isinstance(text, str) and len(responses) == len(responses[0]) == 1 else None


def _confidence(responses: Any) -> dict[str, float]:
    """Of a multiple-choice question: the log-probability of the likeliest choice among the choices."""
    if type(responses) is not list or len(responses) < 2:
        return {}
    try:
        likelihoods = [float(pair[0]) for pair in responses if type(pair) is list]
        if len(likelihoods) < len(responses):
            return {}
        top = max(likelihoods)
        return {"choice_logprob": -math.log(math.fsum([math.exp(value - top) for value in likelihoods]))}
    except (TypeError, ValueError, IndexError):
        return {}
