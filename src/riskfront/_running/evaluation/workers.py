"""Calls of the user's function in parallel through joblib; function and examples travel once to each worker."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import joblib
import numpy as np

from riskfront._problems.spaces.space import Config
from riskfront._running.evaluation.broadcast import (
    Broadcast,
    FilePayload,
    ObjectPayload,
    RayPayload,
    SentPayload,
    no_room,
)
from riskfront._running.evaluation.example_parts import take
from riskfront._running.evaluation.failing_examples import (
    LossOfWorkersError,
    Retries,
    WorkersLostError,
    outcome_with_gaps,
)
from riskfront._running.evaluation.outcome import Failure, Losses, Outcome, outcome_of, said
from riskfront._support.cluster import is_cluster, jobs, never_in_this_process
from riskfront._support.files import scratch_folder
from riskfront.errors import InvalidInputError, RiskfrontError

_CHUNK = 4  # settings for each worker, where results come only when all of a chunk are done
_SECONDS = 60.0  # that a cluster has to bring up a new worker
_PAUSE = 0.1  # seconds


class Evaluator(Protocol):
    """Evaluates settings, ``count`` at a time."""

    @property
    def count(self) -> int: ...

    def run(self, configs: Iterable[Config]) -> Iterator[tuple[int, Outcome]]:
        """The position and the outcome of each setting, as they come."""


class Workers:
    """Whatever joblib runs on: this process, local processes, or the cluster of ``joblib.parallel_config``.

    Args:
        n_jobs: as in joblib; None is 1, or what ``joblib.parallel_config`` says.
        gaps: where the function fails, find the examples on which it does; their outcomes are missing.
    """

    def __init__(self, losses: Losses, examples: Any, n_jobs: int | None = None, *, gaps: bool = False) -> None:
        if not callable(losses):
            raise InvalidInputError(f"losses must be a function of a setting and the examples; got {losses!r}.")
        if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0):
            raise InvalidInputError(
                f"n_jobs must be a whole number that is not 0 (-1: all processors); got {n_jobs!r}."
            )
        self._losses, self._examples, self._n_jobs = losses, examples, jobs(n_jobs)
        self._call: Callable[..., Outcome] = outcome_with_gaps if gaps else outcome_of
        self._backend = joblib.parallel.get_active_backend()[0]
        self._kind = type(self._backend).__name__
        self.count = max(1, joblib.effective_n_jobs(self._n_jobs))
        self._parts: Sequence[tuple[int, int]] | None = None
        self._payload: Broadcast | None = None
        self._pool: joblib.Parallel | None = None
        self._pool_in_use = contextlib.ExitStack()
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Workers:
        self._resources.enter_context(never_in_this_process(self._backend))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool_in_use.close()
        self._resources.close()

    def run(
        self, configs: Iterable[Config], parts: Sequence[tuple[int, int]] | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """The position and the outcome of each setting, as they come; settings are taken when a worker can start on them.

        Args:
            parts: for each setting the first and the last example (exclusive) it is evaluated on; by default on all.
        """
        if self.count == 1 and not is_cluster(self._backend):
            for index, config in enumerate(configs):
                examples = self._examples if parts is None else part_of(self._examples, parts[index])
                yield index, self._call(self._losses, config, examples)
            return
        self._parts = parts
        new: Iterator[tuple[int, Config]] = enumerate(configs)
        retries = Retries()
        stopped: WorkersLostError | None = None
        while True:
            under_way: dict[int, Config] = {}
            try:
                yield from self._attempt(itertools.chain(retries.together(), new), under_way)
                if alone := retries.alone():
                    yield from self._attempt(alone, under_way)
                elif stopped is None:
                    return
            except LossOfWorkersError as error:
                some_answer = self._recover()
                exhausted = retries.lost(under_way)
                if stopped is None and not some_answer:
                    raise WorkersLostError(f"none has answered for {_SECONDS:g} s", None, False) from error.__cause__
                if stopped is None and exhausted:
                    stopped = WorkersLostError(str(error), exhausted[0], self._healthy())
                    stopped.__cause__ = error.__cause__
                    new = iter(())  # nothing else is begun; what was lost beside it is finished
            if stopped is not None and not (stopped.healthy and len(retries)):
                raise stopped from stopped.__cause__

    def _attempt(
        self, settings: Iterable[tuple[int, Config]], under_way: dict[int, Config]
    ) -> Generator[tuple[int, Outcome]]:
        """Evaluate settings; what is begun and not done is in ``under_way``, also after an error."""

        def tasks(broadcast: Broadcast) -> Iterator[Any]:
            for index, config in settings:
                under_way[index] = config
                part = None if self._parts is None else self._parts[index]
                yield joblib.delayed(_work)(broadcast, index, config, self._call, part)

        try:
            results = self._results(tasks(self._ready_payload()))
            with contextlib.closing(results):
                for index, outcome in results:
                    if under_way.pop(index, None) is not None:
                        yield index, outcome
        except RiskfrontError:
            raise
        except Exception as error:  # the user's function cannot cause one: its own are outcomes
            # what may be behind it is ours to say
            raise LossOfWorkersError(said(error).splitlines()[0].partition(". ")[0]) from error

    def _recover(self) -> bool:
        """After a loss: let go of what was lost too, and wait for workers that answer; False where none does."""
        with contextlib.suppress(Exception):
            self._pool_in_use.close()
        self._pool = None
        if self._kind == "DaskDistributedBackend":
            self._backend.data_futures.pop(id(self._payload), None)
            return self._wait_for_answers()
        return True

    def _wait_for_answers(self) -> bool:
        """Until all workers that the scheduler of Dask knows answer: it may not know yet that one has died, and what is sent to
        that one is lost again."""
        deadline = time.monotonic() + _SECONDS
        while (left := deadline - time.monotonic()) > 0:
            try:
                self._backend.client.wait_for_workers(1, timeout=left)
                if self._backend.client.run(abs, -1, callback_timeout=left):
                    return True
            except Exception:  # a worker that just died, in whichever way that shows
                time.sleep(_PAUSE)
        return False

    def _healthy(self) -> bool:
        """Whether workers do what does not come from the user."""
        try:
            return list(joblib.Parallel(n_jobs=self._n_jobs)([joblib.delayed(abs)(-1)])) == [1]
        except Exception:
            return False

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
            self._pool = self._pool_in_use.enter_context(joblib.Parallel(n_jobs=self._n_jobs))
        while chunk := list(itertools.islice(tasks, _CHUNK * self.count)):
            yield from self._pool(chunk)

    def _ready_payload(self) -> Broadcast:
        if self._payload is None:
            if self._kind in ("LokyBackend", "MultiprocessingBackend"):
                self._payload = FilePayload.pack(self._losses, self._examples, self._folder())
            elif self._kind == "RayBackend":
                self._payload = RayPayload(self._losses, self._examples)
            elif self._kind == "DaskDistributedBackend":
                self._payload = SentPayload.pack(self._losses, self._examples)
            else:
                self._payload = ObjectPayload(self._losses, self._examples)
        if self._kind == "DaskDistributedBackend" and id(self._payload) not in self._backend.data_futures:
            # on every worker, so that the death of one loses nothing; under a new name each time, because what was lost under
            # the old one is released whenever Python collects it, and would take what was sent again with it
            (future,) = self._backend.client.scatter([self._payload], broadcast=True, hash=False)
            self._backend.data_futures[id(self._payload)] = future
            self._resources.callback(self._backend.data_futures.pop, id(self._payload), None)
        return self._payload

    def _folder(self) -> Path:
        try:
            return self._resources.enter_context(scratch_folder())
        except OSError as error:
            raise no_room(Path(tempfile.gettempdir()), error) from error


def part_of(examples: Any, part: tuple[int, int]) -> Any:
    """Neighbouring examples, from the first to the last (exclusive)."""
    return take(examples, np.arange(*part))


def _work(
    broadcast: Broadcast, index: int, config: Config, call: Callable[..., Outcome], part: tuple[int, int] | None = None
) -> tuple[int, Outcome]:
    try:
        losses, examples = broadcast.unpack()
        examples = examples if part is None else part_of(examples, part)
    except Exception as error:
        return index, Failure(
            f"the losses function and the examples must be such that a worker can load them; got {said(error)} "
            "(modules that they need must be installed where the worker runs, or in a folder on PYTHONPATH)",
            traceback.format_exc(),
            fatal=True,
        )
    return index, call(losses, config, examples)
