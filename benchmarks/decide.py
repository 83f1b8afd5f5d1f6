"""What it costs to choose after looking: frontiers whose statements all hold together against limits fixed beforehand.

The simulated classifier of ``benchmarks/adaptive_classifier.py``: 6,480 settings, exactly known truth. In every draw the same
examples are split once; then (a) each limit is calibrated as if it alone had been asked for, (b) all values of the limits are
certified together, by several designs; both without the fallback test. Shown is the excess of the mean true cost, in per cent,
over the cheapest setting that truly keeps the limit; where nothing is certified the full model is used, at cost 1. "False" is
the share of draws with any false statement at any value of the frontier, which must be at most delta.

    python -m benchmarks.decide --draws 40            # the tables of benchmarks/results/decide.md; two minutes of one core
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import riskfront as rf
from benchmarks.adaptive_classifier import World, make_world
from riskfront._calibration import frontier_plan
from riskfront._calibration.frontier_plan import PlannedPaths, in_sequences, plan_paths
from riskfront._calibration.value_grid import ValueGrid
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics._binomial import binomial, special_functions
from riskfront.statistics._nested_sequences import reject_along

DELTA = 0.1
#: name -> (number of sequences, share of the level); None: one for each value
DESIGNS: dict[str, tuple[tuple[int | None, float], ...]] = {
    "three layers: all values .4, four groups .3, each value .3 (riskfront)": ((1, 0.4), (4, 0.3), (None, 0.3)),
    "equal shares, one sequence a value": ((None, 1.0),),
    "one sequence by predicted slack": ((1, 1.0),),
    "five groups of neighbouring values": ((5, 1.0),),
    "one sequence .5, each value .5": ((1, 0.5), (None, 0.5)),
}
#: no method: what planning could bring at most, for one limit
FIXED, TRUE_FIXED, TRUE = (
    "fixed beforehand",
    "fixed beforehand, planned on the true risks",
    "three layers, planned on the true risks",
)
LOSS = "drop_clipped"
ONE = {LOSS: [round(0.005 * k, 3) for k in range(1, 21)]}
TWO = {
    LOSS: [round(0.01 * k, 2) for k in range(1, 13)],
    f"{LOSS} per label": [round(0.05 * k, 2) for k in range(1, 9)],
}
SHOWN_ONE = [(0.03,), (0.05,), (0.1,)]
SHOWN_TWO = [(0.03, 0.1), (0.05, 0.15), (0.1, 0.2)]


@contextmanager
def design(layers: tuple[tuple[int | None, float], ...]) -> Iterator[None]:
    before = frontier_plan._MANY
    frontier_plan._MANY = layers  # type: ignore[assignment]
    try:
        yield
    finally:
        frontier_plan._MANY = before


class Truth:
    """True risks, (limits, settings), and costs; the best cost for a combination of values."""

    def __init__(self, world: World, limits: int) -> None:
        self.risks = np.stack([world.truth(LOSS), world.truth_per(LOSS).max(axis=1)])[:limits]
        self.cost = world.truth("cost")

    def best(self, values: Sequence[float]) -> float:
        kept = (self.risks <= np.array(values)[:, None] + 1e-12).all(axis=0)
        return float(self.cost[kept].min())


def planned_on_truth(grid: ValueGrid, truth: Truth, n_test: int) -> PlannedPaths:
    """For one limit: at each value the cheapest settings that are truly so many standard errors inside it."""
    slacks, paths = [], []
    for value in grid.varying[0].values:
        p_values = binomial(truth.risks[0] * n_test, n_test, value)
        slack = -special_functions().ndtri(np.clip(p_values, 1e-250, 1.0))
        inside = [np.flatnonzero(slack >= least) for least in np.arange(5, 0.4, -0.25)]
        best = {int(kept[np.argmin(truth.cost[kept])]) for kept in inside if kept.size} | {int(np.argmax(slack))}
        rows = np.array(sorted(best))
        paths.append(rows[np.argsort(-slack[rows], kind="stable")])
        slacks.append(slack)
    return PlannedPaths([paths], [slacks], [False], 0.0)


class Drawn:
    """Planning examples of all settings, and testing examples of those settings that some plan asks for."""

    def __init__(self, world: World, rng: np.random.Generator, n: int) -> None:
        self.world = world
        chosen = rng.integers(world.groups["label"].size, size=n)
        self.method = replace(rf.ParetoTesting().resolve_defaults(n, len(world.configs)), holm_share=0.0)
        n_opt = round(self.method.opt_fraction * n)
        self.opt, self.tested_on = self._table(None, chosen[:n_opt]), chosen[n_opt:]

    def _table(self, rows: np.ndarray | None, examples: np.ndarray) -> rf.LossTable:
        rows = np.arange(len(self.world.configs)) if rows is None else rows
        losses = {name: self.world.losses[name][np.ix_(rows, examples)] for name in (LOSS, "cost")}
        return rf.LossTable(
            self.world.configs.iloc[rows], losses, groups={"label": self.world.groups["label"][examples]}
        )

    def test(self, rows: np.ndarray) -> rf.LossTable:
        return self._table(rows, self.tested_on)


def compare(
    grid: ValueGrid, designs: dict[str, Any], shown: Sequence[tuple[float, ...]], drawn: Drawn, truth: Truth
) -> tuple[dict[str, list[float]], dict[str, bool]]:
    """True costs of what is chosen at the shown values, and whether any statement is false; by design."""
    places = [[one.place(v) for one, v in zip(grid.varying, at, strict=True)] for at in shown]
    paths = [drawn.method.plan(drawn.opt, grid.at(at)).rows for at in places]
    plans, planned = {}, plan_paths(drawn.method, drawn.opt, grid, len(drawn.tested_on))
    for name, layers in designs.items():
        with design(layers):
            plans[name] = in_sequences(planned, grid)
    fixed = {FIXED: paths}
    if len(grid.varying) == 1:
        ideal = planned_on_truth(grid, truth, len(drawn.tested_on))
        plans[TRUE], fixed[TRUE_FIXED] = in_sequences(ideal, grid), [ideal.paths[0][at[0]] for at in places]
    along = [path for of in fixed.values() for path in of]
    rows = np.unique(np.concatenate([*along, *(one.settings for plan in plans.values() for one in plan)]))
    test, every = drawn.test(rows), np.arange(len(rows))
    measured = test.means("cost")[:, 0]

    def cost_of(kept: np.ndarray) -> float:
        held = np.flatnonzero(kept)
        return 1.0 if not held.size else float(truth.cost[rows[held[np.argmin(measured[held])]]])

    def certified_along(path: np.ndarray, at: list[int]) -> np.ndarray:
        mine, kept = np.searchsorted(rows, path), np.zeros(len(rows), dtype=bool)
        kept[mine[np.logical_and.accumulate(Evidence(grid.at(at), test).p_values(mine).max(axis=1) <= DELTA)]] = True
        return kept

    costs, false = dict[str, list[float]](), dict[str, bool]()
    for name, of in fixed.items():
        costs[name] = [cost_of(certified_along(path, at)) for path, at in zip(of, places, strict=True)]
    at_values = [(which, place) for which, one in enumerate(grid.varying) for place in range(len(one.values))]
    p_values = np.stack([Evidence(grid.alone(*at), test).p_values(every).max(axis=1) for at in at_values])
    broken = np.stack(
        [truth.risks[which][rows] > grid.varying[which].values[place] + 1e-12 for which, place in at_values]
    )
    loosest = np.array([row - place for row, (_, place) in enumerate(at_values)])
    for name, plan in plans.items():
        here = [replace(one, settings=np.searchsorted(rows, one.settings)) for one in plan]
        held = np.zeros(p_values.shape, dtype=bool)
        certified, _ = reject_along(here, lambda v, s: float(p_values[v, s]), DELTA, held, loosest)
        false[name] = bool((certified & broken).any())
        costs[name] = [
            cost_of(certified[[at_values.index(pair) for pair in enumerate(at)]].all(axis=0)) for at in places
        ]
    return costs, false


def run(
    world: World, n: int, draws: int, values: dict[str, list[float]], shown: Sequence[tuple[float, ...]]
) -> list[str]:
    limits = [f"{LOSS} <= 0.05", f"{LOSS} <= 0.15 per label"][: len(values)]
    grid = ValueGrid.of(rf.Problem(limits, minimize="cost", delta=DELTA), values)
    truth, rng = Truth(world, len(values)), np.random.default_rng(n)
    names = [FIXED, *DESIGNS, *([TRUE_FIXED, TRUE] if len(values) == 1 else [])]
    costs, false = {name: list[list[float]]() for name in names}, dict.fromkeys(names, 0)
    for _ in range(draws):
        found, wrong = compare(grid, DESIGNS, shown, Drawn(world, rng, n), truth)
        for name in names:
            costs[name].append(found[name])
            false[name] += wrong.get(name, False)
    best = np.array([truth.best(at) for at in shown])
    excess = {name: 100 * (np.mean(costs[name], axis=0) / best - 1) for name in names}
    lines = []
    for name in names:
        more = excess[name] - excess[names[0]]
        above, wrong_share = _listed(more), f"{false[name] / draws:.3f}"
        if name in (FIXED, TRUE_FIXED):  # not a frontier
            above, wrong_share = "" if name == FIXED else above, ""
        lines.append(f"| {n:,} | {name} | {_listed(excess[name])} | {above} | {wrong_share} |")
        print(lines[-1], flush=True)
    return lines


def _listed(values: np.ndarray) -> str:
    return " / ".join(f"{value:+.1f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--examples", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--limits", type=int, nargs="+", default=[1, 2], help="frontiers of how many limits")
    parser.add_argument("--out", type=Path, help="file to write the tables to")
    options = parser.parse_args()
    start, world = time.process_time(), make_world()
    head = [
        "| examples | design | excess of the cost | points above fixed | false |",
        "| --- | --- | --- | --- | --- |",
    ]
    text = ["# Choose after looking: what it costs", "", *__doc__.splitlines()[2:7], ""]
    for title, values, shown in (
        ("One limit, 20 values (.005 to .1); shown at .03 / .05 / .1", ONE, SHOWN_ONE),
        ("Two limits, 12 x 8 values; shown at (.03, .1) / (.05, .15) / (.1, .2)", TWO, SHOWN_TWO),
    ):
        if len(values) not in options.limits:
            continue
        text += [f"## {title}", "", *head]
        for n in options.examples:
            text += run(world, n, options.draws, values, shown)
        text.append("")
    text.append(f"{options.draws} draws, delta = .1: `python -m benchmarks.decide --draws {options.draws}`")
    text.append("")
    if options.out is not None:
        options.out.write_text("\n".join(text), encoding="utf-8")
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
