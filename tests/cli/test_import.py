"""import: from logs to runs to a certificate, on the command line."""

import json
import sys

import numpy as np
import pytest

import riskfront as rf
from tests.data.logs.made import MAKERS, inspect_log
from tests.support.command_line import riskfront
from tests.support.processes import output


@pytest.mark.filterwarnings("ignore:.* outcomes are means over several answers")
@pytest.mark.parametrize("tool", MAKERS)
def test_every_tool_can_be_imported(tool, tmp_path):
    folder = MAKERS[tool](tmp_path / "logs")
    done = riskfront("import", tool, folder, "--out", tmp_path / "runs.parquet", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["examples"] == 4


def test_imported_runs_are_calibrated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "logs").mkdir()
    for model, quality in (("small", 0.5), ("middle", 0.88), ("large", 0.9)):
        log = inspect_log(model, [float(score) for score in rng.random(900) < quality])
        for sample in log["samples"]:
            sample["model_usage"][model]["total_cost"] = {"small": 1, "middle": 2, "large": 9}[model]
        (tmp_path / "logs" / f"{model}.json").write_text(json.dumps(log))
    done = riskfront("import", "inspect", "logs", "--out", "runs.parquet")
    assert "3 runs x 900 examples" in done.stdout
    assert "2,700 rows read: 2,700 used, 0 counted as the worst, none left out." in done.stdout
    limits = ["--limit", "score drop <= 0.15", "--reference", "large", "--minimize", "cost"]
    done = riskfront("calibrate", "runs.parquet", *limits, "--json")
    assert json.loads(done.stdout)["config"] == {"model": "middle"}


def test_runs_that_lack_examples_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    MAKERS["inspect"](tmp_path / "logs")
    (tmp_path / "logs" / "third.json").write_text(json.dumps(inspect_log("third", [1.0])))
    riskfront("import", "inspect", "logs", "--out", "runs.parquet")
    with pytest.warns(rf.LeftOutWarning, match=r"3 outcomes have no row and count as the worst"):
        riskfront("calibrate", "runs.parquet", "--limit", "score >= 0.2", "--minimize", "cost")


def test_what_is_wrong_is_one_line(tmp_path):
    done = riskfront("import", "lm-eval", tmp_path, "--out", tmp_path / "r.csv")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    MAKERS["lm-eval"](tmp_path)
    done = riskfront("import", "lm-eval", tmp_path, "--out", tmp_path / "r.csv")
    assert "must end in .parquet" in done.stderr
    assert not (tmp_path / "r.csv").exists()


def test_the_package_can_be_run_as_a_module():
    assert rf.__version__ in output([sys.executable, "-m", "riskfront", "--version"])
