"""Speed and memory against the physical limit: one read of the table. All numbers are ratios measured in one run.

    python -m benchmarks.speed [--briefly] [--out benchmarks/results/speed.md]

The table has the size of the paper's: 6,480 settings x 7,600 examples, a 0/1 loss (one byte each) and a float32 cost.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import riskfront as rf
from riskfront._data.sums import SINGLE_THREADED
from riskfront.methods._registry import BY_NAME
from riskfront.statistics import _fronts as fronts
from riskfront.statistics import _graphs as graphs
from riskfront.statistics import _p_values as p_values
from riskfront.statistics._procedures import Graphical

SHAPE = (18, 20, 18)
EXAMPLES = 7_600
ALPHAS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2)


class Timing(NamedTuple):
    """The shortest of several runs, in seconds: by the clock, and in processor time of all threads together.

    On a busy machine the clock says how busy it is; with two idle cores it shows between half and all of the processor time.
    """

    clock: float
    worked: float

    def __truediv__(self, other: Timing) -> tuple[str, str]:
        return f"x{self.clock / other.clock:.1f}", f"x{self.worked / other.worked:.1f}"

    def in_ms(self) -> tuple[str, str]:
        return f"{1000 * self.clock:.1f} ms", f"{1000 * self.worked:.1f} ms"


def best_of(function: Callable[[], object], repeats: int = 5) -> Timing:
    """The shortest of several runs: the one that other work on the machine disturbed least."""
    times = []
    for _ in range(repeats):
        clock, worked = time.perf_counter(), time.process_time()
        function()
        times.append((time.perf_counter() - clock, time.process_time() - worked))
    return Timing(*map(min, zip(*times, strict=True)))


def make_arrays(seed: int = 0) -> tuple[list[dict[str, float]], np.ndarray, np.ndarray]:
    """Settings on a grid, a 0/1 loss that grows and a cost that falls along every axis."""
    rng = np.random.default_rng(seed)
    cells = np.indices(SHAPE).reshape(3, -1).T / (np.array(SHAPE) - 1)
    configs = [dict(zip(("head", "token", "exit"), map(float, cell), strict=True)) for cell in cells]
    risk = 0.002 + 0.1 * (cells**2).sum(axis=1)
    cost = 1 - 0.3 * cells.sum(axis=1)
    error = rng.random((len(cells), EXAMPLES), dtype=np.float32) < risk[:, None].astype(np.float32)
    costs = (cost[:, None] * rng.uniform(0.8, 1.2, EXAMPLES)).astype(np.float32)
    return configs, error, costs


def peak_memory(function: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def import_seconds() -> float:
    """What all that ``calibrate`` is called with adds to ``import numpy, pandas``, best of several fresh processes."""
    names = "from riskfront import LossTable, Problem, calibrate"  # riskfront alone would load nothing
    code = f"import time, numpy, pandas; s = time.perf_counter(); {names}; print(time.perf_counter() - s)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def measure(others: bool) -> Iterator[tuple[str, str, str, str]]:
    """(what, by the clock, in processor time, wanted) for every line of the table; with the other methods, or without."""
    configs, error, cost = make_arrays()
    problem = rf.Problem([rf.Limit("error", at_most=0.05)], minimize=["cost"])
    fresh = lambda: rf.LossTable(configs, {"error": error, "cost": cost})  # noqa: E731
    one_read = best_of(lambda: (np.sum(error), np.sum(cost)))
    tables = [fresh() for _ in range(10)]  # a table remembers its sums, so each run gets its own
    once = best_of(lambda: rf.calibrate(tables.pop(), problem), 10)
    yield ("calibrate, smoothing and fallback test included, over np.sum of both arrays", *once / one_read, "x4")
    size = error.nbytes + cost.nbytes
    table = fresh()
    extra = peak_memory(lambda: rf.calibrate(table, problem))
    yield ("calibrate, peak memory over the table", f"x{1 + extra / size:.2f}", "", "x1.5")

    doubles = [np.ones(error.shape)]
    double_read = best_of(lambda: (np.sum(doubles[0]), np.sum(doubles[0])))
    doubles.clear()
    trials = lambda method: rf.experiment.run(  # noqa: E731
        table, problem, methods=[method], alphas=ALPHAS, trials=100, calibration=5000
    )
    repeats = 3 if others else 1
    reference = best_of(lambda: trials("pareto-testing"), repeats)
    yield ("100 trials x 8 alphas, over np.sum of two float64 arrays", *reference / double_read, "x15")
    paper = best_of(lambda: trials(rf.ParetoTesting.as_in_the_paper()), repeats)
    yield ("the same without smoothing and fallback test, as in the paper", *paper / double_read, "x15")
    with SINGLE_THREADED:
        yield (
            "its matrix products alone, on one core",
            *best_of(lambda: products(error, cost), repeats) / double_read,
            "",
        )
    if others:
        memory = peak_memory(lambda: trials("pareto-testing"))
        yield ("100 trials x 8 alphas, memory beyond the table", f"{memory / 1e6:.0f} MB", "", "500 MB")
    for name in BY_NAME if others else ():
        if name != "pareto-testing":
            ratio = best_of(lambda n=name: trials(n), 1) / reference
            yield (f"100 trials of {name}, over pareto-testing", *ratio, "x10")

    rng = np.random.default_rng(1)
    four, three = rng.random((6_480, 4)), rng.random((100_000, 3))
    counts = error.sum(axis=1)[:, None]
    graph = Graphical(graphs.hamming((20, 18, 18)))
    p = rng.random(6_480) ** 6 * 1e-3
    exact = p_values.P_VALUES["binomial"].from_totals
    look_up = lambda: [exact(counts, np.array([[EXAMPLES]]), alpha) for alpha in ALPHAS]  # noqa: E731
    small = {
        "front of 6,480 x 4": lambda: fronts.front(four),
        "front of 100,000 x 3": lambda: fronts.front(three),
        "p-values of 6,480 settings for 8 alphas (look-up tables made anew)": lambda: (
            p_values._look_up_table.cache_clear(),
            look_up(),
        ),
        "graphical test on a 20 x 18 x 18 grid (graph made anew)": lambda: (
            graphs.hamming((20, 18, 18)),
            graph.reject(p, 0.1),
        ),
    }
    yield from ((what, *best_of(function).in_ms(), "100 ms") for what, function in small.items())
    losses = rng.beta(0.3, 2.7, (500, 5_000))
    before = best_of(lambda: p_values.betting_fixed(losses, 0.1, 0.1))
    ratio = best_of(lambda: p_values.betting(losses, 0.1, 0.1)) / before
    yield ("bets with a target, 500 x 5,000, over bets with fixed stakes", *ratio, "x1")
    part, _ = fresh().split(0.2)
    rf.ParetoTesting().plan(part, problem)  # sums are known from now on
    part._memory.clear()
    smoothing = best_of(lambda: (part._memory.clear(), rf.ParetoTesting().plan(part, problem)))
    yield ("planning on 6,480 settings, smoothing included, sums known", *smoothing.in_ms(), "20 ms")
    yield (
        "from riskfront import LossTable, Problem, calibrate, beyond numpy and pandas",
        f"{import_seconds():.2f} s",
        "",
        "0.3 s",
    )


def products(error: np.ndarray, cost: np.ndarray, trials: int = 100) -> None:
    """What 100 trials of the paper's form cannot do without: sums of both parts of every trial, as one product a loss."""
    weights = np.random.default_rng(2).poisson(0.33, (EXAMPLES, 2 * trials))
    for losses, kind in ((error, np.float32), (cost, np.float64)):
        factors = weights.astype(kind)
        for start in range(0, len(losses), 128):
            losses[start : start + 128].astype(kind) @ factors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="markdown file to write")
    parser.add_argument(
        "--briefly", action="store_true", help="one run of the trials, none of other methods and none for memory"
    )
    given = parser.parse_args()
    out = given.out
    lines = ["| what | by the clock | processor time, all threads | at most |", "| --- | --- | --- | --- |"]
    print("\n".join(lines))
    for row in measure(not given.briefly):
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if out:
        command = f"python -m benchmarks.speed {'--briefly ' if given.briefly else ''}--out {out}"
        busy = (
            f"{os.getloadavg()[1]:.0f} processes at work on average" if hasattr(os, "getloadavg") else "load not known"
        )
        about = f"Made by `{command}`: 6,480 settings x 7,600 examples, {os.cpu_count()} cores, {busy}."
        out.write_text("\n".join([about, "", *lines]) + "\n")


if __name__ == "__main__":
    main()
