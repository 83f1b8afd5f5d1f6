"""Recorded logs of two models, the policy that is certified from them, and processes that replay them."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import riskfront as rf
from tests.support.processes import ROOT, started

#: the key that the recorded servers demand
KEY = "sk-recorded-0123456789"
#: for LiteLLM, which otherwise asks elsewhere for prices
LOCAL = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
PRICES = {
    "small": {"per_million_input": 1, "per_million_output": 2},
    "large": {"per_million_input": 10, "per_million_output": 30},
}


@dataclass
class Recorded:
    """Inspect logs in ``logs``, the same answers for servers in ``answers``, and the questions in order."""

    logs: Path
    answers: dict[str, Path]
    questions: list[str]


def record(folder: Path, n: int = 900, seed: int = 0) -> Recorded:
    """Two models answer n questions with log-probabilities; each log-probability tells something of being right."""
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    questions = [f"Question {i}: {'why ' * int(1 + 8 * hard[i])}?" for i in range(n)]
    paths = {}
    for model, ability in (("small", 0.75), ("large", 0.95)):
        right = rng.random(n) < np.clip(ability + 0.3 - 0.6 * hard, 0, 0.99)
        answers, samples = {}, []
        for i, question in enumerate(questions):
            tokens = int(3 + rng.integers(0, 20))
            level = -0.2 - 0.8 * rng.random() - (0.0 if right[i] else 0.8 * rng.random())
            logprobs = [round(float(value), 6) for value in level * (0.5 + rng.random(tokens))]
            usage = {"prompt_tokens": len(question) // 4, "completion_tokens": tokens}
            usage["total_tokens"] = sum(usage.values())
            text = f"{model} says {'yes' if right[i] else 'no'} to {i}"
            answers[question] = {"text": text, "logprobs": logprobs, "usage": usage}
            samples.append(_sample(model, i, question, bool(right[i]), answers[question]))
        header = {"task": "quiz", "model": model, "task_args_passed": {}, "model_generate_config": {"logprobs": True}}
        log = {"version": 2, "status": "success", "eval": header, "samples": samples}
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "logs" / f"{model}.json").write_text(json.dumps(log))
        paths[model] = folder / f"{model}-answers.json"
        paths[model].write_text(json.dumps({"key": KEY, "answers": answers}))
    return Recorded(folder / "logs", paths, questions)


def _sample(model, i, question, right, answer):
    usage = {new: answer["usage"][old] for new, old in zip(INSPECT_USAGE, OPENAI_USAGE, strict=True)}
    content = [{"token": "x", "logprob": value} for value in answer["logprobs"]]
    return {
        "id": f"q{i}",
        "epoch": 1,
        "input": question,
        "target": "yes",
        "scores": {"match": {"value": "C" if right else "I", "answer": answer["text"]}},
        "model_usage": {model: usage},
        "total_time": 1.0,
        "output": {"choices": [{"logprobs": {"content": content}}]},
    }


INSPECT_USAGE = ("input_tokens", "output_tokens", "total_tokens")
OPENAI_USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
USAGE = dict(zip(OPENAI_USAGE, (8, 4, 12), strict=True))
INSPECT_TOOK = dict(zip(INSPECT_USAGE, (8, 4, 12), strict=True))


def record_samples(folder: Path, n: int = 400, samples: int = 3) -> Recorded:
    """The same with several answers of each model to each question, whose agreement tells something of being right."""
    rng = np.random.default_rng(1)
    hard = rng.random(n)
    questions = [f"Sample {i}?" for i in range(n)]
    paths = {}
    for model, ability in (("small", 0.65), ("large", 0.97)):
        answers, rows = {}, []
        for i, question in enumerate(questions):
            chance = np.clip(ability + 0.25 - 0.5 * hard[i], 0, 0.99)
            texts = [f"{model} says {'yes' if rng.random() < chance else rng.integers(9)}" for _ in range(samples)]
            answers[question] = {"text": texts[0], "samples": texts, "logprobs": [], "usage": USAGE}
            rows += [
                {"id": f"q{i}", "epoch": 1 + k, "input": question, "target": "yes", "model_usage": {model: INSPECT_TOOK},
                 "scores": {"match": {"value": "C" if text.endswith("yes") else "I", "answer": text}},
                 "output": {"completion": text, "choices": [{"message": {"content": text}}]}}
                for k, text in enumerate(texts)
            ]  # fmt: skip
        log = {"version": 2, "status": "success", "eval": {"task": "quiz", "model": model}, "samples": rows}
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "logs" / f"{model}.json").write_text(json.dumps(log))
        paths[model] = folder / f"{model}-answers.json"
        paths[model].write_text(json.dumps({"key": KEY, "answers": answers}))
    return Recorded(folder / "logs", paths, questions)


def certified(recorded: Recorded, kind=rf.Cascade, confidence="logprob", drop=0.06):
    """The policy of the recorded logs and, for each question that took part, the model that answers in the certified table."""
    runs = rf.read_runs(recorded.logs).priced(PRICES)
    made = kind(runs, confidence=confidence, thresholds=12)
    problem = rf.Problem([f"score drop <= {drop}"], minimize="cost", reference="large")
    table = made.table()
    certificate = rf.calibrate(table, problem, method=made.method)
    policy = made.policy(certificate)
    row = [table.config(r) for r in range(table.n_configs)].index(certificate.config)
    trace = {}
    for position in range(made.runs.n_examples):
        calls, cost = table.losses("calls")[row, position], table.losses("cost")[row, position]
        question = recorded.questions[int(made.runs.examples["example"].iloc[position].rpartition("q")[2])]
        trace[question] = (int(calls), float(cost))
    return policy, trace


@contextlib.contextmanager
def process(*arguments, ready, env=None):
    """A process that has printed a line which ``ready`` makes something of; it is stopped at the end."""
    with started([sys.executable, *arguments], env={**LOCAL, **(env or {})}, cwd=ROOT) as running:
        yield running, running.line(ready)


def recorded_server(path, port=0):
    return process("-m", "tests.cascades.serving.recorded_server", path, port, ready=int)


def models_toml(path: Path, ports: dict[str, int], server: str = "", **more: str) -> Path:
    parts = [
        f'[models.{name}]\nmodel = "openai/{name}"\napi_base = "http://127.0.0.1:{port}/v1"\napi_key_env = "RECORDED_KEY"\n'
        f"timeout = 120\nretries = 1\nprice = {{per_million_input = {PRICES[name]['per_million_input']}, "
        f"per_million_output = {PRICES[name]['per_million_output']}}}\n{more.get(name, '')}\n"
        for name, port in ports.items()
    ]
    path.write_text("\n".join([*parts, "[server]", server, ""]))
    return path


def served(policy_path, config):
    return process(
        "-m", "riskfront", "serve", policy_path, "--config", config, "--port", 0,
        ready=lambda line: int(line.split(":")[-1].split("/")[0]) if line.startswith("Serving") else None,
        env={"RECORDED_KEY": KEY},
    )  # fmt: skip
