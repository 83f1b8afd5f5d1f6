"""The law of the intake: an outcome that was recorded, or that failed, is never lost because of another column, another
setting, another row or a type. Rows read = rows used + rows counted as the worst + rows left out for a declared reason."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riskfront as rf
from riskfront._data.reading import long_format, on_disk
from riskfront._data.reading.column_roles import Layout
from tests.support.tables import from_wide

LAYOUT = Layout(("model", "knob"), "example", ("label",))
PROBLEM = rf.Problem(["error <= 0.5", "error <= 0.9 per label"], minimize="cost")


@st.composite
def outcomes(draw: Any) -> pd.DataFrame:
    """A long table with gaps in every column of outcomes, absent rows, any order, several types."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    frame = pd.DataFrame(
        [{"model": "ab"[k % 2], "knob": k // 2, "example": f"x{i}", "label": i % 2} for k in range(m) for i in range(n)]
    )
    frame["error"] = random.random(len(frame)) < 0.4
    frame["cost"] = random.random(len(frame))
    kind = draw(st.sampled_from(["boolean", "Int8", "Int64", "float32", "float64", "object"]))
    error = frame["error"].astype("float64")
    error[random.random(len(frame)) < draw(st.sampled_from([0, 0.1, 0.6]))] = np.nan
    frame["error"] = error.map(lambda v: None if v != v else bool(v)) if kind == "object" else error.astype(kind)
    frame["cost"] = frame["cost"].where(random.random(len(frame)) >= draw(st.sampled_from([0, 0.2, 1])))
    frame["cost"] = frame["cost"].astype(draw(st.sampled_from(["float32", "float64"])))
    absent = random.random(len(frame)) < draw(st.sampled_from([0, 0.2]))
    absent[0] = False
    frame = frame[~absent]
    return frame.sample(frac=1, random_state=draw(st.integers(0, 99)), ignore_index=True)


def _through(door: str, frame: pd.DataFrame, folder: Path) -> Any:
    if door == "pandas":
        return frame
    if door == "polars":
        return pl.from_pandas(frame)
    if door == "arrow":
        return pa.Table.from_pandas(frame)
    if door == "duckdb":
        connection = duckdb.connect()
        connection.register("frame", frame)
        return connection.sql("select * from frame")
    if door == "parts":
        for part in range(3):
            frame.iloc[part::3].to_parquet(folder / f"part-{part}.parquet")
        return folder
    if door in ("hive", "on disk"):
        for model, own in frame.groupby("model"):
            (folder / f"model={model}").mkdir()
            own.drop(columns="model").to_parquet(folder / f"model={model}" / "part-0.parquet")
        return folder
    if door == "url":
        remote = fsspec.filesystem("memory")
        remote.rm("/law", recursive=True) if remote.exists("/law") else None
        for part in range(2):
            with remote.open(f"/law/part-{part}.parquet", "wb") as file:
                frame.iloc[part::2].to_parquet(file)
        return "memory://law"
    path = folder / f"rows.{door}"
    writers = {"parquet": frame.to_parquet, "csv": frame.to_csv, "csv.gz": frame.to_csv}
    if door == "jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        writers[door](path, index=False)
    return path


DOORS = ["pandas", "polars", "arrow", "duckdb", "parquet", "csv", "csv.gz", "jsonl", "parts", "hive", "url", "on disk"]


@pytest.mark.parametrize("door", DOORS)
@settings(max_examples=10, deadline=None)
@given(frame=outcomes())
def test_every_row_is_accounted_for(door: str, frame: pd.DataFrame) -> None:
    errors = frame["error"].astype("object").map(lambda value: np.nan if pd.isna(value) else float(value)).astype(float)
    if door in ("csv", "csv.gz", "jsonl") and (errors.isna().all() or frame["cost"].isna().all()):
        return  # a text file cannot say what an empty column would have held
    if frame["error"].dtype == object and errors.isna().all():
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        memory = 0 if door == "on disk" else long_format.IN_MEMORY
        with (
            mock.patch.object(long_format, "IN_MEMORY", memory),
            mock.patch.object(on_disk, "_PIECE_ROWS", 7),
            mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cache}),
        ):
            table, _ = rf.read_table(_through(door, frame, Path(folder)), PROBLEM, layout=LAYOUT)
        assert table.is_lazy == (door == "on disk")
        _check(table, frame.assign(error=errors))


@st.composite
def fates(draw: Any) -> np.ndarray:
    """(settings, examples): what becomes of each call: 0 right, 1 wrong, 2 no outcome, 3 it crashes."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 4)), draw(st.integers(4, 30))
    share = draw(st.sampled_from([0, 0.05, 0.3]))
    return random.choice(4, size=shape, p=[0.7 * (1 - 2 * share), 0.3 * (1 - 2 * share), share, share])


def _losses_of(fate: np.ndarray, kind: str) -> Any:
    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        own = fate[config["k"], np.asarray(examples, dtype=int)]
        if (own == 3).any():
            raise TimeoutError("no answer")
        error = np.where(own == 2, np.nan, own).astype(kind)
        return {"error": error, "cost": np.where(own == 2, np.nan, 1.0 + config["k"])}

    return losses


@pytest.mark.parametrize("store", [False, True])
@settings(max_examples=10, deadline=None)
@given(fate=fates(), kind=st.sampled_from(["float32", "float64"]))
def test_calls_that_fail_keep_the_law(store: bool, fate: np.ndarray, kind: str) -> None:
    """evaluate and its store: a call without an outcome is the worst there is, at its setting and example alone."""
    fate[:, 0] = 0  # a setting that crashes everywhere is left out, and said to be
    m, n = fate.shape
    problem = rf.Problem("error <= 0.5", minimize="cost")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        options: dict[str, Any] = {"on_error": "skip", "progress": False, "bounds": {"cost": (0, 10)}}
        path = f"{folder}/run.zarr" if store else None
        made = rf.evaluate(_losses_of(fate, kind), np.arange(n), [{"k": k} for k in range(m)], store=path, **options)
        table = rf.LossStore(path).table() if path else made
        if table.n_configs < m:  # crashes on so many examples that they were not told apart count as everywhere
            return
        certificate = rf.calibrate(table, problem, method="bonferroni")
        assert rf.verify(certificate, table) == []
    for _, row in certificate.path.iterrows():
        assert row["error"] * n == pytest.approx(np.count_nonzero(fate[row["k"]]))
    intake = certificate.intake
    assert intake.read == intake.used + intake.worst + sum(intake.left_out.values()) == m * n
    assert intake.worst == np.count_nonzero(fate >= 2)


@settings(max_examples=10, deadline=None)
@given(fate=fates(), repeats=st.sampled_from(["refuse", "keep-one"]))
def test_tuning_keeps_the_law(fate: np.ndarray, repeats: Any) -> None:
    fate[:, 0] = 0
    m, n = fate.shape
    problem = rf.Problem("error <= 0.5", minimize="cost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        options: dict[str, Any] = {"search": "grid", "budget": m, "on_error": "skip", "progress": False}
        space = rf.Space(k=rf.Choice(list(range(m))))
        try:
            found = rf.tune(_losses_of(fate, "float64"), np.arange(n), space, problem, repeats=repeats, **options)
        except (rf.InvalidInputError, rf.EvaluationError):  # every planning example of every setting crashed
            return
    intake = found.intake
    assert intake.read == intake.used + intake.worst + sum(intake.left_out.values())
    tested = len(found.path)
    assert intake.read >= tested * found.n_test if tested else True
    assert intake.worst <= np.count_nonzero(fate >= 2)


def _check(table: rf.LossTable, frame: pd.DataFrame) -> None:
    cells = frame.groupby(["model", "knob"]).ngroups * frame["example"].nunique()
    assert (table.n_configs * table.n_examples, table.intake.read) == (cells, len(frame))
    assert table.intake.absent == cells - len(frame)
    for name in ("error", "cost"):
        found = np.sort(table.losses(name)[~np.isnan(table.losses(name))].astype(float))
        np.testing.assert_allclose(found, np.sort(frame[name].dropna().to_numpy(dtype=float)), rtol=1e-6)
    by_setting = frame.groupby(["model", "knob"])["error"].agg(["sum", "count"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rf.LeftOutWarning)
        certificate = rf.calibrate(table, PROBLEM, method="bonferroni")
    for _, row in certificate.path.iterrows():
        known = by_setting.loc[(row["model"], row["knob"])]
        worst = known["sum"] + table.n_examples - known["count"]  # what is missing is an error
        assert row["error"] * table.n_examples == pytest.approx(worst)
    intake = certificate.intake
    assert intake.read == intake.used + intake.worst + sum(intake.left_out.values()) == len(frame)
    assert intake.worst == int(frame["error"].isna().sum())
    assert rf.verify(certificate, table) == []


@settings(max_examples=40, deadline=None)
@given(frame=outcomes())
def test_wide_tables_keep_the_law(frame: pd.DataFrame) -> None:
    errors = frame.assign(
        error=frame["error"].astype("object").map(lambda v: np.nan if pd.isna(v) else float(v)).astype(float)
    )
    cells = errors.assign(column=errors["model"] + errors["knob"].astype(str)).pivot_table(
        index="example", columns="column", values="error", dropna=False
    )
    problem = rf.Problem("error <= 0.5", minimize="price")
    about = pd.DataFrame({"name": cells.columns, "price": range(len(cells.columns))})
    table, _ = from_wide(cells.reset_index(), problem, settings=about, example_column="example")
    assert table.intake.read == cells.size
    np.testing.assert_array_equal(table.losses("error"), cells.to_numpy().T)


def test_a_changed_account_does_not_verify() -> None:
    frame = pd.DataFrame({"k": [0, 1] * 60, "example": np.repeat(np.arange(60), 2), "error": 0, "cost": 1.0})
    problem = rf.Problem("error <= 0.2", minimize="cost")
    certificate = rf.calibrate(frame, problem)
    assert rf.verify(certificate, frame) == []
    forged = rf.Certificate.from_dict(
        {**certificate.to_dict(), "intake": {**certificate.to_dict()["intake"], "read": 121, "left_out": {"x": 1}}}
    )
    assert any("intake" in said for said in rf.verify(forged, frame))
    with pytest.raises(rf.InvalidInputError, match="every row must be accounted for"):
        rf.Certificate.from_dict({**certificate.to_dict(), "intake": {**certificate.to_dict()["intake"], "used": 1}})
