"""What the paper claims and what riskfront claims on top, checked row by row against the results, in sentences for the page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from benchmarks.paper_numbers import DATA, FLOPS, papers
from riskfront.experiment._paper.stored_tables import WORDS

DELTA = 0.1
UNGUARDED = ("alpha-constrained", "alpha-delta-constrained")
PAPERS = ("split-fst", "sgt", "low-risk-path", "constrained-path")
PARETO = "pareto-testing"
EXACT, DEFAULT = "pareto-testing, exact p-values", "pareto-testing, riskfront's default"
SIGNED = "pareto-testing, riskfront's default, signed drop"
KEYS = ["data", "variant", "exits"]
SGT_ON_HALF = "sgt-on-half"
SINGLE = ("exits only", "tokens only", "heads only")


def first_alpha(alpha: object) -> float:
    """The number of the first limit: alphas of several limits are texts in CSV files."""
    return float(str(alpha).strip("()").split(",")[0])


def interval(share: float, trials: int) -> tuple[float, float]:
    """The exact 95 % interval (Clopper and Pearson) of a share of trials."""
    found = binomtest(round(share * trials), trials).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


def lines(found: dict[str, pd.DataFrame]) -> Iterator[str]:
    yield from ["", "## What holds and what does not", ""]
    frames = {name: frame for name, frame in found.items() if "any_violated" in frame}
    if "dimensions" in frames:  # all three together are the rows of the flops experiment again
        frames["dimensions"] = frames["dimensions"][frames["dimensions"]["dimensions"] != "all three"]
    if frames:
        yield from guarantee(pd.concat([frame.assign(experiment=name) for name, frame in frames.items()]))
    if "two-objectives" in found:
        yield from lowest_cost(found["two-objectives"], found.get(SGT_ON_HALF))
    if "worst-class" in found:
        yield from conditional_or_padded(found["worst-class"])


def guarantee(frame: pd.DataFrame) -> Iterator[str]:
    """Whether any certified setting breaks a limit more often than delta, in every experiment, table and alpha."""
    guaranteed = frame[~frame["method"].isin(UNGUARDED)]
    low = [interval(*pair)[0] for pair in guaranteed[["any_violated", "trials"]].itertuples(index=False)]
    shown = guaranteed[np.array(low) > DELTA]
    worst = guaranteed.sort_values("any_violated").iloc[-1]
    ends = interval(worst["any_violated"], int(worst["trials"]))
    yield (
        f"- **The guarantee.** {len(guaranteed):,} rows of guaranteed methods (experiment or pruned dimensions x table x "
        f"method x alpha, "
        f"{int(guaranteed['trials'].min())} to {int(guaranteed['trials'].max())} trials each): in {len(shown)} of them "
        f"certified settings truly break a limit more often than delta = {DELTA:g}, by the exact 95 % interval. The highest "
        f"share is {worst['any_violated']:.2f} ({ends[0]:.3f} to {ends[1]:.3f}: {worst['method']}, {worst['experiment']}, "
        f"{_table(worst)}, alpha {worst['alpha']}); the mean over all rows is {guaranteed['any_violated'].mean():.4f}."
    )
    if len(shown):
        chance = 0.025 * len(guaranteed)
        yield (
            f"  About {chance:.0f} rows would be expected to show it by chance alone if every true share were exactly delta. "
            "They are: " + "; ".join(f"{_name(row)} {row['any_violated']:.2f}" for _, row in shown.iterrows()) + "."
        )
    for method in UNGUARDED:
        rows = frame[frame["method"] == method]
        if rows.empty:
            continue
        low = [interval(*pair)[0] for pair in rows[["violated", "trials"]].itertuples(index=False)]
        over = int((np.array(low) > DELTA).sum())
        yield (
            f"- **{method}** (no guarantee): the setting it picks truly breaks a limit in {rows['violated'].min():.2f} to "
            f"{rows['violated'].max():.2f} of trials, {rows['violated'].mean():.2f} on average; in {over} of {len(rows)} rows "
            "more often than delta beyond doubt."
        )
        if over == 0:
            yield (
                "  The paper has it above delta; here it is not. A likely reason: neighbouring exit thresholds are nearly the "
                "same test, so looking at all of them costs little, and Hoeffding-Bentkus is careful. Nothing guarantees it."
            )


def lowest_cost(frame: pd.DataFrame, sgt_on_half: pd.DataFrame | None = None) -> Iterator[str]:
    """Pareto Testing against the paper's other guaranteed methods, and riskfront's rows against it."""
    spent = "relative cost or the full model"
    cost = frame.pivot_table(index=[*KEYS, "alpha"], columns="method", values=spent, sort=False)
    error = frame.pivot_table(
        index=[*KEYS, "alpha"], columns="method", values="relative cost, standard error", sort=False
    )
    others = cost[[name for name in PAPERS if name in cost]]
    best = others.idxmin(axis=1)
    of_best = np.array([error.loc[at, name] for at, name in best.items()])
    slack = np.maximum(error[PARETO].to_numpy(), of_best)
    missed = cost[PARETO].to_numpy() > others.min(axis=1).to_numpy() + slack
    yield (
        f"- **Pareto Testing has the lowest mean cost of the paper's guaranteed methods**, up to one standard error, in "
        f"{int((~missed).sum())} of {len(cost)} rows (table x alpha): {_by_exits(cost, missed)}. In "
        f"{int((cost[PARETO] == 0).sum())} rows its cost is 0, and others tie with it."
    )
    if missed.any():
        cases = [
            f"{_words(at)} at {at[3]:g}: {cost.loc[at, PARETO]:.4f}, {best[at]} {others.loc[at].min():.4f}"
            for at in cost.index[missed]
        ]
        yield "  Not in: " + "; ".join(cases) + "."
        behind = cost.index[missed & (best == "sgt").to_numpy()]
        if len(behind):
            yield from _why_sgt_wins(cost, behind, sgt_on_half)
    for name in (EXACT, DEFAULT, SIGNED):
        if name not in cost:
            continue
        both = cost[[name, PARETO]].dropna()
        lower, equal = both[name] < both[PARETO], both[name] == both[PARETO]
        ratio = (both[name] / both[PARETO])[(both > 0).all(axis=1)]
        yield (
            f"- **{name}**: lower than the paper's form in {int(lower.sum())} of {len(both)} rows, equal in "
            f"{int(equal.sum())}, higher in {int((~lower & ~equal).sum())}, by the means alone; cost in relation to it, "
            f"geometric mean over the {len(ratio)} rows where both are above 0: {float(np.exp(np.log(ratio).mean())):.3f}."
        )


def _by_exits(cost: pd.DataFrame, missed: np.ndarray) -> str:
    kinds = cost.index.get_level_values("exits")
    return ", ".join(
        f"{int((~missed[kinds == kind]).sum())} of {int((kinds == kind).sum())} with {WORDS.get(kind, kind)}"
        for kind in dict.fromkeys(kinds)
    )


def _why_sgt_wins(cost: pd.DataFrame, behind: pd.Index, sgt_on_half: pd.DataFrame | None) -> Iterator[str]:
    """3D-SGT needs no planning examples; what it does with as many as Pareto Testing tests on says whether that is why."""
    yield (
        "  3D-SGT's corner is declared, so it plans on nothing and tests on all examples, where Pareto Testing in the paper's "
        "form plans on half; and this grid is long in one dimension (exits) and short in the others, so that its graph is "
        "almost a path."
    )
    if sgt_on_half is not None:
        half = sgt_on_half.set_index([*KEYS, "alpha"])["relative cost or the full model"].reindex(behind)
        higher = (half > cost.loc[behind, PARETO]).sum()
        yield (
            f"  With half of the examples, as many as Pareto Testing tests on, 3D-SGT is behind Pareto Testing in "
            f"{int(higher)} of these {int(half.notna().sum())} rows."
        )
    if DEFAULT in cost:
        lower = (cost.loc[behind, DEFAULT] <= cost.loc[behind, "sgt"]).sum()
        yield f"  riskfront's default, which plans on fewer, is at most as dear as 3D-SGT in {int(lower)} of them."


def conditional_or_padded(frame: pd.DataFrame) -> Iterator[str]:
    """What testing each class on its own examples gains over the paper's padding."""
    spent = "relative cost or the full model"
    for at, rows in frame.groupby(KEYS, sort=False):
        cost = rows.assign(alpha=rows["alpha"].map(first_alpha)).pivot(index="alpha", columns="method", values=spent)
        pairs = [
            f"{alpha:g}: {row[PARETO]:.3f} / {row[EXACT]:.3f} / {row[DEFAULT]:.3f}" for alpha, row in cost.iterrows()
        ]
        yield (
            f"- **Worst class, {_words(at)}**: mean relative cost, padded as in the paper / conditional, exact p-values / "
            f"riskfront's default, at alpha_1 = {'; '.join(pairs)}."
        )


def at_least_the_paper(frame: pd.DataFrame) -> Iterator[str]:
    """Speed-ups against those of the paper's Pareto Testing."""
    for (data, variant, exits), rows in frame[frame["data"].isin(DATA)].groupby(KEYS, sort=False):
        theirs = papers(FLOPS, PARETO, str(data))
        for name in (PARETO, SIGNED):
            ours = rows[rows["method"] == name].sort_values("alpha")["speed-up"]
            if ours.empty:
                continue
            verdict = [mine >= wanted for mine, wanted in zip(ours, theirs, strict=True)]
            words = "at least the paper's at every alpha" if all(verdict) else _below(verdict)
            words += " (its target is the clipped drop, which is harder)" if name == SIGNED else ""
            yield f"- {_words((data, variant, exits))}, {name}: {words}."


def more_than_one_dimension(frame: pd.DataFrame) -> Iterator[str]:
    """Whether pruning in several dimensions brings a tenth more than the best one alone."""
    keys = [*KEYS, "method", "alpha"]
    speed = frame.pivot_table(index=keys, columns="dimensions", values="speed-up", sort=False)
    ratio = speed["all three"] / speed[list(SINGLE)].max(axis=1)
    yield (
        f"All three dimensions bring at least 10 % over the best single one in {int((ratio >= 1.1).sum())} of {len(ratio)} "
        f"rows (table x form x alpha); the ratio lies between {ratio.min():.2f} and {ratio.max():.2f}."
    )
    if (ratio < 1.1).all():
        yield (
            "Exits alone do the work here. Likely reasons, not measured apart: token predictors learnt from 600 rows in one "
            "pass, and there are three thresholds for them; where most texts leave early, few layers are left to save tokens "
            "in. The first version, with eight token thresholds, predictors of 2,000 rows and no exit before the first layer, "
            "gained 36 to 60 % (`../adaptive_transformer_ag_news.md`)."
        )


def over_the_best_single(rows: pd.DataFrame) -> str:
    """All three dimensions against the best one alone."""
    speed = rows.pivot(index="alpha", columns="dimensions", values="speed-up")
    best = speed[list(SINGLE)].max(axis=1)
    return (
        "\nAll three over the best single dimension: " + " / ".join(f"{x:.2f}" for x in speed["all three"] / best) + "."
    )


def _below(verdict: list[bool]) -> str:
    missed = [f"{alpha:g}" for alpha, kept in zip(FLOPS, verdict, strict=True) if not kept]
    return f"**below the paper's** at alpha {', '.join(missed)}"


def _words(key: object) -> str:
    return ", ".join(WORDS.get(part, part) for part in map(str, tuple(key)[:3]) if part)  # type: ignore[arg-type]


def _table(row: pd.Series) -> str:
    return _words((row["data"], row["variant"], row["exits"]))


def _name(row: pd.Series) -> str:
    return f"{row['experiment']}, {_table(row)}, {row['method']}, alpha {row['alpha']}:"
