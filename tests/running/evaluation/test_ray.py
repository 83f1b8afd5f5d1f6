"""Evaluation and stores on a real Ray cluster of two worker processes, by joblib's own context."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._support.cluster import cluster_size
from tests.support.clusters import ray_cluster

pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")
pytest.importorskip("ray")

PROBLEM = rf.Problem([rf.Limit("error", at_most=0.2)], minimize="cost")
EXAMPLES = np.random.default_rng(0).random(1_000)
BOUNDS = {"pid": (0, 1e9)}


def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    shared = np.asarray(examples)
    pid = np.full(len(shared), os.getpid())
    return {"error": shared < config["x"] ** 2, "cost": np.full(len(shared), 1 - config["x"]), "pid": pid}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_cluster(str(Path(__file__).parent)):
        yield


def test_settings_are_evaluated_on_the_workers_and_found_again(cluster: None, tmp_path: Path) -> None:
    configs = [{"x": i / 30} for i in range(30)]
    here = rf.evaluate(losses, EXAMPLES, configs, bounds=BOUNDS)
    with joblib.parallel_config(backend="ray"):
        assert cluster_size() == 2
        there = rf.evaluate(losses, EXAMPLES, configs, store=tmp_path / "run.zarr", bounds=BOUNDS)
        workers = set(there.losses("pid")[:, 0])
        assert os.getpid() not in workers, "joblib's default on Ray is this process"
        assert len(workers) == 2, "the processes are started once, not for every batch"
        for name in ("error", "cost"):
            assert np.array_equal(here.losses(name), there.losses(name))
        lazy = LossStore(tmp_path / "run.zarr").table(lazy=True)
        certificate = rf.calibrate(lazy, PROBLEM)
    assert certificate
    assert certificate.to_dict() == rf.calibrate(lazy, PROBLEM).to_dict()


@pytest.mark.parametrize("adaptive", [False, True])
def test_tune_runs_on_ray(adaptive: bool, cluster: None, tmp_path: Path) -> None:
    options: dict[str, Any] = {"search": "random", "budget": 12, "bounds": BOUNDS, "adaptive": adaptive}
    here = rf.tune(losses, EXAMPLES, rf.Space(x=rf.Float(0, 1)), PROBLEM, **options)
    with joblib.parallel_config(backend="ray"):
        there = rf.tune(losses, EXAMPLES, rf.Space(x=rf.Float(0, 1)), PROBLEM, store=tmp_path / "run.zarr", **options)
    assert here
    assert there.config == here.config
    assert there.path.equals(here.path)
    assert there.evaluations == here.evaluations
    if adaptive:
        assert rf.verify(there, tmp_path / "run.zarr") == []
        return
    for part in ("opt", "test"):
        pids = LossStore(tmp_path / "run.zarr" / part).table().losses("pid")[:, 0]
        assert os.getpid() not in set(pids)
