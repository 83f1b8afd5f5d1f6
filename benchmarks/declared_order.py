"""Exits only: thresholds tested from the full model on, on all texts, beside the default, which learns an order from some.

    python -m benchmarks.declared_order --draws 100 --out benchmarks/results/declared_order.md [--tables TABLES]

The simulated classifier of `benchmarks.adaptive_classifier` with 120 exit thresholds, and each table of TABLES (what `riskfront
reproduce tables` filled) at the settings that prune neither heads nor tokens. Every population is known exactly; calibration
texts are drawn from it with replacement, the same draws for both methods.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import riskfront as rf
from benchmarks.adaptive_classifier import make_world
from benchmarks.paper_runs import restricted
from riskfront.experiment._paper.stored_tables import find_tables
from riskfront.transformers._certifying import FROM_THE_FULL_MODEL

ALPHAS, SIZES = (0.025, 0.05, 0.1), (2_312,)
METHODS = {"default": rf.ParetoTesting(), "declared order": FROM_THE_FULL_MODEL}
SIGNED = {"drop": (-1.0, 1.0), "accuracy_drop": (-1.0, 1.0)}


def simulated() -> rf.LossTable:
    world = make_world(8_000, heads=1, tokens=1, exits=120)
    configs = world.configs.rename(columns={"tau_exit": "tau_layer"})[["tau_layer"]]
    losses = {name: world.losses[name] for name in ("drop", "drop_clipped", "cost")}
    return rf.LossTable(configs, losses, bounds={"drop": SIGNED["drop"]})


def rows(name: str, table: rf.LossTable, drop: str, cost: str, draws: int) -> Iterator[str]:
    """A row for each number of texts: the excess of each method at every alpha, and how often a limit was broken."""
    spent = table.losses(cost).mean(axis=1, dtype=np.float64)
    risk = table.losses(drop).mean(axis=1, dtype=np.float64)
    place = {value: row for row, value in enumerate(table.configs["tau_layer"])}
    for n in SIZES:
        found: dict[str, list[list[tuple[float, bool]]]] = {method: [[] for _ in ALPHAS] for method in METHODS}
        for number in range(draws):
            drawn = np.random.default_rng([n, number]).integers(0, table.n_examples, n)
            losses = {column: table.losses(column)[:, drawn] for column in (drop, cost)}
            bounds = {drop: SIGNED[drop]} if drop in SIGNED else None
            sample = rf.LossTable(table.configs, losses, bounds=bounds).with_compared_examples()
            for at, alpha in enumerate(ALPHAS):
                problem, best = rf.Problem([rf.Limit(drop, at_most=alpha)], [cost]), spent[risk <= alpha].min()
                for method, how in METHODS.items():
                    certificate = rf.calibrate(sample, problem, method=how, seed=number)
                    row = place[certificate.config["tau_layer"]] if certificate else int(np.argmax(spent))
                    found[method][at].append((spent[row] / best - 1, bool(certificate) and bool(risk[row] > alpha)))
        cells = [" / ".join(_cell(values) for values in found[method]) for method in METHODS]
        yield f"| {name} | {'signed' if drop in SIGNED else 'clipped'} | {n:,} | {' | '.join(cells)} |"


def _cell(values: list[tuple[float, bool]]) -> str:
    excess, broken = np.array([v for v, _ in values]), np.mean([b for _, b in values])
    return f"{100 * excess.mean():+.1f} % ({100 * excess.std() / len(excess) ** 0.5:.1f}), {broken:.2f}"


def page(draws: int, tables: str) -> Iterator[str]:
    yield f"Made by `{shlex.join(['python', '-m', 'benchmarks.declared_order', *sys.argv[1:]])}`."
    yield "\nMean true cost over that of the best exit threshold that truly holds (standard error), and the share of draws"
    yield f"that break the limit, delta .1; alpha {' / '.join(map(str, ALPHAS))}. {draws} draws, the same for both.\n"
    yield f"| population | drop | texts | {' | '.join(METHODS)} |"
    yield "| --- " * (3 + len(METHODS)) + "|"
    world = simulated()
    for drop in ("drop", "drop_clipped"):
        yield from rows("simulated", world, drop, "cost", draws)
    for stored in find_tables(tables, ("ag_news", "imdb", "qnli", "qqp", "mnli")) if tables else []:
        part = restricted(stored.load(), ("tau_layer",))
        for drop in ("accuracy_drop", "accuracy_drop_clipped"):
            yield from rows(stored.title, part, drop, "flops", draws)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--tables", default="", help="what `riskfront reproduce tables` filled")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = []
    for line in page(given.draws, given.tables):
        print(line, flush=True)
        lines.append(line)
    if given.out is not None:
        given.out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
