"""Suites of the public doors, many trials of each, in several processes; counts are kept, so that a stopped run goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.monte_carlo.suites import SUITES

_AT_ONCE = 50  # trials: seconds to a minute

Part = tuple[str, int, int]  # a suite, its first trial and the one after the last


def count_misses(asked: Mapping[str, range], jobs: int, kept: Path | None = None) -> Iterator[tuple[str, int, float]]:
    """Each suite with its misses in these trials and the seconds they took, as soon as all are counted.

    ``kept``: a file of what was counted before, by the same code, and is counted now.
    """
    parts = {name: [(name, *part) for part in _parts(trials)] for name, trials in asked.items()}
    found = {} if kept is None or not kept.exists() else _read(kept)
    with ProcessPoolExecutor(jobs, mp_context=get_context("forkserver")) as pool:
        waiting = {pool.submit(_count, *part): part for own in parts.values() for part in own if part not in found}
        for name, own in parts.items():
            if all(part in found for part in own):
                yield name, *_total(found, own)
        for done in as_completed(waiting):
            part = waiting[done]
            found[part] = done.result()
            if kept is not None:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([part, found[part]]) + "\n")
            own = parts[part[0]]
            if all(part in found for part in own):
                yield part[0], *_total(found, own)


def _parts(trials: range) -> Iterator[tuple[int, int]]:
    for first in range(trials.start, trials.stop, _AT_ONCE):
        yield first, min(first + _AT_ONCE, trials.stop)


def _count(name: str, first: int, until: int) -> tuple[int, float]:
    started = time.process_time()
    return int(SUITES[name].misses(range(first, until))), time.process_time() - started


def _total(found: Mapping[Part, tuple[int, float]], parts: list[Part]) -> tuple[int, float]:
    return sum(found[part][0] for part in parts), sum(found[part][1] for part in parts)


def _read(kept: Path) -> dict[Part, tuple[int, float]]:
    lines = map(json.loads, kept.read_text(encoding="utf-8").splitlines())
    return {(part[0], part[1], part[2]): (misses, seconds) for part, (misses, seconds) in lines}
