"""Importers: the same scores from every format, logs that tools wrote, and one sentence for what is wrong."""

# ruff: noqa: E501

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from tests.data.logs.made import MAKERS, SCORES, inspect_log, lines

WRITTEN = Path(__file__).parent / "written_by_tools"
pytestmark = pytest.mark.filterwarnings("ignore:.* outcomes are means over several answers")


@pytest.mark.parametrize("tool", MAKERS)
def test_every_format_gives_the_same_scores(tool, tmp_path):
    runs = rf.read_runs(MAKERS[tool](tmp_path / "logs"), tool)
    assert sorted(runs.settings["model"]) == ["large", "small"]
    for model, scores in SCORES.items():
        np.testing.assert_allclose(runs.value("score")[runs.row(model)], scores, atol=1e-12)
    assert runs.n_examples == 4
    if "latency" in runs.values:
        np.testing.assert_allclose(runs.value("latency"), 1.5)
    if "cost" in runs.values:
        np.testing.assert_allclose(runs.value("cost"), 0.25)


@pytest.mark.parametrize("tool", ["lm-eval", "inspect", "promptfoo", "every-eval-ever", "helm", "openai-evals"])
def test_the_tool_is_found_out(tool, tmp_path):
    assert len(rf.read_runs(MAKERS[tool](tmp_path / "logs"))) == 2


@pytest.mark.parametrize("tool", MAKERS)
def test_round_trip_through_parquet(tool, tmp_path):
    runs = rf.read_runs(MAKERS[tool](tmp_path / "logs"), tool)
    runs.save(tmp_path / "runs.parquet")
    again = rf.read_runs(tmp_path / "runs.parquet")
    assert again.names == runs.names
    assert again.examples["example"].tolist() == runs.examples["example"].tolist()
    assert again.values.keys() == runs.values.keys()
    for name, array in runs.values.items():
        np.testing.assert_array_equal(again.value(name), array)


def test_logs_that_lm_eval_wrote():
    runs = rf.read_runs(WRITTEN / "lm_eval", score="tiny_arith=exact_match, tiny_choice=acc")
    assert runs.n_examples == 11
    score, task = runs.value("score")[0], runs.examples["task"]
    results = json.loads(next((WRITTEN / "lm_eval").glob("results_*.json")).read_text())["results"]
    assert score[task == "tiny_arith"].mean() == pytest.approx(results["tiny_arith"]["exact_match,none"])
    assert score[task == "tiny_choice"].mean() == pytest.approx(results["tiny_choice"]["acc,none"])
    logprob = runs.value("choice_logprob")[0]
    assert np.isnan(logprob[task == "tiny_arith"]).all()
    assert (np.exp(logprob[task == "tiny_choice"]) >= 0.5).all()
    with pytest.raises(
        rf.InvalidInputError, match="score of the task 'tiny_choice'; it has acc, acc_norm, and none was"
    ):
        rf.read_runs(WRITTEN / "lm_eval")


def test_logs_that_inspect_wrote():
    zipped = WRITTEN / "inspect_ai"
    runs = rf.read_runs(zipped, "inspect", score="match", where="model in mockllm/small, mockllm/large")
    assert runs.names == ["mockllm/small", "mockllm/large"]
    with pytest.raises(rf.InvalidInputError, match="it has match, includes"):
        rf.read_runs(zipped, "inspect")
    (log,) = (WRITTEN / "inspect_ai_json").glob("*.json")
    one = rf.read_runs(log, "inspect", score="match")
    wanted = json.loads(log.read_text())["samples"]
    assert one.value("score")[0].tolist() == [float(s["scores"]["match"]["value"] == "C") for s in wanted]
    assert one.value("tokens")[0].tolist() == [s["model_usage"]["mockllm/small"]["total_tokens"] for s in wanted]


def test_logs_that_promptfoo_wrote():
    """Two tests repeated twice are two examples, not four; the only prompt is one prompt with both providers."""
    runs = rf.read_runs(WRITTEN / "promptfoo")
    assert sorted(runs.names) == ["plain", "short"]
    assert runs.settings.columns.tolist() == ["model"]
    assert runs.n_examples == 2
    assert runs.value("samples").tolist() == [[2, 2], [2, 2]]
    rows = json.loads((WRITTEN / "promptfoo" / "results.json").read_text())["results"]["results"]
    assert {row["testIdx"] for row in rows} == {0, 1, 2, 3}
    for provider in runs.names:
        wanted = np.mean([row["score"] for row in rows if row["provider"]["label"] == provider])
        assert runs.value("score")[runs.row(provider)].mean() == wanted


def test_logs_that_an_older_inspect_wrote():
    runs = rf.read_runs(WRITTEN / "inspect_ai_0380")
    assert runs.names == ["mockllm/small", "mockllm/large"]
    assert (runs.n_examples, runs.intake.read) == (3, 12)
    for path in (WRITTEN / "inspect_ai_0380").iterdir():
        with zipfile.ZipFile(path) as log:
            header = json.loads(log.read("header.json"))
        wanted = header["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        assert runs.value("score")[runs.row(header["eval"]["model"])].mean() == pytest.approx(wanted)


def test_logs_that_an_older_mlflow_wrote():
    """Before 3.6 state and duration stand in the trace alone."""
    runs = rf.read_runs(WRITTEN / "mlflow_35", "mlflow", score="exact")
    assert runs.value("score")[runs.row("small")].tolist() == [1, 0]
    assert runs.value("score")[runs.row("large")].tolist() == [1, 1]
    assert runs.value("latency").shape == (2, 2)


def test_logs_that_mlflow_wrote():
    """What was expected stands beside the scores in a table of MLflow 3, and is no score."""
    folder = WRITTEN / "mlflow"
    assert "answer/value" in pd.read_csv(folder / "small.csv")
    with pytest.raises(rf.InvalidInputError, match=r"it has (exact, judged|judged, exact), and none was named"):
        rf.read_runs(folder, "mlflow")
    runs = rf.read_runs(folder, "mlflow", score="exact")
    assert runs.value("score")[runs.row("small")].tolist() == [1, 0]
    assert runs.value("score")[runs.row("large")].tolist() == [1, 1]
    assert rf.read_runs(folder, "mlflow", score="judged").value("score").min() == 1  # yes and no are 1 and 0


def test_logs_that_openai_evals_wrote():
    runs = rf.read_runs(WRITTEN / "openai_evals")
    assert runs.value("score")[runs.row("small")].tolist() == [1, 0, 1]
    assert runs.examples["example"].tolist() == ["quiz.dev.0", "quiz.dev.1", "quiz.dev.2"]


@pytest.mark.parametrize("version", ["1", "301"])
def test_logs_that_two_versions_of_openai_evals_wrote(version):
    """One eval grades by a match, the other by a match and by metrics, of one answer each."""
    folder = WRITTEN / f"openai_evals_{version}"
    with pytest.raises(
        rf.InvalidInputError, match=r"'sums-f1.dev.v0'; it has correct, accuracy, f1_score, and none was named"
    ):
        rf.read_runs(folder, "openai-evals")
    runs = rf.read_runs(folder, "openai-evals", score="sums-f1.dev.v0=f1_score, correct")
    assert runs.n_examples == 8
    assert "samples" not in runs.values
    for file in folder.glob("*.jsonl"):
        reported = json.loads(file.read_text().splitlines()[1])["final_report"]
        metric, model = ("f1_score", file.stem[8:]) if file.stem.startswith("sums-f1") else ("accuracy", file.stem[5:])
        rows = runs.examples["task"] == f"{file.stem.rpartition('_')[0]}.dev.v0"
        assert runs.value("score")[runs.row(f"adder/{model}")][rows].mean() == pytest.approx(reported[metric])
    assert runs.examples["prompt"].str.contains("17 + 25 =", regex=False).sum() == 2
    assert (runs.value("response_chars") >= 1).all()
    if version == "301":
        assert set(runs.value("input_tokens").ravel()) == {4}


@pytest.mark.parametrize("folder", ["helm", "helm_054"])
def test_logs_that_two_versions_of_helm_wrote(folder):
    """What describes a run is no score; prompts and answers stand in another file than the grades."""
    with pytest.raises(rf.InvalidInputError, match="it has exact_match, ") as refused:
        rf.read_runs(WRITTEN / folder)
    assert not any(name in str(refused.value) for name in ("num_", "training_co2_cost", "batch_size", "finish_reason"))
    runs = rf.read_runs(WRITTEN / folder, score="exact_match")
    assert runs.n_examples == 6
    assert runs.value("score")[runs.row("simple/model1")].tolist() == [0] * 6
    asked = runs.examples["prompt"].str.extract(r"Is (\d+) even or odd\?\nA. Even\nB. Odd\nAnswer:$")[0].astype(int)
    right = [float(number <= 60 or number % 2 == 0) for number in asked]
    assert runs.value("score")[runs.row("simple/parity")].tolist() == right
    assert "logprob" not in runs.values  # this client gives none, and HELM logs 0
    assert runs.value("response_chars")[runs.row("simple/parity")].tolist() == [1] * 6
    assert "latency" in runs.values


def test_the_log_probability_of_helm_is_a_sum_over_tokens(tmp_path):
    """A served response gives the mean over its tokens; a threshold on the sum would mean something else there."""
    folder = MAKERS["helm"](tmp_path)
    for file in folder.rglob("per_instance_stats.json"):
        found = json.loads(file.read_text())
        for instance in found:
            instance["stats"] += [
                {"name": {"name": name}, "count": 1, "sum": value, "mean": value}
                for name, value in (("logprob", -3.0), ("num_perplexity_tokens", 6))
            ]
        file.write_text(json.dumps(found))
    np.testing.assert_allclose(rf.read_runs(folder, score="exact_match").value("logprob"), -0.5)


def test_a_sample_of_every_eval_ever_has_a_line_for_each_metric(tmp_path):
    """The converter of HELM writes them; they are grades of one answer, and never averaged."""
    folder = MAKERS["every-eval-ever"](tmp_path)
    for file in folder.glob("*.jsonl"):
        edit(
            file,
            lambda rows: [
                row.update(
                    evaluation_id="run 1",
                    output={"raw": ["x"]},
                    performance={"latency_ms": None, "generation_time_ms": 1500.0},
                )
                for row in rows
            ],
        )
        edit(
            file,
            lambda rows: rows.extend(
                [{**row, "evaluation_result_id": "run 1#f1:test", "evaluation": {"score": 0.25}} for row in rows]
            ),
        )
        edit(file, lambda rows: [row.setdefault("evaluation_result_id", "run 1#exact_match:test") for row in rows])
    with pytest.raises(rf.InvalidInputError, match="it has exact_match:test, f1:test, and none was named"):
        rf.read_runs(folder)
    runs = rf.read_runs(folder, score="exact_match:test")
    for model, scores in SCORES.items():
        np.testing.assert_allclose(runs.value("score")[runs.row(model)], scores)
    assert "samples" not in runs.values
    np.testing.assert_allclose(runs.value("latency"), 1.5)
    np.testing.assert_allclose(rf.read_runs(folder, score="f1:test").value("score"), 0.25)


def test_epochs_are_averaged_to_one_row(tmp_path):
    log = inspect_log("m", [1.0, 0.0], epochs=3)
    log["samples"][0]["scores"]["match"]["value"] = "I"
    (tmp_path / "a.json").write_text(json.dumps(log))
    with pytest.warns(UserWarning, match=r"2 of 2 outcomes are means over several answers .* 6 answers"):
        runs = rf.read_runs(tmp_path)
    np.testing.assert_allclose(runs.value("score"), [[2 / 3, 0]])
    assert runs.value("samples").tolist() == [[3, 3]]
    np.testing.assert_allclose(runs.value("answer_agreement"), 2 / 3)  # two answers of three are the same


def test_a_document_that_a_dataset_holds_twice_counts_once(tmp_path):
    folder = MAKERS["lm-eval"](tmp_path)
    edit(folder / SAMPLES, lambda rows: rows.append({**rows[0], "doc_id": 9, "acc": 0.0}))
    runs = rf.read_runs(folder)
    assert runs.n_examples == 4
    assert runs.value("score")[runs.row("small")].tolist() == [0.5, 0, 1, 0]
    assert runs.value("samples")[runs.row("small")].tolist() == [2, 1, 1, 1]
    assert "agreement" not in runs.values  # no repeated sampling


def test_prompts_of_promptfoo_are_the_same_with_every_provider(tmp_path):
    folder = MAKERS["promptfoo"](tmp_path)
    log = json.loads((folder / "results.json").read_text())
    rows = log["results"]["results"]
    for row in rows:  # as promptfoo counts: a column for each provider and prompt
        row |= {"promptIdx": int(row["provider"]["id"] == "large"), "promptId": "p", "vars": {"q": row["testIdx"]}}
    rows += [{**row, "promptIdx": row["promptIdx"] + 2, "promptId": "r", "score": 0} for row in rows]
    (folder / "results.json").write_text(json.dumps(log))
    runs = rf.read_runs(folder)
    start = "long long long long long long long long..."
    assert sorted(runs.names) == [f"{name} / {start} #{prompt}" for name in ("large", "small") for prompt in "pr"]
    assert runs.value("score")[runs.row(f"large / {start} #p")].tolist() == SCORES["large"]


def test_a_metric_that_is_no_number_only_matters_if_it_is_chosen(tmp_path):
    folder = MAKERS["lm-eval"](tmp_path)
    for model in SCORES:
        path = folder / SAMPLES.replace("small", model)
        edit(path, lambda rows: [row.update(metrics=["acc", "votes"], votes=[1, 2]) for row in rows])
    assert rf.read_runs(folder, score="acc").value("score")[0].tolist() == SCORES["large"]
    with pytest.raises(rf.InvalidInputError, match=r"'votes' must be one number; got a list. Choose another"):
        rf.read_runs(folder, score="votes")


def test_a_scorer_of_inspect_with_several_values(tmp_path):
    log = inspect_log("m", [1.0, 0.0])
    for sample in log["samples"]:
        sample["scores"]["many"] = {"value": {"tone": 0.5, "fact": "C"}}
    (tmp_path / "a.json").write_text(json.dumps(log))
    assert rf.read_runs(tmp_path, score="many/tone").value("score").tolist() == [[0.5, 0.5]]
    assert rf.read_runs(tmp_path, score="many/fact").value("score").tolist() == [[1, 1]]


def test_log_probabilities_of_inspect_are_in_the_samples_not_in_their_summaries(tmp_path):
    log = inspect_log("m", [1.0, 0.0])
    log["plan"] = {"config": {"logprobs": True, "max_connections": 7}}
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({k: v for k, v in log.items() if k != "samples"}))
        archive.writestr("summaries.json", json.dumps(log["samples"]))
        for number, sample in enumerate(log["samples"]):
            content = [{"token": "x", "logprob": -0.5 * number}, {"token": "y", "logprob": -0.5 * number}]
            output = {"choices": [{"logprobs": {"content": content}}]}
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps({**sample, "output": output}))
    assert rf.read_runs(tmp_path).value("logprob").tolist() == [[0, -0.5]]


def test_long_inputs_of_inspect_are_in_the_samples_and_cut_in_their_summaries(tmp_path):
    log = inspect_log("m", [1.0, 0.0])
    whole = ["a" * 6000 + "b", "a" * 6000 + "c"]
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({k: v for k, v in log.items() if k != "samples"}))
        cut = [{**sample, "input": "a" * 5120 + "...\n(content truncated)"} for sample in log["samples"]]
        archive.writestr("summaries.json", json.dumps(cut))
        for sample, text in zip(log["samples"], whole, strict=True):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps({**sample, "input": text}))
    assert rf.read_runs(tmp_path).examples["prompt"].tolist() == whole


def test_tokens_of_inspect_are_those_of_the_response_and_prices_those_of_all_calls(tmp_path):
    """A model that grades itself takes tokens that no response tells."""
    log = inspect_log("m", [1.0, 0.0])
    usage = {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3}
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({k: v for k, v in log.items() if k != "samples"}))
        archive.writestr("summaries.json", json.dumps(log["samples"]))
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}.json", json.dumps({**sample, "output": {"usage": usage}}))
    runs = rf.read_runs(tmp_path)
    assert runs.value("output_tokens").tolist() == [[1, 1]]
    priced = runs.priced({"m": {"per_million_input": 1e6, "per_million_output": 1e6}})
    assert priced.value("cost").tolist() == [[7, 7]]


def test_prompts_are_those_that_a_request_holds(tmp_path):
    """Of a chat the texts of its messages; of what a local model's chat template made of them nothing."""
    messages = json.dumps([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}])
    folder = MAKERS["lm-eval"](tmp_path / "chats")
    for path in folder.rglob("samples_*.jsonl"):
        edit(path, lambda rows: [row.update(arguments=[[messages, {}]]) for row in rows])
    assert set(rf.read_runs(folder).examples["prompt"]) == {"Be short.\nWhy?"}
    for path in folder.rglob("samples_*.jsonl"):
        edit(path, lambda rows: [row.update(arguments=[["<|user|>Why?", {}]]) for row in rows])
    for path in folder.rglob("results_*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template_sha": "abc"}))
    assert "prompt" not in rf.read_runs(folder).examples
    assert rf.read_runs(WRITTEN / "mlflow", "mlflow", score="exact").examples["prompt"].tolist() == ["1", "2"]


def test_what_a_transformation_made_of_a_response_is_not_what_a_response_holds():
    runs = rf.read_runs(WRITTEN / "promptfoo")
    assert np.isnan(runs.value("response_chars")[runs.row("short")]).all()
    assert runs.value("response_chars")[runs.row("plain")].tolist() == [68, 70]
    assert "agreement" not in runs.values
    assert "answer_agreement" in runs.values


def test_observations_of_langfuse_in_any_order(tmp_path):
    rows = [
        {"traceId": "t", "id": "b", "model": "m", "input": "second?", "output": "b", "startTime": "2026-01-02"},
        {"traceId": "t", "id": "a", "model": "m", "input": "first?", "output": "a", "startTime": "2026-01-01"},
    ]
    (tmp_path / "observations.json").write_text(json.dumps(rows))
    (tmp_path / "scores.json").write_text(json.dumps([{"traceId": "t", "name": "good", "value": 1}]))
    runs = rf.read_runs(tmp_path, "langfuse")
    assert runs.examples["prompt"].tolist() == ["first?"]


def test_ids_of_helm_and_openai_evals_must_name_one_question_too(tmp_path):
    for tool, change in (
        ("helm", lambda text: text.replace("Is 70 even or odd?", "Is 71 even or odd?")),
        ("openai_evals_301", lambda text: text.replace('"expected": "42"', '"expected": "43"')),
    ):
        folder = tmp_path / tool
        shutil.copytree(WRITTEN / tool, folder)
        path = sorted([*folder.rglob("scenario_state.json"), *folder.glob("sums_*.jsonl")])[0]
        text = path.read_text()
        assert change(text) != text
        path.write_text(change(text))
        score = "exact_match" if tool == "helm" else "correct"
        with pytest.raises(rf.InvalidInputError, match="one id must name one question in all runs"):
            rf.read_runs(folder, score=score, where=() if tool == "helm" else "task == sums.dev.v0")


def test_a_row_of_routerbench_that_no_model_was_scored_on_gives_way_to_the_same_prompt(tmp_path):
    """RouterBench has a few prompts twice, once without any score and with a doubled price."""
    frame = pd.DataFrame(
        {
            "sample_id": ["a", "a", "b"] * 2,
            "eval_name": "q",
            "model": np.repeat(["m", "n"], 3),
            "score": [np.nan, 1, 0] * 2,
            "cost": [9, 1, 1] * 2,
        }
    )
    frame.to_parquet(tmp_path / "r.parquet")
    runs = rf.read_runs(tmp_path, "routerbench")
    assert runs.value("score").tolist() == [[1, 0], [1, 0]]
    assert runs.value("cost").tolist() == [[1, 1], [1, 1]]
    assert runs.intake.left_out == {"second rows of a prompt that no model was scored on": 2}
    frame.loc[0, "score"] = 1.0  # one model was scored there: it is an answer, and the other's is missing
    frame.to_parquet(tmp_path / "r.parquet")
    runs = rf.read_runs(tmp_path, "routerbench")
    np.testing.assert_array_equal(runs.value("score"), [[1, 0], [np.nan, 0]])
    assert runs.intake.left_out == {}


def test_what_tells_runs_apart_becomes_a_setting(tmp_path):
    for temperature in (0.0, 0.7):
        log = inspect_log("m", [1.0, 0.0])
        log["eval"]["model_generate_config"]["temperature"] = temperature
        (tmp_path / f"{temperature}.json").write_text(json.dumps(log))
    runs = rf.read_runs(tmp_path)
    assert runs.settings.columns.tolist() == ["model", "temperature"]
    assert runs.names == ["m / 0.0", "m / 0.7"]


def test_mixed_tasks_keep_their_examples_apart(tmp_path):
    for task in ("a", "b"):
        log = inspect_log("m", [1.0, 0.0])
        log["eval"]["task"] = task
        (tmp_path / f"{task}.json").write_text(json.dumps(log))
    runs = rf.read_runs(tmp_path)
    assert runs.examples["example"].tolist() == ["a/q0", "a/q1", "b/q0", "b/q1"]
    assert rf.read_runs(tmp_path, where="task == b").n_examples == 2
    with pytest.raises(rf.InvalidInputError, match="'score' is an outcome"):
        rf.read_runs(tmp_path, where="score == 1")


def edit(path, change):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    lines(path, rows)


SAMPLES = "small/samples_quiz_2026-01-01T00-00-00.0.jsonl"


@pytest.mark.parametrize(
    ("tool", "spoil", "words"),
    [
        ("lm-eval", lambda d: (d / SAMPLES).write_text((d / SAMPLES).read_text()[:-40]), r"samples_quiz.*line 4: must be one JSON"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r[2].update(acc=[1, 0])), "line 3: the score 'acc' must be one number; got a list"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r[1].update(acc="good")), "line 2: .* got the text 'good'"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r[1].pop("metrics")), "line 2: there is no field 'metrics'"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r.append(r[0])), "'hash0' comes more than once for model = small"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r.append({**r[0], "filter": "strict"})), "samples have none, strict"),
        ("lm-eval", lambda d: (d / "small" / "samples_x.jsonl").write_text("{}"), "name must read samples_<task>_<date>"),
        ("inspect", lambda d: (d / "small.json").write_text('{"status": "x", "eval": {}, "samples": ['), "line 1: must be JSON"),
        ("inspect", lambda d: (d / "cut.eval").write_bytes(b"PK\x03\x04 no more"), "damaged, cut off, or still being written"),
        ("inspect", lambda d: (d / "small.json").write_text(json.dumps(inspect_log("m", [1.0]) | {"version": 3})), "version 2; got 3"),
        ("inspect", lambda d: (d / "small.json").write_text(json.dumps(inspect_log("m", [1.0]) | {"invalidated": True})), "marked as invalid"),
        ("promptfoo", lambda d: (d / "results.json").write_text('{"results": {"version": 1, "namedScores": 0}}'), "version 2 or 3; got 1"),
        ("every-eval-ever", lambda d: edit(d / "small.jsonl", lambda r: r[1].update(schema_version="1.0.0")), r"line 2: schema version must be 0\.x"),
        ("every-eval-ever", lambda d: edit(d / "small.jsonl", lambda r: r[2].pop("model_id")), "line 3: there is no field 'model_id'"),
        ("helm", lambda d: (d / "quiz:model=small" / "scenario_state.json").write_text("[3]"), "scenario_state.json': it must be a JSON object; got a list"),
        ("helm", lambda d: (d / "quiz:model=small" / "scenario_state.json").write_text('{"request_states": [3]}'), "request 1: it must be a JSON object; got the number 3"),
        ("helm", lambda d: (d / "quiz:model=small" / "run_spec.json").unlink(), "run_spec.json must stand beside it"),
        ("openai-evals", lambda d: edit(d / "small.jsonl", lambda r: r.pop(0)), "line 2: the specification of the run must come first"),
        ("routerbench", lambda d: pd.DataFrame({"x": [1]}).to_parquet(d / "bench.parquet"), "must have a column 'sample_id'"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r[1].update(metrics=None)), "line 2: the field 'metrics' must be a list; got nothing"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r[1].update(acc=float("inf"))), "line 2: .* must be one number; got infinity"),
        ("lm-eval", lambda d: edit(d / SAMPLES, lambda r: r.append(r[0])), "line 5: an answer must be logged once"),
        ("inspect", lambda d: (d / "small.json").write_text(json.dumps(inspect_log("m", [1.0]) | {"samples": [3]})), "sample 1: there is no field 'id'"),
        ("inspect", lambda d: (d / "small.json").write_text(json.dumps(inspect_log("m", [1.0]) | {"samples": {"a": 1}})), "the samples must be a list; got an object"),
        ("inspect", lambda d: [f.write_text(json.dumps(inspect_log("m", []) | {"samples": [{"id": 1, "error": {}, "scores": {}}]})) for f in d.glob("*.json")][1:], "no answer was scored. Did the evaluation end with an error"),
        ("promptfoo", lambda d: (d / "results.json").write_text('{"results": {"version": 3, "results": [[1]], "namedScores": 0}}'), "result 1: there is no field 'provider'"),
        ("every-eval-ever", lambda d: edit(d / "small.jsonl", lambda r: r[1].update(evaluation=[1])), "line 2: the field 'evaluation' must be a JSON object; got a list"),
        ("helm", lambda d: (d / "quiz:model=small" / "per_instance_stats.json").write_text("[3]"), "instance 1: it must be a JSON object; got the number 3"),
        ("openai-evals", lambda d: edit(d / "small.jsonl", lambda r: r[2].update(data="x")), "line 3: the field 'data' must be a JSON object; got a text"),
        ("mlflow", lambda d: pd.DataFrame({"x": [1]}).to_csv(d / "small.csv", index=False), "'<scorer>/value'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_that_says_where(tool, spoil, words, tmp_path):
    folder = MAKERS[tool](tmp_path / "logs")
    spoil(folder)
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.read_runs(folder, tool)


def test_results_of_mlflow_2(tmp_path):
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        table = {"columns": ["inputs", "outputs", "exact_match/v1/score"], "data": [["q1", "x", 1], ["q2", "y", 0]]}
        (tmp_path / run / "eval_results_table.json").write_text(json.dumps(table))
    runs = rf.read_runs(tmp_path, "mlflow")
    assert runs.names == ["a", "b"]
    assert runs.value("score").tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("folder", ["every_eval_ever", "every_eval_ever_020"])
def test_samples_of_lm_eval_that_every_eval_ever_converted(folder):
    """The same scores and prompts as in the logs that were converted, whose files have the same names."""
    written = Path(__file__).parent / "written_by_tools"
    ours = rf.read_runs(written / "lm_eval", score="tiny_arith=exact_match, tiny_choice=acc")
    theirs = rf.read_runs(written / folder)
    assert theirs.names == ["local/dummy"]
    scores = [dict(zip(runs.examples["prompt"], runs.value("score")[0], strict=True)) for runs in (ours, theirs)]
    assert scores[0] == scores[1]
    assert len(scores[1]) == 11


def two_tools(folder):
    MAKERS["lm-eval"](folder)
    MAKERS["helm"](folder / "helm")


def ids_by_position(folder):
    """Ids that Inspect gives by position name other questions once the dataset is shuffled."""
    for model in ("a", "b"):
        log = inspect_log(model, [1.0, 0.0])
        for number, sample in enumerate(log["samples"]):
            sample |= {"id": number + 1, "input": f"question {number}", "target": "x"}
        if model == "b":
            log["samples"][0]["input"], log["samples"][1]["input"] = "question 1", "question 0"
        (folder / f"{model}.json").write_text(json.dumps(log))


REFUSED_FOLDERS = {
    "nothing that is known": (lambda folder: None, None, "none that are known by their names"),
    "nothing of the tool": (lambda folder: None, "helm", "must hold logs of helm; none were found"),
    "an unknown tool": (lambda folder: None, "ragas", "no tool 'ragas'"),
    "two tools": (two_tools, None, "found logs of lm-eval and helm"),
    "one id of two questions": (
        ids_by_position,
        None,
        "b.json', sample 1: one id must name one question .* example '1' is",
    ),
}


@pytest.mark.parametrize("case", REFUSED_FOLDERS)
def test_refused_folders(case, tmp_path):
    make, tool, words = REFUSED_FOLDERS[case]
    make(tmp_path)
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.read_runs(tmp_path, tool)
    with pytest.raises(rf.StoreError, match="no such file or folder"):
        rf.read_runs(tmp_path / "absent")
