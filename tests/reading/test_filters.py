"""Filters, keys of several columns and missing outcomes of long tables."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.reading.column_roles import Layout
from riskfront.reading.filters import Filter
from riskfront.reading.long_format import from_long
from tests.reading.test_long_format import PROBLEM, frame


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("name == a b", [0]),
        ("name = 'a b'", [0]),
        ("`long name` >= 2", [1, 2]),
        ("long name in 1, 3", [0, 2]),
        ("name in a b, c", [0, 2]),
        ("name != c", [0, 1]),
        ("empty > 0", [1]),
        ("yes == True", [0, 2]),
    ],
)
def test_what_filters_keep(text, rows):
    data = pd.DataFrame(
        {"name": ["a b", "b", "c"], "long name": [1, 2, 3], "empty": [np.nan, 1, -1], "yes": [True, False, True]}
    )
    assert np.flatnonzero(Filter.parse(text).kept(data)).tolist() == rows


@pytest.mark.parametrize(
    ("text", "words"), [("model", "read like"), ("model < b", "holds texts"), ("effort == x", "holds numbers")]
)
def test_filters_that_make_no_sense(text, words):
    with pytest.raises(rf.InvalidInputError, match=words):
        from_long(frame(), PROBLEM, where=text)


def test_examples_and_settings_are_filtered():
    table, _ = from_long(frame(), PROBLEM, where=["label in 0, 2", "effort >= 2"])
    assert sorted(table.configs["effort"].unique()) == [2, 5]
    assert table.n_examples == 13
    with pytest.raises(rf.InvalidInputError, match="must leave some rows"):
        from_long(frame(), PROBLEM, where="label == 9")


@pytest.mark.parametrize("column", ["error", "cost", "latency"])
def test_no_filter_by_outcome(column):
    """Whoever drops the rows that went wrong could certify anything."""
    data = frame().assign(latency=np.random.default_rng(0).random(120))
    layout = Layout(("model", "effort"), "id")
    with pytest.raises(rf.InvalidInputError, match=f"'{column}' is an outcome"):
        from_long(data, PROBLEM, layout, where=f"{column} <= 0.5")


def test_two_columns_name_an_example():
    data = frame().assign(part=lambda d: np.where(d["label"] == 0, "x,1", "x"), number=lambda d: d["id"].str[1:])
    data["number"] = np.where(data["label"] == 0, "2", "1,2")  # joined by a comma all would be "x,1,2"
    data["copy"] = data["id"]
    table, layout = from_long(data.drop(columns="id"), PROBLEM, Layout(("model", "effort"), "part,number,copy"))
    assert table.n_examples == 20
    assert layout.example_column == "part,number,copy"
    two = from_long(
        data.drop_duplicates(["part", "number", "model", "effort"]).drop(columns=["id", "copy", "label"]),
        rf.Problem(["error <= 0.5"], minimize="cost"),
        Layout(("model", "effort"), "part,number"),
    )[0]
    assert two.n_examples == 2
    with pytest.raises(rf.InvalidInputError, match="no column 'y'"):
        from_long(data, PROBLEM, Layout((), "part,y"))


@pytest.mark.parametrize("how", ["row", "value"])
def test_settings_with_missing_outcomes_are_left_out_and_named(how):
    data = frame()
    data = data.drop(index=7) if how == "row" else data.assign(cost=data["cost"].where(data.index != 7))
    with pytest.warns(rf.LeftOutWarning, match=r"1 of 6 settings.*'model': 'small', 'effort': 2\} \(1 missing\)"):
        table, _ = from_long(data, PROBLEM, Layout(("model", "effort"), "id"))
    assert (table.n_configs, table.n_examples) == (5, 20)
    full, _ = from_long(frame(), PROBLEM)
    kept = [row for row in range(6) if full.config(row) in [table.config(r) for r in range(5)]]
    for name in ("error", "cost"):
        np.testing.assert_array_equal(table.losses(name), full.losses(name)[kept])


def test_nothing_complete_is_an_error():
    data = frame()[lambda d: ~((d["id"] == "x1") & (d["effort"] == 1)) & ~((d["id"] == "x2") & (d["effort"] > 1))]
    with pytest.raises(rf.InvalidInputError, match="some setting must have an outcome on every example; none has"):
        from_long(data, PROBLEM, Layout(("model", "effort"), "id"))
