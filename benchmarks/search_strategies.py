"""Every search strategy on two real choices: how good is what can be certified after 25, 50, 100, 200 evaluations?

    OMP_NUM_THREADS=1 python -m benchmarks.search_strategies

The paper's figure on optimisers, for the two cases of `benchmarks.search_cases`. A strategy is told opt values only;
Pareto Testing then certifies a setting among those it asked for, with the examples and the split that the full grid of
6,480 has too. The figure of merit is that setting's true cost, 1 where nothing was certified.

Runs append a line to the CSV file for each case, strategy and seed, and skip what is there: stop and start at will.
`--table` makes the table and the figure of what is there.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.search_cases import POPULATIONS, Case, draw
from riskfront.search import Search, make_search

BUDGETS = (25, 50, 100, 200)
FULL_GRID = "full grid"
STRATEGIES = ("grid", "random", "optuna:nsga2", "optuna:tpe", "parego", "guided")
PLANNED = ("grid", "optuna:nsga2")  # these look ahead to their budget, so each budget is a search of its own
COLUMNS = ["case", "strategy", "seed", *(f"cost_{b}" for b in BUDGETS), "evaluations", "seconds"]


def start(strategy: str, case: Case, budget: int) -> Search:
    name, _, sampler = strategy.partition(":")
    options: dict[str, Any] = {"sampler": sampler} if sampler else {}
    if name == "guided":
        options |= {"targets": case.targets, "delta": case.problem.delta}
    return make_search(name, case.space, case.names, seed=case.seed, budget=budget, **options)


def search_costs(strategy: str, case: Case, budgets: tuple[int, ...]) -> tuple[list[float], float]:
    """The certified cost after each number of evaluations of one search, and the seconds it spent in ask and tell."""
    search = start(strategy, case, budgets[-1])
    rows: list[int] = []
    costs, seconds = [], 0.0
    for evaluation in range(1, budgets[-1] + 1):
        begin = time.perf_counter()
        asked = search.ask()
        for config in asked:
            rows.append(case.row(config))
            search.tell(config, dict(zip(case.names, case.told[rows[-1]].tolist(), strict=True)))
        seconds += time.perf_counter() - begin
        if evaluation in budgets:
            costs.append(case.certified_cost(rows))
    return costs, seconds


def measure(strategy: str, case: Case, most: int) -> dict[str, Any]:
    """One line of the results; budgets beyond `most` stay empty."""
    budgets = tuple(b for b in BUDGETS if b <= most)
    if strategy == FULL_GRID:
        costs, seconds, evaluations = [case.certified_cost()] * len(BUDGETS), 0.0, len(case.told)
    elif strategy in PLANNED:
        found = [search_costs(strategy, case, (budget,)) for budget in budgets]
        costs, seconds, evaluations = [c[0] for c, _ in found], found[-1][1], budgets[-1]
    else:
        (costs, seconds), evaluations = search_costs(strategy, case, budgets), budgets[-1]
    numbers = {f"cost_{b}": round(cost, 5) for b, cost in zip(BUDGETS, costs, strict=False)}
    return {**numbers, "evaluations": evaluations, "seconds": round(seconds, 2)}


def run(cases: list[str], strategies: list[str], seeds: range, most: int, out: Path) -> None:
    for name in cases:
        for seed in seeds:
            case = None
            for strategy in [FULL_GRID, *strategies]:
                if _is_done(out, name, strategy, seed, most):
                    continue
                case = case or draw(name, seed)
                line = {"case": name, "strategy": strategy, "seed": seed, **measure(strategy, case, most)}
                _append(out, line)
                print(line, flush=True)


def _is_done(out: Path, case: str, strategy: str, seed: int, most: int) -> bool:
    if not out.exists():
        return False
    with out.open(newline="") as file:
        return any(
            (line["case"], line["strategy"], line["seed"]) == (case, strategy, str(seed))
            and int(line["evaluations"]) >= most
            for line in csv.DictReader(file)
        )


def _append(out: Path, line: dict[str, Any]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = not out.exists()
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if fresh:
            writer.writeheader()
        writer.writerow(line)


def read_results(out: Path) -> pd.DataFrame:
    """One line a case, strategy, seed and budget; the longest run counts where a shorter one came first."""
    lines = pd.read_csv(out).sort_values("evaluations", kind="stable")
    lines = lines.drop_duplicates(["case", "strategy", "seed"], keep="last")
    budgets = {f"cost_{budget}": budget for budget in BUDGETS}
    costs = lines.melt(["case", "strategy", "seed"], list(budgets), "budget", "cost").dropna()
    return costs.assign(budget=costs["budget"].map(budgets))


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Mean cost, its excess over the full grid with its standard error, and that over random search, on the same seeds."""
    keys = ["case", "seed", "budget"]
    for reference in (FULL_GRID, "random"):
        other = results[results["strategy"] == reference].set_index(keys)["cost"].rename(reference)
        results = results.join(other, on=keys)
    means = []
    for key, part in results.groupby(["case", "strategy", "budget"], sort=False):
        grid, over_grid, over_random = (
            part[FULL_GRID].mean(),
            part["cost"] - part[FULL_GRID],
            part["cost"] - part["random"],
        )
        numbers = [part["cost"].mean(), over_grid.mean() / grid, over_grid.sem() / grid, over_random.mean()]
        means.append([*key, len(part), *numbers])  # type: ignore[misc]
    columns = ["case", "strategy", "budget", "seeds", "cost", "excess", "excess_error", "over_random"]
    return pd.DataFrame(means, columns=columns)


def markdown(out: Path) -> str:
    summary = summarise(read_results(out))
    seconds = pd.read_csv(out).assign(each=lambda lines: lines["seconds"] / lines["evaluations"])
    about = (
        "Mean true cost of the certified setting, in brackets its excess over what the full grid of 6,480 certifies on the "
        "same seeds, with its standard error. \\* marks means above those of random search; fewer seeds than 20 are given. "
        "Times of a setting (ask and tell) are of one core of a busy machine."
    )
    parts = [
        "Made by `OMP_NUM_THREADS=1 python -m benchmarks.search_strategies`; with `--table`, from the CSV file.",
        about,
    ]
    for case, part in summary.groupby("case", sort=False):
        grid = part[part["strategy"] == FULL_GRID]["cost"].iloc[0]
        parts.append(f"## {case}: the full grid certifies {grid:.4f}")
        lines = ["| | " + " | ".join(map(str, BUDGETS)) + " | seconds a setting |", "| --- |" + " --- |" * 5]
        for strategy in STRATEGIES:
            own = part[part["strategy"] == strategy].set_index("budget")
            cells = [_cell(own.loc[b]) if b in own.index else "" for b in BUDGETS]
            spent = seconds[(seconds["case"] == case) & (seconds["strategy"] == strategy)]["each"].median()
            lines.append(f"| {strategy} | {' | '.join(cells)} | {'' if np.isnan(spent) else f'{spent:.2f}'} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _cell(row: pd.Series[Any]) -> str:
    worse = " \\*" if row["over_random"] > 0 else ""
    fewer = f", {row['seeds']:.0f} seeds" if row["seeds"] < 20 else ""
    excess = f"{100 * row['excess']:+.1f} ± {100 * row['excess_error']:.1f} %"
    return f"{row['cost']:.4f} ({excess}{fewer}){worse}"


def draw_figure(out: Path) -> None:
    """Excess over the full grid against evaluations, a panel a case; needs matplotlib."""
    from matplotlib.figure import Figure

    summary = summarise(read_results(out))
    cases = list(dict.fromkeys(summary["case"]))
    figure = Figure(figsize=(5 * len(cases), 4), layout="constrained")
    for axes, case in zip(np.atleast_1d(figure.subplots(1, len(cases))), cases, strict=True):
        for strategy in STRATEGIES:
            own = summary[(summary["case"] == case) & (summary["strategy"] == strategy)].sort_values("budget")
            axes.errorbar(
                own["budget"], 100 * own["excess"], 100 * own["excess_error"], marker="o", ms=3, label=strategy
            )
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(xscale="log", xticks=BUDGETS, xticklabels=BUDGETS, title=case, xlabel="evaluations")
        axes.minorticks_off()
        axes.set_ylabel("cost over the full grid's, %")
        axes.set_yscale("symlog", linthresh=10)
        axes.set_yticks(ticks := [0, 5, 10, 50, 100, 500], labels=map(str, ticks))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(out.with_suffix(".svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--cases", default=",".join(POPULATIONS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=BUDGETS[-1], help="evaluations of the longest search")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/search.csv"))
    parser.add_argument("--table", action="store_true", help="no runs, only the table and the figure")
    options = parser.parse_args()
    if not options.table:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        run(options.cases.split(","), options.strategies.split(","), seeds, options.most, options.out)
    options.out.with_suffix(".md").write_text(markdown(options.out), encoding="utf-8")
    draw_figure(options.out)


if __name__ == "__main__":
    main()
