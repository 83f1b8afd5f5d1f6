"""Calibrating a store that is larger than memory: peak memory, and time against reading the store once.

    python -m benchmarks.large_store [--scale 1.0] [--folder DIR]

At scale 1: 5,000 settings x 200,000 examples with a 0/1 and a float32 loss, 5 GB. The scale shrinks the settings. Each step
runs in a process of its own, so that peaks do not mix. Target: peak under 1 GB, time at most twice that of reading once with
zarr. Measured: 0.30 GB and 1.7 to 1.8 times (benchmarks/results/large_store.md). Planning trusts the digests in the store;
the SHA-256 of a row is compared when the row is tested.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import riskfront as rf
from riskfront._data.stores.loss_store import LossStore
from riskfront._data.stores.task import Task

N_SETTINGS, N_EXAMPLES = 5_000, 200_000
PROBLEM = rf.Problem([rf.Limit("error", at_most=0.1)], minimize="cost")


def write(url: str, n_settings: int) -> None:
    """Losses whose means vary along the settings; the noise is shared, which is cheap to make."""
    random = np.random.default_rng(0)
    noise, other = random.random(N_EXAMPLES), random.random(N_EXAMPLES, dtype=np.float32)
    store = LossStore(url, Task(N_EXAMPLES, {"code": "benchmark", "examples": str(N_EXAMPLES)}))
    for i, level in enumerate(np.linspace(0, 1, n_settings)):
        losses = {"error": np.roll(noise, i) < 0.3 * (1 - level), "cost": np.float32(level) * np.roll(other, i)}
        store.write({"level": float(level)}, losses)


def read(url: str) -> None:
    """Everything, once, with the zarr library, in blocks of rows."""
    import zarr

    for _, part in zarr.open_group(url, mode="r")["parts"].groups():
        for _, array in part.arrays():
            rows = min(array.nchunks_initialized * array.chunks[0], array.shape[0])
            for start in range(0, rows, 40):
                array[start : min(start + 40, rows)]


def check(url: str) -> None:
    """Everything, once, with riskfront, which checks the SHA-256 of every row."""
    store = LossStore(url)
    for loss in store.loss_names:
        for _ in store.blocks(loss, rows=4):
            pass


def calibrate(url: str) -> None:
    certificate = rf.calibrate(LossStore(url).table(lazy=True), PROBLEM)
    print(certificate, file=sys.stderr)


def measured(step: str, url: str, n_settings: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.large_store", "--step", step, "--folder", url]
    done = subprocess.run([*command, "--settings", str(n_settings)], stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder")
    parser.add_argument("--step", choices=["write", "read", "check", "calibrate"])
    parser.add_argument("--settings", type=int, default=0)
    options = parser.parse_args()
    if options.step:
        start = time.perf_counter()
        write(options.folder, options.settings) if options.step == "write" else globals()[options.step](options.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time()}
        print(json.dumps({**spent, "peak_gb": peak}))
        return
    n_settings = max(2, round(options.scale * N_SETTINGS))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        url = str(Path(folder) / "large.zarr")
        print(f"{n_settings:,} settings x {N_EXAMPLES:,} examples, {n_settings * N_EXAMPLES * 5 / 1e9:.1f} GB")
        best = dict.fromkeys(("write", "read", "check", "calibrate"), np.inf)
        for step in (
            "write",
            *("read", "check", "calibrate") * 3,
        ):  # in turns, so that other load on the machine hits all
            found = measured(step, url, n_settings)
            best[step] = min(best[step], found["seconds"])
            print(
                f"{step:10} {found['seconds']:7.1f} s   ({found['cpu']:.1f} s of processors)   peak {found['peak_gb']:.2f} GB",
                flush=True,
            )
        print("best of three each:")
        print(f"calibrate / read once with zarr: {best['calibrate'] / best['read']:.2f}")
        print(f"calibrate / read once with riskfront, SHA-256 checked: {best['calibrate'] / best['check']:.2f}")


if __name__ == "__main__":
    main()
