"""Wide tables: one column a setting."""

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.reading.wide_format import read_wide
from tests.support.tables import from_wide

PROBLEM = rf.Problem(["score drop <= 0.1"], minimize="bits", reference="full")


def wide(n=400, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.random(n)
    columns = {f"q{bits}": (u < 0.8 - 0.5 / bits).astype(float) for bits in (2, 4, 8)}
    return pd.DataFrame({"id": np.arange(n), "subset": np.where(u < 0.5, "a", "b"), "full": (u < 0.8) * 1.0, **columns})


def settings():
    return pd.DataFrame(
        {"note": ["x"] * 4, "config": ["q2", "q4", "q8", "full"], "bits": [2, 4, 8, 16], "k": [1, 2, 3, np.nan]}
    )


def test_cells_and_settings_come_together(tmp_path):
    wide().to_csv(tmp_path / "wide.csv", index=False)
    settings().to_csv(tmp_path / "settings.csv", index=False)
    table, layout = read_wide(tmp_path / "wide.csv", PROBLEM, example_column="id", settings=tmp_path / "settings.csv")
    assert table.config(3) == {"config": "full", "note": "x", "bits": 16, "k": "none"}
    assert table.loss_names == ["score"]
    np.testing.assert_array_equal(table.losses("score")[1], wide()["q4"])
    assert layout.example_column == "id"
    certificate = rf.calibrate(table, PROBLEM)
    assert certificate.config["bits"] < 16


def test_without_settings_every_column_of_numbers_is_one():
    table, _ = from_wide(wide(), rf.Problem(["score >= 0.3 per subset"], maximize="score"), example_column="id")
    assert table.configs["setting"].tolist() == ["full", "q2", "q4", "q8"]
    assert table.group("subset").levels == ("a", "b")


def test_filters_of_settings_and_of_examples():
    table, _ = from_wide(wide(), PROBLEM, settings=settings(), example_column="id", where=["bits >= 4", "subset == a"])
    assert table.configs["config"].tolist() == ["q4", "q8", "full"]
    assert table.n_examples == (wide()["subset"] == "a").sum()
    with pytest.raises(rf.InvalidInputError, match="'full' is an outcome"):
        from_wide(wide(), PROBLEM, settings=settings(), where="full == 1")


def test_a_key_of_several_columns():
    frame = wide().assign(id=lambda d: d.groupby("subset").cumcount())
    with pytest.raises(rf.InvalidInputError, match=r"id = 0 comes more than once\. Several columns"):
        from_wide(frame, PROBLEM, settings=settings(), example_column="id")
    table, _ = from_wide(frame, PROBLEM, settings=settings(), example_column="subset,id")
    assert table.n_examples == len(frame)


def test_empty_cells_are_missing_outcomes():
    frame = wide()
    frame.loc[3, "q4"] = np.nan
    frame.loc[7, ["full", "q2", "q4", "q8"]] = np.nan
    table, _ = from_wide(frame, PROBLEM, settings=settings(), example_column="id")
    assert (table.n_configs, table.n_examples) == (4, 400)
    assert int(np.isnan(table.losses("score")).sum()) == 5
    assert table.n_missing(["score"]) == 5
    assert table.intake.read == table.intake.used == 1600


def test_settings_without_a_column_are_left_out_and_named():
    with pytest.warns(rf.LeftOutWarning, match="no column in the wide table and were left out: q4"):
        from_wide(wide().drop(columns="q4"), PROBLEM, settings=settings(), example_column="id")


def test_types_decide_the_test():
    whole = wide().astype(dict.fromkeys(["full", "q2", "q4", "q8"], int))
    assert from_wide(whole, PROBLEM, settings=settings(), example_column="id")[0].is_binary("score")
    assert not from_wide(wide(), PROBLEM, settings=settings(), example_column="id")[0].is_binary("score")
    assert from_wide(wide(), PROBLEM, settings=settings(), example_column="id", binary=["score"])[0].is_binary("score")


TWO_LOSSES = rf.Problem(["score >= 0.2"], minimize="cost")
REFUSED = {
    "a text among outcomes": (wide().assign(q4="good"), settings(), PROBLEM, "'q4' has 'good' in row 0"),
    "settings of other columns": (wide(), settings().assign(config="x"), PROBLEM, "none does"),
    "a setting twice": (wide(), settings().assign(config=["q2", "q2", "q8", "full"]), PROBLEM, "'q2' comes more than"),
    "an example twice": (wide().assign(id=1), settings(), PROBLEM, "comes more than once"),
    "two losses": (wide(), settings(), TWO_LOSSES, "hold one loss; the problem mentions score, cost"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    cells, described, problem, words = REFUSED[case]
    with pytest.raises(rf.InvalidInputError, match=words):
        from_wide(cells, problem, settings=described, example_column="id")


def test_an_objective_computed_from_the_outcomes_is_refused():
    rng, problem = np.random.default_rng(0), rf.Problem(["score >= 0.2"], maximize="quality")
    cells = pd.DataFrame({f"s{i}": rng.random(50) < i / 10 for i in range(8)})
    about = pd.DataFrame({"config": cells.columns, "quality": 100 * cells.mean().to_numpy()})
    with pytest.raises(rf.InvalidInputError, match="'quality' follows the mean outcome"):
        from_wide(cells, problem, settings=about)
    from_wide(cells, problem, settings=about.assign(quality=[3, 1, 2, 9, 4, 7, 5, 1]))
    few = wide()[["q2", "q4", "q8", "full"]].mean().to_numpy()  # four settings are too few to tell
    from_wide(wide(), PROBLEM, settings=settings().assign(bits=few), example_column="id")
