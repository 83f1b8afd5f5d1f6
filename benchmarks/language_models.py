"""Real logs of language models: quantisations of one, and cascades, routers and single ones of eleven.

Each table is taken as the population. Calibration examples are drawn from it with replacement, so what the chosen setting
truly loses and costs is known, and a violation is a fact. Without a certificate the reference itself is used.

    python -m benchmarks.language_models DATA --trials 200 --out benchmarks/results/language_models.csv

DATA is a folder with ``routerbench_0shot_subset.parquet``, ``routerbench_0shot_prompts.parquet``,
``routerbench_0shot_lengths.parquet``, ``llama31_8b_mxquant_triviaqa.parquet`` and
``llama31_8b_mxquant_triviaqa_configs.csv``. A Markdown table of the same name is written next to the CSV. ``--only gain``
runs the cases whose title holds that word and keeps the other rows of the CSV.

Cascades and routers come twice: by the probability that an answer is right (P(right)), and by predicted gain a dollar. The same
633 examples are set aside to learn from, and the other 2,531 are the population, in all of them; the draws are the same too.
For routers by gain a dollar ``riskfront cascade`` tests levels in their order ("ordered-knob"); pareto-testing is beside it.
The table of RouterBench alone: ``--only eleven --briefly --out benchmarks/results/language_models_gain.csv``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._data.logs.runs import Runs
from riskfront.methods._evidence.limit_tests import Evidence

METHODS = ("pareto-testing", "bonferroni", "alpha-delta-constrained", "alpha-constrained")
NAIVE = {
    "alpha-constrained": "naive: the cheapest that looks good",
    "alpha-delta-constrained": "naive: a test of each, no correction",
}
_MANY = 1000
ROUTERBENCH, QUANTISED = "routerbench_0shot_subset.parquet", "llama31_8b_mxquant_triviaqa"
PROMPTS, LENGTHS = "routerbench_0shot_prompts.parquet", "routerbench_0shot_lengths.parquet"
QUANTISATIONS = "quantisations of Llama 3.1 8B on TriviaQA"


@dataclass(frozen=True)
class Case:
    """A table, the setting that others are compared with, what should be small, which drops are asked for, and the method that
    ``riskfront cascade`` uses, where it is another than the usual one."""

    title: str
    table: rf.LossTable
    reference: str
    objective: str
    drops: tuple[float, ...]
    used: rf.methods.Method | None = None


def cases(data: Path, only: str = "") -> Iterator[Case]:
    if only in QUANTISATIONS:
        yield quantisations(data)
    runs = rf.read_runs(data / ROUTERBENCH, "routerbench")
    runs = with_texts(data, runs)
    best, drops = "gpt-4-1106-preview", (0.02, 0.03, 0.05, 0.1)
    learnt = rf.LearntConfidence(["task", "prompt_chars", "response_chars"])
    upfront = rf.LearntConfidence(["task", "prompt_chars"])
    makers: dict[str, Callable[[], rf.Cascade]] = {
        "cascades of two of eleven models, by P(right) (RouterBench)": lambda: rf.Cascade(runs, confidence=learnt),
        "cascades of eleven models, by gain a dollar (RouterBench)": lambda: rf.Cascade(runs),
        "routers between two of eleven models, by P(right) (RouterBench)": lambda: rf.Router(runs, confidence=upfront),
        "routers between eleven models, by gain a dollar (RouterBench)": lambda: rf.Router(runs),
        "one of eleven models (RouterBench)": lambda: rf.Cascade(
            runs, stages=1, confidence="prompt_chars", thresholds=[0.0]
        ),
    }
    asked = rf.Problem([rf.Limit("score", at_most=drops[0], drop_from=best)], minimize="cost")
    for title, make in makers.items():
        if only in title:
            made = make()
            method = made.method_for(asked)
            used = None if method.name == METHODS[0] else method
            yield Case(title, in_memory(made), best, "cost", drops, used)


def quantisations(data: Path) -> Case:
    problem = rf.Problem(["score drop <= 0.02"], minimize="avg_bitwidth", reference="full")
    wide, _ = rf.read_wide(
        data / f"{QUANTISED}.parquet", problem, example_column="sample_id", settings=data / f"{QUANTISED}_configs.csv"
    )
    return Case(QUANTISATIONS, wide, "full", "avg_bitwidth", (0.005, 0.01, 0.02, 0.03))


def with_texts(data: Path, runs: Runs) -> Runs:
    """The runs with the prompts and the lengths of the answers."""
    prompts, lengths = pd.read_parquet(data / PROMPTS), pd.read_parquet(data / LENGTHS)
    names = prompts["eval_name"].astype(str) + "/" + prompts["sample_id"].astype(str)
    texts = runs.examples["example"].map(dict(zip(names, prompts["prompt"], strict=True)))
    wide = lengths.drop_duplicates(["sample_id", "model"]).pivot(
        index="sample_id", columns="model", values="response_chars"
    )
    found = wide.reindex(runs.examples["example"].str.split("/", n=1).str[1])[runs.names].to_numpy(dtype=float).T
    return replace(runs, examples=runs.examples.assign(prompt=texts), values={**runs.values, "response_chars": found})


def in_memory(cascade: rf.Cascade) -> rf.LossTable:
    """The table held in memory: hundreds of draws from it go faster so."""
    table = cascade.table(binary=["score"])
    return rf.LossTable(table.configs, {name: table.losses(name) for name in ("score", "cost")})


def results(case: Case, trials: int, n: int, delta: float, briefly: bool = False) -> Iterator[dict[str, object]]:
    """One row for each method and drop: violations, true cost, and beside it the best that truly holds."""
    limit = rf.Limit("score", at_most=case.drops[0], drop_from=case.reference)
    problem = rf.Problem([limit], minimize=case.objective, delta=delta)
    # to bet on thousands of settings in every draw takes hours: the methods that do are left out where there are so many
    methods = list[str | rf.methods.Method](METHODS if case.table.n_configs <= _MANY and not briefly else METHODS[::3])
    methods = [case.used, *methods] if case.used is not None else methods
    found = rf.experiment.run(case.table, problem, methods=methods, alphas=case.drops, trials=trials, calibration=n)
    costs = Evidence(problem, case.table).objectives()[:, 0]
    full = costs[case.table.reference(case.reference)]
    scores = case.table.losses("score").mean(axis=1)
    lost = scores[case.table.reference(case.reference)] - scores
    singles = np.array([" > " not in str(name) and "any of" not in str(name) for name in case.table.configs.iloc[:, 0]])
    for drop in case.drops:
        about = {"case": case.title, "drop": drop, "n": n}
        holds = Evidence(problem.at(drop), case.table).margin() <= 1e-12
        known = {"the reference itself": full, "the best that truly holds": costs[holds].min()}
        if not singles.all():
            known["the best single model that truly holds (always)"] = costs[holds & singles].min()
            known["the best coin between two models that truly holds (random)"] = coin(
                costs[singles], lost[singles], drop
            )
        for name, cost in known.items():
            yield about | {"method": name, "cost": cost, "violated": 0.0, "certified": 1.0}
        for method, rows in found[found["alpha"] == drop].groupby("method", sort=False):
            yield about | {
                "method": NAIVE.get(str(method), str(method)),
                "cost": float(rows[case.objective].fillna(full).mean()),
                "violated": float(rows["violated"].mean()),
                "certified": float((rows["n_certified"] > 0).mean()),
            }


def coin(costs: np.ndarray, drops: np.ndarray, most: float) -> float:
    """The smallest mean cost of a random choice between two settings whose mean drop is at most ``most``."""
    share = np.linspace(0, 1, 1001)
    mixed = [
        ((1 - share) * costs[one] + share * costs[two], (1 - share) * drops[one] + share * drops[two])
        for one in range(len(costs))
        for two in range(len(costs))
    ]
    return float(min(np.min(cost[drop <= most + 1e-12], initial=np.inf) for cost, drop in mixed))


def markdown(frame: pd.DataFrame, delta: float, trials: int, seconds: float, options: str = "") -> str:
    """A section a case: rows are methods, columns drops; cost relative to the reference, and violations."""
    text = (
        f"Made by `python -m benchmarks.language_models DATA --trials {trials}{options}`: {trials} draws with replacement "
        f"from each table, delta = {delta:g}. {seconds:.0f} seconds.\n\nMean true cost of the chosen setting relative to "
        "the reference model (where nothing is certified, the reference is used), and in brackets the share of draws in which "
        "the chosen setting truly breaks the limit on the drop.\n"
    )
    for title, case in frame.groupby("case", sort=False):
        drops = case["drop"].unique()
        full = float(case[case["method"] == "the reference itself"]["cost"].iloc[0])
        text += f"\n## {title}\n\n{int(case['n'].iloc[0]):,} calibration examples.\n\n"
        text += (
            "| | " + " | ".join(f"drop <= {drop:g}" for drop in drops) + " |\n" + "| --- " * (len(drops) + 1) + "|\n"
        )
        for method, rows in case.groupby("method", sort=False):
            cells = []
            for drop in drops:
                row = rows[rows["drop"] == drop].iloc[0]
                tested = not str(method).startswith("the ")
                cells.append(f"{row['cost'] / full:.3f}" + (f" ({row['violated']:.3f})" if tested else ""))
            text += f"| {method} | " + " | ".join(cells) + " |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/language_models.csv"))
    parser.add_argument("--only", default="", help="cases whose title holds this")
    parser.add_argument("--briefly", action="store_true", help="without the methods that bet on every single setting")
    options = parser.parse_args()
    start, rows = time.perf_counter(), []
    for case in cases(options.data, options.only):
        rows += list(results(case, options.trials, case.table.n_examples, options.delta, options.briefly))
        print(case.title, f"{time.perf_counter() - start:.0f} s", flush=True)
    frame = pd.DataFrame(rows)
    if options.only and options.out.exists():
        earlier = pd.read_csv(options.out)
        frame = pd.concat([earlier[~earlier["case"].isin(frame["case"])], frame], ignore_index=True)
    frame.round(6).to_csv(options.out, index=False)
    spent = time.perf_counter() - start
    said = (f' --only "{options.only}"' if options.only else "") + (" --briefly" if options.briefly else "")
    text = markdown(frame, options.delta, options.trials, spent, said)
    options.out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
