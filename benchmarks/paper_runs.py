"""The paper's experiments on every stored table, one CSV file an experiment; what is done is not done again.

    python -m benchmarks.paper_runs --tables TABLES [--logs LOGS] [--only two-objectives,flops] [--trials 100]

TABLES is what `riskfront reproduce tables` filled; LOGS holds the logs of language models. Results go to
benchmarks/results/paper/; then `python -m benchmarks.paper_page --tables TABLES` writes the page.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import riskfront as rf
from benchmarks.paper_claims import SGT_ON_HALF
from riskfront.errors import StoreError
from riskfront.experiment._paper.descriptions import DROP, EXPERIMENTS, SIGNED, Experiment
from riskfront.experiment._paper.run_experiment import as_csv, on_one_table
from riskfront.experiment._paper.stored_tables import (
    CALIBRATION,
    PARETO,
    FromCorner,
    StoredTable,
    default,
    find_tables,
    paper,
)
from riskfront.experiment._paper.trials import measure, summary
from riskfront.methods._pareto_testing import PAPER_P_VALUE

RESULTS = Path(__file__).parent / "results" / "paper"
DIMENSIONS = "dimensions"
FOUR = ("ag_news", "qqp", "imdb", "qnli")
OPEN = "without bets"  # marks rows of a table whose other rows were not measured yet
AXES = ("tau_layer", "tau_token", "tau_head")
#: name -> thresholds that may vary; the others stay at their lowest value, which prunes nothing
RESTRICTED = {
    "exits only": ("tau_layer",),
    "tokens only": ("tau_token",),
    "heads only": ("tau_head",),
    "exits and tokens": ("tau_layer", "tau_token"),
    "all three": AXES,
}


def restricted(table: rf.LossTable, free: tuple[str, ...]) -> rf.LossTable:
    """The settings in which nothing but these thresholds prunes."""
    configs = table.configs
    kept = np.logical_and.reduce([configs[axis] == configs[axis].min() for axis in AXES if axis not in free] or [True])
    return table.select(np.broadcast_to(kept, len(configs)))


def by_dimension(stored: StoredTable, trials: int, bets: bool) -> pd.DataFrame:
    """FLOPs speed-ups where only some dimensions are pruned: the paper's form and riskfront's default with the signed drop;
    and the best setting that truly holds."""
    table = stored.load()
    experiment = EXPERIMENTS["flops"]
    forms = (
        replace(paper(rf.Limit(DROP, at_most=0.05)), methods=(PARETO,)),
        *([default(rf.Limit(SIGNED, at_most=0.05), form="riskfront's default, signed drop")] if bets else []),
    )
    found = []
    for name, free in RESTRICTED.items():
        part = restricted(table, free)
        for form in forms:
            alone = replace(experiment, lineups=(form,))
            means = summary(alone, part, measure(alone, stored.data, part, trials=trials))
            risk = part.losses(form.limits[0].loss).mean(axis=1)
            flops = part.losses("flops").mean(axis=1, dtype=np.float64)
            best = [flops.max() / flops[risk <= alpha].min() for alpha in experiment.alphas]
            found.append(means.assign(dimensions=name, n_settings=part.n_configs, best_that_holds=best))
    return pd.concat(found, ignore_index=True)


def on_half(stored: StoredTable, trials: int | None) -> pd.DataFrame:
    """The two-objectives experiment of 3D-SGT alone on half of the examples: as many as test in the paper's Pareto Testing."""
    experiment, table = EXPERIMENTS["two-objectives"], stored.load()
    alone = replace(
        experiment,
        lineups=(replace(experiment.lineups[0], methods=(FromCorner(rf.SGT, "low"),)),),
        calibration={stored.data: CALIBRATION[stored.data] // 2},
    )
    return summary(alone, table, measure(alone, stored.data, table, trials=trials))


def read(path: Path) -> pd.DataFrame:
    """Results as they were written; names that are empty are empty texts."""
    names = ["data", "variant", "exits", "table"]
    found = pd.read_csv(path, dtype=dict.fromkeys(names, str))
    return found.assign(**{name: found[name].fillna("") for name in names})


def identity(stored: StoredTable) -> str:
    """What the table was made from; rows of a table that was made again are measured again."""
    return str(stored.about.get("sha256", ""))[:12]


def without_bets(experiment: Experiment) -> Experiment:
    """Without the rows whose limits are on losses that are not 0/1, which take most of the time."""
    kept = [lineup for lineup in experiment.lineups if all(_counts(limit) for limit in lineup.limits)]
    return replace(experiment, lineups=tuple(kept))


def _counts(limit: rf.Limit) -> bool:
    return limit.p_value == PAPER_P_VALUE or limit.loss in (DROP, "answered")


def run(name: str, stored: StoredTable, out: Path, trials: int | None, bets: bool = True) -> None:
    """Add the rows of one table to the CSV file of one experiment; without bets they stay open for a later run."""
    path, known = out / f"{name}.csv", pd.DataFrame()
    if path.is_file():
        known = read(path)
        mine = (known[["data", "variant", "exits"]] == [stored.data, stored.variant, stored.exits]).all(axis=1)
        tags = {identity(stored)} if bets else {identity(stored), OPEN}
        if known.loc[mine, "table"].isin(tags).any():
            return
        known = known[~mine]
    started = time.monotonic()
    about = {"data": stored.data, "variant": stored.variant, "exits": stored.exits}
    if name == DIMENSIONS:
        found = by_dimension(stored, trials or 100, bets).assign(**about)
    elif name == SGT_ON_HALF:
        found = on_half(stored, trials).assign(**about)
    else:
        experiment = EXPERIMENTS[name] if bets else without_bets(EXPERIMENTS[name])
        found = on_one_table(experiment, stored, out, trials=trials)
    complete = (
        bets or name == SGT_ON_HALF or (name in EXPERIMENTS and without_bets(EXPERIMENTS[name]) == EXPERIMENTS[name])
    )
    joined = pd.concat([known, found.assign(table=identity(stored) if complete else OPEN)], ignore_index=True)
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(as_csv(joined), "utf-8")
    print(f"{name} on {stored.title}: {time.monotonic() - started:.0f} s", flush=True)


def keep_descriptions(tables: Path, out: Path) -> None:
    """What each table was made from goes with the results: the tables themselves stay outside."""
    try:
        found = {stored.file_name: stored.about for stored in find_tables(tables, tuple(CALIBRATION))}
    except StoreError:
        found = {}
    before = json.loads((out / "tables.json").read_text("utf-8")) if (out / "tables.json").is_file() else {}
    (out / "tables.json").write_text(json.dumps(before | found, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--logs", type=Path, help="folder of logs of language models")
    parser.add_argument("--only", default="", help="experiments, with commas between them")
    parser.add_argument("--data", default="", help="data sets, with commas between them")
    parser.add_argument("--trials", type=int, help="instead of what each description says")
    parser.add_argument("--without-bets", action="store_true", help="leave out what takes longest; a later run adds it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted = arguments.only.split(",") if arguments.only else [*EXPERIMENTS, DIMENSIONS, SGT_ON_HALF]
    for name in wanted:
        data = FOUR if name in (DIMENSIONS, SGT_ON_HALF) else EXPERIMENTS[name].data
        on_logs = name in ("router", "quantisation")
        if on_logs and arguments.logs is None:
            continue
        try:
            found = find_tables(arguments.logs if on_logs else arguments.tables, data)
        except StoreError:
            continue
        for stored in found:
            if arguments.data and stored.data not in arguments.data.split(","):
                continue
            run(name, stored, arguments.out, arguments.trials, not arguments.without_bets)
    keep_descriptions(arguments.tables, arguments.out)


if __name__ == "__main__":
    main()
