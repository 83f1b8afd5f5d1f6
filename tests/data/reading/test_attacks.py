"""What a hostile reviewer got past filters, folders and wide files."""

import zipfile
from decimal import Decimal
from pathlib import Path

import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import riskfront as rf
from riskfront._data.reading.column_roles import Layout
from riskfront._data.reading.opening import _suffix

N = 300
PROBLEM = rf.Problem(["error <= 0.1"], minimize="cost")


def frame() -> pd.DataFrame:
    data = pd.DataFrame(
        {"k": np.repeat([0, 1], N), "example": np.tile(np.arange(N), 2), "cost": np.repeat([1.0, 2.0], N)}
    )
    return data.assign(error=(data["example"] % 4 == 1) * 1.0)


def used(data: pd.DataFrame, where: str) -> int:
    return rf.read_table(data, PROBLEM, where=where)[0].intake.used


def test_a_list_means_what_its_values_mean_one_by_one() -> None:
    data = frame().assign(w=lambda d: (d["example"] % 4 * 0.1).astype(np.float32))
    assert used(data, "w in 0.0, 0.1") == used(data, "w <= 0.1") == N
    data = frame().assign(topic=lambda d: np.where(d["example"] % 2 == 0, "law, tax", "art"))
    assert used(data, "topic in 'law, tax', art") == 2 * N
    for typo in ("topic in art, lwa", "topic in law, tax, art"):
        with pytest.raises(rf.InvalidInputError, match="every value of a filter must occur"):
            used(data, typo)


def test_whole_numbers_stay_whole_and_decimals_are_numbers() -> None:
    data = frame().assign(uid=lambda d: d["example"] % 2 + 2**53)
    assert used(data, f"uid == {2**53 + 1}") == N
    assert used(data, f"uid in {2**53}, {2**53 + 1}") == 2 * N
    assert (
        used(data.assign(dec=[Decimal("8.00") if k % 2 else Decimal("4.00") for k in data["example"]]), "dec != 8") == N
    )
    assert used(data, "example <= 9.5") == 20


def test_a_word_that_tells_who_failed_is_an_outcome() -> None:
    data = frame().assign(error=lambda d: np.where(d["example"] % 3 == 0, np.nan, 0.0))
    data["status"] = np.where(data["error"].isna(), "fail", "ok")
    with pytest.raises(rf.InvalidInputError, match="'status' is an outcome, or computed from one"):
        used(data, "status == ok")


def test_no_part_of_a_folder_is_skipped(tmp_path: Path) -> None:
    data, names = frame(), ["p0.parquet", "p1.PARQUET", "part-without-a-name"]
    folder, linked = tmp_path / "data", tmp_path / "linked"
    for made in (folder, linked):
        made.mkdir()
    for part, name in enumerate(names):
        data[data["example"] % 3 == part].to_parquet(folder / "kept.parquet", index=False)
        (folder / "kept.parquet").rename(folder / name)
    (linked / "day").symlink_to(folder, target_is_directory=True)
    (folder / "back").symlink_to(folder, target_is_directory=True)  # a link in a circle is followed once
    for place in (folder, linked):
        assert rf.read_table(place, PROBLEM)[0].intake.read == 2 * N
    data.to_csv(folder / "more.csv", index=False)
    with pytest.raises(rf.InvalidInputError, match="must hold Parquet files alone"):
        rf.read_table(folder, PROBLEM)


def test_wide_columns_of_decimals_and_gaps_are_settings(tmp_path: Path) -> None:
    every_third = np.arange(N) % 3 == 0
    wide = pd.DataFrame(
        {
            "id": np.arange(N),
            "a": every_third * 1.0,
            "b": [None if gap else Decimal(0) for gap in every_third],
            "c": pd.array([None if gap else False for gap in every_third], dtype="boolean"),
        }
    )
    wide.to_parquet(tmp_path / "w.parquet", index=False)
    table, _ = rf.read_wide(tmp_path / "w.parquet", example_column="id", loss="error")
    assert table.n_configs == 3
    assert table.n_missing(["error"]) == 2 * 100


def test_a_partition_must_say_what_the_file_says(tmp_path: Path) -> None:
    data = frame()
    for k in (0, 1):
        (tmp_path / "same" / f"k={k}").mkdir(parents=True)
        (tmp_path / "other" / f"k={k}").mkdir(parents=True)
        data[data["k"] == k].to_parquet(tmp_path / "same" / f"k={k}" / "p.parquet")
        data[data["k"] == k].assign(k=1 - k).to_parquet(tmp_path / "other" / f"k={k}" / "p.parquet")
    assert rf.read_table(tmp_path / "same", PROBLEM)[0].n_configs == 2
    with pytest.raises(rf.InvalidInputError, match="a partition must say what the file says"):
        rf.read_table(tmp_path / "other", PROBLEM)
    (tmp_path / "same" / "more.arrow").write_bytes(b"ARROW1")
    with pytest.raises(rf.InvalidInputError, match="must hold Parquet files alone"):
        rf.read_table(tmp_path / "same", PROBLEM)


def test_a_folder_behind_a_url_loses_no_part(tmp_path: Path) -> None:
    remote, data = fsspec.filesystem("memory"), frame()
    for part, name in enumerate(["day=1/p0.parquet", "day=1/p1.PARQUET", "day=2/p2.parquet"]):
        with remote.open(f"/lake/{name}", "wb") as file:
            data[data["example"] % 3 == part].to_parquet(file)
    with remote.open("/lake/_temporary/p0.parquet", "wb") as file:
        data.to_parquet(file)
    for url in ("memory://lake", "memory://lake/", "memory://lake/*"):
        assert rf.read_table(url, PROBLEM)[0].intake.read == 2 * N
    data.to_parquet(tmp_path / "a.parquet", index=False)
    (tmp_path / "b").mkdir()
    data.assign(k=data["k"] + 2).to_parquet(tmp_path / "b" / "b.parquet", index=False)
    assert rf.read_table(f"{tmp_path}/*", PROBLEM)[0].intake.read == 4 * N  # a folder that a pattern names counts


def test_names_of_examples_are_never_rounded(tmp_path: Path) -> None:
    long_names = frame().assign(example=lambda d: [str(10**24 + i) for i in d["example"]])
    long_names.to_csv(tmp_path / "long.csv", index=False)
    for data in (tmp_path / "long.csv", frame().assign(example=lambda d: d["example"].astype("float32") + 2**25)):
        with pytest.raises(rf.InvalidInputError, match=r"names of examples must be exact|different numbers of rows"):
            rf.read_table(data, PROBLEM)
    layout = Layout(("k",), "example")
    with pytest.raises(rf.InvalidInputError, match="names of examples must be exact"):
        rf.read_table(frame().assign(example=lambda d: d["example"] + 2.0**53), PROBLEM, layout=layout)


def test_columns_of_any_kind_that_arrow_hands_over() -> None:
    categories = pl.from_pandas(frame()).with_columns(pl.col("k").cast(pl.String).cast(pl.Categorical))
    runs = pa.Table.from_pandas(frame())
    runs = runs.set_column(0, "k", pc.run_end_encode(runs.column("k").combine_chunks()))
    for data in (categories, runs):
        assert rf.read_table(data, PROBLEM)[0].intake.used == 2 * N
    with pytest.raises(rf.InvalidInputError, match="must hold numbers, texts or truth values; 'example' holds list"):
        rf.read_table(frame().assign(example=[[i] for i in frame()["example"]]), PROBLEM)


def test_a_csv_file_changes_its_types_and_its_rows_grow(tmp_path: Path) -> None:
    """Types are looked for in several places; what no place shows is found while reading."""
    data = pd.concat([frame().assign(k=lambda d, at=at: d["k"] + 2 * at) for at in range(200)], ignore_index=True)
    data["cost"] = np.where(data.index == 41_111, 0.5, 1)
    data["note"] = "a text as people write it, of some sixty characters or a few more"
    data.loc[70_000, "note"] = "x" * 2_000_000  # a row is longer than what is parsed at a time
    path = tmp_path / "rows.csv"
    data.assign(cost=data["cost"].map("{:g}".format)).to_csv(path, index=False)
    table, _ = rf.read_table(path, PROBLEM, layout=Layout(("k",), "example"))
    assert table.intake.read == len(data)
    assert table.losses("error").sum() == data["error"].sum()
    assert table.losses("cost").sum() == data["cost"].sum()


def test_a_word_among_the_outcomes_of_a_wide_file_is_no_reason_to_leave_the_setting_out(tmp_path: Path) -> None:
    wide = pd.DataFrame({"id": np.arange(N), "a": np.arange(N) % 2, "b": ["timeout"] + ["1"] * (N - 1)})
    wide.to_csv(tmp_path / "w.csv", index=False)
    with pytest.raises(rf.InvalidInputError, match="'b' has 'timeout' in row 0"):
        rf.read_wide(tmp_path / "w.csv", example_column="id", loss="error")


def test_a_filter_by_the_measured_mean_of_each_setting_is_refused() -> None:
    rng = np.random.default_rng(0)
    level = np.linspace(0.02, 0.4, 40)
    error = rng.random((40, 2000)) < level[:, None]
    data = pd.DataFrame(
        {"k": np.repeat(level, 2000), "example": np.tile(np.arange(2000), 40), "error": error.ravel() * 1}
    )
    data["cost"] = 1 - data["k"]
    mean = data.groupby("k")["error"].transform("mean")
    stated = {
        "wrong": data.groupby("k")["error"].transform("sum"),
        "accuracy": 1 - mean,
        "percent": (100 * mean).round(2),
        "rounded": mean.round(4),
    }
    for name, values in stated.items():
        with pytest.raises(rf.InvalidInputError, match=f"'{name}' is an outcome, or computed from one"):
            rf.read_table(data.assign(**{name: values}), PROBLEM, where=f"{name} >= 0")
    # a knob that explains its mean as well as a knob can is none
    assert rf.read_table(data, PROBLEM, where="k <= 0.2")[0].n_configs == int((level <= 0.2).sum())


@pytest.mark.parametrize("examples", [60, 14_000])
def test_a_rank_on_each_example_is_not_taken_for_a_setting(examples: int) -> None:
    """The model that ranks first on each example is right whenever one is: in a large file its "error" was certified."""
    rng = np.random.default_rng(0)
    wrong = rng.random((10, examples)) < 0.3
    rank = np.argsort(np.argsort(wrong + 0.5 * rng.random(wrong.shape), axis=0), axis=0)
    data = pd.DataFrame(
        {
            "model": np.repeat([f"m{i}" for i in range(10)], examples),
            "rank": rank.ravel(),
            "example": np.tile(np.arange(examples), 10),
            "error": wrong.ravel() * 1,
            "cost": rng.random(wrong.size),
        }
    )
    for columns in (list(data.columns), list(data.columns)[1::-1] + list(data.columns)[2:]):
        with pytest.raises(rf.InvalidInputError, match=r"is '(rank|model)' or '(model|rank)' the setting"):
            rf.read_table(data[columns], PROBLEM)
    table, layout = rf.read_table(data, PROBLEM, layout=Layout(("model",), "example"))
    assert (layout.config_columns, table.n_configs) == (("model",), 10)
    assert rf.read_table(data.drop(columns="rank"), PROBLEM)[1].config_columns == ("model",)


def test_a_folder_with_older_versions_of_its_rows_is_refused(tmp_path: Path) -> None:
    remote = fsspec.filesystem("memory")
    for folder in (tmp_path / "lake", tmp_path / "lake" / "_delta_log"):
        folder.mkdir()
    frame().to_parquet(tmp_path / "lake" / "p0.parquet")
    (tmp_path / "lake" / "_delta_log" / "0.json").write_text("{}")
    with remote.open("/delta/_delta_log/0.json", "w") as file:
        file.write("{}")
    with remote.open("/delta/p0.parquet", "wb") as file:
        frame().to_parquet(file)
    for path in (tmp_path / "lake", f"{tmp_path}/l*", "memory://delta"):
        with pytest.raises(
            rf.InvalidInputError, match="has a '_delta_log', and beside the current files those of older"
        ):
            rf.read_table(path, PROBLEM)


def test_urls_with_a_query_and_members_of_an_archive_are_read(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "losses.csv", index=False)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "losses.csv", "losses.csv")
    table, _ = rf.read_table(f"zip://losses.csv::file://{tmp_path}/a.zip", PROBLEM)
    assert table.intake.read == 2 * N
    assert _suffix("https://host/losses.csv.gz?signature=a.b/c") == ".csv"
    assert _suffix("what?.csv") == ".csv"  # a file may be called so


def test_a_setting_that_failed_on_every_example_counts_as_the_worst(tmp_path: Path) -> None:
    about = pd.DataFrame({"name": ["a", "b"], "cost": [1.0, 2.0]})
    wide = pd.DataFrame({"a": np.zeros(N), "b": [None] * N})
    wide.to_csv(tmp_path / "w.csv", index=False)
    pq.write_table(pa.Table.from_pandas(wide), tmp_path / "w.parquet")
    for name in ("w.csv", "w.parquet"):
        table, _ = rf.read_wide(tmp_path / name, PROBLEM, settings=about)
        assert (table.n_configs, table.n_missing(["error"])) == (2, N)
        with pytest.warns(rf.LeftOutWarning, match="'b' has no value in any row and was left out"):
            assert rf.read_wide(tmp_path / name, loss="error")[0].n_configs == 1
    empty = frame().assign(error=None)
    empty.to_csv(tmp_path / "long.csv", index=False)
    for data in (empty, tmp_path / "long.csv"):
        assert rf.read_table(data, PROBLEM)[0].n_missing(["error"]) == 2 * N


def test_settings_that_are_decimals_of_sql_are_numbers(tmp_path: Path) -> None:
    relation = duckdb.sql(
        "select 0.1 * a as k, b as example, b % 9 = 0 as error, 1.5 + a as cost from range(3) t(a), range(300) u(b)"
    )
    relation.write_parquet(str(tmp_path / "d.parquet"))
    for data in (relation, tmp_path / "d.parquet"):
        table, _ = rf.read_table(data, PROBLEM)
        assert table.configs["k"].tolist() == pytest.approx([0, 0.1, 0.2])
