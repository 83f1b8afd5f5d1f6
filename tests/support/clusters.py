"""Clusters of two processes on this machine, whose end has a bound."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def dask_cluster(workers: int = 2) -> Iterator[Any]:
    """The client of a Dask cluster of processes with one thread each; skips the test where there is no Dask."""
    distributed = pytest.importorskip("distributed")
    with no_process_stays(), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",  # or it wants a port that others want
            silence_logs=logging.CRITICAL,
            death_timeout=100,
            local_directory=folder,
        )
        client = distributed.Client(cluster, timeout=60)
        try:
            yield client
        finally:
            for one, seconds in ((client, 20), (cluster, 40)):
                with contextlib.suppress(Exception):  # what cannot be closed is killed below
                    one.close(timeout=seconds)


@contextlib.contextmanager
def ray_cluster(*folders: str) -> Iterator[None]:
    """joblib's backend "ray"; workers find modules in these folders. Skips the test where there is no Ray."""
    ray = pytest.importorskip("ray")
    from joblib.pool import PicklingPool
    from ray.util.joblib import register_ray

    os.environ["RAY_AUTH_MODE"] = "disabled"  # else a token is left in the home folder
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    paths = os.pathsep.join([*folders, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    # a folder whose name is short, because sockets lie in it
    with no_process_stays(), tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",  # never a cluster of somebody else
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="critical",
            object_store_memory=200_000_000,
            runtime_env={"env_vars": {"PYTHONPATH": paths}},
            _node_ip_address="127.0.0.1",  # the address of the machine may be closed to itself
            _temp_dir=folder,
        )
        register_ray()
        bases = PicklingPool.__bases__
        try:
            yield
        finally:
            PicklingPool.__bases__ = bases  # Ray's backend puts itself in the place of joblib's pools for good
            _within(60, ray.shutdown)


def _within(seconds: float, call: Callable[[], Any]) -> None:
    """Wait for a call no longer than this; what it does not do then is left undone."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)


@contextlib.contextmanager
def no_process_stays(*, after_errors_only: bool = False) -> Iterator[None]:
    """What was started in the block and still runs after it is killed."""
    psutil = pytest.importorskip("psutil")
    here = psutil.Process()
    before, failed = set(here.children(recursive=True)), True
    try:
        yield
        failed = False
    finally:
        left = set(here.children(recursive=True)) - before if failed or not after_errors_only else ()
        for child in left:
            with contextlib.suppress(psutil.Error):
                if "resource_tracker" not in " ".join(child.cmdline()):  # of this process, for as long as it lives
                    child.kill()
