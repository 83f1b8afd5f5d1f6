"""How many evaluations ``tune(adaptive=True)`` saves, and what they cost in the certified objective.

    python -m benchmarks.adaptive DATA --draws 5 --out benchmarks/results/adaptive.md

Each case runs five ways on the same draw: the whole table with ``calibrate``; ``tune``; ``tune(adaptive=True)``; successive
halving with an exact test of its winner on fresh examples; aLTT's way (epsilon-greedy e-processes with Bonferroni), with a
tenth of the table's evaluations. "cost" is the certified cost over that of the best setting that truly holds; a draw without a
certificate counts as "none" and not in the cost; "cost of tune" compares the draws on which both certified something. DATA is
the folder of the RouterBench and quantisation files.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from benchmarks.adaptive_cases import DELTA, Case, classifier, other_classifiers, prompts, quantised
from riskfront.statistics._e_processes import EProcesses
from riskfront.statistics._p_values import betting, binomial

Found = tuple[int | None, int]  # the certified setting, and how many evaluations it took
_PLAN = 0.2  # share of the examples that halving plans on


def with_tune(case: Case, *, adaptive: bool) -> Found:
    examples = np.arange(case.loss.shape[1])
    losses = _named(case)
    certificate = rf.tune(
        losses,
        examples,
        case.space,
        case.problem,
        search=case.search,
        budget=case.budget,
        bounds={"loss": case.bounds} if case.bounds != (0, 1) else None,
        seed=0,
        progress=False,
        adaptive=adaptive,
    )
    if certificate.evaluations is not None:
        made = int(certificate.evaluations["made"])
    else:
        made = case.budget * certificate.n_opt + len(certificate.tested) * certificate.n_test
    return (_row(case, certificate) if certificate else None), made


def _named(case: Case) -> Callable[..., Any]:
    def losses(config: dict[str, int], examples: Any) -> dict[str, Any]:
        return case.losses(config, examples)

    losses.fingerprint = str(id(case))  # type: ignore[attr-defined]
    return losses


def _row(case: Case, certificate: rf.Certificate) -> int:
    return int(np.ravel_multi_index(tuple(certificate.config.values()), case.shape))


def whole_table(case: Case) -> Found:
    rows = (
        np.arange(len(case.loss))
        if case.search == "grid"
        else np.random.default_rng(0).choice(len(case.loss), case.budget)
    )
    rows = np.unique(rows)
    cost = np.repeat(case.cost[rows, None], case.loss.shape[1], axis=1)
    bounds = {"loss": case.bounds} if case.bounds != (0, 1) else None
    table = rf.LossTable([{"row": int(row)} for row in rows], {"loss": case.loss[rows], "cost": cost}, bounds=bounds)
    certificate = rf.calibrate(table, case.problem)
    return (int(certificate.config["row"]) if certificate else None), len(rows) * case.loss.shape[1]


def halving(case: Case) -> Found:
    """Half of the settings go on after each round: those within the limit first, by cost; the winner is tested."""
    rng = np.random.default_rng(1)
    order = rng.permutation(case.loss.shape[1])
    alive = (
        np.arange(len(case.loss)) if case.search == "grid" else rng.choice(len(case.loss), case.budget, replace=False)
    )
    budget = int(_PLAN * len(order))
    rounds = max(int(np.ceil(np.log2(len(alive)))), 1)
    made, seen = 0, 0
    for level in range(rounds):
        upto = max(int(budget / 2 ** (rounds - 1 - level)), seen + 1)
        made += len(alive) * (upto - seen)
        seen = upto
        risk = case.loss[alive][:, order[:seen]].mean(axis=1)
        rank = np.lexsort((np.where(risk <= case.alpha, case.cost[alive], risk), risk > case.alpha))
        alive = alive[rank[: max(len(alive) // 2, 1)]]
    fresh = case.loss[alive[0]][order[budget:]]
    low, high = case.bounds
    if fresh.dtype == bool:
        p = float(binomial(int(fresh.sum()), len(fresh), case.alpha))
    else:
        p = float(betting((fresh[None, :] - low) / (high - low), (case.alpha - low) / (high - low), DELTA)[0])
    return (int(alive[0]) if p <= DELTA else None), made + len(fresh)


def altt(case: Case, batch: int = 10, epsilon: float = 0.25) -> Found:
    """Epsilon-greedy over e-processes, each at level delta / m, until a tenth of the table is spent."""
    rng = np.random.default_rng(2)
    rows = (
        np.arange(len(case.loss)) if case.search == "grid" else rng.choice(len(case.loss), case.budget, replace=False)
    )
    m, n = len(rows), case.loss.shape[1]
    low, high = case.bounds
    order = rng.permutation(n)
    bets = [EProcesses([(case.alpha - low) / (high - low)], DELTA / m, n) for _ in range(m)]
    wealth, seen = np.zeros(m), np.zeros(m, dtype=int)
    made, most = 0, m * n // 10
    while made < most:
        open_ = np.flatnonzero((wealth < np.log(m / DELTA)) & (seen < n))
        if not open_.size:
            break
        at = int(rng.choice(open_)) if rng.random() < epsilon else int(open_[np.argmax(wealth[open_])])
        part = order[seen[at] : seen[at] + batch]
        bets[at].add(((case.loss[rows[at], part].astype(float) - low) / (high - low))[None, :])
        seen[at] += len(part)
        made += len(part)
        wealth[at] = bets[at].best[0] if bets[at].best[0] >= np.log(m / DELTA) else bets[at].log_wealth[0]
    passed = rows[wealth >= np.log(m / DELTA)]
    return (int(passed[np.argmin(case.cost[passed])]) if passed.size else None), made


WAYS: dict[str, Callable[[Case], Found]] = {
    "whole table": whole_table,
    "tune": lambda case: with_tune(case, adaptive=False),
    "adaptive": lambda case: with_tune(case, adaptive=True),
    "successive halving": halving,
    "aLTT": altt,
}


def cases(data: Path, draws: int, wanted: list[str]) -> Iterator[Case]:
    if "prompts" in wanted:
        yield from prompts(data, 3 * draws)
    if "quantised" in wanted:
        for alpha in (0.01, 0.02, 0.05):
            yield from quantised(data, alpha, draws)
    if "classifier" in wanted:
        for alpha in (0.025, 0.05, 0.1):
            yield from classifier(alpha, max(draws // 3, 1))
    if "others" in wanted:
        for alpha in (0.025, 0.05, 0.1):
            yield from other_classifiers(alpha, max(draws // 3, 1))


def measure(data: Path, draws: int, wanted: list[str], ways: list[str], kept: Path | None = None) -> pd.DataFrame:
    """A line for each draw and way. ``kept``: a CSV file to which every line is added when it is known; what it holds is not
    measured again, so that a long run may be stopped and gone on with."""
    lines = [] if kept is None or not kept.exists() else pd.read_csv(kept).to_dict("records")
    done = {(line["case"], line["draw"], line["way"]) for line in lines}
    draw: Counter[str] = Counter()
    for case in cases(data, draws, wanted):
        draw[case.name] += 1
        for way in ways:
            if (case.name, draw[case.name], way) in done:
                continue
            row, made = WAYS[way](case)
            line = {
                "case": case.name,
                "draw": draw[case.name],
                "way": way,
                "evaluations": made,
                "of table": made / case.size,
                "cost": np.nan if row is None else case.cost[row] / case.best(),
                "none": row is None,
                "false": row is not None and case.truth[row] > case.alpha,
            }
            lines.append(line)
            if kept is not None:
                pd.DataFrame([line]).to_csv(kept, mode="a", header=not kept.exists(), index=False)
    return pd.DataFrame(lines)


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    found = lines.groupby(["case", "way"], sort=False)
    table = found[["evaluations", "of table", "cost", "none", "false"]].mean()
    today = table.xs("tune", level="way")["evaluations"] if "tune" in lines["way"].values else None
    if today is not None:
        table.insert(2, "of tune", table["evaluations"] / table.index.get_level_values("case").map(today))
        table.insert(4, "cost of tune", found.apply(lambda own: _beside(own, lines), include_groups=False))
    return table.assign(draws=found.size()).reset_index()


def _beside(own: pd.DataFrame, lines: pd.DataFrame) -> float:
    """The mean cost over that of tune, on the draws on which both certified something."""
    case = lines.loc[own.index, "case"].iloc[0]
    today = lines[(lines["case"] == case) & (lines["way"] == "tune")].set_index("draw")["cost"]
    cost, today = own["cost"].to_numpy(), today.loc[own["draw"]].to_numpy()
    both = ~np.isnan(cost) & ~np.isnan(today)
    return float(cost[both].mean() / today[both].mean()) if both.any() else float("nan")


def _markdown(table: pd.DataFrame) -> str:
    rows = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    head = [str(name) for name in table.columns]
    return "\n".join(["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows]])


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 10 or float(value).is_integer() else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--cases", default="prompts,quantised,classifier")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--lines", type=Path, help="a CSV file of what was measured so far, to stop and go on")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    ways = [way.strip() for way in given.ways.split(",")]
    table = summary(measure(given.data, given.draws, given.cases.split(","), ways, given.lines))
    text = _markdown(table)
    print(text)
    if given.out is not None:
        command = f"python -m benchmarks.adaptive DATA --draws {given.draws} --cases {given.cases}"
        head = f"Made by `{command}`. {(__doc__ or '').splitlines()[0]}"
        given.out.write_text(f"{head}\n\n{text}\n")


if __name__ == "__main__":
    main()
