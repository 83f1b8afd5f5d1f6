"""riskfront decide and choose."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._cli.deciding import grid_values
from tests.calibration.test_simultaneous import world
from tests.support.command_line import riskfront

RANGES = ["--limit", "error <= 0.05..0.30/4", "--limit", "error <= 10..30 % per g", "--minimize", "cost"]


@pytest.fixture
def table(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    world(900, 12).save("t.parquet")
    return "t.parquet"


@pytest.mark.slow
def test_decide_choose_verify_report(table: str) -> None:
    done = riskfront("decide", table, *RANGES, "--page", "d.html", "--out", "f.json")
    assert done.returncode == 0, done.stderr
    assert "choose after looking" in " ".join(done.stdout.split())
    found = rf.Frontier.load("f.json")
    assert sorted(found.values["error"]) == pytest.approx([0.05, 0.1333333333, 0.2166666667, 0.3])
    assert len(found.values["error per g"]) == 11
    done = riskfront("choose", "f.json", "--limit", "error <= 0.3", "--limit", "error <= 0.2 per g", "--out", "c.json")
    assert done.returncode == 0, done.stderr
    assert riskfront("verify", "c.json", table).returncode == 0
    assert rf.Certificate.load("c.json").problem.limits[1].at_most == 0.2
    assert riskfront("report", "c.json", "--out", "r.html").returncode == 0
    done = riskfront("inspect", "c.json")
    assert "Chosen from a frontier of 4 values of error (0.05 to 0.3) and 11" in " ".join(done.stdout.split())
    again = riskfront("choose", "f.json", "--limit", "error=0.3", "--limit", "error per g=0.2", "--json")
    assert json.loads(again.stdout)["config"] == rf.Certificate.load("c.json").config


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (["error <= 0.1"], "must be a range"),
        (["error <= 0.3..0.1"], "smaller number to a larger"),
        (["error <= 0.1..0.3/1"], "at least two values"),
        (["error <= 0.1..x"], "must be a range"),
        (["error <= 1 %..0.3"], "must be a range"),
        (["q0.9(error) <= 0.1..0.3"], "on a quantile"),
    ],
)
def test_bad_ranges(table: str, limits: list[str], words: str) -> None:
    options = [part for text in limits for part in ("--limit", text)]
    done = riskfront("decide", table, *options, "--minimize", "cost", "--page", "d.html")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_choices(table: str) -> None:
    riskfront("decide", table, "--limit", "error <= 0.1..0.3/3", "--minimize", "cost", "--out", "f.json")
    for limits, words in (
        (["error <= 0.11"], "nearest are"),
        (["error >= 0.1"], "must be one of the limits"),
        (["error <= 0.1", "error <= 0.2"], "twice"),
        (["mistakes <= 0.1"], "must be one of the limits"),
    ):
        done = riskfront("choose", "f.json", *[part for text in limits for part in ("--limit", text)])
        assert done.returncode == 2
        assert words in done.stderr, done.stderr
    assert riskfront("choose", "nowhere.json", "--limit", "error <= 0.1").returncode == 2


def test_a_limit_against_a_reference_is_chosen_as_it_was_asked_for(table: str) -> None:
    asked = ["--limit", "error drop <= 0.1..0.3/3", "--reference", "k=0", "--minimize", "cost"]
    assert riskfront("decide", table, *asked, "--out", "f.json").returncode == 0
    for text in ("error drop <= 0.2", "error drop from k=0 <= 20 %", "error drop from k=0=0.2"):
        done = riskfront("choose", "f.json", "--limit", text, "--out", "c.json")
        assert done.returncode == 0, done.stderr
        assert rf.Certificate.load("c.json").problem.limits[0].at_most == 0.2


def test_a_page_without_a_saved_frontier_copies_a_command_that_makes_both(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["decide", table, "--limit", "error <= 0.1..0.3/3", "--minimize", "cost", "--page", "d.html"]
    monkeypatch.setattr("sys.argv", ["riskfront", *asked])
    riskfront(*asked)
    assert not Path("frontier.json").exists()
    data = json.loads(re.search(r'id="data">(.+?)</script>', Path("d.html").read_text(encoding="utf-8"))[1])
    first, second = data["choose"].split(" && ")
    assert riskfront(*shlex.split(first)[1:]).returncode == 0
    done = riskfront(*shlex.split(second)[1:], "--limit", "error <= 0.2", "--out", "c.json")
    assert done.returncode == 0, done.stderr
    assert "Tested by pareto-testing; " in " ".join(done.stdout.split())
    assert riskfront("verify", "c.json", table).returncode == 0


@pytest.mark.parametrize("text", ["error <= 10..30 % / 3", "error <= 10 %..30 % / 3"])
def test_per_cent_signs(table: str, text: str) -> None:
    wanted = ["error <= 0.1..0.3/3", text.replace(" % / 3", "/3 %")]
    found = []
    for one in wanted:
        riskfront("decide", table, "--limit", one, "--minimize", "cost", "--out", "f.json")
        found.append(rf.Frontier.load("f.json").values)
    assert found[0]["error"] == pytest.approx(found[1]["error"])


def test_round_values() -> None:
    assert grid_values(0.01, 0.10, 0, 21) == [round(0.01 + 0.005 * k, 3) for k in range(19)]
    assert grid_values(0.01, 0.10, 0, 13) == [round(0.01 * k, 2) for k in range(1, 11)]
    assert grid_values(0.05, 0.30, 0, 13) == [round(0.05 + 0.025 * k, 3) for k in range(11)]
    assert grid_values(0, 1, 3, 13) == [0.0, 0.5, 1.0]
    assert len(grid_values(100, 500, 0, 21)) == 21


@pytest.mark.slow
def test_cascades_have_a_page_with_rules_in_words(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    easy = np.random.default_rng(0).random(500)
    right = {"small": easy > 0.4, "large": np.random.default_rng(1).random(500) > 0.05}
    rows = [
        {"model": name, "example": k, "score": float(right[name][k]), "cost": cost, "sure": easy[k]}
        for name, cost in (("small", 1), ("large", 10))
        for k in range(500)
    ]
    pd.DataFrame(rows).to_parquet("runs.parquet")
    common = ["--confidence", "sure", "--thresholds", "0.2,0.4,0.6", "--reference", "large", "--minimize", "cost"]
    done = riskfront("cascade", "runs.parquet", *common, "--limit", "score drop <= 0.05..0.2/3", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert "Ask small; if its " in Path("o/decide.html").read_text(encoding="utf-8")
    riskfront("choose", "o/frontier.json", "--limit", "score drop from large <= 0.2", "--out", "c.json")
    assert riskfront("verify", "c.json", "runs.parquet").returncode == 0
    runs = rf.read_runs("runs.parquet")
    made = rf.Cascade(runs, confidence="sure", thresholds=[0.2, 0.4, 0.6])
    policy = made.policy(rf.Certificate.load("c.json"))
    assert rf.Certificate.load("c.json").config["models"] == " > ".join(policy.models)
    asked = ["choose", "o", "--limit", "score drop <= 0.2"]
    done = riskfront(*asked)
    assert (done.returncode, "--runs must be given" in done.stderr) == (2, True)
    data = json.loads(re.search(r'id="data">(.+?)</script>', Path("o/decide.html").read_text(encoding="utf-8"))[1])
    done = riskfront(*shlex.split(data["choose"])[1:], *asked[2:])
    assert done.returncode == 0, done.stderr
    saved = rf.Policy.load("o/policy.json")
    assert (saved.models, saved.thresholds, saved.shares) == (policy.models, policy.thresholds, policy.shares)
    assert any(note.startswith("Ask small; if its ") for note in saved.certificate.notes)
    assert riskfront("verify", "o/certificate.json", "runs.parquet").returncode == 0
    pd.DataFrame(rows).assign(score=1.0).to_parquet("others.parquet")
    done = riskfront(*asked, "--runs", "others.parquet")
    assert (done.returncode, "its outcomes are others" in done.stderr) == (2, True)


@pytest.mark.slow
def test_a_choice_among_several_settings_of_a_cascade_verifies(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    easy = np.random.default_rng(0).random(500)
    right = {"small": easy > 0.4, "large": np.random.default_rng(1).random(500) > 0.05}
    rows = [
        {
            "model": name,
            "example": k,
            "score": float(right[name][k]),
            "cost": cost,
            "latency": 1 / cost,
            "sure": easy[k],
        }
        for name, cost in (("small", 1), ("large", 10))
        for k in range(500)
    ]
    pd.DataFrame(rows).to_parquet("runs.parquet")
    common = ["--confidence", "sure", "--thresholds", "0.2,0.4,0.6", "--reference", "large"]
    goals = ["--minimize", "cost", "--minimize", "latency", "--limit", "score drop <= 0.1..0.3/3"]
    assert riskfront("cascade", "runs.parquet", *common, *goals, "--out", "o").returncode == 0
    asked = ["choose", "o/frontier.json", "--limit", "score drop <= 0.3", "--out", "c.json"]
    first = json.loads(riskfront(*asked, "--json").stdout)
    done = riskfront(*asked, "--choose", "latency", "--json")
    assert json.loads(done.stdout)["config"] != first["config"]
    assert riskfront("verify", "c.json", "runs.parquet").returncode == 0
