"""Calls of the user's function in parallel through joblib; function and examples travel once to each worker."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import traceback
import warnings
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import joblib

from riskfront.errors import InvalidInputError
from riskfront.evaluation.broadcast import Cargo, FileCargo, ObjectCargo, RayCargo, SentCargo, no_room
from riskfront.evaluation.outcome import Failure, Losses, Outcome, outcome_of, said
from riskfront.runtime.cluster import is_cluster, jobs
from riskfront.runtime.temporary_folders import scratch_folder
from riskfront.spaces.space import Config

_CHUNK = 4  # settings for each worker, where results come only when all of a chunk are done


class WorkersLostError(Exception):
    """Workers ended, or could not be reached, before all settings were evaluated; ``positions`` were under way."""

    def __init__(self, reason: str, positions: list[int]) -> None:
        super().__init__(reason)
        self.reason, self.positions = reason, positions


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
        under_way: dict[int, None] = {}

        def tasks() -> Iterator[Any]:
            for index, config in enumerate(configs):
                under_way[index] = None
                yield joblib.delayed(_work)(cargo, index, config)

        results = self._results(tasks())
        try:
            for index, outcome in results:
                under_way.pop(index)
                yield index, outcome
        except Exception as error:  # the user's function cannot cause one: its own are outcomes
            reason = said(error).splitlines()[0].partition(". ")[0]  # what may be behind it is ours to say
            raise WorkersLostError(reason, list(under_way)) from error
        finally:
            results.close()

    def _results(self, tasks: Iterator[Any]) -> Generator[tuple[int, Outcome]]:
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
                self._cargo = FileCargo.pack(self._losses, self._examples, self._folder())
            elif self._kind == "RayBackend":
                self._cargo = RayCargo(self._losses, self._examples)
            elif self._kind == "DaskDistributedBackend":
                self._cargo = SentCargo.pack(self._losses, self._examples)
            else:
                self._cargo = ObjectCargo(self._losses, self._examples)
        if self._kind == "DaskDistributedBackend" and id(self._cargo) not in self._backend.data_futures:
            # on every worker, so that the death of one loses nothing
            (future,) = self._backend.client.scatter([self._cargo], broadcast=True)
            self._backend.data_futures[id(self._cargo)] = future
            self._resources.callback(self._backend.data_futures.pop, id(self._cargo), None)
        return self._cargo

    def _folder(self) -> Path:
        try:
            return self._resources.enter_context(scratch_folder())
        except OSError as error:
            raise no_room(Path(tempfile.gettempdir()), error) from error


def _work(cargo: Cargo, index: int, config: Config) -> tuple[int, Outcome]:
    try:
        losses, examples = cargo.unpack()
    except Exception as error:
        return index, Failure(
            f"the losses function and the examples must be such that a worker can load them; got {said(error)} "
            "(modules that they need must be installed where the worker runs, or in a folder on PYTHONPATH)",
            traceback.format_exc(),
            fatal=True,
        )
    return index, outcome_of(losses, config, examples)
