"""Long tables: what is detected, what is said, and that values end up where they belong."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.reading.column_roles import Layout
from riskfront._data.reading.sources import read_table


def frame(seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        {
            "id": f"x{i}",
            "model": model,
            "effort": effort,
            "error": int(rng.random() < 0.3),
            "cost": rng.random(),
            "label": i % 3,
            "note": "n",
        }
        for i in range(20)
        for model in ("small", "large")
        for effort in (1, 2, 5)
    ]
    return pd.DataFrame(rows)


PROBLEM = rf.Problem([rf.Limit("error", at_most=0.5, per="label")], minimize=["cost"])


def test_roles_are_detected_in_any_row_order():
    shuffled = frame().sample(frac=1, random_state=1)
    for data in (frame(), shuffled):
        table, layout = rf.read_table(data, PROBLEM)
        assert layout == Layout(("model", "effort"), "id", ("label",), ("error", "cost"))
        assert (table.n_configs, table.n_examples) == (6, 20)


def test_every_value_lands_in_its_cell():
    data = frame().sample(frac=1, random_state=2)
    table, _ = rf.read_table(data, PROBLEM)
    examples = pd.unique(data["id"])
    by_key = data.set_index(["model", "effort", "id"])
    for row in range(table.n_configs):
        config = table.config(row)
        wanted = by_key.loc[[(config["model"], config["effort"], name) for name in examples]]
        np.testing.assert_array_equal(table.losses("error")[row], wanted["error"].to_numpy(dtype=bool))
        np.testing.assert_array_equal(table.losses("cost")[row], wanted["cost"].to_numpy())
    labels = data.drop_duplicates("id").set_index("id").loc[examples, "label"]
    assert [table.group("label").levels[code] for code in table.group("label").codes] == labels.tolist()


def test_a_loss_nobody_mentions_is_no_setting():
    table, layout = rf.read_table(frame(), rf.Problem([rf.Limit("cost", at_most=0.9)], minimize=["cost"]))
    assert layout.config_columns == ("model", "effort")
    assert "error" not in table.loss_names


def test_a_condition_that_depends_on_the_setting_is_stored_like_a_loss():
    data = frame()
    data["answered"] = (np.arange(len(data)) % 5 > 0).astype(int)
    data["hard"] = data["label"].eq(2).astype(int)
    limits = [rf.Limit("error", at_most=0.5, given="answered"), rf.Limit("error", at_most=0.6, given="hard")]
    table, layout = rf.read_table(data, rf.Problem(limits, minimize=["cost"]))
    assert "answered" in layout.loss_columns
    assert "hard" in layout.group_columns
    total = table.totals(limits[1].term)
    assert total.n.tolist() == [[6]]


def test_columns_can_be_named():
    data = frame().rename(columns={"id": "question text"})
    _, layout = rf.read_table(data, PROBLEM, layout=Layout(("model", "effort"), "question text"))
    assert layout.example_column == "question text"


def test_without_a_problem_every_varying_number_is_a_loss():
    table, layout = rf.read_table(frame())
    assert layout.loss_columns == ("error", "cost")
    assert table.n_configs == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.assign(label=np.where(d.index == 3, np.nan, d["label"])), "one value for each example"),
        (
            lambda d: d.assign(model=np.where(d.index == 3, None, d["model"])),
            "leave out columns that are no settings",
        ),
        (lambda d: d.assign(id=np.where(d.index == 3, None, d["id"])), "value for 'id'"),
        (lambda d: d.drop(columns="error"), "no column 'error'"),
        (lambda d: d[["error", "cost", "label"]], "cannot tell which column"),
    ],
)
def test_what_is_wrong_is_said(change, words):
    with pytest.raises(rf.InvalidInputError, match=words):
        rf.read_table(change(frame()), PROBLEM)


def test_a_binary_loss_stored_as_decimals_can_be_declared(tmp_path):
    frame().assign(error=lambda d: d["error"].astype(float)).to_csv(tmp_path / "t.csv", index=False)
    assert not read_table(tmp_path / "t.csv", PROBLEM)[0].is_binary("error")
    assert read_table(tmp_path / "t.csv", PROBLEM, binary=["error"])[0].is_binary("error")


def test_parquet_and_csv_give_one_fingerprint(tmp_path):
    frame().to_csv(tmp_path / "t.csv", index=False)
    frame().to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.csv", PROBLEM)[0].sha256 == read_table(tmp_path / "t.parquet", PROBLEM)[0].sha256


def two_tasks() -> pd.DataFrame:
    """Examples of two tasks that are both numbered from 0, as evaluation tools write them."""
    parts = [frame().assign(task=task) for task in ("arc", "mbpp")]
    return pd.concat(parts, ignore_index=True)


def test_a_task_is_not_taken_for_a_setting_without_asking():
    with pytest.raises(rf.InvalidInputError) as caught:
        rf.read_table(two_tasks(), PROBLEM)
    said = str(caught.value)
    assert said.startswith(
        "is 'task' a setting? It would count as one: every 'id' has rows for each of its 2 values (arc, mbpp)."
    )
    assert "call it by another name, such as 'task_setting'" in said
    assert "keep the rows of one task, or name the examples by task and id together" in said


def test_a_task_that_is_named_is_a_setting_and_one_that_describes_examples_is_no_question():
    named, layout = rf.read_table(two_tasks(), PROBLEM, layout=Layout(("model", "effort", "task")))
    assert named.n_configs == 12
    assert layout.config_columns == ("model", "effort", "task")
    apart = two_tasks().assign(id=lambda rows: rows["task"] + rows["id"])
    table, layout = rf.read_table(apart, rf.Problem([rf.Limit("error", at_most=0.5, per="task")], minimize=["cost"]))
    assert layout.config_columns == ("model", "effort")
    assert table.group("task").levels == ("arc", "mbpp")
    one, layout = rf.read_table(two_tasks().query("task == 'arc'"), PROBLEM)
    assert layout.config_columns == ("model", "effort")
    assert one.n_examples == 20
