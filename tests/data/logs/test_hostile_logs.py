"""Logs that would give a false certificate, or lose something without a word: each is a sentence, or is counted."""

import json

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.logs.runs import Runs
from tests.data.logs.made import inspect_log, promptfoo


def change_rows(folder, change):
    for path in folder.glob("*.json"):
        log = json.loads(path.read_text())
        for row in log["results"]["results"]:
            change(row)
        path.write_text(json.dumps(log))
    return folder


@pytest.mark.parametrize("cost", ["$0.01", "0,01", "1 cent"])
def test_a_price_that_is_a_text_is_no_missing_price(cost, tmp_path):
    folder = change_rows(promptfoo(tmp_path / "logs"), lambda row: row.update(cost=cost))
    with pytest.raises(rf.InvalidInputError, match=r"\.json': the cost of an answer must be a number.*got the text"):
        rf.read_runs(folder)


def test_a_price_that_is_spelled_as_a_text_is_a_price(tmp_path):
    folder = change_rows(promptfoo(tmp_path / "logs"), lambda row: row.update(cost="0.25"))
    np.testing.assert_array_equal(rf.read_runs(folder).value("cost"), 0.25)


@pytest.mark.parametrize("unknown", [None, "", 0])
def test_a_price_that_is_not_known_is_missing(unknown, tmp_path):
    folder = change_rows(promptfoo(tmp_path / "logs"), lambda row: row.update(cost=unknown))
    assert "cost" not in rf.read_runs(folder).values


def test_names_that_people_gave_must_name_one_question_too(tmp_path):
    for model, asked in (("small", ["A?", "B?"]), ("large", ["B?", "A?"])):
        log = inspect_log(model, [1.0, 0.0])
        for sample, question in zip(log["samples"], asked, strict=True):
            sample["input"] = question
        (tmp_path / f"{model}.json").write_text(json.dumps(log))
    with pytest.raises(rf.InvalidInputError, match="one id must name one question in all runs; example 'q0'"):
        rf.read_runs(tmp_path)


def test_an_error_beside_a_grade_is_a_failed_call(tmp_path):
    def change(row):
        if row["provider"]["id"] == "large":
            row |= {"error": "status 500", "score": 1, "failureReason": 0}

    runs = rf.read_runs(change_rows(promptfoo(tmp_path / "logs"), change))
    assert runs.value("score")[runs.row("large")].tolist() == [0.0] * 4
    assert runs.value("failed")[runs.row("large")].tolist() == [1.0] * 4


def _with_prompts(names, prompts, seed=0):
    rng = np.random.default_rng(seed)
    n = len(set(prompts))
    of = {prompt: k for k, prompt in enumerate(dict.fromkeys(prompts))}
    at = [of[prompt] for prompt in prompts]
    score = (rng.random((2, n)) < 0.7).astype(float)[:, at]
    examples = pd.DataFrame({"example": names, "prompt": prompts, "length": [len(prompt) for prompt in prompts]})
    cost = np.tile(np.array([[1.0], [10.0]]), (1, len(prompts)))
    return Runs(pd.DataFrame({"model": ["small", "large"]}), examples, {"score": score, "cost": cost})


def _table(tmp_path, **columns):
    names = columns.pop("example", [*range(80)])
    n = len(names)
    rng = np.random.default_rng(0)
    score = np.tile((rng.random((2, 80)) < 0.7).astype(float), (1, n // 80))
    parts = [
        pd.DataFrame({"model": m, "example": names, "score": score[k], "cost": 10.0**k, "logprob": 0.5, **columns})
        for k, m in enumerate(("small", "large"))
    ]
    found = pd.concat(parts, ignore_index=True)
    found.to_csv(tmp_path / "runs.csv", index=False)
    return found


def test_a_table_must_ask_all_models_the_same(tmp_path):
    frame = _table(tmp_path, question=[f"How much is {k} and {k}?" for k in range(80)])
    assert rf.read_runs(tmp_path / "runs.csv").n_examples == 80
    frame.loc[3, "question"] = "Why?"
    frame.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(rf.InvalidInputError, match="1 have several in the column 'question', such as 3"):
        rf.read_runs(tmp_path / "runs.csv")


def test_prompts_of_few_kinds_that_repeat_by_chance_are_no_copies():
    rng = np.random.default_rng(1)
    prompts = [f"{a} and {b}?" for a, b in rng.integers(0, 6, (400, 2))]
    rf.Router(_with_prompts(list(range(400)), prompts))


AGAIN = [*range(80), *(f"again {k}" for k in range(80))]
QUESTIONS = [f"How much is {k} and {k}?" for k in range(80)] * 2


def rows(**columns):
    """Six outcomes of two models, some of them changed."""
    return lambda folder: pd.DataFrame(
        {"model": list("aaabbb"), "example": [*range(3)] * 2, "score": 1.0, "cost": 1.0, "latency": 1.0} | columns
    ).to_csv(folder / "runs.csv", index=False)


def with_text(name, text):
    return rows(**{name: [1.0, 1.0, text, 1.0, 1.0, 1.0]}), f"'{name}' must hold .*; 1 of 6 rows hold texts, .*{text}"


def copied(name, known_of_one_model=False):
    def write(folder):
        frame = _table(folder, example=AGAIN, **{name: QUESTIONS})
        if known_of_one_model:
            frame.loc[frame["model"] == "small", name] = None
        frame.to_csv(folder / "runs.csv", index=False)

    return write, "of 160 examples 80 have the prompt and all numbers of another"


REFUSED = {
    "a text among costs": with_text("cost", "1 cent"),
    "a text among scores": with_text("score", "error"),
    "a text among latencies": with_text("latency", "1.2 s"),
    "a row twice": (rows(example=[0, 0, 1, 0, 1, 2]), "example 0 comes more than once for model = a"),
    "copies under other names": copied("prompt"),
    "copies of questions under other names": copied("question"),
    "copies whose prompt is known of one model": copied("prompt", known_of_one_model=True),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_tables(case, tmp_path):
    write, words = REFUSED[case]
    write(tmp_path)
    before = (tmp_path / "runs.csv").read_text()
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.Cascade(rf.read_runs(tmp_path / "runs.csv"), confidence="logprob", thresholds=[0.5])
    assert (tmp_path / "runs.csv").read_text() == before


@pytest.mark.parametrize("kind", [rf.Cascade, rf.Router])
def test_a_log_that_was_copied_under_other_names_is_refused(kind):
    with pytest.raises(rf.InvalidInputError, match="of 160 examples 80 have the prompt and all numbers of another"):
        kind(_with_prompts(AGAIN, QUESTIONS))
