"""Folders as they are: broken logs, older logs, other tools' versions, files that are too large."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from tests.data.logs.made import MAKERS, SCORES, inspect_log, lines

WRITTEN = Path(__file__).parent / "written_by_tools"
pytestmark = pytest.mark.filterwarnings("ignore:.* outcomes are means over several answers")


# -------------------------------------------------------------------- what tools wrote


def test_two_files_of_promptfoo_with_different_prompts_are_different_runs():
    folder = WRITTEN / "promptfoo_two_files"
    with pytest.raises(rf.InvalidInputError, match=r"logged once; .* take the latest"):
        rf.read_runs(folder)  # the short prompt is in both
    runs = rf.read_runs(folder, latest=True)
    assert sorted({name.split(" / ")[1] for name in runs.names}) == [
        "Say nothing but the following word, and... #3a5525",
        "Say nothing but the following word, what... #f3635c",
        "{{word}} #dd6504",
    ]
    assert len(runs) == 6
    assert runs.intake.left_out == {"answered again in a later log": 8}
    assert runs.intake.read == 32


def test_promptfoo_logs_calls_that_failed_tokens_and_prices():
    path = WRITTEN / "promptfoo_two_files" / "first.json"
    runs = rf.read_runs(path, "promptfoo")
    flaky = [row for row, name in enumerate(runs.names) if name.startswith("flaky")]
    plain = [row for row, name in enumerate(runs.names) if name.startswith("plain")]
    rows = json.loads(path.read_text())["results"]["results"]
    failed = sum(row["failureReason"] == 2 for row in rows)
    assert runs.intake.worst == failed == 2
    assert runs.value("failed").sum() * 2 == failed
    known = runs.value("cost")[flaky]
    assert set(known[~np.isnan(known)]) == {0.002}
    assert np.isnan(runs.value("cost")[plain]).all()  # what is not known is not free
    assert set(runs.value("tokens")[flaky][~np.isnan(known)]) == {9}
    assert sorted(runs.examples["prompt"]) == ["one", "two"]
    passed = rf.read_runs(path, "promptfoo", score="pass")
    assert passed.value("score").max() == 1
    assert (passed.value("score") - runs.value("score")).max() == 0.5  # half of the assertions hold, and that is enough


def test_promptfoo_of_version_2():
    runs = rf.read_runs(WRITTEN / "promptfoo_v2")
    assert len(runs) == 4
    assert (runs.intake.read, runs.intake.worst) == (8, 1)
    assert sorted(runs.value("score").ravel()) == [0, 0, 0, 0.5, 1, 1, 1, 1]


def test_a_failed_epoch_that_inspect_wrote():
    runs = rf.read_runs(WRITTEN / "inspect_ai_failed")
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (4, 3, 1)
    assert runs.value("failed").sum() == 0.5
    assert runs.examples["prompt"].tolist() == ["What is 1 and 1?", "What is 2 and 2?"]


def test_lm_eval_before_it_named_metrics_and_filters():
    folder = WRITTEN / "lm_eval_044"
    (results,) = folder.glob("results_*.json")
    wanted = json.loads(results.read_text())["results"]["tiny_arith"]
    for kind in ("strict", "lenient"):
        runs = rf.read_runs(folder, where="task == tiny_arith", filter=kind)
        assert runs.value("score").mean() == pytest.approx(wanted[f"lengthy,{kind}"])
        assert runs.intake.left_out == {
            "left out by a filter (where)": 3,
            f"seen through another filter than '{kind}'": 3,
        }
    with pytest.raises(rf.InvalidInputError, match="its samples have lenient, strict"):
        rf.read_runs(folder)
    together = rf.read_runs(folder, score="tiny_arith=lengthy, tiny_choice=acc", filter="strict")
    assert together.n_examples == 6  # a task without filters leaves nothing to choose
    choice = rf.read_runs(folder, score="acc", where="task == tiny_choice")
    assert choice.examples["prompt"].tolist() == ["1 + 1 =", "2 + 2 =", "3 + 3 ="]


def test_test_runs_that_deepeval_wrote():
    runs = rf.read_runs(WRITTEN / "deepeval")
    small, large = runs.row("small"), runs.row("large")
    np.testing.assert_array_equal(runs.value("score")[small], [1, 0, np.nan])  # the judge failed, not the model
    assert runs.value("score")[large].tolist() == [1, 1, 1]
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (6, 5, 1)
    assert set(runs.value("cost")[large]) == {0.002}
    assert runs.examples["prompt"].tolist() == ["1 + 1 =", "2 + 2 =", "3 + 3 ="]
    assert rf.read_runs(WRITTEN / "deepeval", score="pass").value("score")[small].tolist() == [1, 0, 0]


def test_observations_and_scores_in_the_types_of_langfuse(tmp_path):
    with pytest.raises(rf.InvalidInputError, match=r"it has exact, tone, and none was named"):
        rf.read_runs(WRITTEN / "langfuse", "langfuse")
    runs = rf.read_runs(WRITTEN / "langfuse", "langfuse", score="exact")
    np.testing.assert_array_equal(runs.value("score")[runs.row("small")], [1, np.nan, 0])
    assert runs.value("failed")[runs.row("small")].tolist() == [0, 0, 1]
    assert runs.value("latency")[runs.row("large")].tolist() == [1, 2, 3]
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (6, 4, 2)
    with pytest.raises(rf.InvalidInputError, match="got the text 'polite'"):
        rf.read_runs(WRITTEN / "langfuse", "langfuse", score="tone")
    rows = json.loads((WRITTEN / "langfuse" / "observations.json").read_text())["data"]
    rows.append({"id": "x", "traceId": "span", "type": "SPAN", "startTime": "2026-01-01"})
    (tmp_path / "observations.json").write_text(json.dumps(rows))
    with pytest.raises(rf.InvalidInputError, match="scores must stand beside it"):
        rf.read_runs(tmp_path, "langfuse")
    (tmp_path / "scores.json").write_bytes((WRITTEN / "langfuse" / "scores.json").read_bytes())
    assert rf.read_runs(tmp_path, "langfuse", score="exact").intake.left_out == {"traces that called no model": 1}


def test_spend_logs_that_litellm_wrote():
    runs = rf.read_runs(WRITTEN / "litellm", "litellm")
    small, large = runs.row("gpt-4o-mini"), runs.row("gpt-4o")
    assert np.nanmin(runs.value("score")[small]) == 0
    assert np.nansum(runs.value("failed")) == 1
    assert np.nansum(runs.value("cost")[large]) == pytest.approx(0.02)
    assert np.nansum(runs.value("latency")) == pytest.approx(0.5 + 1.5 + 2.5 + 3.5)
    assert (runs.intake.read, runs.intake.worst) == (4, 1)


@pytest.mark.parametrize("version", ["langfuse_2", "langfuse_5"])
def test_what_two_sdks_of_langfuse_sent_and_read(version):
    runs = rf.read_runs(WRITTEN / version, "langfuse", score="exact")
    assert runs.examples["prompt"].tolist() == ["0 + 0 =", "1 + 1 =", "2 + 2 ="]
    assert runs.value("score")[runs.row("small")].tolist() == [1, 1, 0]  # the last call failed
    assert runs.value("score")[runs.row("large")].tolist() == [1, 1, 1]
    np.testing.assert_array_equal(runs.value("cost")[runs.row("small")], [0.0001, 0.0001, np.nan])
    assert set(runs.value("tokens").ravel()) == {7}
    with pytest.raises(rf.InvalidInputError, match="got the text 'polite'"):
        rf.read_runs(WRITTEN / version, "langfuse", score="tone")


def test_an_older_deepeval_whose_files_have_no_ending():
    runs = rf.read_runs(WRITTEN / "deepeval_3")
    assert runs.value("score")[runs.row("small")].tolist() == [1, 0, 1]
    assert runs.value("score")[runs.row("large")].tolist() == [1, 1, 1]
    assert rf.read_runs(WRITTEN / "deepeval_3", "deepeval", score="pass").intake.read == 6


def test_spend_logs_of_an_older_litellm_that_hold_prompts_and_grades():
    runs = rf.read_runs(WRITTEN / "litellm_183", "litellm", score="quality")
    assert runs.examples["prompt"].tolist() == ["0 + 0 =", "2 + 2 =", "1 + 1 ="]
    assert runs.value("score")[runs.row("gpt-4o-mini")].tolist() == [0, 0, 1]  # the second call failed
    assert runs.value("failed")[runs.row("gpt-4o-mini")].tolist() == [0, 1, 0]
    np.testing.assert_allclose(runs.value("cost")[runs.row("gpt-4o")], 0.000225)


def test_what_came_from_a_cache_says_nothing_of_what_a_call_takes(tmp_path):
    """A cached answer is free and there at once, unlike those of the models where a policy runs."""
    rows = json.loads((WRITTEN / "litellm_183" / "spend_logs.json").read_text())
    rows[0] |= {"cache_hit": "True", "spend": 1e-9}
    (tmp_path / "spend_logs.json").write_text(json.dumps(rows))
    runs = rf.read_runs(tmp_path / "spend_logs.json", "litellm")
    lacks = {name: int(np.isnan(runs.value(name)).sum()) for name in ("score", "cost", "latency")}
    failed_too = int((runs.value("failed") > 0).sum())
    assert lacks == {"score": 0, "cost": 1 + failed_too, "latency": 1}
    log = json.loads((WRITTEN / "promptfoo" / "results.json").read_text())
    for row in log["results"]["results"]:
        row["response"]["cached"] = True
    (tmp_path / "results.json").write_text(json.dumps(log))
    assert not {"cost", "latency"} & set(rf.read_runs(tmp_path / "results.json", "promptfoo").values)


# -------------------------------------------------------------------- broken and older logs


def test_broken_logs_are_left_out_by_name_if_that_is_asked_for(tmp_path):
    MAKERS["inspect"](tmp_path)
    (tmp_path / "cut.eval").write_bytes(b"PK\x03\x04 no more")
    stopped = inspect_log("third", [1.0, 0.0]) | {"status": "cancelled"}
    (tmp_path / "stopped.json").write_text(json.dumps(stopped))
    with pytest.raises(rf.InvalidInputError, match=r"cut.eval.* damaged.* --skip-broken"):
        rf.read_runs(tmp_path)
    with pytest.warns(rf.LeftOutWarning) as said:
        runs = rf.read_runs(tmp_path, skip_broken=True)
    words = [str(one.message) for one in said]
    assert any("cut.eval" in text and "damaged" in text for text in words)
    assert any("stopped.json: the evaluation did not end (status 'cancelled')" in text for text in words)
    assert sorted(runs.names) == ["large", "small"]
    assert runs.intake.left_out == {
        next(reason for reason in runs.left_out if reason.startswith("cut.eval")): 0,
        "stopped.json: the evaluation did not end (status 'cancelled')": 2,
    }
    assert runs.intake.read == 10


def test_a_log_that_was_stopped_early_is_refused(tmp_path):
    MAKERS["inspect"](tmp_path)
    stopping = {"manager": "own", "early_stops": [{"id": "q2", "epoch": 1}], "metadata": {"verdict": "passed"}}
    stopped = inspect_log("third", [1.0, 0.0]) | {"results": {"early_stopping": stopping}}
    (tmp_path / "third.json").write_text(json.dumps(stopped))
    with pytest.raises(
        rf.InvalidInputError, match=r"third.json.*'own', verdict 'passed'\) left out 1, .* --skip-broken"
    ):
        rf.read_runs(tmp_path)
    with pytest.warns(rf.LeftOutWarning, match=r"third.json: a log must hold all samples"):
        assert sorted(rf.read_runs(tmp_path, skip_broken=True).names) == ["large", "small"]
    (tmp_path / "third.json").write_text(
        json.dumps(stopped | {"results": {"early_stopping": stopping | {"early_stops": []}}})
    )
    assert len(rf.read_runs(tmp_path)) == 3


def test_what_an_evaluation_that_did_not_end_lacks_is_not_left_out(tmp_path):
    MAKERS["inspect"](tmp_path)
    (tmp_path / "stopped.json").write_text(json.dumps(inspect_log("third", [1.0, 0.0]) | {"status": "cancelled"}))
    runs = rf.read_runs(tmp_path)
    np.testing.assert_array_equal(runs.value("score")[runs.row("third")], [1, 0, np.nan, np.nan])
    assert runs.intake.absent == 2


@pytest.mark.parametrize("kind", ["inspect", "promptfoo"])
def test_empty_and_cut_off_files_are_named(kind, tmp_path):
    MAKERS[kind](tmp_path)
    other = tmp_path / "other.json"
    other.write_text('{"a manifest": []}')  # of something else, and whole
    assert rf.read_runs(tmp_path).left_out == {}
    for name, held in (("empty.json", ""), ("cut.json", '{"vers')):
        (tmp_path / name).write_text(held)
        with pytest.raises(rf.InvalidInputError, match=rf"{name}.* must be JSON; it is not, or the file was cut off"):
            rf.read_runs(tmp_path)
        with pytest.warns(rf.LeftOutWarning, match=f"a log was skipped: {name}: line 1: must be JSON"):
            runs = rf.read_runs(tmp_path, skip_broken=True)
        assert sorted(runs.names) == sorted(SCORES)
        assert f"an unreadable file left out ({name}: line 1" in str(runs.intake)
        (tmp_path / name).unlink()


def test_a_log_without_answers_is_named(tmp_path):
    MAKERS["inspect"](tmp_path)
    (tmp_path / "begun.json").write_text(json.dumps(inspect_log("third", []) | {"status": "error"}))
    with pytest.raises(rf.InvalidInputError, match=r"begun.json': a log must hold answers; it holds none"):
        rf.read_runs(tmp_path)
    with pytest.warns(rf.LeftOutWarning, match="begun.json: a log must hold answers"):
        assert sorted(rf.read_runs(tmp_path, skip_broken=True).names) == ["large", "small"]


def test_of_two_logs_of_one_run_the_latest_answer_counts(tmp_path):
    for day, scores in (("2026-01-02", [1.0, 1.0, 0.0, 1.0]), ("2026-01-01", [0.0, 0.0, 0.0])):
        log = inspect_log("m", scores)
        log["eval"]["created"] = f"{day}T00:00:00+00:00"
        (tmp_path / f"{day}.json").write_text(json.dumps(log))
    with pytest.raises(rf.InvalidInputError, match="logged once"):
        rf.read_runs(tmp_path)
    runs = rf.read_runs(tmp_path, latest=True)
    found = dict(zip(runs.examples["example"], runs.value("score")[0], strict=True))
    assert found == {"q0": 1, "q1": 1, "q2": 0, "q3": 1}
    assert runs.intake.left_out == {"answered again in a later log": 3}


def test_a_later_log_of_some_examples_alone_is_a_second_try(tmp_path):
    for day, scores in (("2026-01-02", [1.0, 1.0]), ("2026-01-01", [0.0, 0.0, 1.0])):
        log = inspect_log("m", scores)
        log["eval"]["created"] = f"{day}T00:00:00+00:00"
        (tmp_path / f"{day}.json").write_text(json.dumps(log))
    with pytest.raises(rf.InvalidInputError, match=r"2026-01-02.json': a later log .* it has 2 of the 3 of"):
        rf.read_runs(tmp_path, latest=True)
    runs = rf.read_runs(tmp_path, latest=True, skip_broken=True)
    assert runs.value("score").tolist() == [[0, 0, 1]]  # the first tries
    assert runs.intake.left_out == {"asked again, in a later log of some examples alone": 2}


def test_without_a_date_the_file_tells_which_log_is_the_latest(tmp_path):
    for age, name, score in ((0, "a", 1.0), (1000, "b", 0.0)):
        (tmp_path / f"{name}.json").write_text(json.dumps(inspect_log("m", [score])))
        os.utime(tmp_path / f"{name}.json", (2e9 - age, 2e9 - age))
    assert rf.read_runs(tmp_path, latest=True).value("score").tolist() == [[1]]


def test_filters_come_before_the_choice_of_a_metric(tmp_path):
    for task, metric in (("a", "match"), ("b", "includes")):
        log = inspect_log("m", [1.0, 0.0])
        log["eval"]["task"] = task
        for sample in log["samples"] if task == "b" else ():
            sample["scores"][metric] = {"value": "C"}
        (tmp_path / f"{task}.json").write_text(json.dumps(log))
    with pytest.raises(rf.InvalidInputError, match="one metric must be the score of the task 'b'"):
        rf.read_runs(tmp_path)
    assert rf.read_runs(tmp_path, where="task == a").n_examples == 2
    with pytest.raises(rf.InvalidInputError, match="'latency' is an outcome"):
        rf.read_runs(tmp_path, where="latency < 9")
    with pytest.raises(rf.InvalidInputError, match="no column 'colour'"):
        rf.read_runs(tmp_path, where="colour == red")


# -------------------------------------------------------------------- one model is one run


def test_a_model_of_helm_is_one_run_however_its_tasks_are_run(tmp_path):
    for task, shots in (("a", 5), ("b", 0)):
        folder = MAKERS["helm"](tmp_path / task)
        for spec in folder.rglob("run_spec.json"):
            found = json.loads(spec.read_text())
            found["name"] = found["name"].replace("quiz", task)
            found["adapter_spec"] |= {"method": f"method {task}", "max_train_instances": shots}
            spec.write_text(json.dumps(found))
    runs = rf.read_runs(tmp_path, "helm")
    assert sorted(runs.names) == ["large", "small"]
    assert runs.n_examples == 8
    assert not np.isnan(runs.value("score")).any()


def test_one_task_run_in_two_ways_is_two_runs(tmp_path):
    for shots in (0, 5):
        log = inspect_log("m", [1.0, 0.0])
        log["eval"]["task_args_passed"] = {"shots": shots}
        (tmp_path / f"{shots}.json").write_text(json.dumps(log))
    assert rf.read_runs(tmp_path).names == ["m / 0", "m / 5"]


def test_a_column_that_is_equal_for_all_models_is_a_column(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(
        {"model": np.repeat(["s", "m", "l"], 4), "example": list(range(4)) * 3, "score": np.arange(12) % 2, "cost": 0.5}
    )
    frame.to_parquet(tmp_path / "three.parquet")
    assert set(rf.read_runs(tmp_path / "three.parquet").values) == {"score", "cost"}
    frame[frame["model"] == "s"].to_parquet(tmp_path / "one.parquet")
    assert set(rf.read_runs(tmp_path / "one.parquet").values) == {"score", "cost"}


# -------------------------------------------------------------------- files that nobody's tool wrote


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_small_log_that_unpacks_to_a_large_one_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("riskfront._data.logs.tools.json_files._MOST", 2**20)
    with zipfile.ZipFile(tmp_path / "bomb.eval", "w", kind) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m"}}))
        archive.writestr("summaries.json", "[" + " " * 2**21 + "]")
    assert (tmp_path / "bomb.eval").stat().st_size < 2**14
    with pytest.raises(rf.InvalidInputError, match=r"'summaries.json' must unpack to at most 1 MB; it says 2 MB"):
        rf.read_runs(tmp_path / "bomb.eval", "inspect")


def test_a_number_of_a_thousand_digits_is_no_score(tmp_path):
    folder = MAKERS["lm-eval"](tmp_path)
    path = folder / "small" / "samples_quiz_2026-01-01T00-00-00.0.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lines(path, [{**row, "acc": 10**1000} for row in rows])
    with pytest.raises(rf.InvalidInputError, match="must be one number; got infinity"):
        rf.read_runs(folder)
    folder = MAKERS["promptfoo"](tmp_path / "p")
    log = json.loads((folder / "results.json").read_text())
    for row in log["results"]["results"]:
        row |= {"latencyMs": 10**1000, "cost": 10**1000}
    (folder / "results.json").write_text(json.dumps(log))
    runs = rf.read_runs(folder)
    assert "latency" not in runs.values
    assert runs.value("score")[runs.row("small")].tolist() == SCORES["small"]


@pytest.mark.parametrize(
    "log",
    [
        "promptfoo/results.json",
        "promptfoo_v2/results.json",
        "inspect_ai_json/*.json",
        "deepeval/*.json",
        "deepeval_3/*",
    ],
)
def test_a_single_file_tells_its_tool(log):
    path = sorted(WRITTEN.glob(log))[0]
    tool = {"promptfoo": "promptfoo", "inspect": "inspect", "deepeval": "deepeval"}[log.split("_")[0].split("/")[0]]
    score = "match" if tool == "inspect" else None
    assert rf.read_runs(path, score=score).names == rf.read_runs(path, tool, score=score).names


def lying_about_its_size(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m"}}))
        archive.writestr("summaries.json", "[" + " " * 2**21 + "]")
    path.write_bytes(path.read_bytes().replace((2**21 + 2).to_bytes(4, "little"), (100).to_bytes(4, "little")))


def many_samples(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m"}}))
        for number in range(100):
            archive.writestr(f"samples/{number}.json", json.dumps({"id": str(number), "x": " " * 100}))


def text(content):
    return lambda path: path.write_text(content)


DEEP, LONG = "[" * 200_000 + "]" * 200_000, '{"a": ' + "9" * 5000 + "}"
REFUSED = {
    "a member that lies about its size": (
        "a.eval",
        lying_about_its_size,
        r"summaries.json' (is damaged|must have 100)",
    ),
    "samples that are too large together": ("a.eval", many_samples, "its samples must unpack to at most"),
    "nested thousands deep": ("a.json", text(DEEP), "nested thousands deep"),
    "thousands of digits": ("a.json", text(LONG), "thousands of digits"),
    "a line nested thousands deep": ("samples_x_2026-01-01T00.jsonl", text(DEEP + "\n"), "nested thousands deep"),
    "a line of thousands of digits": ("samples_x_2026-01-01T00.jsonl", text(LONG + "\n"), "thousands of digits"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_files(case, tmp_path, monkeypatch):
    name, write, words = REFUSED[case]
    monkeypatch.setattr("riskfront._data.logs.tools.json_files._MOST_IN_ALL", 2**12 if write is many_samples else 2**40)
    write(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.read_runs(*((tmp_path, "lm-eval") if name.startswith("samples") else (tmp_path / name, "inspect")))
    assert (tmp_path / name).read_bytes() == before


def test_only_broken_logs(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.eval").write_bytes(b"no log")
    with pytest.warns(rf.LeftOutWarning), pytest.raises(rf.InvalidInputError, match="some log must be readable; all 2"):
        rf.read_runs(tmp_path, skip_broken=True)
