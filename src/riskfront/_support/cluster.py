"""The cluster that joblib is set to, if any: ``with joblib.parallel_config(backend="dask")``, or "ray"."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

_CLUSTERS = ("DaskDistributedBackend", "RayBackend")
_TASKS = 4  # for each worker, so that a slow one holds up little


def is_cluster(backend: Any) -> bool:
    return type(backend).__name__ in _CLUSTERS


def jobs(n_jobs: int | None = None) -> int | None:
    """What to tell joblib: the number given here or in ``parallel_config``, else all of a cluster.

    Left to itself, joblib takes all of Dask, but runs in this process when it is set to Ray.
    """
    import joblib

    backend, configured = joblib.parallel.get_active_backend()
    if n_jobs is None and configured is None and is_cluster(backend):
        return -1
    return n_jobs


@contextlib.contextmanager
def never_in_this_process(backend: Any) -> Iterator[None]:
    """Run on the workers of a Dask cluster even if a single thread of them is left: joblib would run in this process then."""
    if type(backend).__name__ != "DaskDistributedBackend":
        yield
        return
    threads = type(backend).effective_n_jobs
    backend.effective_n_jobs = lambda n_jobs: max(2, threads(backend, n_jobs))
    try:
        yield
    finally:
        vars(backend).pop("effective_n_jobs", None)


def cluster_size() -> int:
    """How many tasks the cluster runs at a time; 0 when joblib is not set to one."""
    if "joblib" not in sys.modules:
        return 0  # whoever sets it to a cluster has loaded it
    import joblib

    return int(joblib.effective_n_jobs(jobs())) if is_cluster(joblib.parallel.get_active_backend()[0]) else 0


def shares(n: int, step: int, workers: int) -> Iterator[slice]:
    """Some slices for each worker that together cover n rows; all but the last are multiples of ``step`` rows."""
    rows = max(1, -(-n // (_TASKS * workers * step))) * step
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))
