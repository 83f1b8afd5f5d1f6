"""Data given as a path: bounds can be declared, and a file is known by what is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._cli import main

PROBLEM = rf.Problem("latency <= 60", minimize="cost")
BOUNDS = {"latency": (0.0, 100.0)}


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    frame = pd.DataFrame([(i, e) for i in range(4) for e in range(300)], columns=["x", "example"])
    frame["latency"] = 20 + 10 * frame["x"] + 5 * random.random(len(frame))
    frame["cost"] = 1 - frame["x"] / 4
    frame.to_csv(tmp_path / "long.csv", index=False)
    return tmp_path / "long.csv"


def test_the_advice_about_bounds_can_be_followed(long_file: Path) -> None:
    with pytest.raises(rf.InvalidInputError, match=r"bounds=\{'latency': \(low, high\)\}, or --bounds"):
        rf.calibrate(long_file, PROBLEM)
    certificate = rf.calibrate(long_file, PROBLEM, bounds=BOUNDS)
    assert certificate
    assert certificate.loss_bounds["latency"] == (0, 100)
    assert rf.verify(certificate, long_file) == []
    assert len(rf.frontier(long_file, PROBLEM, [50, 60], bounds=BOUNDS)) == 2


def test_a_table_has_bounds_of_its_own(long_file: Path, tmp_path: Path) -> None:
    table, _ = rf.read_table(long_file, PROBLEM, bounds=BOUNDS)
    with pytest.raises(rf.InvalidInputError, match="a table carries its own bounds"):
        rf.calibrate(table, PROBLEM, bounds=BOUNDS)
    table.save(tmp_path / "saved.parquet")
    with pytest.raises(rf.InvalidInputError, match="a saved table carries its own bounds"):
        rf.calibrate(tmp_path / "saved.parquet", PROBLEM, bounds=BOUNDS)
    assert rf.verify(rf.calibrate(table, PROBLEM), tmp_path / "saved.parquet") == []


@pytest.mark.parametrize("name", ["saved", "saved.table", "saved.csv", "saved.parquet"])
def test_a_table_saved_under_any_name_is_read(long_file: Path, tmp_path: Path, name: str) -> None:
    table, _ = rf.read_table(long_file, PROBLEM, bounds=BOUNDS)
    table.save(tmp_path / name)
    again = rf.calibrate(tmp_path / name, PROBLEM)
    assert again.to_dict() == rf.calibrate(table, PROBLEM).to_dict()
    with pytest.raises(SystemExit, match="0"):
        main(["calibrate", str(tmp_path / name), "--limit", "latency <= 60", "--minimize", "cost"])


def test_a_long_parquet_file_needs_no_suffix_either(long_file: Path, tmp_path: Path) -> None:
    pd.read_csv(long_file).to_parquet(tmp_path / "long")
    assert rf.calibrate(tmp_path / "long", PROBLEM, bounds=BOUNDS)


def test_other_files_without_a_known_suffix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("threshold, cost")
    with pytest.raises(rf.InvalidInputError, match=r"must be a Parquet .*CSV .*JSON-lines .* file"):
        rf.calibrate(tmp_path / "notes", PROBLEM)
    with pytest.raises(rf.StoreError, match="no such file or folder"):
        rf.calibrate(tmp_path / "absent", PROBLEM)
