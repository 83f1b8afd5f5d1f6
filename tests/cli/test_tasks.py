"""riskfront tune and riskfront evaluate with a task that is wrong: one line, status 2, nothing lost that was evaluated."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import riskfront as rf
from tests.support.command_line import LIMITS, Done, riskfront
from tests.support.processes import output

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

HEAD = """
import numpy as np, riskfront as rf
examples = np.random.default_rng(0).random(200)
space = rf.Space(t=rf.Float(0, 1), n=rf.Int(1, 6))
def good(config, examples):
    return {"error": examples < 0.02 + 0.1 * config["t"], "cost": np.full(len(examples), 1 - config["t"])}
"""
GOOD = HEAD + "def losses(config, examples): return good(config, examples)\n"
# each goes wrong at settings with n = 6 only, so that there is something to lose
LOSSES = {
    "wrong length": ("{**found, 'error': found['error'][1:]}", ["one value for each of", "got shape"]),
    "nan": ("{**found, 'cost': np.full(len(examples), np.nan)}", ["must be finite everywhere", "nan for example 0"]),
    "missing keys": (
        "{'cost': found['cost']}",
        ["the same losses at every setting, ['cost', 'error']", "got ['cost']"],
    ),
    "different keys": ("{**found, 'other': found['cost']}", ["the same losses at every setting", "'other'"]),
    "no dictionary": ("None", ["must return a dictionary", "is a return missing?"]),
    "text": ("{**found, 'cost': ['a'] * len(examples)}", ["must hold numbers"]),
    "an exception": ("found['nothing']", ["the losses function failed with KeyError: 'nothing'"]),
}


def task(folder: Path, text: str) -> Path:
    path = folder / "task.py"
    path.write_text(text)
    return path


def is_one_line(done: Done, words: list[str]) -> None:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def sometimes_wrong(folder: Path, name: str) -> Path:
    wrong = LOSSES[name][0]
    return task(
        folder,
        HEAD + f"def losses(config, examples):\n    found = good(config, examples)\n"
        f"    return found if config['n'] < 6 else {wrong}\n",
    )


@pytest.mark.parametrize("name", LOSSES)
def test_evaluate_with_losses_that_go_wrong(tmp_path: Path, name: str) -> None:
    path, store = sometimes_wrong(tmp_path, name), tmp_path / "run.zarr"
    done = riskfront("evaluate", path, "--grid", "--points", 6, "--store", store)
    is_one_line(done, [*LOSSES[name][1], "'n': 6", "5 settings evaluated before are in the store"])
    assert len(rf.LossStore(store)) == 5
    with pytest.warns(UserWarning, match="failed at 6 of 36 settings"):
        skipped = riskfront("evaluate", path, "--grid", "--points", 6, "--store", store, "--skip-errors")
    assert "36 settings x 200 examples" in skipped.stdout


@pytest.mark.parametrize("name", LOSSES)
def test_tune_with_losses_that_go_wrong(tmp_path: Path, name: str) -> None:
    path, store = sometimes_wrong(tmp_path, name), tmp_path / "run.zarr"
    options = ["--search", "random", "--budget", 30, "--store", store, "--seed", 1]
    is_one_line(riskfront("tune", path, *LIMITS, *options), [*LOSSES[name][1], "'n': 6", "in the store"])
    kept = rf.LossStore(store / "opt").configs
    assert kept
    assert all(config["n"] < 6 for config in kept)


def test_advice_is_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    path = sometimes_wrong(tmp_path, "an exception")
    done = riskfront("evaluate", path, "--grid", "--points", 6, "--store", tmp_path / "run.zarr")
    is_one_line(done, ["or count failures as the worst outcome with --skip-errors"])
    done = riskfront("tune", path, *LIMITS, "--search", "random", "--budget", 30, "--seed", 1)
    is_one_line(done, ["settings evaluated before are lost; with --store they are kept"])
    assert "'evaluated'" not in done.stderr


NEIGHBOUR = "def helped(found): return found\n"


@pytest.mark.parametrize("when", ["at once", "when called"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_tasks_that_import_what_is_next_to_them(tmp_path: Path, jobs: int, when: str) -> None:
    name = f"neighbour_{jobs}_{when.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(NEIGHBOUR)
    line = f"from {name} import helped\n"
    text = line + GOOD if when == "at once" else GOOD
    inside = "" if when == "at once" else f"    {line}"
    text += f"def losses(config, examples):\n{inside}    return helped(good(config, examples))\n"
    # a process of its own, so that the folder is on no path that this one has left
    command = [sys.executable, "-c", "from riskfront._cli import main; main()", "evaluate", str(task(tmp_path, text))]
    command += ["--grid", "--points", "2", "--store", str(tmp_path / "run.zarr"), "--n-jobs", str(jobs)]
    output(command, 200, cwd="/")
    assert len(rf.LossStore(tmp_path / "run.zarr")) == 4


def test_tasks_that_end_their_process(tmp_path: Path) -> None:
    leaves = task(tmp_path, GOOD + "import sys; sys.exit('usage: task')\n")
    is_one_line(riskfront("tune", leaves, *LIMITS), ["must run without an error; got SystemExit: usage: task"])
    dies = task(tmp_path, HEAD + "def losses(config, examples):\n    import os; os._exit(1)\n")
    done = riskfront("tune", dies, *LIMITS, "--search", "random", "--budget", 4, "--n-jobs", 2)
    is_one_line(done, ["workers must live until a setting is evaluated", "TerminatedWorkerError", "{'t': 0."])


def test_an_error_that_nobody_foresaw_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr(rf, "tune", fails)
    done = riskfront("tune", task(tmp_path, GOOD), *LIMITS)
    assert done.returncode == 3
    assert "RuntimeError: surprise" in done.stderr


@pytest.mark.parametrize("command", ["tune", "evaluate"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("rf.Space(t=rf.Float(0, 1), n=rf.Int(1, 6))", "rf.Space()"), ["at least one dimension"]),
        (GOOD.replace("rf.Int(1, 6)", "rf.Choice([])"), ["at least one option"]),
        (GOOD.replace("rf.Int(1, 6)", "rf.Choice([None, 1])"), ["booleans; got None", '"none"']),
        (GOOD.replace("space = rf.Space(", "space = dict("), ["space must be a Space; got dict"]),
        (GOOD.replace(".random(200)", ".random(0)"), ["at least one example"]),
        (GOOD.replace("examples = np", "examples = 3 # "), ["examples must be a sequence", "int"]),
        (GOOD + "groups = {'half': [1, 2]}\n", ["group 'half' must have one value for each of 200 examples"]),
        (GOOD + "bounds = {'cost': (1, 0)}\n", ["cost", "bounds"]),
        (GOOD + "losses = 3\n", ["losses must be a function"]),
        (GOOD + "1 / 0\n", ["must run without an error", "ZeroDivisionError"]),
        ("losses = 1", ["defines no examples"]),
    ],
)
def test_tasks_that_are_wrong(tmp_path: Path, command: str, text: str, words: list[str]) -> None:
    store = ["--store", tmp_path / "run.zarr"]
    extra = [*LIMITS, "--search", "random", "--budget", 5] if command == "tune" else ["--grid", "--points", 2]
    done = riskfront(command, task(tmp_path, text), *store, *extra)
    # the order in which a task's parts are looked at is no promise
    is_one_line(done, words if text != "losses = 1" else ["defines no"])


@pytest.mark.parametrize("budget", ["0", "-3", "many"])
def test_a_budget_that_is_none(tmp_path: Path, budget: str) -> None:
    path = task(tmp_path, GOOD)
    is_one_line(riskfront("tune", path, *LIMITS, "--budget", budget), ["budget"])
    is_one_line(riskfront("evaluate", path, "--store", tmp_path / "run.zarr", "--budget", budget), ["budget"])
    assert not (tmp_path / "run.zarr").exists()


def test_a_task_that_changed_within_a_second_is_another_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one length and one time, so that Python's bytecode of the first would pass for that of the second."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    store, path = tmp_path / "run.zarr", task(tmp_path, GOOD)
    tune = ["tune", path, *LIMITS, "--search", "random", "--budget", 5, "--store", store]
    assert riskfront(*tune).returncode in (0, 1)
    written = path.stat()
    task(tmp_path, GOOD.replace("random(200)", "random(300)"))
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    is_one_line(riskfront(*tune), ["belongs to another task", "examples"])


def test_a_store_of_another_task(tmp_path: Path) -> None:
    store, path = tmp_path / "run.zarr", task(tmp_path, GOOD)
    tune = ["tune", path, *LIMITS, "--search", "random", "--budget", 5, "--store", store]
    assert riskfront(*tune).returncode in (0, 1)
    known = rf.LossStore(store / "opt").configs
    is_one_line(riskfront(*tune, "--seed", 7), ["belongs to another task: its split differ"])
    task(tmp_path, GOOD.replace("random(200)", "random(300)"))
    is_one_line(riskfront(*tune), ["belongs to another task", "examples"])
    task(tmp_path, GOOD.replace("rf.Int(1, 6)", "rf.Int(1, 7)"))
    is_one_line(riskfront(*tune), ["belongs to another task: its space differ"])
    task(tmp_path, GOOD.replace("0.02", "0.03"))
    is_one_line(riskfront(*tune), ["belongs to another task: its code differ"])
    is_one_line(riskfront("evaluate", path, "--grid", "--store", store / "opt"), ["belongs to another task"])
    assert rf.LossStore(store / "opt").configs == known
    filled = tmp_path / "grid.zarr"
    assert riskfront("evaluate", path, "--grid", "--points", 2, "--store", filled).returncode == 0
    is_one_line(riskfront(*tune[:-1], filled), ["is a store of evaluate; tune needs one of its own"])


def test_another_function_another_space_and_bounds(tmp_path: Path) -> None:
    path = task(tmp_path, HEAD.replace("def good", "def model").replace("1 - config", "2 - 2 * config"))
    (tmp_path / "space.toml").write_text('[space.t]\ntype = "float"\nlow = 0.0\nhigh = 0.5\n')
    options = ["--space", tmp_path / "space.toml", "--bounds", "cost=0,2", "--budget", "5"]
    done = riskfront("evaluate", f"{path}:model", *options, "--search", "random", "--out", tmp_path / "losses.zarr")
    assert done.returncode == 0, done.stderr
    table = rf.LossStore(tmp_path / "losses.zarr").table()
    assert table.config_names == ["t"]
    assert table.n_configs == 5
    assert table.configs["t"].max() <= 0.5
    assert table.bounds("cost") == (0, 2)
    limits = ["--limit", "error <= 0.3", "--limit", "cost <= 1.9", "--minimize", "cost"]
    tuned = riskfront("tune", f"{path}:model", *options, "--search", "random", *limits)
    assert tuned.returncode == 0, (tuned.stdout, tuned.stderr)
    trials = riskfront("trials", tmp_path / "losses.zarr", *limits, "--methods", "pareto-testing", "--trials", "2")
    assert trials.returncode == 0, trials.stderr
    is_one_line(riskfront("evaluate", f"{path}:nothing", "--store", tmp_path / "no.zarr"), ["defines no nothing"])
    learning = riskfront("evaluate", f"{path}:model", "--search", "optuna", "--store", tmp_path / "no.zarr")
    is_one_line(learning, ["without a look at losses", "riskfront tune"])


def test_functions_with_a_cache_travel_to_workers(tmp_path: Path) -> None:
    text = HEAD + "import functools\n@functools.lru_cache(maxsize=8)\ndef factor(n): return n * 0.01\n"
    path = task(
        tmp_path, text + "def losses(config, examples):\n    factor(config['n'])\n    return good(config, examples)\n"
    )
    done = riskfront("evaluate", path, "--n-jobs", "2", "--budget", "4", "--store", tmp_path / "run.zarr")
    assert done.returncode == 0, done.stderr
    assert riskfront("evaluate", path, "--budget", "5", "--store", tmp_path / "run.zarr").returncode == 0
