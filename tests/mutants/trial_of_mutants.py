"""Each mutant in a process of its own: is it caught?"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from riskfront.errors import RiskfrontError
from tests.monte_carlo.suites import SUITES
from tests.mutants import (
    cascades,
    doors,
    failures,
    frontiers,
    identity,
    intake,
    limits,
    logs,
    models,
    monitoring,
    procedures,
    sequential,
    statements,
    tables,
    targets,
    unlabelled,
)
from tests.support import simulation

_PARTS = (
    procedures,
    sequential,
    statements,
    limits,
    tables,
    models,
    targets,
    unlabelled,
    doors,
    failures,
    frontiers,
    identity,
    cascades,
    intake,
    logs,
    monitoring,
)
MUTANTS = {mutant.name: mutant for part in _PARTS for mutant in part.MUTANTS}


@dataclass(frozen=True)
class Verdict:
    """What became of one suite, with a mutant or without (mutant None).

    status: "caught" (too many misses), "refused" (riskfront itself noticed), "passed", or "broken": an error that is not
    riskfront's own. A mutant that is broken no longer fits the code and must be written anew.
    """

    mutant: str | None
    suite: str
    status: str
    misses: int
    trials: int
    seconds: float
    words: str = ""

    @property
    def is_right(self) -> bool:
        """The library passes, mutants are noticed."""
        return self.status == "passed" if self.mutant is None else self.status in ("caught", "refused")


def judge(mutant: str | None, suite: str, share: float = 1.0, first: int = 0) -> Verdict:
    """Break the library, if a mutant is named, and run a suite. For a process that ends afterwards."""
    started = time.perf_counter()
    status, misses, trials, words = "broken", 0, 0, ""
    try:
        if mutant is not None:
            MUTANTS[mutant].apply()
        found = simulation.run(SUITES[suite], share, first)
        status, misses, trials = "caught" if found.caught else "passed", found.misses, found.trials
    except RiskfrontError as error:
        status, words = "refused" if mutant else "broken", str(error)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
    return Verdict(mutant, suite, status, misses, trials, time.perf_counter() - started, words)


def judge_all(
    jobs: Sequence[tuple[str | None, str]],
    share: float = 1.0,
    processes: int = 2,
    first: int = 0,
    seconds: float = 1200,
) -> Iterator[Verdict]:
    """Judge pairs of a mutant, or None, and a suite, each in a fresh process, in the order in which they end."""
    todo = sorted(((mutant, suite, share, first) for mutant, suite in jobs), key=lambda job: job[1] in _LONG)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "riskfront.transformers"])  # torch takes seconds to import: once for all
    running: dict[
        Connection, tuple[Any, Any]
    ] = {}  # multiprocessing's own pools wait for ever for a process that was killed
    try:
        while todo or running:
            while todo and len(running) < processes:
                job = todo.pop()
                here, there = context.Pipe(duplex=False)
                running[here] = job, context.Process(target=_judge, args=(there, job), daemon=True)
                running[here][1].start()
                there.close()
            ended = wait(list(running), seconds)
            if not ended:
                names = [job[:2] for job, _ in running.values()]
                raise TimeoutError(f"one of these mutants and suites must end within {seconds:g} s: {names}.")
            for here in ended:
                yield _verdict(here, *running.pop(here))
    finally:
        for here, (_, process) in running.items():
            process.kill()
            process.join(10)
            here.close()


def _verdict(here: Connection, job: Any, process: Any) -> Verdict:
    with here:
        try:
            found: Verdict = here.recv()
        except EOFError:
            process.join(10)
            return Verdict(*job[:2], "broken", 0, 0, 0.0, f"its process ended with {process.exitcode}")
        finally:
            process.join(10)
    return found


_LONG = (
    "experiment.run: sharp",
    "tune: a hundred nulls",
)  # begin with these, so that no core waits for them at the end


def _judge(there: Connection, job: tuple[str | None, str, float, int]) -> None:
    there.send(judge(*job))
