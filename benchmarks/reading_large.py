"""Reading tables larger than memory: ``riskfront calibrate`` on a folder of Parquet files, stopped in the middle and run again.

    python -m benchmarks.reading_large [--files 20] [--examples 7717] [--folder DIR] [--rows DIR] [--order example]

Each file holds all 6,480 settings of some examples (three setting columns, example, label, 0/1 error, float32 cost): 50 million
rows a file, 10^9 in all by default. The first run is killed after some seconds, the second goes on where it was and ends in a
certificate, the third finds the store of the second. Memory is the largest resident set of each run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = (20, 18, 18)
LIMITS = ["--limit", "error <= 0.1", "--limit", "error <= 0.2 per label", "--minimize", "cost"]
_ROW_GROUP = 1 << 22


def write(path: Path, number: int, n: int, order: str) -> None:
    """One file with all settings of n examples, sorted by example or by setting, or shuffled."""
    random = np.random.default_rng(number)
    axes = np.meshgrid(*[np.round(np.linspace(0, 1, size), 3) for size in SIZES], indexing="ij")
    a, b, c = (axis.ravel() for axis in axes)
    m, label, difficulty = len(a), random.integers(0, 4, n), random.random(n).astype(np.float32)
    risk = (0.02 + 0.3 * (a * b + 0.3 * c) / 1.3).astype(np.float32)
    price = (1 - 0.5 * a - 0.2 * b - 0.2 * c).astype(np.float32)
    keys = {name: pa.array(values) for name, values in zip(("lambda", "tau", "eta"), (a, b, c), strict=True)}
    shuffled = random.permutation(m * n).astype(np.int64) if order == "shuffled" else None
    writer = None
    for start in range(0, m * n, _ROW_GROUP):
        place = np.arange(start, min(start + _ROW_GROUP, m * n))
        if shuffled is not None:
            place = shuffled[place]
        e, s = np.divmod(place, m) if order != "setting" else np.divmod(place, n)[::-1]
        table = pa.table(
            {name: values.take(pa.array(s)) for name, values in keys.items()}
            | {
                "example": e + number * n,
                "label": label[e],
                "error": (difficulty[e] < risk[s]).astype(np.int8),
                "cost": price[s] * (np.float32(0.8) + np.float32(0.4) * random.random(len(s), dtype=np.float32)),
            }
        )
        writer = writer or pq.ParquetWriter(str(path), table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def run(command: list[str], environment: dict[str, str], stop_after: float | None = None) -> dict[str, float]:
    """Seconds, processor seconds, gigabytes and status of a command; stopped after so many seconds, if that is given."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if stop_after is not None:
        time.sleep(stop_after)
        process.send_signal(signal.SIGKILL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "seconds": time.perf_counter() - begin,
        "processor": used.ru_utime + used.ru_stime,
        "GB": used.ru_maxrss / 1e6,
        "status": process.returncode,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--examples", type=int, default=7717)
    parser.add_argument("--order", default="example", choices=("example", "setting", "shuffled"))
    parser.add_argument("--folder", default=None)
    parser.add_argument("--rows", default=None, help="a folder with a folder 'rows' of such files, made before")
    parser.add_argument("--stop-after", type=float, default=60.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        files = Path(given.rows or folder) / "rows"
        files.mkdir(exist_ok=True)
        for k in range(given.files if given.rows is None else 0):
            write(files / f"{k:03d}.parquet", k, given.examples, given.order)
        rows = sum(pq.ParquetFile(path).metadata.num_rows for path in files.iterdir())
        size = sum(path.stat().st_size for path in files.iterdir()) / 1e9
        print(f"{rows:,} rows, {size:.1f} GB of Parquet, sorted by {given.order}\n")
        print("| run | s | cpu s | GB | status |\n| --- | --- | --- | --- | --- |", flush=True)
        environment = os.environ | {"XDG_CACHE_HOME": str(Path(folder) / "cache")}
        out = Path(folder) / "certificate.json"
        command = [sys.executable, "-m", "riskfront", "calibrate", str(files), *LIMITS, "--out", str(out)]
        for name, stop in (("killed", given.stop_after), ("resumed", None), ("again", None)):
            found = run(command, environment, stop)
            said = " | ".join(f"{found[key]:.2f}" for key in ("seconds", "processor", "GB"))
            print(f"| {name} | {said} | {found['status']} |", flush=True)
            if stop is not None and out.exists():
                raise RuntimeError("a run that was killed must not leave a certificate.")
        kept = sum(p.stat().st_blocks * 512 for p in (Path(folder) / "cache").rglob("*") if p.is_file())
        print(f"\nThe store takes {kept / 1e9:.1f} GB; intake {json.loads(out.read_text())['intake']}.")


if __name__ == "__main__":
    main()
