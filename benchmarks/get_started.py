"""How long each "Get started" page takes from an empty environment: make one, install this checkout, run the whole page.

python -m benchmarks.get_started [PAGE ...] [--out benchmarks/results/get_started.md]

The clock of the wall counts, with a new environment for each page and packages from wherever pip is set to take them; time to
read is not counted. The page on BERT-type classifiers is run with the small encoder of its tests, and, with --model FOLDER
--data FILE, its command once more with a real one: 1,500 texts to learn from and 2,000 to calibrate on.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: page -> the extra that it needs
PAGES = {"table": "", "scikit-learn": "", "bert": "transformers", "llm-logs": "", "own-method": "plots"}
RUN = "import sys; from pathlib import Path; from tests.docs.running import run_page; list(run_page(Path(sys.argv[1]), Path()))"
EXITS = "--epochs 1 --head-thresholds 1 --token-thresholds 1 --exit-thresholds 20 --max-length 64 --early-layers 1"


def clocked(*command: str | Path, cwd: Path) -> tuple[float, float]:
    """Seconds on the wall, and of the processor."""
    clean = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "OMP_NUM_THREADS": "2"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([str(word) for word in command], cwd=cwd, env=clean, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def new_environment(folder: Path, extra: str) -> tuple[Path, float, float]:
    venv = clocked(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    install = clocked(python, "-m", "pip", "install", "--quiet", wanted, cwd=folder)
    return python, venv[0] + install[0], venv[1] + install[1]


def a_real_one(python: Path, folder: Path, model: Path, data: Path) -> tuple[float, float]:
    """The command of the page with an encoder that people use."""
    import pandas as pd

    frame = pd.read_parquet(data)
    rows = [frame[frame["split"] == part].sample(n, random_state=0) for part, n in (("train", 1500), ("test", 2000))]
    pd.concat(rows).to_parquet(folder / "real.parquet")
    command = [python.with_name("riskfront"), "accelerate", "--model", model, "--data", "real.parquet"]
    return clocked(*command, "--limit", "accuracy_drop <= 0.05", "--out", "real/", *EXITS.split(), cwd=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), choices=list(PAGES))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = [
        "| page | install, minutes | page, minutes | together | processor alone |",
        "| --- | --- | --- | --- | --- |",
    ]
    for page in given.pages:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            python, install, install_cpu = new_environment(folder, PAGES[page])
            runs = {page: clocked(python, "-c", RUN, ROOT / "docs" / "start" / f"{page}.md", cwd=folder)}
            if page == "bert" and given.model and given.data:
                runs["bert, a real encoder"] = a_real_one(python, folder, given.model, given.data)
        for name, (seconds, cpu) in runs.items():
            numbers = [install, seconds, install + seconds, install_cpu + cpu]
            lines.append(f"| {name} | " + " | ".join(f"{number / 60:.1f}" for number in numbers) + " |")
            print(lines[-1], flush=True)
    if given.out:
        about = "From an empty environment to the end of the page; made by `python -m benchmarks.get_started`.\n\n"
        given.out.write_text(about + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
