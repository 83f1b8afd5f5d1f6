"""The release check, ``make dist``: build, check, and try what people would install, on every supported Python that is here.

``python -m tests.release [FOLDER]``: wheel and sdist go to FOLDER (``dist`` by default). The wheel is installed into an empty
environment of each Python, the sdist into one more of the first; in each, ``riskfront demo`` must run and verify.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUPPORTED = range(10, 15)  # minor versions of Python 3 that the package may be used with, as far as they are found


def pythons() -> dict[str, str]:
    """Version -> interpreter: those on the path, and those of pyenv."""
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")]
    found = {}
    for minor in SUPPORTED:
        here = [shutil.which(f"python3.{minor}")]
        here += [
            path for root in roots if root for path in sorted(glob.glob(f"{root}/versions/3.{minor}.*/bin/python3"))
        ]
        for path in filter(None, here):
            done = subprocess.run(
                [path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"], capture_output=True
            )
            if done.stdout.decode().strip() == f"3.{minor}":
                found[f"3.{minor}"] = path
                break
    return found


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; the end of the release check if it fails."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} left with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(out: Path) -> tuple[Path, Path]:
    """Wheel and sdist, whose description people will be shown as it is meant."""
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out)
    wheel, sdist = next(out.glob("*.whl")), next(out.glob("*.tar.gz"))
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def try_out(python: str, package: Path) -> str:
    """Install into an empty environment, run the demonstration, verify its certificate; what it says of itself."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        run(python, "-m", "venv", place / "venv")
        ours = place / "venv" / "bin"
        run(ours / "python", "-m", "pip", "install", "--quiet", package)
        run(ours / "python", "-m", "pip", "check")
        printed = run(ours / "riskfront", "demo", "--out-dir", place / "demo", cwd=place)
        if "Recomputed from the data: the same result." not in printed:
            sys.exit(f"riskfront demo did not verify its certificate under {python}:\n{printed}")
        run(
            ours / "riskfront",
            "verify",
            place / "demo" / "certificate.json",
            place / "demo" / "losses.parquet",
            cwd=place,
        )
        return run(ours / "python", "-c", "import riskfront; print(riskfront.__version__)", cwd=place).strip()


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    wheel, sdist = build(out)
    print(f"built and checked: {wheel.name}, {sdist.name}", flush=True)
    found = pythons()
    if not found:
        sys.exit("no supported Python was found; install one of 3.10 to 3.14.")
    for number, (version, python) in enumerate(found.items()):
        for package in [wheel, sdist] if number == 0 else [wheel]:
            started = time.perf_counter()
            says = try_out(python, package)
            if not re.search(rf"-{re.escape(says)}[.-]", package.name):
                sys.exit(f"{package.name} calls itself {says}.")
            seconds = time.perf_counter() - started
            print(
                f"Python {version}, {package.suffix[1:]}: installed, demo and verify run ({seconds:.0f} s)", flush=True
            )
    missing = [f"3.{minor}" for minor in SUPPORTED if f"3.{minor}" not in found]
    print(f"not here, and so not tried: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
