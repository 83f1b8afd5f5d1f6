"""``python -m tests.mutants [NAME ...]``: apply every mutant, or those whose name contains NAME, and print their fate."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich import box
from rich.console import Console
from rich.table import Table

from riskfront.testing._findings import most_allowed
from tests.monte_carlo.suites import SUITES
from tests.mutants.trial_of_mutants import MUTANTS, Verdict, judge_all
from tests.support import simulation

_WIDTH = 140


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of mutants or of their suites; by default all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the trials, for a first look")
    parser.add_argument("--no-library", action="store_true", help="do not run the suites on the library as it is, too")
    given = parser.parse_args()
    chosen = [
        m for m in MUTANTS.values() if not given.names or any(part in f"{m.name} {m.suite}" for part in given.names)
    ]
    if not chosen:
        parser.error(f"no mutant and no suite has {' or '.join(map(repr, given.names))} in its name.")
    console, started, found = Console(), time.perf_counter(), []
    if console.width < _WIDTH:
        console = Console(width=_WIDTH)  # tables that break names cannot be read, in a log least of all
    suites = dict.fromkeys(mutant.suite for mutant in chosen)
    jobs: list[tuple[str | None, str]] = [] if given.no_library else [(None, suite) for suite in suites]
    jobs += [(mutant.name, mutant.suite) for mutant in chosen]
    for verdict in judge_all(jobs, given.share, given.jobs):
        found.append(verdict)
        console.print(
            f"{len(found):3} {_in_words(verdict)}", style=None if verdict.is_right else "bold red", markup=False
        )
    order = list(MUTANTS)
    console.print(_table("Suites without a mutant", [v for v in found if v.mutant is None], order))
    console.print(_table("Mutants", [v for v in found if v.mutant is not None], order))
    wrong = [verdict for verdict in found if not verdict.is_right]
    console.print(
        f"{len(chosen)} mutants, {len(wrong)} verdicts wrong, {time.perf_counter() - started:.0f} s. "
        f"A correct library fails one of {len(SUITES)} suites with probability at most {len(SUITES) * simulation.LEVEL:.0e}.",
        markup=False,
    )
    return 1 if wrong else 0


def _table(title: str, verdicts: list[Verdict], order: list[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for header in ("mutant", "suite", "verdict", "rate", "trials", "allowed", "seconds"):
        table.add_column(header, justify="left" if header in ("mutant", "suite", "verdict") else "right")
    for v in sorted(verdicts, key=lambda v: (order.index(v.mutant) if v.mutant else -1, v.suite)):
        rate = f"{v.misses / v.trials:.3f}" if v.trials else ""
        level = simulation.LEVEL / len(simulation.LOOKS)
        allowed = f"{most_allowed(v.trials, SUITES[v.suite].delta, level) / v.trials:.3f}" if v.trials else ""
        table.add_row(v.mutant or "none", v.suite, _status(v), rate, str(v.trials), allowed, f"{v.seconds:.0f}")
    return table


def _status(verdict: Verdict) -> str:
    if verdict.mutant is None:
        return "ok" if verdict.is_right else f"FAILS {verdict.words}"
    return {"passed": "SURVIVED", "broken": f"BROKEN {verdict.words}"}.get(verdict.status, verdict.status)


def _in_words(verdict: Verdict) -> str:
    counted = f"{verdict.misses} of {verdict.trials}" if verdict.trials else verdict.words
    return f"{_status(verdict):9} {verdict.mutant or 'no mutant'} | {verdict.suite} | {counted}"


if __name__ == "__main__":
    sys.exit(main())
