"""Ratios, gaps, worst cases, weights and clusters on the command line."""

import numpy as np
import pandas as pd
import pytest

from tests.support.command_line import riskfront


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(4)
    m, n = 5, 600
    frame = pd.DataFrame({"k": np.repeat(np.arange(m), n), "example": np.tile(np.arange(n), m)})
    frame["patient"] = frame["example"] // 2
    frame["site"] = np.where(frame["patient"] % 3 == 0, "north", "south")
    frame["w"] = np.where(frame["site"] == "north", 2.0, 0.5)
    frame["error"] = (rng.random(m * n) < 0.02 + 0.05 * frame["k"]).astype(int)
    frame["solved"] = 1 - frame["error"]
    frame["cost"] = np.round(rng.random(m * n) * (1 - 0.15 * frame["k"]), 3)
    path = tmp_path_factory.mktemp("targets") / "losses.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--limit", "cost / solved <= 0.6"], "cost / solved stays at or below 0.6"),
        (["--limit", "error gap between site <= 0.15"], "the largest difference in error"),
        (["--limit", "worst 20 % of cost <= 0.99"], "the mean of the worst 20 % of cost"),
        (["--limit", "error <= 0.2", "--weights", "w <= 2"], "error weighted by w stays"),
        (["--limit", "error <= 0.2", "--clusters", "patient"], "Each example is the mean over all rows of one patient"),
    ],
)
def test_calibrate_and_verify(file, tmp_path, monkeypatch, options, words) -> None:
    monkeypatch.chdir(tmp_path)
    columns = ["--config-columns", "k", "--example-column", "example"]
    done = riskfront("calibrate", file, *columns, "--minimize", "cost,error", "--out", "c.json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert words in " ".join(done.stdout.split())
    assert riskfront("verify", "c.json", file).returncode == 0
