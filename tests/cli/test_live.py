"""riskfront tune --adaptive and riskfront calibrate --sequential, as processes: status, files, words, kill -9, verify."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from tests.support.command_line import Done, riskfront
from tests.support.processes import started, wait_until

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

TASK = """
import os, time
import numpy as np, riskfront as rf
examples = np.random.default_rng(0).random(500)
space = rf.Space(t=rf.Int(0, 11))
def losses(config, examples):
    if "CALLS" in os.environ:
        with open(os.environ["CALLS"], "a") as calls:
            calls.write(".")
        time.sleep(0.05 if os.path.getsize(os.environ["CALLS"]) < 20 else 100)
    return {"error": examples < 0.02 * config["t"], "cost": np.full(len(examples), 1 - config["t"] / 12)}
"""
LIMIT = ["--limit", "error <= 0.1", "--minimize", "cost"]


def tuned(task: Path, name: str) -> Done:
    return riskfront("tune", task, *LIMIT, "--search", "grid", "--adaptive", "--price", "cost", *files(task, name))


def files(task: Path, name: str) -> list[str]:
    return ["--store", str(task.parent / name), "--out", str(task.parent / f"{name}.json")]


def test_tune_adaptive_killed_in_the_middle_gives_the_same_certificate(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(TASK)
    whole = tuned(task, "whole")
    assert whole.returncode == 0, whole.stderr
    found = rf.Certificate.load(tmp_path / "whole.json")
    made, full = found.evaluations["made"], found.evaluations["full"]
    assert made < 0.5 * full == 0.5 * 12 * 500
    assert 0 < found.evaluations["spent"] < found.evaluations["full table"]
    assert f"{made:,} evaluations were made; a full table has {full:,}." in " ".join(whole.stdout.split())
    calls = tmp_path / "calls"
    command = [sys.executable, "-m", "riskfront", "tune", str(task), *LIMIT, "--search", "grid", "--adaptive"]
    with started([*command, "--price", "cost", *files(task, "killed")], env={"CALLS": str(calls)}) as run:
        wait_until(lambda: calls.exists() and calls.stat().st_size >= 20, "twenty calls are made", 120)
        assert run.status() is None, run.err
        run.kill()
    assert not (tmp_path / "killed.json").exists()
    assert tuned(task, "killed").returncode == 0
    again = rf.Certificate.load(tmp_path / "killed.json")
    assert again.data_sha256 == found.data_sha256
    assert again.evaluations == found.evaluations
    pd.testing.assert_frame_equal(again.tested, found.tested)
    assert riskfront("verify", tmp_path / "killed.json", tmp_path / "killed").returncode == 0
    forged = json.loads((tmp_path / "killed.json").read_text())
    forged["evaluations"]["made"] = 7
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    assert riskfront("verify", tmp_path / "forged.json", tmp_path / "killed").returncode != 0


def day(number: int, n: int = 150) -> pd.DataFrame:
    """A long table of one day: twelve thresholds on n examples."""
    drawn = np.random.default_rng(number).random(n)
    rows = [(t / 12, f"{number}/{k}", int(x < 0.02 * t), 1 - t / 12) for t in range(12) for k, x in enumerate(drawn)]
    return pd.DataFrame(rows, columns=["threshold", "example", "error", "cost"])


def test_calibrate_sequential_day_by_day(tmp_path: Path) -> None:
    state, out = tmp_path / "state.json", tmp_path / "certificate.json"

    def told(file: Path, *more: str) -> Done:
        return riskfront("calibrate", "--sequential", state, file, *LIMIT, "--out", out, *more)

    statuses, kept = [], []
    for number in range(5):
        file = tmp_path / f"{number}.parquet"
        day(number).to_parquet(file)
        if number == 0:
            assert "--examples" in told(file).stderr
            assert not state.exists()
        done = told(file, "--examples", "750")
        assert "150 new examples" in done.stdout
        assert "0 new examples" in told(file).stdout  # told again: nothing counts twice
        statuses.append(done.returncode)
        kept.append(out.read_text())
    assert statuses[0] == 1
    assert statuses[-1] == 0
    found = rf.Certificate.load(out)
    assert found.config["threshold"] * 0.24 <= 0.1
    for text in kept:  # of any day, from what was recorded until today
        (tmp_path / "one.json").write_text(text)
        assert riskfront("verify", tmp_path / "one.json", state).returncode == 0
    other = riskfront(
        "calibrate", "--sequential", state, tmp_path / "0.parquet", "--limit", "error <= 0.2", "--minimize", "cost"
    )
    assert other.returncode == 2
    assert "asks one question" in other.stderr
    changed = day(4).assign(error=1)
    changed.to_parquet(tmp_path / "changed.parquet")
    before = state.read_bytes()
    refused = told(tmp_path / "changed.parquet")
    assert refused.returncode == 2
    assert "other values" in refused.stderr
    assert state.read_bytes() == before
