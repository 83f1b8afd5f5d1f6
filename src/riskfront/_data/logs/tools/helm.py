"""HELM: a folder a run with ``run_spec.json``, ``per_instance_stats.json`` and ``scenario_state.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from riskfront._data.logs.record import Record, Unusable, as_score, measures_of
from riskfront._data.logs.responses import about_prompt, digest_of
from riskfront._data.logs.tools.json_files import below, field, list_of, must_be_object, object_of, read_json
from riskfront.errors import InvalidInputError

TOOL = "HELM"
_OF_A_STATE = ("instance", "request", "result")
#: statistics that say what an answer took, and not how good it is
_TOOK = {
    "inference_runtime": "latency",
    "num_prompt_tokens": "input_tokens",
    "num_completion_tokens": "output_tokens",
    "num_output_tokens": "output_tokens",
}
#: the sum of the log-probabilities of an answer's tokens, and how many there are
_LOGPROB, _TOKENS = "logprob", "num_perplexity_tokens"
#: statistics that describe the run, and grade no answer
_DESCRIBES = ("num_", "training_", "batch_size", "finish_reason_", "prompt_truncated", "max_prob", "inference_")


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
    asked = _requests(path.with_name("scenario_state.json"))
    read = [
        _means(i, f"'{path}', instance {k}") for k, i in enumerate(list_of(read_json(path), f"'{path}'", "the file"), 1)
    ]
    # models that give no log-probabilities are logged with 0 for all
    sure = any(isinstance(total := means.get(_LOGPROB), float) and total < 0 for _, _, means in read)
    for instance, where, means in read:
        name, trial = str(field(instance, "instance_id", where, TOOL)), instance.get("train_trial_index", 0)
        prompt, text, failed, question = asked.get((name, str(trial)), (None, None, False, None))
        yield Record(
            setting,
            _task(str(field(spec, "name", f"'{specification}'", TOOL))),
            name,
            {key: value for key, value in means.items() if key != _LOGPROB and not key.startswith(_DESCRIBES)},
            measures_of(
                **{_TOOK[key]: value for key, value in means.items() if key in _TOOK},
                logprob=_mean_logprob(means) if sure else None,
            ),
            repeat=trial,
            asked=digest_of(question),
            answer=text,
            text=text,
            about=about_prompt(prompt),
            where=where,
            failed=failed,
            of_task=of_task,
            left_out="changed copies of examples (perturbations)" if instance.get("perturbation") else None,
        )


def _means(instance: Any, where: str) -> tuple[Mapping[str, Any], str, dict[str, float | Unusable]]:
    """An instance, where it stands, and the mean of each of its statistics."""
    found = must_be_object(instance, where)
    stats = list_of(field(found, "stats", where, TOOL), where, "the field 'stats'")
    return found, where, {_name(stat, where): _mean(stat, where) for stat in stats}


def _requests(path: Path) -> dict[tuple[str, str], tuple[str | None, str | None, bool, str | None]]:
    """(instance, trial) -> prompt and answer, of instances that were asked once; whether a call failed; the question."""
    if not path.exists():
        return {}
    found: dict[tuple[str, str], tuple[str | None, str | None, bool, str | None]] = {}
    states = must_be_object(read_json(path), f"'{path}'").get("request_states", [])
    for number, state in enumerate(list_of(states, f"'{path}'", "the field 'request_states'"), start=1):
        where = f"'{path}', request {number}"
        instance, request, result = (object_of(must_be_object(state, where), key, where) for key in _OF_A_STATE)
        if instance.get("perturbation"):
            continue
        key = (str(instance.get("id")), str(state.get("train_trial_index", 0)))
        question = object_of(instance, "input", where).get("text")
        failed = result.get("success") is False
        if key in found:  # one request for each choice: which of the texts is the answer is not said
            found[key] = (None, None, failed or found[key][2], question)
            continue
        completions = result.get("completions")
        first = completions[0] if isinstance(completions, list) and len(completions) == 1 else None
        text = first.get("text") if isinstance(first, Mapping) else None
        prompt = request.get("prompt")
        found[key] = (
            prompt if isinstance(prompt, str) else None,
            text if isinstance(text, str) else None,
            failed,
            question if isinstance(question, str) else None,
        )
    return found


def _mean_logprob(means: Mapping[str, Any]) -> float | None:
    """HELM logs the sum over the tokens of an answer; a served response gives the mean."""
    total, tokens = means.get(_LOGPROB), means.get(_TOKENS)
    if not isinstance(total, float) or not isinstance(tokens, float) or not tokens > 0:
        return None
    return total / tokens


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
