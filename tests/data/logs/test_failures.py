"""Calls that failed, answers that nobody scored: each is counted, none is lost."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riskfront as rf
from riskfront._data.logs.gather import gather
from riskfront._data.logs.record import Record
from tests.data.logs.made import MAKERS, inspect_log, lines

pytestmark = pytest.mark.filterwarnings("ignore:.* outcomes are means over several answers")


def inspect_with(tmp_path, change, scores=(1.0, 0.0), epochs=1):
    log = inspect_log("m", list(scores), epochs=epochs)
    change(log["samples"])
    (tmp_path / "a.json").write_text(json.dumps(log))
    return tmp_path


def fail(sample):
    sample |= {"error": {"message": "timeout"}, "scores": {}}


def test_the_only_call_of_an_example_that_failed_scores_the_worst(tmp_path):
    runs = rf.read_runs(inspect_with(tmp_path, lambda samples: fail(samples[0])))
    assert runs.value("score").tolist() == [[0, 0]]
    assert runs.value("failed").tolist() == [[1, 0]]
    assert runs.value("latency").tolist() == [[1.5, 1.5]]  # what it took stays
    assert (runs.intake.read, runs.intake.used, runs.intake.worst, runs.intake.absent) == (2, 1, 1, 0)


def test_a_failed_epoch_counts_beside_scored_ones(tmp_path):
    def change(samples):
        fail(samples[0])
        samples[0]["total_time"], samples[0]["model_usage"] = 9.0, {}

    runs = rf.read_runs(inspect_with(tmp_path, change, epochs=3))
    np.testing.assert_allclose(runs.value("score"), [[2 / 3, 0]])
    np.testing.assert_allclose(runs.value("failed"), [[1 / 3, 0]])
    np.testing.assert_allclose(runs.value("latency"), [[4, 1.5]])
    np.testing.assert_allclose(
        runs.value("answer_agreement"), [[1 / 3, 2 / 3]]
    )  # answers x, x, y; the first one failed
    np.testing.assert_array_equal(runs.value("cost"), [[np.nan, 0.25]])  # a mean with an unknown part is unknown
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (6, 5, 1)


def test_an_answer_that_nobody_scored_is_missing(tmp_path):
    def change(samples):
        samples[0]["scores"] = {}

    runs = rf.read_runs(inspect_with(tmp_path, change))
    np.testing.assert_array_equal(runs.value("score"), [[np.nan, 0]])
    assert "failed" not in runs.values
    assert (runs.intake.used, runs.intake.worst) == (1, 1)


def test_an_unscored_epoch_leaves_the_mean_unknown(tmp_path):
    """To leave it out keeps the lucky ones; to call it wrong would help whoever is compared with this run."""
    runs = rf.read_runs(inspect_with(tmp_path, lambda samples: samples[0].update(scores={}), epochs=2))
    np.testing.assert_array_equal(runs.value("score"), [[np.nan, 0]])
    assert (runs.intake.used, runs.intake.worst) == (2, 2)


def test_a_failed_repeat_of_promptfoo_is_no_grade_of_a_scorer(tmp_path):
    folder = MAKERS["promptfoo"](tmp_path)
    log = json.loads((folder / "results.json").read_text())
    rows = log["results"]["results"]
    for row in rows:
        row["vars"] = {"q": row["testIdx"]}
        row["namedScores"] = {"tone": 0.5}
    rows.append({**rows[0], "failureReason": 2, "score": 0, "namedScores": {}})
    (folder / "results.json").write_text(json.dumps(log))
    for score, wanted in (("score", 0.5), ("tone", 0.25)):
        runs = rf.read_runs(folder, score=score)
        assert runs.value("score")[runs.row("small"), 0] == wanted
        assert runs.value("failed")[runs.row("small"), 0] == 0.5


def test_what_a_failure_scores_must_be_known_where_scores_leave_the_unit_interval(tmp_path):
    def change(samples):
        samples[0]["scores"]["match"]["value"] = 4.5
        fail(samples[1])

    folder = inspect_with(tmp_path, change)
    with pytest.raises(rf.InvalidInputError, match=r"1 calls failed .* run from 4.5 to 4.5, .* worst="):
        rf.read_runs(folder)
    assert rf.read_runs(folder, worst=1).value("score").tolist() == [[4.5, 1]]
    change_all = [json.loads((tmp_path / "a.json").read_text())]
    change_all[0]["samples"].append({**change_all[0]["samples"][0], "id": "z"})
    change_all[0]["samples"][2]["scores"] = {"match": {"value": 1}}
    (tmp_path / "a.json").write_text(json.dumps(change_all[0]))
    with pytest.raises(rf.InvalidInputError, match=r"must not lie between others; got 2, .* from 1 to 4.5"):
        rf.read_runs(folder, worst=2)


def test_a_sample_of_openai_evals_without_a_grade_is_an_answer(tmp_path):
    spec = {"spec": {"completion_fns": ["m"], "eval_name": "quiz"}}
    events = [
        {"event_id": 0, "sample_id": "quiz.0", "type": "match", "data": {"correct": True}, "run_id": "r"},
        {"event_id": 1, "sample_id": "quiz.1", "type": "raw_sample", "data": {}, "run_id": "r"},
        {"event_id": 2, "sample_id": "quiz.1", "type": "error", "data": {"error": "timeout"}, "run_id": "r"},
        {"event_id": 3, "sample_id": "quiz.2", "type": "sampling", "data": {}, "run_id": "r"},
    ]
    runs = rf.read_runs(lines(tmp_path / "m.jsonl", [spec, *events, {"final_report": {}}]), "openai-evals")
    np.testing.assert_array_equal(runs.value("score"), [[1, 0, np.nan]])
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (3, 1, 2)


def test_a_task_in_which_every_call_failed_scores_the_worst(tmp_path):
    for task, failed in (("a", False), ("b", True)):
        log = inspect_log("m", [1.0, 1.0])
        log["eval"]["task"] = task
        for sample in log["samples"] if failed else ():
            fail(sample)
        (tmp_path / f"{task}.json").write_text(json.dumps(log))
    assert rf.read_runs(tmp_path).value("score").tolist() == [[1, 1, 0, 0]]


def test_the_account_survives_a_file_filters_and_choices(tmp_path):
    for model in ("m", "n"):
        log = inspect_log(model, [1.0, 0.0, 1.0])
        fail(log["samples"][0])
        log["samples"][1]["scores"] = {}
        log["samples"][1] |= {"model_usage": {}, "total_time": None}
        (tmp_path / f"{model}.json").write_text(json.dumps(log))
    runs = rf.read_runs(tmp_path)
    runs.save(tmp_path / "runs.parquet")
    again = rf.read_runs(tmp_path / "runs.parquet")
    assert again.intake == runs.intake
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (6, 2, 4)
    one = again.only(["m"])
    assert one.intake.left_out == {"other models": 3}
    one.save(tmp_path / "one.parquet")
    assert rf.read_runs(tmp_path / "one.parquet").intake == one.intake
    early = rf.read_runs(tmp_path, "inspect", where="model == m").intake
    late = rf.read_runs(tmp_path / "runs.parquet", where="model == m").intake
    assert early == late
    assert early.read == 6
    assert early.left_out == {"left out by a filter (where)": 3}


def test_rows_of_a_file_without_any_number_are_answers(tmp_path):
    frame = pd.DataFrame({"model": ["s", "s", "l"], "example": [0, 1, 0], "score": [1.0, np.nan, 0.0]})
    frame.to_parquet(tmp_path / "runs.parquet")
    intake = rf.read_runs(tmp_path / "runs.parquet").intake
    assert (intake.read, intake.used, intake.worst, intake.absent) == (3, 2, 1, 1)


def test_scores_that_are_missing_in_a_column_of_truth_values(tmp_path):
    frame = pd.DataFrame({"model": ["s", "s", "l", "l"], "example": [0, 1] * 2, "score": [True, None, False, True]})
    frame.to_parquet(tmp_path / "runs.parquet")
    np.testing.assert_array_equal(rf.read_runs(tmp_path / "runs.parquet").value("score"), [[1, np.nan], [0, 1]])


def test_answers_of_mlflow_that_were_not_scored_are_counted_and_latencies_kept(tmp_path):
    rows = {"request": ["a", "b", "c"], "state": ["OK", "OK", "ERROR"], "execution_duration": [1500, np.nan, 500]}
    pd.DataFrame({**rows, "exact/value": [1.0, np.nan, np.nan]}).to_csv(tmp_path / "m.csv", index=False)
    runs = rf.read_runs(tmp_path, "mlflow")
    np.testing.assert_array_equal(runs.value("score"), [[1, np.nan, 0]])
    np.testing.assert_array_equal(runs.value("latency"), [[1.5, np.nan, 0.5]])
    assert (runs.intake.read, runs.intake.used, runs.intake.worst) == (3, 1, 2)


ANSWERS = st.tuples(
    st.sampled_from(["s", "l"]),  # model
    st.integers(0, 3),  # example
    st.sampled_from(["scored", "failed", "unscored", "copy"]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.one_of(st.none(), st.floats(0, 1)),  # price
    st.sampled_from(["none", "strict"]),  # filter
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(ANSWERS, min_size=1, max_size=25))
def test_every_answer_is_used_or_counted_as_the_worst_or_left_out_for_a_reason(answers):
    records = [
        Record(
            {"model": model},
            "t",
            str(example),
            {"m": score} if kind == "scored" else {},
            {} if price is None else {"cost": price},
            repeat=number,
            variant=variant,
            failed=kind == "failed",
            left_out="copies" if kind == "copy" else None,
        )
        for number, (model, example, kind, score, price, variant) in enumerate(answers)
    ]
    kept = [answer for answer in answers if answer[2] != "copy" and answer[5] == "none"]
    if not any(kind == "scored" for _, _, kind, *_ in kept):
        return
    runs = gather(records, variant="none")
    cells = {(model, example): [] for model, example, *_ in kept}
    for answer in kept:
        cells[answer[:2]].append(answer)
    unknown = {cell for cell, found in cells.items() if any(kind == "unscored" for _, _, kind, *_ in found)}
    for (model, example), found in cells.items():
        at = runs.row(model), runs.examples["example"].tolist().index(str(example))
        scores = [{"failed": 0.0, "scored": score, "unscored": np.nan}[kind] for _, _, kind, score, *_ in found]
        prices = [np.nan if price is None else price for *_, price, _ in found]
        np.testing.assert_allclose(runs.value("score")[at], np.mean(scores))
        if "cost" in runs.values:
            np.testing.assert_allclose(runs.value("cost")[at], np.mean(prices))
    worst = sum(kind == "failed" or (model, example) in unknown for model, example, kind, *_ in kept)
    assert runs.intake.read == len(answers)
    assert runs.intake.worst == worst
    assert runs.intake.used == len(kept) - worst
    assert sum(runs.intake.left_out.values()) == len(answers) - len(kept)


def test_a_file_that_scores_failed_calls_does_not_make_them_right(tmp_path):
    frame = pd.DataFrame({"model": ["s", "s", "l", "l"], "example": [0, 1, 0, 1], "score": 1.0, "cost": 1.0})
    frame.assign(failed=[True, False, False, False]).to_parquet(tmp_path / "runs.parquet")
    assert rf.read_runs(tmp_path / "runs.parquet").value("score").ravel().tolist() == [0, 1, 1, 1]
    assert rf.read_runs(tmp_path / "runs.parquet", worst=-1).value("score").min() == -1
    frame.assign(failed=[True, False, False, False], score=5.0).to_parquet(tmp_path / "runs.parquet")
    assert np.isnan(rf.read_runs(tmp_path / "runs.parquet").value("score")).sum() == 1
