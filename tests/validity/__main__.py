"""``python -m tests.validity``: run every guarantee on every hard population, print the table, and write the page."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import chain
from pathlib import Path

from tests.monte_carlo.suites import SUITES
from tests.validity.guarantees import FAMILIES, of_doors
from tests.validity.measured import Measured
from tests.validity.page import page
from tests.validity.trial_of_traps import try_all

PAGE = Path(__file__).parents[2] / "docs" / "compare" / "validity.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.validity", description=__doc__)
    parser.add_argument("--trials", type=int, default=300, help="of each line; cheap ones get ten times as many")
    parser.add_argument("--only", default="", help="families, with commas between them; then no page is written")
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes for the public doors")
    parser.add_argument(
        "--keep", type=Path, help="file of what was counted at the doors: a run that was stopped goes on"
    )
    given = parser.parse_args()
    started, lines = _spent(), []
    asked = given.only.split(",") if given.only else [*FAMILIES, "doors"]
    made = [FAMILIES[family](given.trials) for family in asked if family in FAMILIES]
    for line in chain(*made, of_doors(given.trials, given.jobs, given.keep) if "doors" in asked else ()):
        lines.append(line)
        print(_in_words(line), flush=True)
    order = {name: at for at, name in enumerate(SUITES)}  # doors are printed as they are counted
    lines.sort(key=lambda line: order[f"{line.guarantee}: {line.population}"] if line.family == "doors" else -1)
    fallen = list(try_all(given.trials)) if not given.only or "traps" in given.only else []
    for fell in fallen:
        print(f"{'ok   ' if fell.as_it_should else 'WRONG'} {fell.name} | there: {fell.there} | here: {fell.here}")
    failing = [line for line in lines if line.fails]
    wrong = [fell for fell in fallen if not fell.as_it_should]
    seconds = _spent() - started + sum(of_others.seconds for of_others in [*lines, *fallen])
    print(
        f"{len(lines)} lines, {len(failing)} fail; {len(fallen)} traps, {len(wrong)} not as they should be; {seconds:.0f} s"
    )
    if not given.only:
        given.out.write_text(page(lines, fallen, given.trials, seconds), encoding="utf-8")
    return 1 if failing or wrong else 0


def _in_words(line: Measured) -> str:
    low, high = line.interval
    return (
        f"{'FAILS' if line.fails else 'ok   '} {line.family} | {line.guarantee} | {line.population} | {line.rate:.3f} of "
        f"{line.trials:,} ({low:.3f} to {high:.3f}), allowed {line.allowed:g}"
    )


def _spent() -> float:
    """Seconds of the processor: by the clock a busy machine would count what others do."""
    times = os.times()
    return times.user + times.system


if __name__ == "__main__":
    sys.exit(main())
