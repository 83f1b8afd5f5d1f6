"""Reading: the whole command ``riskfront calibrate`` beside a group-by of DuckDB and of Polars over the same file, in one run.

    python -m benchmarks.reading [--settings 20,18,18] [--examples 7600] [--rounds 3] [--only setting,csv] [--folder DIR]

A long table (three setting columns, example, label, 0/1 error, float32 cost) is written as Parquet sorted by setting, sorted by
example and shuffled, and a smaller one as CSV; a wide file has a million rows and twenty settings; logs of lm-eval have ten
models and a million lines. Each is compared with what other tools take for the same file: a group-by of DuckDB and of Polars,
pyarrow's CSV reader, the means of all columns by DuckDB, and Python's own json.loads of every line. Each program runs in a
process of its own; the best of some rounds counts, and memory is the largest resident set. Files that are in the folder already
are used as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

ORDERS = ("setting", "example", "shuffled")
_BATCH = 1 << 20
DUCKDB = """
import duckdb, sys
duckdb.sql(f"select \\"lambda\\", tau, eta, avg(error), avg(cost) from '{sys.argv[1]}' group by 1, 2, 3").fetchall()
"""
POLARS = """
import polars as pl, sys
keys = ["lambda", "tau", "eta"]
pl.scan_parquet(sys.argv[1]).group_by(keys).agg(pl.mean("error"), pl.mean("cost")).collect()
"""
ARROW_CSV = """
import pyarrow.csv, sys
pyarrow.csv.read_csv(sys.argv[1])
"""
DUCKDB_WIDE = """
import duckdb, sys
duckdb.sql(f"select avg(columns(* exclude (id, label))) from '{sys.argv[1]}'").fetchall()
"""
JSON_LINES = """
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).rglob("samples_*.jsonl")):
    with path.open() as lines:
        for line in lines:
            json.loads(line)
"""
LIMITS = ["--limit", "error <= 0.1", "--limit", "error <= 0.2 per label", "--minimize", "cost"]


def rows(sizes: tuple[int, ...], n: int, order: str) -> Iterator[pa.Table]:
    """Batches of the table, in one of the orders."""
    random = np.random.default_rng(0)
    axes = np.meshgrid(*[np.round(np.linspace(0, 1, size), 3) for size in sizes], indexing="ij")
    a, b, c = (axis.ravel() for axis in axes)
    m, label, difficulty = len(a), random.integers(0, 4, n), random.random(n)
    risk = 0.02 + 0.3 * (a * b + 0.3 * c) / 1.3
    price = 1 - 0.5 * a - 0.2 * b - 0.2 * c
    shuffled = random.permutation(m * n) if order == "shuffled" else None
    for start in range(0, m * n, _BATCH):
        place = np.arange(start, min(start + _BATCH, m * n))
        if shuffled is not None:
            place = shuffled[place]
        s, e = (place % m, place // m) if order == "example" else (place // n, place % n)
        yield pa.table(
            {
                "lambda": a[s],
                "tau": b[s],
                "eta": c[s],
                "example": e,
                "label": label[e],
                "error": (difficulty[e] < risk[s]).astype(np.int8),
                "cost": (price[s] * (0.8 + 0.4 * difficulty[e])).astype(np.float32),
            }
        )


def write(path: Path, sizes: tuple[int, ...], n: int, order: str) -> None:
    writer = None
    for batch in rows(sizes, n, order):
        if writer is None:
            open_ = pq.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
            writer = open_(str(path), batch.schema)
        writer.write_table(batch) if path.suffix == ".parquet" else writer.write(batch)
    if writer is not None:
        writer.close()


def write_wide(path: Path, n: int = 1_000_000, settings: int = 20) -> None:
    """One row an example, one column a setting, beside a file of the settings."""
    random = np.random.default_rng(0)
    difficulty = random.random(n)
    columns = {f"s{k}": (difficulty < 0.02 + 0.01 * k).astype(np.int8) for k in range(settings)}
    pq.write_table(pa.table({"id": np.arange(n), "label": random.integers(0, 4, n), **columns}), path)
    about = {"name": list(columns), "price": (1 + (np.arange(settings) * 7 % settings)).tolist()}
    pq.write_table(pa.table(about), path.with_name("wide_settings.parquet"))


def write_logs(folder: Path, n: int = 100_000, models: int = 10) -> None:
    """Samples of lm-eval: multiple-choice questions, one file a model."""
    random = np.random.default_rng(0)
    for model in range(models):
        place = folder / f"model-{model}"
        place.mkdir(parents=True)
        date = "2025-01-01T00-00-00.000000"
        about = {"model_name": f"model-{model}", "config": {"model": "hf", "model_args": f"pretrained=model-{model}"}}
        (place / f"results_{date}.json").write_text(json.dumps(about | {"results": {}, "n-shot": {"arc": 0}}))
        right, likelihood = random.random(n) < 0.5 + 0.04 * model, -10 * random.random((n, 4))
        with (place / f"samples_arc_{date}.jsonl").open("w") as lines:
            for i in range(n):
                chosen = [[round(value, 4), False] for value in likelihood[i].tolist()]
                question = f"Question number {i}: which of the four answers holds? " * 3
                line = {
                    "doc_id": i,
                    "doc": {"id": f"q{i}", "question": question, "answerKey": "A"},
                    "target": 0,
                    "arguments": [[question, f" answer {k}"] for k in range(4)],
                    "resps": [[pair] for pair in chosen],
                    "filtered_resps": chosen,
                    "filter": "none",
                    "metrics": ["acc"],
                    "doc_hash": f"{i:064x}",
                    "acc": float(right[i]),
                }
                lines.write(json.dumps(line) + "\n")


def measured(command: list[str]) -> tuple[float, float, float]:
    """Seconds by the clock, processor seconds, and gigabytes of a command, in a process of its own."""
    code = (
        "import json, resource, subprocess, sys, time; t = time.perf_counter(); "
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True); t = time.perf_counter() - t; "
        "u = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(json.dumps([t, u.ru_utime + u.ru_stime, u.ru_maxrss / 1e6, done.returncode, done.stderr[-300:]]))"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # pip writes it, too
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True, env=env)
    seconds, processor, memory, status, said = json.loads(done.stdout)
    if status not in (0, 1):
        raise RuntimeError(said)
    return seconds, processor, memory


def best(command: list[str], rounds: int) -> tuple[float, float, float]:
    found = [measured(command) for _ in range(rounds)]
    return min(f[0] for f in found), min(f[1] for f in found), max(f[2] for f in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default="20,18,18")
    parser.add_argument("--examples", type=int, default=7600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="setting,example,shuffled,csv,wide,logs")
    parser.add_argument("--folder", default=None)
    given = parser.parse_args()
    sizes = tuple(int(size) for size in given.settings.split(","))
    print(
        "| file | other s / cpu s / GB | Polars s | riskfront s / cpu s / GB | ratio by the clock | by processor time |"
    )
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(given.folder or temporary)
        for kind in given.only.split(","):
            _compare(kind, folder, sizes, given.examples, given.rounds)


def _compare(kind: str, folder: Path, sizes: tuple[int, ...], n: int, rounds: int) -> None:
    """Print one line: the same file by other tools and by riskfront."""
    python, run, polars = [sys.executable, "-c"], [sys.executable, "-m", "riskfront"], ""
    if kind in ORDERS:
        path = folder / f"{kind}.parquet"
        if not path.exists():
            write(path, sizes, n, kind)
        name, other = f"Parquet, by {kind}: DuckDB's group-by", best([*python, DUCKDB, str(path)], rounds)
        polars = f"{best([*python, POLARS, str(path)], rounds)[0]:.2f}"
        own = best([*run, "calibrate", str(path), *LIMITS], rounds)
    elif kind == "csv":
        path = folder / "rows.csv"
        if not path.exists():
            write(path, (10, 9, 9), n, "setting")
        name, other = "CSV, 6 million rows: pyarrow's reader", best([*python, ARROW_CSV, str(path)], rounds)
        own = best([*run, "calibrate", str(path), *LIMITS], rounds)
    elif kind == "wide":
        path = folder / "wide.parquet"
        if not path.exists():
            write_wide(path)
        name, other = "wide, 1,000,000 x 20: DuckDB's means", best([*python, DUCKDB_WIDE, str(path)], rounds)
        settings = ["--wide", "--settings", str(path.with_name("wide_settings.parquet")), "--example-column", "id"]
        limits = ["--limit", "error <= 0.1", "--limit", "error <= 0.2 per label", "--minimize", "price"]
        own = best([*run, "calibrate", str(path), *settings, *limits], rounds)
    else:
        path = folder / "logs"
        if not path.exists():
            write_logs(path)
        name, other = "logs, 1,000,000 lines: json.loads of each", best([*python, JSON_LINES, str(path)], rounds)
        own = best([*run, "import", "lm-eval", str(path), "--out", str(folder / "runs.parquet")], rounds)
    _say(name, other, polars, own)


def _say(name: str, other: tuple[float, float, float], polars: str, ours: tuple[float, float, float]) -> None:
    theirs, own = (" / ".join(f"{number:.2f}" for number in of) for of in (other, ours))
    ratios = f"x{ours[0] / other[0]:.1f} | x{ours[1] / other[1]:.1f}"
    print(f"| {name} | {theirs} | {polars} | {own} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
