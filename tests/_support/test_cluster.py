"""Stores larger than memory on a real Dask cluster of two worker processes: the same numbers as in this process."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront._data.cached_sums import sums_here
from riskfront._data.sample import Sample
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.task import Task
from riskfront._data.sums import Totals
from riskfront._problems.terms import Term
from riskfront._support.cluster import cluster_size, shares
from tests.support.clusters import dask_cluster

pytest.importorskip("distributed")
pytest.importorskip("zarr", reason="stores need zarr 3, which needs Python 3.11")

N = 3_000
PROBLEM = rf.Problem(
    [
        rf.Limit("error", at_most=0.1, given="answered"),
        rf.Limit("error", at_most=0.25, per="label"),
        rf.Limit("cost", at_most=0.9, p_value="hoeffding-bentkus"),
    ],
    minimize="cost",
)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with dask_cluster() as client:
        yield client


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LossStore:
    """Opened by a relative path, which means something else to workers that were started elsewhere."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    noise, other = random.random(N), random.random(N)
    store = LossStore("run.zarr", Task(N, {"code": "c"}, {"label": np.arange(N) % 3}))
    for i in range(60):
        losses = {"error": noise < i / 120, "answered": other > i / 300, "cost": np.float32((1 - i / 60) * other)}
        store.write({"i": i}, losses)
    return LossStore("run.zarr")


def test_workers_read_the_store_and_the_certificate_is_the_same(
    client: Any, store: LossStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "riskfront._data.sums._BLOCK_BYTES", 4 * N * 7
    )  # many blocks, of seven rows in single precision
    here = rf.calibrate(store.table(lazy=True), PROBLEM)
    whole = sums_here

    def signed(sample: Sample, term: Term, weights: Any, rows: Any = None) -> Totals:
        if rows is None:
            (tmp_path / f"pass by {os.getpid()}").touch()
        return whole(sample, term, weights, rows)

    monkeypatch.setattr("riskfront._data.cached_sums.sums_here", signed)
    with joblib.parallel_config(backend="dask"):
        assert cluster_size() == 2
        there = rf.calibrate(store.table(lazy=True), PROBLEM)
    assert cluster_size() == 0
    workers = {int(path.name.split()[-1]) for path in tmp_path.glob("pass by *")}
    assert workers
    assert workers <= set(client.run(os.getpid).values()), "every pass over all settings must run on the workers"
    assert here
    assert there.to_dict() == here.to_dict()


def test_experiments_are_the_same_on_a_cluster(client: Any, store: LossStore) -> None:
    options: dict[str, Any] = {"methods": ["pareto-testing", "bonferroni"], "trials": 5, "alphas": [(0.1, 0.25, 0.9)]}
    here = rf.experiment.run(store.table(lazy=True), PROBLEM, **options)
    with joblib.parallel_config(backend="dask"):
        there = rf.experiment.run(store.table(lazy=True), PROBLEM, **options)
    pd.testing.assert_frame_equal(here, there, check_exact=True)


def test_damage_is_found_on_a_cluster_too(client: Any, store: LossStore) -> None:
    tested = int(rf.calibrate(store.table(lazy=True), PROBLEM).path["i"].iloc[0])
    (chunk,) = Path("run.zarr/parts").glob("*/error/0.0")
    data = bytearray(chunk.read_bytes())
    data[tested * N] ^= 1
    chunk.write_bytes(data)
    with joblib.parallel_config(backend="dask"), pytest.raises(rf.StoreError, match="SHA-256 differs"):
        rf.calibrate(LossStore("run.zarr").table(lazy=True), PROBLEM)


def losses(config: dict[str, Any], examples: Any) -> dict[str, Any]:
    shared = np.asarray(examples)
    return {"error": shared < config["x"] ** 2, "cost": np.full(len(shared), 1 - config["x"]), "pid": _pid(shared)}


def _pid(shared: Any) -> Any:
    return np.full(len(shared), os.getpid())


def test_tune_runs_on_a_cluster(client: Any, tmp_path: Path) -> None:
    examples = np.random.default_rng(0).random(1_000)
    space = rf.Space(x=rf.Float(0, 1))
    problem = rf.Problem([rf.Limit("error", at_most=0.2)], minimize="cost")
    options: dict[str, Any] = {"search": "random", "budget": 20, "bounds": {"pid": (0, 1e9)}}
    here = rf.tune(losses, examples, space, problem, **options)
    with joblib.parallel_config(backend="dask"):
        there = rf.tune(losses, examples, space, problem, store=tmp_path / "run.zarr", **options)
    assert there.config == here.config
    assert there.path.equals(here.path)
    pids = {
        int(pid)
        for part in ("opt", "test")
        for pid in LossStore(tmp_path / "run.zarr" / part).table().losses("pid")[:, 0]
    }
    assert pids
    assert pids <= set(client.run(os.getpid).values()), "one of them may have been quick enough for all"


@pytest.mark.parametrize(("n", "step", "workers"), [(1, 1, 2), (60, 7, 2), (5_000, 5, 16), (8, 100, 3)])
def test_shares_cover_all_rows_in_whole_blocks(n: int, step: int, workers: int) -> None:
    parts = list(shares(n, step, workers))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(n))
    assert all(part.start % step == 0 for part in parts)
    assert len(parts) <= 4 * workers


def test_a_cluster_of_one_thread_is_a_cluster() -> None:
    """joblib alone would run in this process."""
    with dask_cluster(1), joblib.parallel_config(backend="dask"):
        table = rf.evaluate(losses, np.linspace(0, 1, 9), [{"x": 0.1}, {"x": 0.5}], bounds={"pid": (0, 1e9)})
    assert os.getpid() not in table.losses("pid")
