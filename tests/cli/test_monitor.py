"""riskfront monitor, as a process: exit statuses, what it writes, and what is left of it after kill -9."""

import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront import _cli as cli
from riskfront._calibration.monitoring.outcome_files import only_one
from tests.support.monitoring import certificate
from tests.support.processes import output, started, wait_until


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = certificate("error <= 0.1", rf.Limit("error", at_most=0.3, per="label"), groups={"label": ["a", "b"]})
    made.save("certificate.json")
    return tmp_path


def outcomes(seed, n, risk):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"error": (rng.random(n) < risk).astype(int), "label": rng.choice(["a", "b"], n)})


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        cli.main(["monitor", *map(str, arguments)])
    return left.value.code


def test_status_is_1_at_an_alarm_and_everything_is_written(folder, capsys):
    outcomes(0, 1000, 0.05).to_csv("outcomes.csv", index=False)
    options = ["--state", "state.json", "--page", "page.html", "--prometheus", "metrics.prom"]
    assert run("certificate.json", "outcomes.csv", *options) == 0
    assert "No alarm after 1,000 outcomes." in capsys.readouterr().out
    assert run("certificate.json", "outcomes.csv", *options) == 0  # nothing is counted twice
    assert rf.Monitor.load("state.json").outcomes == 1000
    outcomes(1, 600, 0.4).to_csv("outcomes.csv", index=False, header=False, mode="a")
    assert run("certificate.json", "outcomes.csv", *options) == 1
    said = capsys.readouterr().out
    assert "ALARM: 'error <= 0.1' is broken" in said
    assert "ALARM" not in (folder / "page.html").read_text().partition("<main>")[0]
    assert "is broken, seen at outcome" in (folder / "page.html").read_text()
    assert 'riskfront_monitor_alarm{limit="error <= 0.1",group=""} 1.0' in (folder / "metrics.prom").read_text()
    assert run("certificate.json", "outcomes.csv", *options, "--follow") == 1  # an alarm stays: nothing to follow


@pytest.mark.slow
def test_standard_input_and_json(folder):
    text = outcomes(2, 300, 0.5).to_json(orient="records", lines=True)
    done = subprocess.run(
        [sys.executable, "-m", "riskfront", "monitor", "certificate.json", "-", "--json", "--delta", "0.01"],
        input=text.encode(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found["alarm"]
    assert found["outcomes"] == 300
    assert {row["threshold"] for row in found["limits"]} == {300.0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json", "outcomes.csv"], "cannot read the certificate"),
        (["certificate.json", "none.csv"], "cannot read the outcomes"),
        (["certificate.json", "wrong.csv"], "'label' is not among 'error'"),
        (["certificate.json", "outcomes.csv", "--audit", "2"], "audit must be a probability"),
        (["certificate.json", "outcomes.csv", "--audit", "0.1", "--audit", "x=0.2"], "--audit must be one probability"),
        (["certificate.json", "outcomes.csv", "--page", "outcomes.csv"], "every output must be a file of its own"),
        (
            ["certificate.json", "outcomes.csv", "--state", "begun.json", "--delta", "0.2"],
            "has promise {'kind': 'no-false-alarm', 'delta': 0.05",
        ),
    ],
)
def test_bad_input_is_one_line(folder, capsys, arguments, words):
    outcomes(3, 10, 0.1).to_csv("outcomes.csv", index=False)
    outcomes(3, 10, 0.1)[["error"]].to_csv("wrong.csv", index=False)
    assert run("certificate.json", "outcomes.csv", "--state", "begun.json") == 0
    capsys.readouterr()
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_one_state_serves_one_process(folder, capsys):
    outcomes(4, 10, 0.1).to_csv("outcomes.csv", index=False)
    with only_one(folder / "state.json"):
        assert run("certificate.json", "outcomes.csv", "--state", "state.json") == 2
        assert "another one is using" in capsys.readouterr().err
        os.symlink("state.json", "link.json")
        assert run("certificate.json", "outcomes.csv", "--state", "link.json") == 2, "the same state by another name"
        assert "another one is using" in capsys.readouterr().err


def test_audits_of_columns(folder, capsys):
    certificate("score drop from full <= 0.05").save("drop.json")
    frame = pd.DataFrame({"score": [1.0] * 200, "score of full": [1.0, None] * 100})
    frame.to_csv("drop.csv", index=False)
    assert run("drop.json", "drop.csv") == 1  # half of the reference is missing, which is the worst
    assert run("drop.json", "drop.csv", "--audit", "score of full=0.5") == 0


@pytest.mark.slow
def test_following_ends_with_status_1_at_the_alarm(folder):
    outcomes(6, 500, 0.05).to_csv("outcomes.csv", index=False)
    command = [sys.executable, "-m", "riskfront", "monitor", "certificate.json", "outcomes.csv", "--follow"]
    with started([*command, "--prometheus", "m.prom"]) as follower:
        wait_until(lambda: os.path.exists("m.prom"), "the follower has begun", 120)
        assert follower.status() is None, follower.err
        outcomes(7, 300, 0.5).to_csv("outcomes.csv", index=False, header=False, mode="a")
        assert follower.wait() == 1
        assert "ALARM: 'error <= 0.1' is broken" in follower.out


def _saved():
    """When the state was saved last."""
    return os.stat("state.json").st_mtime_ns if os.path.exists("state.json") else 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_kill_9_while_following_loses_no_outcome_and_counts_none_twice(folder):
    """A writer appends lines, often half a line; the follower is killed again and again, soon after it has saved something."""
    frame = outcomes(5, 6000, 0.06)
    lines = frame.to_csv(index=False).splitlines(keepends=True)
    moments = random.Random(0)
    command = [sys.executable, "-m", "riskfront", "monitor", "certificate.json", "outcomes.csv"]
    command += ["--follow", "--state", "state.json"]
    with open("outcomes.csv", "w") as file:

        def write(text):
            cut = moments.randrange(len(text))
            for piece in (text[:cut], text[cut:]):
                file.write(piece)
                file.flush()
                time.sleep(moments.uniform(0, 0.01))

        for portion in np.array_split(np.arange(len(lines)), 5):
            with started(command) as follower:
                begun = _saved()
                write("".join(lines[i] for i in portion[:10]))
                wait_until(lambda begun=begun: _saved() != begun, "the follower has saved its state", 120)
                killed = moments.randrange(20, 80)
                for number, some in enumerate(np.array_split(portion[10:], 100)):
                    if number == killed:
                        assert follower.status() is None, follower.err
                        follower.kill()
                        state = rf.Monitor.load("state.json")  # whole, whenever it was killed
                        assert 0 < state.outcomes == next(iter(state.sources.values()))["rows"] < portion[-1]
                    write("".join(lines[i] for i in some))
    output([*command, "--idle", "1"])
    state = rf.Monitor.load("state.json")
    whole = rf.Monitor(rf.Certificate.load("certificate.json"))
    whole.update(frame)
    assert state.outcomes == 6000
    assert state.status["outcomes"].tolist() == whole.status["outcomes"].tolist()
    np.testing.assert_array_equal(
        [watch.detector.totals for watch in state.watches], [watch.detector.totals for watch in whole.watches]
    )
    np.testing.assert_allclose(state.status["evidence"], whole.status["evidence"], rtol=1e-9)
    assert [
        path.name for path in folder.glob(".state.json*") if path.name not in (".state.json.lock", ".state.json.new")
    ] == []
