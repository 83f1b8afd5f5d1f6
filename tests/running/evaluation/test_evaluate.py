"""evaluate: every setting exactly once, whatever happens to workers, processes, disks and the user's function."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._problems.spaces.space import Float, Space
from riskfront._running.evaluation.evaluate import evaluate
from riskfront.errors import EvaluationError, InvalidInputError, StoreError
from tests.support.clusters import dask_cluster
from tests.support.processes import Process, output, started, wait_until

ROOT = Path(__file__).parents[3]
CONFIGS = [{"t": i / 10, "kind": kind} for i in range(6) for kind in ("a", "b")]
EXAMPLES = np.linspace(0, 1, 50)


def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    return {"error": np.asarray(examples) < config["t"], "cost": [config["t"]] * len(examples)}


@pytest.mark.parametrize("examples", [EXAMPLES, list(EXAMPLES), pd.Series(EXAMPLES)], ids=["array", "list", "pandas"])
@pytest.mark.parametrize("backend", ["one", "loky", "threading"])
def test_every_backend_gives_the_same_table(examples: Any, backend: str, tmp_path: Path) -> None:
    expected = evaluate(losses, EXAMPLES, CONFIGS, groups={"half": EXAMPLES > 0.5})
    with joblib.parallel_config(backend="loky" if backend == "one" else backend):
        jobs = 1 if backend == "one" else 2
        for store in (None, tmp_path / "run.zarr"):
            table = evaluate(losses, examples, CONFIGS, n_jobs=jobs, store=store, groups={"half": EXAMPLES > 0.5})
            assert table.sha256 == expected.sha256
            assert table.is_binary("error")
            assert table.config(3) == CONFIGS[3]


FORKED = """
import joblib
from riskfront._running.evaluation.evaluate import evaluate
from tests.running.evaluation.test_evaluate import CONFIGS, EXAMPLES, losses
with joblib.parallel_config(backend="multiprocessing"):
    assert evaluate(losses, EXAMPLES, CONFIGS, n_jobs=2).sha256 == evaluate(losses, EXAMPLES, CONFIGS).sha256
"""


def test_processes_that_are_forked_give_the_same_table() -> None:
    """In a process of its own: where other tests have left threads, a fork may wait for ever for what one of them held."""
    output([sys.executable, "-c", FORKED], env={"PYTHONPATH": os.pathsep.join(sys.path)})


def test_settings_from_a_data_frame() -> None:
    table = evaluate(losses, EXAMPLES, pd.DataFrame(CONFIGS))
    assert table.sha256 == evaluate(losses, EXAMPLES, CONFIGS).sha256


def counted(config: dict[str, Any], examples: Any, folder: str = "") -> dict[str, Any]:
    (Path(folder) / f"{config['t']} {config['kind']} {time.time_ns()}").touch()
    return losses(config, examples)


def test_a_second_call_goes_on_where_the_first_was(tmp_path: Path) -> None:
    calls: list[float] = []

    class Task:
        fingerprint = "the same"

        def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
            calls.append(config["t"])
            return losses(config, examples)

    evaluate(Task(), EXAMPLES, CONFIGS[:5], store=tmp_path / "run.zarr")
    evaluate(Task(), EXAMPLES, CONFIGS, store=tmp_path / "run.zarr")
    assert len(calls) == len(CONFIGS)


def test_a_store_of_another_task_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "run.zarr"
    evaluate(losses, EXAMPLES, CONFIGS[:1], store=store)
    for other, examples, groups, configs, what in (
        (counted, EXAMPLES, None, CONFIGS, "code and packages"),
        (losses, EXAMPLES + 1, None, CONFIGS, "examples"),
        (losses, EXAMPLES, {"half": EXAMPLES > 0.5}, CONFIGS, "groups"),
        (losses, EXAMPLES, None, [{"t": 0.5}], "settings"),
    ):
        with pytest.raises(StoreError, match=f"another task: its {what} differ"):
            evaluate(other, examples, configs, store=store, groups=groups)


def test_examples_travel_once_to_each_worker(tmp_path: Path) -> None:
    class Example:
        def __reduce__(self) -> Any:
            (tmp_path / f"packed {time.time_ns()}").touch()
            return (int, (3,))

    evaluate(losses, [Example()] * 1 + [0.5] * 49, CONFIGS * 1, n_jobs=2)
    assert len(list(tmp_path.glob("packed*"))) == 2  # looked at once to be told apart from others, and packed once


# -------------------------------------------------------------------- what the user's function may do wrong

BAD = {
    "fails": (lambda c, x: 1 / 0, "the losses function failed with ZeroDivisionError: division by zero"),
    "nothing": (lambda c, x: None, "must return a dictionary, .* got None"),
    "array": (lambda c, x: np.zeros(len(x)), "must return a dictionary, .* got ndarray"),
    "empty": (lambda c, x: {}, "at least one loss; got an empty dictionary"),
    "short": (
        lambda c, x: {"error": [0] * 7, "cost": [0] * 50},
        r"one value for each of 50 examples.* got shape \(7,\)",
    ),
    "scalar": (lambda c, x: {"error": 0.5, "cost": [0] * 50}, r"one value for each of 50 examples.* got shape \(\)"),
    "nan": (
        lambda c, x: {"error": [0.0] * 49 + [np.nan], "cost": [0] * 50},
        "finite everywhere; got nan for example 49",
    ),
    "text": (lambda c, x: {"error": ["no"] * 50, "cost": [0] * 50}, "'error' must hold numbers; got"),
    "missing": (lambda c, x: {"cost": [0] * 50}, r"same losses at every setting, \['cost', 'error'\]; got \['cost'\]"),
    "other": (lambda c, x: {"cost": [0] * 50, "eror": [0] * 50}, r"same losses .* got \['cost', 'eror'\]"),
    "number": (lambda c, x: {1: [0] * 50}, "names of losses must be texts; got 1"),
}


class Bad:
    """Good at all settings but one."""

    fingerprint = "bad"

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, config: dict[str, Any], examples: Any) -> Any:
        return BAD[self.name][0](config, examples) if config == CONFIGS[4] else losses(config, examples)


@pytest.mark.parametrize("name", BAD)
def test_one_clear_sentence_and_nothing_lost(name: str, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=BAD[name][1]) as caught:
        evaluate(Bad(name), EXAMPLES, CONFIGS)
    assert str(CONFIGS[4]) in str(caught.value)
    assert caught.value.config == CONFIGS[4]
    assert caught.value.evaluated.n_configs == 4
    with pytest.raises(EvaluationError, match="4 settings evaluated before are in the store"):
        evaluate(Bad(name), EXAMPLES, CONFIGS, store=tmp_path / "run.zarr")
    assert len(LossStore(tmp_path / "run.zarr")) == 4
    with pytest.warns(UserWarning, match="failed at 1 of 12 settings.* counts each as the worst"):
        table = evaluate(Bad(name), EXAMPLES, CONFIGS, store=tmp_path / "run.zarr", on_error="skip")
    assert table.n_configs == len(LossStore(tmp_path / "run.zarr")) == 12
    gaps = np.isnan(table.losses("error")).sum(axis=1)
    assert gaps.tolist() == [1 if name == "nan" and i == 4 else 50 * (i == 4) for i in range(12)]
    assert np.isnan(table.losses("cost")[4]).any() == (name != "nan"), "a missing error does not touch the cost"
    assert evaluate(Bad(name), EXAMPLES, CONFIGS, store=tmp_path / "run.zarr").sha256 == table.sha256


def test_failures_in_other_processes_show_where() -> None:
    with pytest.raises(EvaluationError, match="ZeroDivisionError") as caught:
        evaluate(lambda config, x: {"error": 1 / 0}, EXAMPLES, CONFIGS, n_jobs=2)
    assert 'return {"error": 1 / 0}' in str(caught.value.__cause__) or "1 / 0" in str(caught.value.__cause__)
    with pytest.raises(EvaluationError, match="All 12 settings failed on every example"):
        evaluate(lambda config, x: {"error": 1 / 0}, EXAMPLES, CONFIGS, n_jobs=2, on_error="skip")


def test_settings_from_an_iterator(tmp_path: Path) -> None:
    expected = evaluate(losses, EXAMPLES, CONFIGS)
    for store in (None, tmp_path / "run.zarr"):
        assert evaluate(losses, EXAMPLES, iter(CONFIGS), store=store).sha256 == expected.sha256


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
@pytest.mark.parametrize(
    ("declared", "sentence", "calls"),
    [
        ({"bounds": {"eror": (0, 1)}}, "there is no loss 'eror'.* Did you mean 'error'", 1),
        ({"groups": {"error": EXAMPLES > 0.5}}, "'error' as a loss and as a group", 1),
        (
            {"bounds": {"cost": (0, 0.2)}},
            r"'cost' must lie in its declared bounds \(0, 0.2\).* at the setting {'t': 0.3",
            7,
        ),
        ({"bounds": {"cost": (0, 0.3 - 1e-9)}}, r"'cost' must lie in its declared bounds", 7),
    ],
)
def test_what_contradicts_the_declaration_is_said_at_the_first_setting_that_does(
    declared: dict[str, Any], sentence: str, calls: int, stored: bool, on_error: Any, tmp_path: Path
) -> None:
    called = []

    class Task:
        fingerprint = "declared"

        def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
            called.append(config)
            return losses(config, examples)

    store = tmp_path / "run.zarr" if stored else None
    with pytest.raises(EvaluationError, match=sentence) as caught:
        evaluate(Task(), EXAMPLES, CONFIGS, store=store, on_error=on_error, **declared)
    assert len(called) == calls
    assert caught.value.config == called[-1]
    assert caught.value.n_evaluated == calls - 1
    if store is not None:
        assert len(LossStore(store)) == calls - 1
    elif calls > 1:
        assert caught.value.evaluated.n_configs == calls - 1


# -------------------------------------------------------------------- killed runs, full disks, lost workers

SLOW = """
import os, signal, sys, time
import numpy as np
from pathlib import Path
from riskfront._running.evaluation.evaluate import evaluate
from riskfront._problems.spaces.space import Float, Space

def losses(config, examples):
    (Path(sys.argv[1]) / f"{config['i']} {time.time_ns()}").touch()
    if "STOPPED" in os.environ:  # later settings take long, so that this is over only when it is stopped
        time.sleep(0.03 if config["i"] < 12 else 1)
    return {"error": examples < config["i"] / 40, "cost": np.full(len(examples), config["i"])}

losses.fingerprint = "slow"
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's jobs in the background ignore
    examples = np.linspace(0, 1, 30)
    table = evaluate(losses, examples, [{"i": i} for i in range(40)], store=sys.argv[1] + "/run.zarr", n_jobs=int(sys.argv[2]))
    print(table.n_configs, table.losses("cost")[:, 0].astype(int).tolist() == list(range(40)))
"""


def start(tmp_path: Path, jobs: int, **env: str) -> "AbstractContextManager[Process]":
    (tmp_path / "slow.py").write_text(SLOW)
    return started([sys.executable, tmp_path / "slow.py", tmp_path, jobs], env=env)


def markers(tmp_path: Path) -> int:
    return sum(file.read_text().count("\n") for file in (tmp_path / "run.zarr" / "done").glob("*.jsonl"))


@pytest.mark.parametrize(("jobs", "stop"), [(1, signal.SIGKILL), (2, signal.SIGKILL), (2, signal.SIGINT)])
def test_a_killed_run_goes_on(tmp_path: Path, jobs: int, stop: signal.Signals) -> None:
    with start(tmp_path, jobs, STOPPED="1") as run:
        wait_until(lambda: markers(tmp_path) >= 7, "seven settings are completed")
        os.killpg(run.pid, stop)
        assert run.wait() != 0
        if stop == signal.SIGINT:
            assert "KeyboardInterrupt" in run.err
    complete = len(LossStore(tmp_path / "run.zarr"))
    assert 7 <= complete < 40
    begun = len(list(tmp_path.glob("* *")))
    with start(tmp_path, jobs) as again:
        again.wait()
        assert again.out.strip() == "40 True", again.err
    # only what was in flight was evaluated again
    assert len(list(tmp_path.glob("* *"))) - begun == 40 - complete


def test_a_full_disk(tmp_path: Path) -> None:
    limited = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from riskfront._data.stores.loss_store import LossStore
from riskfront._running.evaluation.evaluate import evaluate
from riskfront._problems.spaces.space import Float, Space
import numpy as np
def losses(config, x):
    return {{"cost": np.ones(100) if config["i"] < 5 else np.ones(100) * 0.5}}
losses.fingerprint = "disk"
configs = [{{"i": i}} for i in range(9)]
evaluate(losses, range(100), configs[:5], store={str(tmp_path / "run.zarr")!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
evaluate(losses, range(100), configs, store={str(tmp_path / "run.zarr")!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, timeout=120
    )  # files are limited
    last = done.stderr.strip().splitlines()[-1]
    assert "StoreError: cannot write to the store" in last
    assert "File too large. What was evaluated before is in the store" in last
    assert len(LossStore(tmp_path / "run.zarr").table().configs) == 5
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_a_failure_loses_nothing_that_other_workers_are_busy_with(tmp_path: Path, backend: str) -> None:
    def fails_first(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        (tmp_path / f"began {config['i']}").touch()
        if config["i"] == 0:
            wait_until((tmp_path / "began 1").exists, "another worker has begun")
            raise ValueError("no")
        time.sleep(1.0)
        return {"error": np.zeros(len(examples))}

    configs = [{"i": i} for i in range(40)]
    with joblib.parallel_config(backend=backend), pytest.raises(EvaluationError, match="ValueError: no") as caught:
        evaluate(fails_first, EXAMPLES, configs, store=tmp_path / "run.zarr", n_jobs=2)
    began = {int(path.name.split()[1]) for path in tmp_path.glob("began *")}
    kept = {config["i"] for config in LossStore(tmp_path / "run.zarr").configs}
    assert 1 in kept
    assert kept == began - {0}, "what was begun is finished and kept"
    assert len(began) < 10, "and nothing else is begun"
    assert f"The {len(kept)} settings evaluated before are in the store" in str(caught.value)


def test_a_worker_of_a_dask_cluster_dies(tmp_path: Path) -> None:
    def slow(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        time.sleep(0.03)
        (tmp_path / f"{config['i']} {os.getpid()} {time.time_ns()}").touch()
        return {"error": np.array(examples) < config["i"] / 60, "pid": np.full(len(examples), os.getpid())}

    with dask_cluster() as client:
        victim = next(iter(client.run(os.getpid).values()))

        def kill() -> None:
            wait_until(lambda: len(list(tmp_path.glob("* *"))) >= 15, "fifteen settings are evaluated")
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        with joblib.parallel_config(backend="dask"):
            configs = [{"i": i} for i in range(60)]
            table = evaluate(
                slow, list(np.linspace(0, 1, 30)), configs, store=tmp_path / "run.zarr", bounds={"pid": (0, 1e9)}
            )
        killer.join(70)
    assert table.n_configs == len(LossStore(tmp_path / "run.zarr")) == 60
    assert table.losses("error").mean(axis=1) == pytest.approx(
        [np.mean(np.linspace(0, 1, 30) < i / 60) for i in range(60)]
    )
    assert len(np.unique(table.losses("pid"))) >= 2


def test_the_bar_shows_on_a_terminal_only(capfd: pytest.CaptureFixture[str]) -> None:
    evaluate(losses, EXAMPLES, CONFIGS)
    assert capfd.readouterr().err == ""
    evaluate(losses, EXAMPLES, CONFIGS, progress=True)
    assert "evaluating" in capfd.readouterr().err


def test_groups_as_a_data_frame(tmp_path: Path) -> None:
    half = np.where(EXAMPLES > 0.5, "high", "low")
    expected = evaluate(losses, EXAMPLES, CONFIGS, groups={"half": half})
    for store in (None, tmp_path / "run.zarr"):
        table = evaluate(losses, EXAMPLES, CONFIGS, groups=pd.DataFrame({"half": half}), store=store)
        assert table.sha256 == expected.sha256
    problem = rf.Problem("error <= 0.6 per half", minimize="cost")
    frame, space = pd.DataFrame({"half": half}), rf.Space(t=rf.Float(0, 0.5), kind=rf.Choice(["a", "b"]))
    certificate = rf.tune(losses, EXAMPLES, space, problem, search="random", budget=4, groups=frame)
    assert set(certificate.measured["group"]) <= {"high", "low"}


def holding(lock: Any) -> Any:
    return lambda config, examples: {"error": [lock is None] * 50}


#: what is wrong -> arguments, words; test_examples.py has what is no sequence of examples
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a function that is none": ({"losses": "text"}, "losses must be a function"),
    "a function that cannot be sent": ({"losses": holding(threading.Lock()), "n_jobs": 2}, "sent to other processes"),
    "no examples": ({"examples": []}, "at least one example"),
    "examples that are a number": ({"examples": 3}, "examples must be a sequence"),
    "no settings": ({"configs": []}, "at least one setting"),
    "None as settings": ({"configs": None}, "configs must be a list of dictionaries or a data frame; got NoneType"),
    "one setting alone": ({"configs": {"t": 1}}, "configs must be a list .* got dict. One setting is a list of one"),
    "a space of settings": ({"configs": Space(t=Float(0, 1))}, r"got Space. Use space.grid\(10\)"),
    "a setting twice": ({"configs": [CONFIGS[0]] * 2}, "all settings must differ"),
    "settings of different keys": ({"configs": [{"t": 1}, {"u": 1}]}, "the same keys"),
    "an unknown way with errors": ({"on_error": "ignore"}, "on_error must be"),
    "no workers": ({"n_jobs": 0}, "n_jobs must be"),
    "a number as store": ({"store": 5}, "a store must be given by a path or a URL; got 5"),
    "an empty name as store": ({"store": ""}, "a store must be given by a path or a URL; got ''"),
    "a list as groups": ({"groups": [1] * 50}, "groups must be a dictionary.* got list"),
    "groups of other examples": ({"groups": {"y": [1, 2]}}, "one value for each of 50"),
    "a list as bounds": ({"bounds": [(0, 1)]}, "bounds must be a dictionary.* got list"),
    "bounds the wrong way round": ({"bounds": {"cost": (1, 0)}}, "bounds of 'cost' must be finite with low < high"),
    "one bound": ({"bounds": {"cost": 3}}, "bounds of 'cost' must be a pair"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_before_anything_is_called(case: str) -> None:
    def never(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        raise AssertionError("called")

    wrong, sentence = REFUSED[case]
    with pytest.raises(InvalidInputError, match=sentence):
        evaluate(**{"losses": never, "examples": EXAMPLES, "configs": CONFIGS, **wrong})
