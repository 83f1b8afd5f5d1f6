"""How many examples should plan, and how much of delta should the fallback test get? Measured on five kinds of table.

    python -m benchmarks.default_shares --trials 100 --out benchmarks/results/default_shares.csv

Each table is an exact population and calibration examples are drawn from it with replacement, so true costs are known. The
Markdown next to the CSV has the mean true cost over that of the best setting that truly holds, and the share of trials in
which nothing was certified (then the safest answer is used: cost 1). ``riskfront.methods._plan`` rests on it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from benchmarks.adaptive_classifier import make_world
from riskfront.methods._evidence.limit_tests import Evidence

SHARES = {
    0.1: (0.01,),
    0.15: (0.01,),
    0.2: (0.0, 0.01, 0.05, 0.2, 0.5),
    0.3: (0.0, 0.01, 0.05, 0.2, 0.5),
}  # and holm_tests
SIZES = (300, 1_000, 5_000)
POPULATION = 6_000


@dataclass(frozen=True)
class Kind:
    """A population and the question asked of it."""

    table: rf.LossTable
    problem: rf.Problem


def grid(per_class: bool = False) -> Kind:
    """The simulated adaptive classifier on a coarser grid, 9 x 10 x 9 settings; overall, or in every class."""
    world = make_world(POPULATION, heads=9, tokens=10, exits=9)
    losses = {name: world.losses[name] for name in ("drop_clipped", "cost")}
    table = rf.LossTable(world.configs, losses, groups=world.groups)
    limit = rf.Limit("drop_clipped", at_most=0.1, per="label") if per_class else rf.Limit("drop_clipped", at_most=0.05)
    return Kind(table, rf.Problem([limit], ["cost"]))


def cascade(models: int = 6, thresholds: int = 21) -> Kind:
    """Pairs of models: the cheap one answers where it is sure enough, else the dear one; one threshold each pair."""
    rng = np.random.default_rng(3)
    skill, price = np.linspace(0.3, 2.2, models), np.geomspace(0.03, 1.0, models)
    difficulty = rng.standard_normal(POPULATION)
    margin = skill[:, None] - difficulty + 0.8 * rng.standard_normal((models, POPULATION))
    sure = 1 / (1 + np.exp(-np.abs(margin + 0.7 * rng.standard_normal(margin.shape))))
    configs, errors, costs = [], [], []
    for first in range(models):
        for second in range(first + 1, models):
            for cut in np.linspace(0.5, 1.0, thresholds):
                stays = sure[first] >= cut
                errors.append(np.where(stays, margin[first], margin[second]) <= 0)
                costs.append(price[first] + np.where(stays, 0.0, price[second]))
                configs.append({"first": f"m{first}", "second": f"m{second}", "threshold": round(float(cut), 3)})
    table = rf.LossTable(configs, {"error": np.array(errors), "cost": np.array(costs, dtype=np.float32)})
    best = float(np.array(errors).mean(axis=1).min())
    return Kind(table, rf.Problem([rf.Limit("error", at_most=round(best + 0.04, 3))], ["cost"]))


def prompts(m: int, trade_off: bool) -> Kind:
    """Settings without structure and independent losses: risk unrelated to cost, or falling with it, with scatter."""
    rng = np.random.default_rng([4, m, trade_off])
    cost = rng.uniform(0.02, 1.0, m)
    risk = 0.4 * np.exp(-2.2 * cost) * rng.lognormal(0, 0.25, m) if trade_off else rng.beta(6, 50, m)
    error = rng.random((m, POPULATION)) < np.minimum(risk, 0.9)[:, None]
    table = rf.LossTable(
        [{"prompt": f"p{i}"} for i in range(m)], {"error": error, "cost": np.repeat(cost[:, None], POPULATION, axis=1)}
    )
    return Kind(table, rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"]))


KINDS: dict[str, Callable[[], Kind]] = {
    "grid, 810": grid,
    "worst class, 810": lambda: grid(per_class=True),
    "cascade, 315": cascade,
    "prompts, 60": lambda: prompts(60, trade_off=False),
    "trade-off, 300": lambda: prompts(300, trade_off=True),
}


def ask(kind: Kind, n: int, trials: int) -> pd.DataFrame:
    """One row for each share, fallback test and rival: mean true cost over the best, and how often nothing was certified."""
    pairs = [(share, holm) for share, of_holm in SHARES.items() for holm in of_holm]
    methods = [rf.ParetoTesting(opt_fraction=share, holm_share=holm) for share, holm in pairs]
    rivals = [
        rf.ParetoTesting.as_in_the_paper(),
        rf.ParetoTesting.as_in_the_paper(opt_fraction=0.3),
        rf.BonferroniTesting(),
        rf.ParetoTesting(),
    ]
    names = [f"share {share}, fallback test {holm}" for share, holm in pairs]
    names += ["paper (share .5)", "paper's plan, share .3", "bonferroni", "as by default"]
    found = rf.experiment.run(kind.table, kind.problem, methods=[*methods, *rivals], trials=trials, calibration=n)
    found["line"] = np.resize(names, len(found))
    found["none"], found["cost"] = found["n_certified"] == 0, found["cost"].fillna(1.0)
    holds = Evidence(kind.problem, kind.table).margin() <= 1e-12
    best = kind.table.means("cost")[holds, 0].min()
    means = found.groupby("line", sort=False)[["cost", "none", "violated", "any_violated"]].mean().reset_index()
    means.insert(1, "excess", means["cost"] / best - 1)
    means["error"] = found.groupby("line", sort=False)["cost"].sem().to_numpy() / best
    return means


def markdown(results: pd.DataFrame, command: str, trials: int) -> str:
    parts = [f"Made by `{command}`: {trials} trials, delta = 0.1."]
    parts.append("Mean true cost over the best setting that truly holds; in brackets how often nothing was certified.")
    cells = results.assign(
        cell=[f"{100 * r.excess:+.1f} %" + (f" ({r.none:.2f})" if r.none else "") for r in results.itertuples()],
        column=[f"{r.kind}, n = {r.n:,}" for r in results.itertuples()],
    )
    for kind, part in cells.groupby("kind", sort=False):
        wide = part.pivot_table(index="line", columns="n", values="cell", aggfunc="first", sort=False)
        parts.append(f"## {kind} settings")
        rows = ["| | " + " | ".join(f"n = {n:,}" for n in wide.columns) + " |", "| --- |" + " --- |" * wide.shape[1]]
        rows += [
            f"| {line} | " + " | ".join(values) + " |" for line, values in zip(wide.index, wide.to_numpy(), strict=True)
        ]
        parts.append("\n".join(rows))
    worst = results["any_violated"].max()
    parts.append(f"Largest share of trials in which any certified setting truly broke its limit: {worst:.3f}.")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/default_shares.csv"))
    options = parser.parse_args()
    results = []
    for name in options.kinds:
        kind = KINDS[name]()
        for n in SIZES:
            results.append(ask(kind, n, options.trials).assign(kind=name, n=n))
            print(name, n, results[-1][["line", "excess", "none"]].round(3).to_string(index=False), flush=True)
    everything = pd.concat(results, ignore_index=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    everything.round(5).to_csv(options.out, index=False)
    command = ("python -m benchmarks.default_shares " + shlex.join(sys.argv[1:])).strip()
    options.out.with_suffix(".md").write_text(markdown(everything, command, options.trials), encoding="utf-8")


if __name__ == "__main__":
    main()
