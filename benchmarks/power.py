"""Power and validity of every method on the simulated adaptive classifier, next to the best setting that truly holds.

The table is the exact population, calibration examples are drawn from it with replacement, so the true cost of the chosen
setting is known and a violation is a fact, not an estimate. Without a certificate the full model is used: cost 1.

    python -m benchmarks.power --trials 200 --out benchmarks/results/power.csv
    python -m benchmarks.power --study defaults --trials 100 --out benchmarks/results/defaults.csv
    python -m benchmarks.power --study targets --trials 100 --out benchmarks/results/targets.csv

Each writes a Markdown table of the same name next to the CSV.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

import riskfront as rf
from benchmarks.adaptive_classifier import World, make_world
from riskfront.methods import METHODS, Method, Plan
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._pareto_testing import PAPER_P_VALUE
from riskfront.statistics._procedures import FixedSequence

OVERALL = (0.025, 0.05, 0.1)
WORST_CLASS = (0.05, 0.1, 0.15)
SELECTIVE = (0.02, 0.03, 0.05)
BEFORE = rf.ParetoTesting.as_in_the_paper(opt_fraction=0.3)  # as in the first version of riskfront
LAMBDAS = (0.5, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Row:
    """One line of the table: a problem, a method, and what to call it."""

    name: str
    limits: tuple[rf.Limit, ...]
    method: Method


@dataclass(frozen=True)
class Question:
    """A set of rows that share a world, alphas and a true optimum; ``risk`` is the limit that the optimum keeps."""

    title: str
    alphas: tuple[float, ...]
    rows: tuple[Row, ...]
    world: str = "plain"
    calibration: int | None = None


@dataclass(frozen=True)
class Clairvoyant:
    """What no plan can beat: the front of the whole population, in its true order, tested on all examples."""

    population: rf.LossTable
    name: ClassVar[str] = "clairvoyant"
    guaranteed: ClassVar[bool] = True
    opt_fraction: ClassVar[float] = 0.0

    def plan(self, opt: rf.LossTable, problem: rf.Problem) -> Plan:
        rows = rf.ParetoTesting.as_in_the_paper().plan(self.population, problem).rows
        return Plan(self, opt, rows, FixedSequence())


def questions() -> Iterator[Question]:
    """The comparisons of the paper and of the improvements on it."""
    clipped, paper = rf.Limit("drop_clipped", at_most=0.05), rf.ParetoTesting.as_in_the_paper()
    hoeffding_bentkus = rf.Limit("drop_clipped", at_most=0.05, p_value=PAPER_P_VALUE)
    rows = [
        Row("bonferroni, Hoeffding-Bentkus", (hoeffding_bentkus,), rf.BonferroniTesting()),
        Row("split-fst, Hoeffding-Bentkus, split .5", (hoeffding_bentkus,), rf.SplitFST(opt_fraction=0.5)),
        Row("sgt, Hoeffding-Bentkus", (hoeffding_bentkus,), rf.SGT()),
        Row("pareto-testing as in the paper: Hoeffding-Bentkus, split .5", (hoeffding_bentkus,), paper),
        Row("pareto-testing, binomial, the paper's plan on .3", (clipped,), BEFORE),
        Row("pareto-testing, binomial, as by default", (clipped,), rf.ParetoTesting()),
    ]
    rows += [
        Row(f"{name}, binomial, as by default", (clipped,), method())
        for name, method in METHODS.items()
        if name not in ("pareto-testing", "ordered-knob")  # a knob of one dimension is not what this is
    ]
    yield Question("clipped drop", OVERALL, tuple(rows))
    signed = rf.Limit("drop", at_most=0.05, p_value="betting")
    rows = [
        Row("pareto-testing, betting on the signed drop, the paper's plan on .3", (signed,), BEFORE),
        Row("pareto-testing, betting on the signed drop, as by default", (signed,), rf.ParetoTesting()),
    ]
    yield Question("signed drop", OVERALL, tuple(rows))
    padded = rf.Limit("drop_clipped", at_most=0.1, per="label", p_value=PAPER_P_VALUE, padded=True)
    conditional = rf.Limit("drop_clipped", at_most=0.1, per="label")
    yield Question(
        "clipped drop, worst class",
        WORST_CLASS,
        (
            Row("pareto-testing, padded Hoeffding-Bentkus as in the paper, split .5", (padded,), paper),
            Row("pareto-testing, conditional binomial, the paper's plan on .3", (conditional,), BEFORE),
            Row("pareto-testing, conditional binomial, as by default", (conditional,), rf.ParetoTesting()),
        ),
    )
    answer = rf.Limit("answered", at_least=0.8)
    padded = rf.Limit("drop_clipped", at_most=0.05, given="answered", p_value=PAPER_P_VALUE, padded=True)
    conditional = rf.Limit("drop_clipped", at_most=0.05, given="answered")
    yield Question(
        "clipped drop given answered, answered at least .8",
        SELECTIVE,
        (
            Row("pareto-testing, padded Hoeffding-Bentkus as in the paper, split .5", (padded, answer), paper),
            Row("pareto-testing, conditional binomial, the paper's plan on .3", (conditional, answer), BEFORE),
            Row("pareto-testing, conditional binomial, as by default", (conditional, answer), rf.ParetoTesting()),
        ),
        world="selective",
    )


def defaults() -> Iterator[Question]:
    """Which defaults are good: the share of opt data, the longest front, the share that learns a corner."""
    limit = (rf.Limit("drop_clipped", at_most=0.05),)
    shares = (0.2, 0.3, 0.4, 0.5)
    planned = (rf.ParetoTesting, rf.SplitFST, rf.LowRiskPath, rf.ConstrainedPath)
    rows = [Row(f"{m.name}, opt_fraction {s}", limit, m(opt_fraction=s)) for m in planned for s in shares]
    rows += [Row(f"sgt, learn_fraction {s}", limit, rf.SGT(learn_fraction=s)) for s in (0.02, 0.05, 0.1, 0.2)]
    low = {"tau_head": "low", "tau_token": "low", "tau_exit": "low"}
    rows += [Row("sgt, safest corner declared", limit, rf.SGT(safest=low))]
    yield Question("clipped drop", OVERALL, tuple(rows))
    both = (rf.Limit("drop_clipped", at_most=0.05), rf.Limit("drop_clipped", at_most=0.15, per="label"))
    rows = [
        Row(
            f"pareto-testing, max_settings {most}, prune {prune}",
            both,
            rf.ParetoTesting(max_settings=most, prune=prune),
        )
        for most in (50, 100, 500, 5000)
        for prune in (True, False)
    ]
    yield Question("clipped drop, and at most .15 in every class", OVERALL, tuple(rows))


def targets() -> Iterator[Question]:
    """What is gained over the first version, and what is left to gain, at three sizes."""
    clipped, signed = (rf.Limit("drop_clipped", at_most=0.05),), (rf.Limit("drop", at_most=0.05),)
    for limits, title, sizes in (
        (clipped, "clipped drop", (5_000, 1_000, 500)),
        (signed, "signed drop", (5_000, 1_000)),
    ):
        for size in sizes:
            rows = [
                Row("as in the first version: the paper's plan on .3", limits, BEFORE),
                Row("as by default", limits, rf.ParetoTesting()),
                Row("as by default, without the fallback test", limits, rf.ParetoTesting(holm_share=0.0)),
            ]
            yield Question(f"{title}, n = {size:,}", OVERALL, tuple(rows), calibration=size)


def ask(question: Question, world: World, trials: int, calibration: int, seed: int) -> pd.DataFrame:
    """One row for each line of the question and alpha: mean true cost, excess over the true optimum, violation rates."""
    names = {term.loss for row in question.rows for term in rf.Problem(row.limits, ["cost"]).terms}
    names |= {limit.given for row in question.rows for limit in row.limits if limit.given}
    table = rf.LossTable(
        world.configs,
        {name: world.losses[name] for name in world.losses if name in names},
        groups=world.groups,
        bounds={"drop": (-1, 1)} if "drop" in names else None,
    )
    found = []
    for limits in dict.fromkeys(row.limits for row in question.rows):
        lines = [row for row in question.rows if row.limits == limits]
        if question.calibration is not None:
            lines.append(Row("clairvoyant", limits, Clairvoyant(table)))
        results = rf.experiment.run(
            table,
            rf.Problem(limits, minimize=["cost"], delta=0.1),
            methods=[row.method for row in lines],
            alphas=question.alphas,
            trials=trials,
            calibration=question.calibration or calibration,
            seed=seed,
        )
        # rows come trial by trial, alpha by alpha, method by method
        results["line"] = np.resize([row.name for row in lines], len(results))
        found.append(results)
    results = pd.concat(found, ignore_index=True)
    results["cost"] = results["cost"].fillna(1.0)
    results["certified"] = results["n_certified"] > 0
    columns = ["cost", "certified", "violated", "any_violated", "n_tested", "n_certified"]
    means = results.groupby(["line", "alpha"], sort=False)[columns].mean().reset_index()
    best = {alpha: true_optimum(table, question, alpha) for alpha in question.alphas}
    means.insert(3, "excess", means["cost"] / means["alpha"].map(best) - 1)
    means["cost_error"] = results.groupby(["line", "alpha"], sort=False)["cost"].sem().to_numpy()
    truth = pd.DataFrame(
        {"line": "the best setting that truly holds", "alpha": list(best), "cost": list(best.values())}
    )
    means = pd.concat([truth.astype({"cost": float}), means], ignore_index=True)
    means.insert(0, "question", question.title)
    means["trials"] = trials
    return means


def true_optimum(table: rf.LossTable, question: Question, alpha: float) -> float:
    """The cost of the cheapest setting that keeps the limits in the whole population."""
    evidence = Evidence(rf.Problem(question.rows[0].limits, ["cost"]).at(alpha), table)
    holds = evidence.margin() <= 1e-12
    return float(np.where(holds, table.means("cost")[:, 0], np.inf).min())


def markdown(results: pd.DataFrame, command: str) -> str:
    """Small tables: one for each question, alphas side by side."""
    trials = results["trials"].iloc[0]
    parts = [
        f"Made by `{command}`: {trials} trials, 5,000 calibration examples unless a title says otherwise, delta = 0.1."
    ]
    parts.append(
        "Mean true cost (excess over the best setting that truly holds); then the share of trials in which the chosen "
        "setting, and in which any certified setting, truly breaks a limit: the largest over the alphas."
    )
    for title, part in results.groupby("question", sort=False):
        alphas = list(dict.fromkeys(part["alpha"]))
        parts.append(f"## {title}")
        lines = [f"| | {' | '.join(f'alpha = {alpha:g}' for alpha in alphas)} | chosen violates | any violates |"]
        lines.append("| --- |" + " --- |" * (len(alphas) + 2))
        for name, rows in part.groupby("line", sort=False):
            cells = [
                f"{row.cost:.3f}"
                + ("" if np.isnan(row.excess) else f" ({100 * row.excess:+.1f} %)")
                + ("" if np.isnan(row.excess) or row.certified == 1 else f", none {1 - row.certified:.2f}")
                for row in rows.itertuples()
            ]
            rates = [
                "" if rows[c].isna().all() else f"{rows[c].astype(float).max():.3f}"
                for c in ("violated", "any_violated")
            ]
            lines.append(f"| {name} | {' | '.join(cells + rates)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


STUDIES = {"methods": questions, "defaults": defaults, "targets": targets}


def main() -> None:
    parser = argparse.ArgumentParser(description="Power and validity on the simulated adaptive classifier.")
    parser.add_argument("--study", choices=tuple(STUDIES), default="methods")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--calibration", type=int, default=5_000)
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--small", action="store_true", help="a small grid, to try the script")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="questions whose title has this in it")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/power.csv"))
    options = parser.parse_args()
    size = {"heads": 5, "tokens": 5, "exits": 5} if options.small else {}
    worlds: dict[str, World] = {}
    results = []
    for question in STUDIES[options.study]():
        if options.only not in question.title:
            continue
        start = time.perf_counter()
        if question.world not in worlds:
            worlds.clear()
            if question.world == "plain":
                worlds["plain"] = make_world(options.examples, **size)
            else:
                small = {"heads": 9, "tokens": 10, "exits": 9, **size}
                worlds["selective"] = make_world(options.examples, lambdas=LAMBDAS, **small)
        results.append(ask(question, worlds[question.world], options.trials, options.calibration, options.seed))
        seconds = time.perf_counter() - start
        print(f"{question.title}: {seconds:.0f} s\n{results[-1].round(3).to_string(index=False)}", flush=True)
    everything = pd.concat(results, ignore_index=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    everything.round(5).to_csv(options.out, index=False)
    command = "python -m benchmarks.power " + shlex.join(sys.argv[1:])
    options.out.with_suffix(".md").write_text(markdown(everything, command.strip()), encoding="utf-8")


if __name__ == "__main__":
    main()
