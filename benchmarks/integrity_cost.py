"""What digests, checks and flushes cost: the three benchmarks in two checkouts in turns, compared by processor time.

    git worktree add ../before 022d33f
    python -m benchmarks.integrity_cost ../before --out benchmarks/results/integrity_cost.md

022d33f is the last commit before everything that is written carried a digest and was checked when it is read. Each program
runs in a process of its own; the time is user and system time of it and of the processes it started, the least of the rounds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

STORE = ["-m", "benchmarks.large_store", "--settings", "150", "--folder"]
MOST = 1.1


def processor_seconds(tree: Path, arguments: list[str]) -> tuple[float, str]:
    """Of a Python program in a checkout, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    paths = os.pathsep.join([str(tree / "src"), str(tree)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{tree}: {arguments}\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def calibrating(printed: str) -> str:
    """The processor column of the first line of ``benchmarks.speed``."""
    (line,) = (line for line in printed.splitlines() if line.startswith("| calibrate, smoothing"))
    return line.split("|")[3].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    trees = {"before": options.before.resolve(), "now": Path(__file__).parents[1]}
    taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    said: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(options.rounds):
            programs = {
                f"large_store, {step}": [*STORE, "{store}", "--step", step]
                for step in ("write", "read", "check", "calibrate")
            }
            programs["evaluation_overhead"] = ["-m", "benchmarks.evaluation_overhead", "--settings", "300"]
            if round_number == 0:  # it takes the best of several runs by itself
                programs["speed"] = ["-m", "benchmarks.speed", "--briefly"]
            for name, arguments in programs.items():
                for which, tree in trees.items():
                    store = f"{folder}/{which}-{round_number}.zarr"
                    seconds, printed = processor_seconds(tree, [part.format(store=store) for part in arguments])
                    taken[name][which].append(seconds)
                    if name == "speed":
                        said[which].append(calibrating(printed))
                    print(f"{name:24} {which:7} {seconds:6.2f} s", flush=True)
    lines = ["| benchmark | before, s | now, s | now / before | at most |", "| --- | --- | --- | --- | --- |"]
    for name, of in taken.items():
        before, now = min(of["before"]), min(of["now"])
        lines.append(f"| {name} | {before:.2f} | {now:.2f} | {now / before:.2f} | {MOST} |")
    about = (
        "Made by `python -m benchmarks.integrity_cost ../before --out benchmarks/results/integrity_cost.md`, where `../before` "
        f"is commit 022d33f; processor time, the least of {options.rounds} rounds (speed: of one), in turns on a busy machine. "
        "large_store has 150 settings x 200,000 examples, evaluation_overhead 300 settings, speed runs briefly. One calibrate "
        f"of `speed` over one read of its arrays: {' and '.join(said['before'])} before, {' and '.join(said['now'])} now."
    )
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join([about, "", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
