"""What it costs to choose after looking: frontiers whose statements all hold together against limits fixed beforehand.

The simulated classifier of ``benchmarks/adaptive_classifier.py``: 6,480 settings, exactly known truth. In every draw the same
examples are split once; then (a) each limit is calibrated as if it alone had been asked for, (b) all values of the limits are
certified together, by several designs; both without the fallback test. Shown is the excess of the mean true cost, in per cent,
over the cheapest setting that truly keeps the limit; where nothing is certified the full model is used, at cost 1. "False" is
the share of draws with any false statement at any value of the frontier, which must be at most delta. In brackets: the
standard error of the points above fixed, from the differences of the draws.

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
from scipy.stats import binom

import riskfront as rf
from benchmarks.adaptive_classifier import World, make_world
from riskfront._calibration import frontier_plan
from riskfront._calibration.frontier_plan import PlannedPaths, ValueGrid, in_sequences, plan_paths, pools
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics._bounds import binomial, special_functions
from riskfront.statistics._nested_sequences import reject_along

DELTA = 0.1
#: name -> (number of sequences, share of the level); None: one for each value
DESIGNS: dict[str, tuple[tuple[int | None, float], ...]] = {
    "three layers: all values .4, four groups .3, each value .3 (riskfront)": ((1, 0.4), (4, 0.3), (None, 0.3)),
    "the same, shares not pooled": ((1, 0.4), (4, 0.3), (None, 0.3)),
    "equal shares, one sequence a value": ((None, 1.0),),
    "one sequence by predicted slack": ((1, 1.0),),
    "five groups of neighbouring values": ((5, 1.0),),
    "one sequence .5, each value .5": ((1, 0.5), (None, 0.5)),
}
APART = ("the same, shares not pooled",)
#: no methods: what planning, and what dependence between neighbouring values, could bring at most, for one limit
FIXED, TRUE_FIXED, TRUE, BAND, TRUE_BAND, KNOWN_BAND = (
    "fixed beforehand",
    "fixed beforehand, planned on the true risks",
    "three layers, planned on the true risks",
    "level of the exact band of nested losses (not valid here)",
    "the same, planned on the true risks",
    "level of a band that knew how losses depend on each other (no method)",
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


def level_of_nested_band(n: int, values: Sequence[float]) -> float:
    """The level of each value at which all would hold together with probability .9 if losses were nested: whoever is lost at a
    tight value is lost at every looser one. Counts are then a Markov chain, so the level is exact; no band can have more."""

    def union(level: float) -> float:
        most = int(n * max(values) + 8 * np.sqrt(n * max(values))) + 5
        open_, before = np.eye(1, most + 1)[0], 0.0
        for value in sorted(values):
            step, passed = (value - before) / (1 - before), np.zeros(most + 1)
            for count in np.flatnonzero(open_ > 1e-16):
                passed[count:] += open_[count] * binom.pmf(np.arange(most - count + 1), n - count, step)
            passed[binom.cdf(np.arange(most + 1), n, value) <= level] = 0
            open_, before = passed, value
        return float(1 - open_.sum())

    low, high = DELTA / len(values), DELTA
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if union(middle) <= DELTA else (low, middle)
    return low


def level_of_known_band(world: World, truth: Truth, values: Sequence[float], n: int, draws: int = 3000) -> float:
    """The level of each value at which all would hold together with probability .9 if what is false were known: at each value
    the cheapest of the settings that break it by least. A band must hold for these, too, so that no band can have more."""
    rng, risks = np.random.default_rng(n), truth.risks[0]
    least = [np.argsort(np.where(risks > value, risks, np.inf))[:25] for value in values]
    rows = [int(near[np.argmin(truth.cost[near])]) for near in least]
    lost = world.losses[LOSS][rows]
    smallest = np.empty(draws)
    for draw in range(draws):
        counts = lost[:, rng.integers(lost.shape[1], size=n)].sum(axis=1)
        smallest[draw] = binom.cdf(counts, n, risks[rows]).min()
    return float(np.quantile(smallest, DELTA))


def union_of_losses(world: World, truth: Truth, grid: ValueGrid, n_test: int) -> list[float]:
    """Of settings two standard errors inside their values, tightest first: the share of examples that any setting up to there
    loses, over the risk of the setting alone. A band along a path must pay for it; 1 where losses are nested."""
    ideal, lost, found = planned_on_truth(grid, truth, n_test), np.zeros(world.groups["label"].size, dtype=bool), []
    for place in reversed(range(len(grid.varying[0].values))):
        path = ideal.paths[0][place]
        inside = np.flatnonzero(ideal.slacks[0][place][path] >= 2)
        row = path[inside[-1] if inside.size else 0]
        lost |= world.losses[LOSS][row]
        found.append(float(lost.mean() / max(truth.risks[0][row], 1e-9)))
    return found[::-1]


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
    grid: ValueGrid,
    designs: dict[str, Any],
    shown: Sequence[tuple[float, ...]],
    drawn: Drawn,
    truth: Truth,
    bands: dict[str, float],
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

    def certified_along(path: np.ndarray, at: list[int], level: float = DELTA) -> np.ndarray:
        mine, kept = np.searchsorted(rows, path), np.zeros(len(rows), dtype=bool)
        kept[mine[np.logical_and.accumulate(Evidence(grid.at(at), test).p_values(mine).max(axis=1) <= level)]] = True
        return kept

    costs, false = dict[str, list[float]](), dict[str, bool]()
    if len(grid.varying) == 1:
        for name, level in bands.items():
            of_values = (ideal if name == TRUE_BAND else planned).paths[0]
            costs[name] = []
            for at in places:
                tighter = range(at[0], len(of_values))  # what keeps a tighter value keeps this one
                kept = [certified_along(of_values[place], [place], level) for place in tighter]
                costs[name].append(cost_of(np.any(kept, axis=0)))
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
        pooled = None if name in APART else pools(planned, grid)
        certified, _ = reject_along(here, lambda v, s: float(p_values[v, s]), DELTA, held, loosest, pooled)
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
    unlike = [TRUE_FIXED, TRUE, BAND, TRUE_BAND, KNOWN_BAND] if len(values) == 1 else []
    names = [FIXED, *DESIGNS, *unlike]
    costs, false = {name: list[list[float]]() for name in names}, dict.fromkeys(names, 0)
    bands = dict[str, float]()
    for _ in range(draws):
        drawn = Drawn(world, rng, n)
        if len(values) == 1 and not bands:
            nested = level_of_nested_band(len(drawn.tested_on), values[LOSS])
            known = level_of_known_band(world, truth, values[LOSS], len(drawn.tested_on))
            bands = {BAND: nested, TRUE_BAND: nested, KNOWN_BAND: known}
            union = union_of_losses(world, truth, grid, len(drawn.tested_on))
            at = [grid.varying[0].place(value) for (value,) in shown]
            print(
                f"{n:,} examples: levels of bands {nested:.4f} and {known:.4f}; "
                f"union / risk {_listed([union[k] for k in at], '.2f')}"
            )
        found, wrong = compare(grid, DESIGNS, shown, drawn, truth, bands)
        for name in names:
            costs[name].append(found[name])
            false[name] += wrong.get(name, False)
    best = np.array([truth.best(at) for at in shown])
    percent = {name: 100 * np.array(costs[name]) / best for name in names}
    excess = {name: percent[name].mean(axis=0) - 100 for name in names}
    lines = []
    for name in names:
        more = percent[name] - percent[FIXED]
        error = more.std(axis=0, ddof=1) / np.sqrt(draws)
        above = f"{_listed(more.mean(axis=0))} ({_listed(error, '.1f')})"
        wrong_share = f"{false[name] / draws:.3f}"
        if name in (FIXED, TRUE_FIXED, *bands):  # not a frontier
            above, wrong_share = "" if name == FIXED else above, ""
        lines.append(f"| {n:,} | {name} | {_listed(excess[name])} | {above} | {wrong_share} |")
        print(lines[-1], flush=True)
    return lines


def _listed(values: Sequence[float] | np.ndarray, kind: str = "+.1f") -> str:
    return " / ".join(f"{value:{kind}}" for value in values)


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
    text = ["# Choose after looking: what it costs", "", *__doc__.splitlines()[2:8], ""]
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
