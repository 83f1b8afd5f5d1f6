"""Calls of the user's function in parallel through joblib; function and examples travel once to each worker."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import joblib
import numpy as np

from riskfront.cluster import is_cluster, jobs
from riskfront.errors import InvalidInputError
from riskfront.outcome import Losses, Outcome, outcome_of
from riskfront.space import Config

_CHUNK = 4  # settings for each worker, where results come only when all of a chunk are done
_LOADED: dict[str, tuple[Losses, Any]] = {}  # in a worker: what the last cargo held


class Cargo(Protocol):
    """The function and the examples, on their way to a worker."""

    def unpack(self) -> tuple[Losses, Any]: ...


class Evaluator(Protocol):
    """Evaluates settings, ``count`` at a time."""

    @property
    def count(self) -> int: ...

    def run(self, configs: Iterable[Config]) -> Iterator[tuple[int, Outcome]]:
        """The position and the outcome of each setting, as they come."""


class Workers:
    """Whatever joblib runs on: this process, local processes, or the cluster of ``joblib.parallel_config``.

    Args:
        losses: the user's function.
        examples: anything with a length.
        n_jobs: as in joblib; None is 1, or what ``joblib.parallel_config`` says.
    """

    def __init__(self, losses: Losses, examples: Any, n_jobs: int | None = None) -> None:
        if not callable(losses):
            raise InvalidInputError(f"losses must be a function of a setting and the examples; got {losses!r}.")
        if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
            raise InvalidInputError(
                f"n_jobs must be a whole number that is not 0 (-1: all processors); got {n_jobs!r}."
            )
        self._losses, self._examples, self._n_jobs = losses, examples, jobs(n_jobs)
        self._backend = joblib.parallel.get_active_backend()[0]
        self._kind = type(self._backend).__name__
        self.count = max(1, joblib.effective_n_jobs(self._n_jobs))
        self._cargo: Cargo | None = None
        self._pool: joblib.Parallel | None = None
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._resources.close()

    @property
    def _is_cluster(self) -> bool:
        return is_cluster(self._backend)

    def run(self, configs: Iterable[Config]) -> Iterator[tuple[int, Outcome]]:
        """The position and the outcome of each setting, as they come; settings are taken when a worker can start on them."""
        if self.count == 1 and not self._is_cluster:
            for index, config in enumerate(configs):
                yield index, outcome_of(self._losses, config, self._examples)
            return
        cargo = self._loaded_cargo()
        tasks = (joblib.delayed(_work)(cargo, index, config) for index, config in enumerate(configs))
        if self._backend.supports_return_generator:
            results = joblib.Parallel(n_jobs=self._n_jobs, return_as="generator_unordered")(tasks)
            try:
                for result in results:  # noqa: UP028 - yield from would close the results before the lines below
                    yield result
            finally:
                with warnings.catch_warnings():  # that results are left behind when a run stops is no news
                    warnings.simplefilter("ignore")
                    results.close()
            return
        if self._pool is None:  # Ray takes seconds to start its processes: once, not for every batch
            self._pool = self._resources.enter_context(joblib.Parallel(n_jobs=self._n_jobs))
        while chunk := list(itertools.islice(tasks, _CHUNK * self.count)):
            yield from self._pool(chunk)

    def _loaded_cargo(self) -> Cargo:
        if self._cargo is None:
            if self._kind in ("LokyBackend", "MultiprocessingBackend"):
                folder = tempfile.mkdtemp(prefix="riskfront-")
                self._resources.callback(shutil.rmtree, folder, ignore_errors=True)
                self._cargo = FileCargo.pack(self._losses, self._examples, folder)
            elif self._kind == "RayBackend":
                self._cargo = RayCargo(self._losses, self._examples)
            else:
                self._cargo = ObjectCargo(self._losses, self._examples)
        if self._kind == "DaskDistributedBackend" and id(self._cargo) not in self._backend.data_futures:
            # on every worker, so that the death of one loses nothing
            (future,) = self._backend.client.scatter([self._cargo], broadcast=True)
            self._backend.data_futures[id(self._cargo)] = future
            self._resources.callback(self._backend.data_futures.pop, id(self._cargo), None)
        return self._cargo


class ObjectCargo:
    """The objects themselves: for threads, and for Dask, which keeps them on its workers."""

    def __init__(self, losses: Losses, examples: Any) -> None:
        self.held = (losses, examples)

    def unpack(self) -> tuple[Losses, Any]:
        return self.held


class FileCargo:
    """A folder that each local process reads once; arrays are mapped, so that all processes share their memory."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def pack(cls, losses: Losses, examples: Any, folder: str) -> FileCargo:
        import cloudpickle

        mapped = isinstance(examples, np.ndarray) and type(examples) is np.ndarray and not examples.dtype.hasobject
        if mapped:
            np.save(Path(folder) / "examples.npy", examples, allow_pickle=False)
        try:
            data = cloudpickle.dumps((losses, None if mapped else examples))
        except Exception as error:
            raise InvalidInputError(
                f"losses and examples must be such that they can be sent to other processes; they cannot ({error}). "
                "Use n_jobs=1, or make what cannot travel inside the function."
            ) from error
        (Path(folder) / "cargo").write_bytes(data)
        return cls(folder)

    def unpack(self) -> tuple[Losses, Any]:
        if self.folder not in _LOADED:
            import cloudpickle

            losses, examples = cloudpickle.loads((Path(self.folder) / "cargo").read_bytes())
            if (Path(self.folder) / "examples.npy").exists():
                examples = np.load(Path(self.folder) / "examples.npy", mmap_mode="r", allow_pickle=False)
            _LOADED.clear()
            _LOADED[self.folder] = (losses, examples)
        return _LOADED[self.folder]


class RayCargo:
    """A reference into Ray's object store, which holds one copy a machine."""

    def __init__(self, losses: Losses, examples: Any) -> None:
        import ray

        self.reference = ray.put((losses, examples))

    def unpack(self) -> tuple[Losses, Any]:
        import ray

        held: tuple[Losses, Any] = ray.get(self.reference)
        return held


def _work(cargo: Cargo, index: int, config: Config) -> tuple[int, Outcome]:
    losses, examples = cargo.unpack()
    return index, outcome_of(losses, config, examples)
