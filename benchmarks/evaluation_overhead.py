"""What evaluate costs beyond the user's function, in milliseconds a setting, with 10,000 examples.

    python -m benchmarks.evaluation_overhead --out benchmarks/results/evaluation_overhead.md

The function hands out losses that were made before, so that all the time is overhead. With several processes the sum over
processes would hide waiting, so the wall time of each setting is given as it is. Target: at most 2 ms a setting.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from riskfront._running.evaluation.evaluate import evaluate


def ready_losses(config: dict[str, Any], examples: Any, error: Any, cost: Any) -> dict[str, Any]:
    return {"error": error, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=500)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    error, cost = random.random(options.examples) < 0.1, random.random(options.examples)
    losses = partial(ready_losses, error=error, cost=cost)
    examples = random.random((options.examples, 20))
    configs = [{"threshold": i / options.settings} for i in range(options.settings)]
    size = f"{options.settings} settings x {options.examples:,} examples"
    lines = [
        f"Made by `python -m benchmarks.evaluation_overhead --out FILE`: {size}, the best of three runs. At most 2 ms.",
        "",
        "| processes | store | ms a setting |",
        "| --- | --- | --- |",
    ]
    evaluate(losses, examples, configs[:4], n_jobs=2)  # start the processes
    with tempfile.TemporaryDirectory() as folder:
        evaluate(losses, examples, configs[:4], store=Path(folder) / "warm.zarr")
        for jobs in (1, 2):
            for stored in (False, True):
                times = []
                for run in range(3):
                    store = Path(folder) / f"{jobs}-{run}.zarr" if stored else None
                    start = time.perf_counter()
                    evaluate(losses, examples, configs, n_jobs=jobs, store=store)
                    times.append(time.perf_counter() - start)
                lines.append(f"| {jobs} | {'yes' if stored else 'no'} | {1000 * min(times) / options.settings:.2f} |")
                print(lines[-1])
    if options.out is not None:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
