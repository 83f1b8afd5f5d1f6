"""HELM: a folder a run with ``run_spec.json`` and ``per_instance_stats.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, Unusable, as_score, measures_of
from riskfront._data.logs.tools.json_files import below, field, list_of, must_be_object, read_json
from riskfront.errors import InvalidInputError

TOOL = "HELM"
#: statistics that say what an answer took, and not how good it is
_TOOK = {
    "inference_runtime": "latency",
    "num_prompt_tokens": "input_tokens",
    "num_completion_tokens": "output_tokens",
    "num_output_tokens": "output_tokens",
    "logprob": "logprob",
}


def files(path: Path) -> list[Path]:
    return below(path, "per_instance_stats.json")


def records(path: Path) -> Iterator[Record]:
    specification = path.with_name("run_spec.json")
    if not specification.exists():
        raise InvalidInputError(f"'{path}': run_spec.json must stand beside it, which names the model; it does not.")
    spec = read_json(specification)
    adapter = field(spec, "adapter_spec", f"'{specification}'", TOOL)
    setting = {"model": str(field(adapter, "model", f"'{specification}'", TOOL))}
    of_task = {name: adapter[name] for name in ("method", "max_train_instances") if adapter.get(name) is not None}
    for number, instance in enumerate(list_of(read_json(path), f"'{path}'", "the file"), start=1):
        where = f"'{path}', instance {number}"
        changed = must_be_object(instance, where).get("perturbation")
        stats = list_of(field(instance, "stats", where, TOOL), where, "the field 'stats'")
        means = {_name(stat, where): _mean(stat, where) for stat in stats}
        yield Record(
            setting,
            _task(str(field(spec, "name", f"'{specification}'", TOOL))),
            str(field(instance, "instance_id", where, TOOL)),
            {name: value for name, value in means.items() if name not in _TOOK},
            measures_of(**{_TOOK[name]: value for name, value in means.items() if name in _TOOK}),
            repeat=instance.get("train_trial_index", 0),
            where=where,
            of_task=of_task,
            left_out="changed copies of examples (perturbations)" if changed else None,
        )


def _name(stat: Mapping[str, Any], where: str) -> str:
    name = field(stat, "name", where, TOOL)
    return str(field(name, "name", where, TOOL) if isinstance(name, Mapping) else name)


def _mean(stat: Mapping[str, Any], where: str) -> float | Unusable:
    name, count, total = _name(stat, where), stat.get("count", 0), stat.get("sum", 0)
    if "mean" in stat or not all(isinstance(number, int | float) for number in (count, total)):
        return as_score(stat.get("mean"), name, where)
    return as_score(total / count if count else None, name, where)


def _task(name: str) -> str:
    """The name of a run without its model: "mmlu:subject=anatomy,model=openai_gpt-4" is a run of mmlu:subject=anatomy."""
    scenario, _, arguments = name.partition(":")
    kept = [part for part in arguments.split(",") if part and not part.startswith(("model=", "model_deployment="))]
    return f"{scenario}:{','.join(kept)}" if kept else scenario
