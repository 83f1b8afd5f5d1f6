"""--safest: the safest end of a knob on the command line, for every command that takes a method."""

import json
from pathlib import Path

import numpy as np
import pytest

import riskfront as rf
from tests.support.command_line import riskfront

ASKED = ("t.parquet", "--limit", "error <= 0.1", "--minimize", "cost")
KNOB = ("--method", "ordered-knob", "--safest", "threshold=high")


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rf.LossTable:
    monkeypatch.chdir(tmp_path)
    rng, steps = np.random.default_rng(0), np.linspace(0, 1, 21)
    losses = {"error": rng.random((21, 600)) < 0.2 * steps[:, None], "cost": 1 - steps[:, None] + 0 * rng.random(600)}
    made = rf.LossTable([{"threshold": round(1 - step, 2)} for step in steps], losses)
    made.save("t.parquet")
    return made


def test_the_same_as_in_python(table: rf.LossTable) -> None:
    done = riskfront("calibrate", *ASKED, *KNOB, "--out", "c.json", "--json")
    method = rf.OrderedKnob(safest={"threshold": "high"})
    found = rf.calibrate(table, rf.Problem("error <= 0.1", minimize="cost"), method=method)
    assert json.loads(done.stdout)["config"] == found.config, done.stderr
    assert riskfront("verify", "c.json", "t.parquet").returncode == 0


def test_other_commands() -> None:
    assert (
        len(json.loads(riskfront("frontier", *ASKED, *KNOB, "--alphas", "0.1,0.15", "--together", "--json").stdout))
        == 2
    )
    of_both = ("--methods", "ordered-knob,holm", "--safest", "threshold=high", "--trials", "3", "--json")
    rows = json.loads(riskfront("trials", *ASKED, *of_both).stdout)
    assert [row["method"] for row in rows] == ["ordered-knob", "holm"]
    assert (
        "ordered-knob" not in riskfront("trials", *ASKED, "--trials", "2").stdout
    )  # needs to be told more than its name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "ordered-knob"), "told which end of the knob is safest"),
        (("--safest", "threshold=high"), "--safest is for sgt, fallback, low-risk-path, ordered-knob"),
        (("--method", "ordered-knob", "--safest", "high"), "must read like 'threshold=high'"),
        (("--method", "ordered-knob", "--safest", "threshold=high,threshold=low"), "name each knob once"),
        (("--method", "ordered-knop"), "Did you mean 'ordered-knob'"),
    ],
)
def test_what_is_refused(options: tuple[str, ...], words: str) -> None:
    done = riskfront("calibrate", *ASKED, *options)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
