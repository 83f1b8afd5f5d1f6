"""Files in the formats of the tools, made by hand: two models, four examples, known scores."""

import json
from pathlib import Path

import pandas as pd

#: model -> score on each of four examples
SCORES = {"small": [1.0, 0.0, 1.0, 0.0], "large": [1.0, 1.0, 0.5, 1.0]}


def lines(path: Path, rows: list) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lm_eval(folder: Path) -> Path:
    for model, scores in SCORES.items():
        rows = [
            {
                "doc_id": i,
                "doc_hash": f"hash{i}",
                "filter": "none",
                "metrics": ["acc"],
                "acc": score,
                "filtered_resps": [["-1.0", "False"], ["-3.0", "False"]],
            }
            for i, score in enumerate(scores)
        ]
        lines(folder / model / "samples_quiz_2026-01-01T00-00-00.0.jsonl", rows)
        about = {
            "model_name": model,
            "config": {"model": "hf", "model_args": {"dtype": "float16"}},
            "n-shot": {"quiz": 0},
        }
        (folder / model / "results_2026-01-01T00-00-00.0.json").write_text(json.dumps(about))
    return folder


def inspect_log(model: str, scores: list, epochs: int = 1) -> dict:
    samples = [
        {
            "id": f"q{i}",
            "epoch": epoch,
            "scores": {"match": {"value": {1.0: "C", 0.0: "I", 0.5: "P"}[score], "answer": "x" if epoch < 3 else "y"}},
            "model_usage": {model: {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "total_cost": 0.25}},
            "total_time": 1.5,
        }
        for epoch in range(1, epochs + 1)
        for i, score in enumerate(scores)
    ]
    header = {"task": "quiz", "model": model, "task_args_passed": {}, "model_generate_config": {"temperature": 0.0}}
    return {"version": 2, "status": "success", "eval": header, "samples": samples}


def inspect(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for model, scores in SCORES.items():
        (folder / f"{model}.json").write_text(json.dumps(inspect_log(model, scores)))
    return folder


def promptfoo(folder: Path) -> Path:
    rows = [
        {
            "promptIdx": 0,
            "testIdx": i,
            "provider": {"id": model, "label": ""},
            "prompt": {"raw": "long " * 20, "label": "long " * 20},
            "success": score == 1,
            "score": score,
            "failureReason": 0,
            "latencyMs": 1500,
            "cost": 0.25,
            "namedScores": {},
            "tokenUsage": {"total": 7},
            "response": {"output": "x"},
        }
        for model, scores in SCORES.items()
        for i, score in enumerate(scores)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    results = {"version": 3, "results": rows, "prompts": [], "stats": {}}
    (folder / "results.json").write_text(json.dumps({"evalId": "e", "results": results, "config": {}}))
    return folder


def every_eval_ever(folder: Path) -> Path:
    for model, scores in SCORES.items():
        rows = [
            {
                "schema_version": "0.3.0",
                "model_id": model,
                "evaluation_name": "quiz",
                "sample_id": str(i),
                "sample_hash": f"h{i}",
                "output": {"raw": "x"},
                "evaluation": {"score": score, "is_correct": score == 1},
                "token_usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
                "performance": {"latency_ms": 1500},
            }
            for i, score in enumerate(scores)
        ]
        lines(folder / f"{model}.jsonl", rows)
    return folder


def helm(folder: Path) -> Path:
    for model, scores in SCORES.items():
        run = folder / f"quiz:model={model}"
        run.mkdir(parents=True)
        spec = {"name": f"quiz:subject=a,model={model}", "adapter_spec": {"model": model}}
        (run / "run_spec.json").write_text(json.dumps(spec))
        rows = [
            {
                "instance_id": f"id{i}",
                "perturbation": perturbed,
                "train_trial_index": trial,
                "stats": [
                    {"name": {"name": "exact_match", "split": "test"}, "count": 2, "sum": 2 * value, "mean": value},
                    {"name": {"name": "inference_runtime", "split": "test"}, "count": 1, "sum": 1.5, "mean": 1.5},
                ],
            }
            for i, score in enumerate(scores)
            # two trials around the score, and a perturbed copy that must not count
            for trial, value, perturbed in ((0, score + 0.1, None), (1, score - 0.1, None), (0, 9.0, {"name": "typos"}))
        ]
        (run / "per_instance_stats.json").write_text(json.dumps(rows))
    return folder


def openai_evals(folder: Path) -> Path:
    for model, scores in SCORES.items():
        events = [
            {"event_id": i, "sample_id": f"quiz.{i}", "type": "metrics", "data": {"accuracy": score}, "run_id": "r"}
            for i, score in enumerate(scores)
        ]
        spec = {"spec": {"completion_fns": [model], "eval_name": "quiz"}}
        lines(folder / f"{model}.jsonl", [spec, {"type": "sampling", "data": {}}, *events, {"final_report": {"a": 1}}])
    return folder


def routerbench(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    columns: dict = {"sample_id": [f"q.{i}" for i in range(4)], "prompt": ["p"] * 4, "eval_name": ["quiz"] * 4}
    for model, scores in SCORES.items():
        columns |= {model: scores, f"{model}|model_response": ["x"] * 4, f"{model}|total_cost": [0.25] * 4}
    pd.DataFrame({**columns, "oracle_model_to_route_to": "small"}).to_parquet(folder / "bench.parquet")
    return folder


def mlflow(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for model, scores in SCORES.items():
        frame = pd.DataFrame(
            {
                "trace_id": [f"{model}{i}" for i in range(4)],
                "client_request_id": [f"r{i}" for i in range(4)],
                "correct/value": scores,
                "execution_duration": 1500,
                "state": "OK",
            }
        )
        frame.to_csv(folder / f"{model}.csv", index=False)
    return folder


MAKERS = {
    "lm-eval": lm_eval,
    "inspect": inspect,
    "promptfoo": promptfoo,
    "every-eval-ever": every_eval_ever,
    "helm": helm,
    "openai-evals": openai_evals,
    "routerbench": routerbench,
    "mlflow": mlflow,
}
