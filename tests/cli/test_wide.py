"""calibrate on wide files, with references, filters and missing outcomes."""

import json

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from tests.support.command_line import LIMITS, long_frame, riskfront


@pytest.fixture
def folder(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    u = rng.random(2000)
    scores = {f"q{bits}": np.clip(u - 0.3 / bits**2, 0, 1) for bits in (2, 4, 8)}
    frame = pd.DataFrame({"subset": np.where(u < 0.5, "a", "b"), "full": u, **scores})
    frame.insert(0, "id", frame.groupby("subset").cumcount())
    frame.to_parquet(tmp_path / "scores.parquet")
    pd.DataFrame({"config": ["q2", "q4", "q8", "full"], "bits": [2, 4, 8, 16]}).to_csv(tmp_path / "c.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WIDE = ["scores.parquet", "--wide", "--example-column", "subset,id", "--settings", "c.csv"]
DROP = ["--reference", "full", "--limit", "score drop <= 0.03", "--minimize", "bits"]


@pytest.mark.slow
def test_a_drop_is_certified_and_verified(folder):
    done = riskfront("calibrate", *WIDE, *DROP, "--out", "out.json")
    assert done.returncode == 0, done.stderr
    assert "score drop from full (gains offset losses) stays at or below 3 %" in " ".join(done.stdout.split())
    assert json.loads((folder / "out.json").read_text())["config"] == {"config": "q4", "bits": 4}
    assert "matches" in riskfront("verify", "out.json", "scores.parquet").stdout
    pd.read_parquet(folder / "scores.parquet").assign(q4=0.5).to_parquet(folder / "scores.parquet")
    assert riskfront("verify", "out.json", "scores.parquet").returncode == 1


def test_filters(folder):
    done = riskfront("calibrate", *WIDE, *DROP, "--where", "bits >= 8", "--where", "subset == a", "--json")
    assert json.loads(done.stdout)["config"]["config"] == "q8"
    assert json.loads(done.stdout)["n_test"] < 800


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*WIDE, "--reference", "full", "--limit", "score >= 0.3", "--minimize", "bits"], "no limit here does"),
        ([*WIDE, "--reference", "none", *DROP[2:]], "exactly one setting; 'none' stands for none"),
        ([*WIDE, *DROP, "--config-columns", "bits"], "is for long tables"),
        (["scores.parquet", "--settings", "c.csv", *DROP], "add --wide"),
        ([*WIDE, *DROP, "--where", "q4 > 0.5"], "'q4' is an outcome"),
        ([*WIDE[:4], "--settings", "absent.csv", *DROP], "no such file"),
    ],
)
def test_what_is_wrong_is_one_line(folder, arguments, words):
    done = riskfront("calibrate", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_missing_outcomes_are_counted_and_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = long_frame()
    frame.drop(index=7).to_csv("rows.csv", index=False)
    frame.assign(error=frame["error"].astype(float).where(frame.index != 7)).to_csv("cells.csv", index=False)
    said = "1 outcomes that limits need are missing; each counts as the worst there can be"
    options = [*LIMITS, "--config-columns", "threshold,depth", "--example-column", "example", "--json"]
    for name in ("rows.csv", "cells.csv"):
        with pytest.warns(rf.LeftOutWarning, match=said):  # on stderr, outside of tests
            done = riskfront("calibrate", name, *options)
        assert done.returncode == 0
        printed = json.loads(done.stdout)
        assert printed["n_opt"] + printed["n_test"] == 300
        assert printed["intake"]["worst"] + printed["intake"]["absent"] == 1
