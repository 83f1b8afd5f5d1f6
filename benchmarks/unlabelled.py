"""What unlabelled examples bring on the simulated adaptive classifier, and what they cost where they bring nothing.

The proxy is disagreement with the full model: 1 where a setting is right and the full model wrong, or the other way round. It
needs no label. Labelled and unlabelled examples are drawn from the exact population with replacement, so that the true cost of
the chosen setting is known and a violation is a fact. Without a certificate the full model is used: cost 1.

    python -m benchmarks.unlabelled --trials 40 --only "drop_clipped, 1,000" --out benchmarks/results/unlabelled.csv

It writes a Markdown table of the same name next to the CSV.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from benchmarks.adaptive_classifier import World, make_world

ALPHAS = (0.025, 0.05, 0.1)
LABELS = "labels alone"


@dataclass(frozen=True)
class Row:
    """A line of the table: a loss, numbers of examples, a proxy, and which unlabelled examples there are."""

    loss: str
    labelled: int
    unlabelled: int = 0
    proxy: str = ""

    @property
    def question(self) -> str:
        return f"{self.loss}, {self.labelled:,} labels"

    @property
    def name(self) -> str:
        if not self.proxy:
            return LABELS
        return f"{self.unlabelled:,} unlabelled, proxy {self.proxy}"


def rows() -> Iterator[Row]:
    for loss, labelled in (("drop_clipped", 1_000), ("drop_clipped", 500), ("drop", 1_000)):
        yield Row(loss, labelled)
        for times in (20, 2) if loss == "drop_clipped" and labelled == 1_000 else (20,):
            yield Row(loss, labelled, times * labelled, "disagreement")
        if labelled == 1_000 and loss == "drop_clipped":
            yield Row(loss, labelled, 20 * labelled, "a coin")


def calibrated(world: World, row: Row, random: np.random.Generator) -> pd.DataFrame:
    """One trial: the chosen setting for each alpha."""
    chosen = random.integers(world.losses["drop"].shape[1], size=row.labelled)
    losses: dict[str, Any] = {name: world.losses[name][:, chosen] for name in (row.loss, "cost")}
    bounds, others = {"drop": (-1.0, 1.0)} if row.loss == "drop" else {}, None
    if row.proxy:
        elsewhere = random.integers(world.losses["drop"].shape[1], size=row.unlabelled)
        losses["proxy"], proxies = (_proxy(world, row.proxy, at, random) for at in (chosen, elsewhere))
        others = rf.LossTable(world.configs, {"proxy": proxies})
    limit = rf.Limit(row.loss, at_most=ALPHAS[0], proxy="proxy" if row.proxy else None)
    table = rf.LossTable(world.configs, losses, bounds=bounds)
    seed = int(random.integers(1 << 31))
    return rf.frontier(table, rf.Problem(limit, minimize="cost"), ALPHAS, seed=seed, unlabelled=others)


def _proxy(world: World, name: str, at: Any, random: np.random.Generator) -> Any:
    if name == "disagreement":
        return world.losses["drop"][:, at] != 0
    return np.broadcast_to(random.random(len(at)) < 0.5, (len(world.configs), len(at)))


def trials(world: World, row: Row, count: int, seed: int) -> pd.DataFrame:
    """One row a trial and alpha: the true cost of the chosen setting, and whether it truly breaks its limit."""
    truth, costs = world.truth(row.loss), world.truth("cost")
    place = {tuple(setting): at for at, setting in enumerate(world.configs.itertuples(index=False, name=None))}
    names, found = list(world.configs.columns), []
    for trial in range(count):
        frontier = calibrated(world, row, np.random.default_rng([seed, trial, row.labelled]))
        for result in frontier.to_dict("records"):
            at = place[tuple(result[name] for name in names)] if result["n_certified"] else None
            found.append(
                {
                    "alpha": result["alpha"],
                    "cost": 1.0 if at is None else costs[at],
                    "certified": at is not None,
                    "violated": at is not None and truth[at] > result["alpha"] + 1e-12,
                }
            )
    return pd.DataFrame(found)


def study(world: World, count: int, seed: int, only: str) -> pd.DataFrame:
    found = []
    for row in (row for row in rows() if only in row.question):
        start = time.perf_counter()
        results = trials(world, row, count, seed)
        means = results.groupby("alpha").mean().reset_index()
        best = [_optimum(world, row.loss, alpha) for alpha in means["alpha"]]
        means["excess"], means["best"] = means["cost"] / best - 1, best
        means["cost_error"] = results.groupby("alpha")["cost"].sem().to_numpy()
        means.insert(0, "line", row.name)
        means.insert(0, "question", row.question)
        found.append(means.assign(trials=count))
        print(f"{time.perf_counter() - start:.0f} s\n{means.round(4).to_string(index=False)}", flush=True)
    return pd.concat(found, ignore_index=True)


def _optimum(world: World, loss: str, alpha: float) -> float:
    return float(np.where(world.truth(loss) <= alpha + 1e-12, world.truth("cost"), np.inf).min())


def markdown(results: pd.DataFrame, command: str) -> str:
    parts = [
        f"Made by `{command}`: {results['trials'].iloc[0]} trials, delta = 0.1, 6,480 settings, methods as by default.",
        (
            "Mean true cost (excess over the best setting that truly holds); then the share of trials in which the chosen "
            "setting truly breaks its limit, the largest over the alphas. Labels alone: exact binomial for the clipped drop, "
            "betting for the signed one. A coin is a proxy that says nothing."
        ),
    ]
    for title, part in results.groupby("question", sort=False):
        alphas = list(dict.fromkeys(part["alpha"]))
        lines = [f"| | {' | '.join(f'alpha = {alpha:g}' for alpha in alphas)} | violated |"]
        lines.append("| --- |" + " --- |" * (len(alphas) + 1))
        best = part[part["line"] == part["line"].iloc[0]]["best"]
        lines.append(f"| the best setting that truly holds | {' | '.join(f'{cost:.3f}' for cost in best)} | |")
        for name, of in part.groupby("line", sort=False):
            cells = [
                f"{one.cost:.3f} ({100 * one.excess:+.1f} %)"
                + (f", none {1 - one.certified:.2f}" * (one.certified < 1))
                for one in of.itertuples()
            ]
            lines.append(f"| {name} | {' | '.join(cells)} | {of['violated'].astype(float).max():.3f} |")
        parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Unlabelled examples on the simulated adaptive classifier.")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="questions that have this in their title")
    parser.add_argument("--small", action="store_true", help="a small grid, to try the script")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/unlabelled.csv"))
    options = parser.parse_args()
    size = {"heads": 5, "tokens": 5, "exits": 5} if options.small else {}
    results = study(make_world(**size), options.trials, options.seed, options.only)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results.round(5).to_csv(options.out, index=False)
    command = "python -m benchmarks.unlabelled " + shlex.join(sys.argv[1:])
    options.out.with_suffix(".md").write_text(markdown(results, command.strip()), encoding="utf-8")


if __name__ == "__main__":
    main()
