"""The command line as a user meets it: exit status, one line on stderr, and files."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._calibration.certificates.uses_of_test_set import ASKED
from tests.support.command_line import LIMITS, long_frame, riskfront
from tests.support.processes import finished


@pytest.mark.slow
def test_the_installed_command(losses):
    command = [Path(sys.executable).parent / "riskfront", "calibrate", losses / "losses.csv", *LIMITS, "--delta", "2"]
    done = finished(command)
    assert done.returncode == 2
    assert done.stderr == "riskfront: delta must lie in (0, 1); got 2.0.\n"


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables")
    frame = long_frame()
    frame.to_parquet(directory / "losses.parquet")
    frame.to_csv(directory / "losses.csv", index=False)
    return directory


@pytest.mark.parametrize("name", ["losses.parquet", "losses.csv"])
def test_calibrate_writes_a_certificate_that_verifies(losses, tmp_path, name):
    out = tmp_path / "certificate.json"
    done = riskfront("calibrate", losses / name, *LIMITS, "--limit", "error <= 0.3 per label", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "settings threshold, depth; examples example; outcomes error, cost; groups label" in " ".join(
        done.stdout.split()
    )
    assert (
        "With 90 % confidence, error stays at or below 20 % and error in every label (a and b) stays at or below 30 %. "
        "No other label is covered." in " ".join(done.stdout.split())
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert rf.Certificate.load(out)
    same = riskfront("verify", out, losses / name)
    assert same.returncode == 0
    assert "matches" in same.stdout
    frame = long_frame(seed=1)
    frame.to_csv(tmp_path / "other.csv", index=False)
    other = riskfront("verify", out, tmp_path / "other.csv")
    assert other.returncode == 1
    assert "NOT match" in other.stdout


def test_verify_needs_the_data(losses, tmp_path):
    out = tmp_path / "certificate.json"
    riskfront("calibrate", losses / "losses.csv", *LIMITS, "--out", out)
    done = riskfront("verify", out)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs the data that the certificate was made of" in done.stderr


def test_a_tampered_certificate_does_not_verify(losses, tmp_path):
    out = tmp_path / "certificate.json"
    riskfront("calibrate", losses / "losses.csv", *LIMITS, "--out", out)
    claimed = json.loads(out.read_text())
    claimed["path"]["p_value"][0] = 1e-9
    out.write_text(json.dumps(claimed))
    done = riskfront("verify", out, losses / "losses.csv")
    assert done.returncode == 1
    assert "path.p_value[0]" in done.stdout


def test_nothing_certified_is_status_1_with_a_reason(losses):
    done = riskfront("calibrate", losses / "losses.csv", "--limit", "error <= 0.001", "--minimize", "cost")
    assert done.returncode == 1
    assert "Nothing could be certified" in done.stdout
    assert re.search(
        r"Even a perfect setting needs at least 2,\d\d\d such testing examples", " ".join(done.stdout.split())
    )
    assert done.stderr == ""


def test_json_is_for_machines(losses):
    done = riskfront("calibrate", losses / "losses.csv", *LIMITS, "--json")
    assert json.loads(done.stdout)["config"]["threshold"] in (0.1, 0.3, 0.9)
    inspected = riskfront("inspect", losses / "losses.csv", "--json")
    assert json.loads(inspected.stdout)["settings"] == 6


def test_inspect_shows_tables_and_certificates(losses, tmp_path):
    table = rf.LossTable([{"a": 1}, {"a": 2}], {"error": np.zeros((2, 9), dtype=bool)})
    table.save(tmp_path / "saved.parquet")
    assert "2 settings x 9 examples" in riskfront("inspect", tmp_path / "saved.parquet").stdout
    riskfront("calibrate", losses / "losses.csv", *LIMITS, "--out", tmp_path / "c.json")
    assert "With 90 % confidence" in riskfront("inspect", tmp_path / "c.json").stdout


def test_trials_and_frontier_write_tidy_files(losses, tmp_path):
    methods = "pareto-testing,bonferroni,alpha-constrained"
    done = riskfront(
        "trials",
        losses / "losses.csv",
        *LIMITS,
        "--methods",
        methods,
        "--alphas",
        "0.1,0.2",
        "--trials",
        5,
        "--out",
        tmp_path / "t.csv",
    )
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "t.csv")) == 3 * 2 * 5
    said = " ".join(done.stdout.split())
    assert "violated: share of all trials whose setting truly breaks a limit" in said
    assert "0.1 is allowed" in said
    found = riskfront("frontier", losses / "losses.csv", *LIMITS, "--alphas", "0.1,0.2", "--out", tmp_path / "f.csv")
    assert found.returncode == 0, found.stderr
    assert pd.read_csv(tmp_path / "f.csv")["alpha"].tolist() == [0.1, 0.2]


def test_trials_on_held_out_examples_are_called_so(losses):
    options = ["--methods", "pareto-testing", "--trials", 3, "--held-out"]
    said = " ".join(riskfront("trials", losses / "losses.csv", *LIMITS, *options).stdout.split())
    assert "violated:" not in said
    assert "do not compare it with 0.1" in said


def test_a_method_without_guarantee_says_so_first(losses):
    done = riskfront("calibrate", losses / "losses.csv", *LIMITS, "--method", "alpha-constrained")
    text = done.stdout[done.stdout.index("NO GUARANTEE") :]
    assert text.startswith("NO GUARANTEE")
    assert done.returncode == 1  # nothing was certified
    assert "confidence" not in done.stdout
    for command in (
        ["trials", "--methods", "alpha-constrained", "--trials", 3],
        ["frontier", "--method", "alpha-constrained", "--alphas", "0.2"],
    ):
        said = riskfront(command[0], losses / "losses.csv", *LIMITS, *command[1:])
        assert "NO GUARANTEE" in said.stdout
        assert said.stderr == ""
    assert said.returncode == 1
    assert "picked" in said.stdout
    assert "certified" not in said.stdout


def test_outputs_never_overwrite_inputs_or_each_other(losses, tmp_path):
    table = tmp_path / "t.csv"
    long_frame().to_csv(table, index=False)
    before = table.read_text()
    for options in (["--out", table], ["--report", table], ["--out", tmp_path / "x", "--report", tmp_path / "x"]):
        done = riskfront("calibrate", table, *LIMITS, *options)
        assert done.returncode == 2
        assert "file of its own" in done.stderr
    assert table.read_text() == before


def test_a_forged_guarantee_is_refused(losses, tmp_path):
    riskfront(
        "calibrate", losses / "losses.csv", *LIMITS, "--method", "alpha-constrained", "--out", tmp_path / "c.json"
    )
    data = json.loads((tmp_path / "c.json").read_text())
    data["guaranteed"] = True
    data["verdict"] = "With 90 % confidence, error stays at or below 20 %."
    (tmp_path / "c.json").write_text(json.dumps(data))
    assert riskfront("inspect", tmp_path / "c.json").returncode == 2


def test_version():
    assert riskfront("--version").stdout == f"riskfront {rf.__version__}\n"


def test_tune_and_evaluate_a_task_file(tmp_path):
    pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")
    task = tmp_path / "task.py"
    task.write_text(
        "import numpy as np, riskfront as rf\n"
        "examples = np.random.default_rng(0).random(600)\n"
        "space = rf.Space(t=rf.Float(0, 1), model=rf.Choice(['a', 'b']))\n"
        "def losses(config, examples):\n"
        "    return {'error': examples < 0.02 + 0.1 * config['t'], 'cost': np.full(len(examples), 1 - config['t'])}\n"
    )
    done = riskfront(
        "tune",
        task,
        *LIMITS,
        "--search",
        "random",
        "--budget",
        20,
        "--store",
        tmp_path / "run.zarr",
        "--out",
        tmp_path / "c.json",
    )
    assert done.returncode == 0, done.stderr
    assert rf.Certificate.load(tmp_path / "c.json")
    filled = riskfront("evaluate", task, "--grid", "--points", 3, "--store", tmp_path / "grid.zarr")
    assert "6 settings x 600 examples" in filled.stdout
    assert riskfront("calibrate", tmp_path / "grid.zarr", *LIMITS).returncode == 0
    task.write_text("losses = None")
    assert "defines no examples" in riskfront("tune", task, *LIMITS).stderr
    assert "no such file" in riskfront("tune", tmp_path / "absent.py", *LIMITS).stderr


def bad_files(directory):
    frame = long_frame()
    broken = {
        "text.csv": frame.assign(error=np.where(frame.index == 7, "oops", frame["error"].astype(str))),
        "missing.csv": frame.drop(index=7),
        "twice.csv": pd.concat([frame, frame.iloc[[7]]]),
        "infinite.csv": frame.assign(cost=np.where(frame.index == 7, np.inf, frame["cost"])),
        "beyond.csv": frame.assign(error=np.where(frame.index == 7, 3, frame["error"])),
        "empty.csv": frame.iloc[:0],
        "named_twice.csv": frame.set_axis(["threshold", "depth", "example", "label", "error", "error"], axis=1),
    }
    for name, table in broken.items():
        table.to_csv(directory / name, index=False)
    frame.to_parquet(directory / "whole.parquet")
    (directory / "cut.parquet").write_bytes((directory / "whole.parquet").read_bytes()[:2000])
    (directory / "nothing.csv").write_text("")
    (directory / "table.xyz").write_text("x")


COLUMNS = ["--config-columns", "threshold,depth", "--example-column", "example"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["text.csv", *LIMITS], ["must hold numbers", "oops"]),
        (["missing.csv", *LIMITS], ["--config-columns"]),
        (["twice.csv", *LIMITS, *COLUMNS], ["more than once"]),
        (["infinite.csv", *LIMITS], ["cost", "finite", "inf"]),
        (["beyond.csv", *LIMITS], ["needs bounds", "3"]),
        (["empty.csv", *LIMITS], ["empty"]),
        (["named_twice.csv", *LIMITS], ["'error' comes more than once"]),
        (["nothing.csv", *LIMITS], ["cannot read"]),
        (["cut.parquet", *LIMITS], ["damaged"]),
        (["table.xyz", *LIMITS], [".parquet"]),
        (["absent.csv", *LIMITS], ["no such file"]),
        (["whole.parquet", "--limit", "eror <= 0.1", "--minimize", "cost"], ["eror", "Did you mean 'error'"]),
        (["whole.parquet", "--limit", "error <= 1.5", "--minimize", "cost"], ["strictly between", "1.5"]),
        (["whole.parquet", "--limit", "error = 1", "--minimize", "cost"], ["must be a bound from one side"]),
        (["whole.parquet", *LIMITS, "--delta", "1.5"], ["delta must lie in (0, 1)", "1.5"]),
        (["whole.parquet", "--limit", "error <= 0.1"], ["free objective"]),
        (["whole.parquet", *LIMITS, "--method", "magic"], ["no method 'magic'"]),
        (["whole.parquet", *LIMITS, "--p-value", "normal"], ["no p-value 'normal'"]),
        (["whole.parquet", *LIMITS, "--out", "absent/c.json"], ["'absent' does not"]),
        (["whole.parquet", *LIMITS, "--out", "."], ["is a directory"]),
        (["whole.parquet", *LIMITS, "--bounds", "error"], ["gain=-1,1"]),
        (["whole.parquet", *LIMITS, "--binary", "cost"], ["only 0 and 1"]),
        (["whole.parquet", "--limit", "error <= 0.1 per cost", "--minimize", "cost"], ["one role"]),
        ([], ["Missing argument"]),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, monkeypatch, arguments, words):
    bad_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_size for path in tmp_path.iterdir()}
    done = riskfront("calibrate", *arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert {path: path.stat().st_size for path in tmp_path.iterdir()} == before


def test_a_certificate_of_something_else_is_refused(losses, tmp_path):
    (tmp_path / "cut.json").write_text('{"schema": "riskfront.certificate", "schema_')
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "newer.json").write_text('{"schema": "riskfront.certificate", "schema_version": 99}')
    for name, word in [
        ("cut.json", "JSON"),
        ("other.json", "schema"),
        ("newer.json", "99"),
        ("absent.json", "cannot read"),
    ]:
        done = riskfront("verify", tmp_path / name, losses / "losses.csv")
        assert done.returncode == 2
        assert word in done.stderr


@pytest.mark.slow
def test_a_certificate_that_replaces_another_says_what_the_data_were_asked_before(losses, tmp_path, monkeypatch):
    """Another seed, again and again into the same file: nothing of it is hidden."""
    out = tmp_path / "c.json"
    asked = ["calibrate", losses / "losses.parquet", "--limit", "error <= 0.4", "--minimize", "cost", "--out", out]
    for seed in (0, 1, 2, 2):
        monkeypatch.setattr(ASKED, "_uses", [])  # as in a new process, which remembers nothing
        riskfront(*asked, "--seed", seed)
    looks = [look["asked"].rpartition(", ")[2] for look in json.loads(out.read_text())["earlier_looks"]]
    assert looks == ["seed 0", "seed 1"]


@pytest.mark.slow
def test_a_certificate_that_replaces_another_knows_its_examples_under_other_declarations(tmp_path, monkeypatch):
    """--binary, as a hint advises, makes another digest of the same examples; other examples were asked nothing."""
    rng, out = np.random.default_rng(0), tmp_path / "c.json"

    def asked(name, *options):
        monkeypatch.setattr(ASKED, "_uses", [])  # as in a new process, which remembers nothing
        riskfront("calibrate", tmp_path / name, "--limit", "error <= 0.1", "--minimize", "cost", "--out", out, *options)
        return [look["question"] for look in json.loads(out.read_text())["earlier_looks"]]

    for name in ("losses.csv", "others.csv"):
        setting, example = np.repeat([0, 1], 500), np.tile(np.arange(500), 2)
        losses = {"error": 1.0 * (rng.random(1000) < 0.02), "cost": rng.random(1000)}
        pd.DataFrame({"setting": setting, "example": example, **losses}).to_csv(tmp_path / name, index=False)
    assert len(asked("losses.csv")) == 0
    assert len(asked("losses.csv", "--binary", "error")) == 1
    assert len(asked("losses.csv", "--binary", "error")) == 1  # the same call again
    assert len(asked("losses.csv")) == 2
    assert len(asked("others.csv")) == 0
