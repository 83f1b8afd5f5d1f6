"""The cluster that joblib is set to, if any: ``with joblib.parallel_config(backend="dask")``, or "ray"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joblib

_CLUSTERS = ("DaskDistributedBackend", "RayBackend")
_TASKS = 4  # for each worker, so that a slow one holds up little


def is_cluster(backend: Any) -> bool:
    return type(backend).__name__ in _CLUSTERS


def jobs(n_jobs: int | None = None) -> int | None:
    """What to tell joblib: the number given here or in ``parallel_config``, else all of a cluster.

    Left to itself, joblib takes all of Dask, but runs in this process when it is set to Ray.
    """
    backend, configured = joblib.parallel.get_active_backend()
    if n_jobs is None and configured is None and is_cluster(backend):
        return -1
    return n_jobs


def cluster_size() -> int:
    """How many tasks the cluster runs at a time; 0 when joblib is not set to one."""
    return int(joblib.effective_n_jobs(jobs())) if is_cluster(joblib.parallel.get_active_backend()[0]) else 0


def shares(n: int, step: int, workers: int) -> Iterator[slice]:
    """Some slices for each worker that together cover n rows; all but the last are multiples of ``step`` rows."""
    rows = max(1, -(-n // (_TASKS * workers * step))) * step
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))
