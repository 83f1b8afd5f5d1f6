"""Workers of real clusters are killed while settings are evaluated: the same certificate, and no setting is blamed for it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._running.evaluation import workers
from tests.support.clusters import dask_cluster
from tests.support.processes import output, wait_until

# sockets that Dask leaves open when its workers are killed are found by the garbage collector, at any later time
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

EXAMPLES = np.random.default_rng(0).random(500)
SPACE = rf.Space(x=rf.Float(0, 1))
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.2)], minimize="cost")
OPTIONS: dict[str, Any] = {"search": "random", "budget": 24, "progress": False}


class Slow:
    """Takes its time, and says in a folder which process it runs in."""

    fingerprint = "slow"

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, config: dict[str, Any], examples: Any) -> dict[str, Any]:
        Path(self.folder, f"{os.getpid()} {time.time_ns()}").touch()
        time.sleep(0.2)
        shared = np.asarray(examples)
        return {"error": shared < config["x"] ** 2, "cost": np.full(len(shared), 1 - config["x"])}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> rf.Certificate:
    return rf.tune(Slow(tmp_path_factory.mktemp("calls")), EXAMPLES, SPACE, PROBLEM, **OPTIONS)


def kill_workers(folder: Path, pauses: list[float]) -> threading.Thread:
    """After five calls, and then after each pause, end a process that was at work and was not ended before."""

    def kill() -> None:
        killed: set[int] = set()
        deadline = time.monotonic() + 120
        for pause in pauses:
            while len(list(folder.iterdir())) < 5:
                if time.monotonic() > deadline:  # nothing is evaluated: the test fails by itself
                    return
                time.sleep(0.02)
            time.sleep(pause)
            pids = [int(path.name.split()[0]) for path in sorted(folder.iterdir(), key=lambda p: p.name.split()[1])]
            assert os.getpid() not in pids, "settings are evaluated on workers only"
            alive = [pid for pid in pids if pid not in killed and Path(f"/proc/{pid}").exists()]
            if alive:
                killed.add(alive[-1])
                os.kill(alive[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def dask() -> Iterator[Any]:
    with dask_cluster() as client:
        yield client


@pytest.mark.parametrize("pauses", [[0.0, 0.2], [0.0, 0.0]])
def test_both_workers_of_a_dask_cluster_are_killed(
    dask: Any, undisturbed: rf.Certificate, pauses: list[float], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    killer = kill_workers(calls, pauses)
    with joblib.parallel_config(backend="dask"):
        found = rf.tune(Slow(calls), EXAMPLES, SPACE, PROBLEM, store=tmp_path / "run.zarr", **OPTIONS)
    killer.join(150)
    assert found.path.equals(undisturbed.path)
    assert found.config == undisturbed.config
    assert rf.verify(found, tmp_path / "run.zarr") == []


def test_a_setting_that_kills_its_dask_worker_is_named(dask: Any, tmp_path: Path) -> None:
    def kills(config: dict[str, Any], examples: Any) -> dict[str, Any]:
        if config["i"] == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"error": examples > config["i"] / 10}

    configs = [{"i": i} for i in range(8)]
    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(rf.EvaluationError, match=r"3 tries of the setting {'i': 4}.* this setting ends its process"),
    ):
        rf.evaluate(kills, EXAMPLES, configs, store=tmp_path / "run.zarr")
    assert {"i": 3} in LossStore(tmp_path / "run.zarr")
    assert {"i": 4} not in LossStore(tmp_path / "run.zarr")


def test_a_dask_cluster_without_workers_is_an_error(dask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Dask is told not to wait for ever."""
    monkeypatch.setattr(workers, "_SECONDS", 2.0)
    dask.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "no_workers_timeout", 1.0))

    calls = tmp_path / "calls"
    calls.mkdir()

    def scale_down() -> None:
        wait_until(lambda: len(list(calls.iterdir())) >= 8, "some settings are evaluated")
        dask.cluster.scale(0)

    threading.Thread(target=scale_down, daemon=True).start()
    with joblib.parallel_config(backend="dask"), pytest.raises(rf.EvaluationError, match="workers must be reachable"):
        rf.evaluate(Slow(calls), EXAMPLES, [{"x": i / 80} for i in range(80)], store=tmp_path / "run.zarr")
    assert len(LossStore(tmp_path / "run.zarr")) >= 4


RAY = """
import sys
from pathlib import Path
import joblib
import riskfront as rf
from tests.support.clusters import ray_cluster
from tests.faults.test_killed_workers import EXAMPLES, OPTIONS, PROBLEM, SPACE, Slow, kill_workers

folder = Path(sys.argv[1])
calls = folder / "calls"
calls.mkdir()
killer = kill_workers(calls, [0.0, 1.0])
with ray_cluster(), joblib.parallel_config(backend="ray"):
    found = rf.tune(Slow(calls), EXAMPLES, SPACE, PROBLEM, store=folder / "run.zarr", **OPTIONS)
killer.join(150)
found.save(folder / "certificate.json")
"""


def test_workers_of_a_ray_cluster_are_killed(undisturbed: rf.Certificate, tmp_path: Path) -> None:
    """One worker, then another. In a process of its own: Ray changes joblib for good."""
    pytest.importorskip("ray")
    root = Path(__file__).parents[2]
    paths = [str(root), str(Path(rf.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    output([sys.executable, "-c", RAY, tmp_path], 240, env={"PYTHONPATH": os.pathsep.join(paths)})
    processes = {path.name.split()[0] for path in (tmp_path / "calls").iterdir()}
    assert len(processes) > 2, "a new process has taken the place of the one that was killed"
    found = rf.Certificate.load(tmp_path / "certificate.json")
    assert found.path.equals(undisturbed.path)
    assert rf.verify(found, tmp_path / "run.zarr") == []
