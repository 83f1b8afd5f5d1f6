"""One page that sets the results of `benchmarks.paper_runs` next to the paper's numbers.

    python -m benchmarks.paper_page

Reads and writes benchmarks/results/paper/. Every sentence with a number is made from the CSV files there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import paper_claims as claims
from benchmarks.paper_numbers import COST_CONTROLLED, DATA, DATA_SETS, FLOPS, METHODS, papers
from benchmarks.paper_runs import DIMENSIONS, OPEN, RESTRICTED, RESULTS, read
from riskfront.experiment._paper.descriptions import EXPERIMENTS
from riskfront.experiment._paper.stored_tables import WORDS

HEAD = Path(__file__).parent / "paper_page_head.md"
SIGNED_ROW = "pareto-testing, riskfront's default, signed drop"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    (out / "README.md").write_text("\n".join(page(out)) + "\n", "utf-8")


def page(folder: Path) -> Iterator[str]:
    found = {path.stem: read(path) for path in sorted(folder.glob("*.csv"))}
    tables: dict[str, Any] = json.loads((folder / "tables.json").read_text("utf-8"))
    yield from HEAD.read_text("utf-8").splitlines()
    yield from _tables(tables)
    yield from _commands(tables)
    yield from _open(found)
    yield from claims.lines(found)
    for title, lines in (
        ("FLOPs speed-up (table D.2)", _flops(found.get("flops"))),
        ("Relative cost limited (table D.1)", _cost_controlled(found.get("cost-controlled"))),
        ("Two objectives (figures 3, 4 and D.4)", _curves(found.get("two-objectives"), "two-objectives", folder)),
        ("Worst class (figures 5 and D.5)", _curves(found.get("worst-class"), "worst-class", folder)),
        ("Selective, one limit, two free objectives (figure D.2)", _sets(found.get("selective-two-free"), folder)),
        (
            "Selective, two limits (figure D.6)",
            _curves(found.get("selective-two-controlled"), "selective-two-controlled", folder),
        ),
        ("Few evaluations instead of a grid (figure D.1)", _optimizer(found.get("optimizer"), folder)),
        ("All settings (figure D.3)", _cloud(found.get("cloud"), folder)),
        ("What each dimension brings", _dimensions(found.get(DIMENSIONS))),
        ("Language models (not in the paper)", _logs(found, folder)),
    ):
        made = list(lines)
        yield from ["", f"## {title}", "", *(made or ["No table for it was there when this page was made."])]


def _commands(tables: dict[str, Any]) -> Iterator[str]:
    """How tables were made: what differs from the defaults of `riskfront reproduce tables`; all kinds of exits in one run."""
    yield from ["", "```console"]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for about in tables.values():
        runs.setdefault((about["data"], about["variant"]), []).append(about)
    for (data, variant), made in runs.items():
        about = made[0]
        exits = ",".join(sorted((one["exits"] for one in made), reverse=True))
        given = {
            "max-length": (about["max_length"], 128),
            "train-rows": (about["train_rows"], 0),
            "test-rows": (about["rows"], 0),
            "epochs": (about["fine_tuning"]["epochs"], 1),
            "learning-rate": (about["fine_tuning"]["learning_rate"], 5e-5),
            "early-layers": (about["fine_tuning"]["early_layers"], 0.0),
            "exit-rows": (about["heads"]["rows"], 2000),
            "exit-thresholds": (about["thresholds"]["tau_layer"], 120),
            "token-shares": (",".join(f"{share:g}" for share in about["token_shares"]), ""),
            "exits": (exits, "pooled,cls"),
        }
        if variant == "all":  # 0, all rows, is the default
            del given["train-rows"]
        said = " ".join(f"--{name} {value}" for name, (value, usual) in given.items() if value != usual)
        said += " --bf16" * about["fine_tuning"].get("bf16", False)
        model = "all-mpnet-base-v2" if variant == "mpnet" else "gte-small"
        yield f"$ riskfront reproduce tables --model {model} --data {data}.parquet --work WORK --variant {variant} \\"
        yield f"      --test-split test {said}"
    yield "```"


def _tables(tables: dict[str, Any]) -> Iterator[str]:
    yield "| table | rows | settings | trained on | full model | exits right, in order | the paper: trained on, full model |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for about in tables.values():
        trained, _, accuracy = DATA_SETS[about["data"]]
        exits = " ".join(f"{right:.2f}".lstrip("0") for right in about["accuracy_of_exits"])
        yield (
            f"| {_title(about['data'], about['variant'], about['exits'])} | {about['rows']:,} | {about['settings']:,} "
            f"| {about['train_rows']:,} | {about['accuracy']:.3f} | {exits} | {trained}, {accuracy:.2f} |"
        )


def _open(found: dict[str, pd.DataFrame]) -> Iterator[str]:
    """What a later run of `benchmarks.paper_runs` will still measure, or measure again."""
    rows = [frame.loc[frame["table"] == OPEN, claims.KEYS].assign(experiment=name) for name, frame in found.items()]
    left = pd.concat(rows).drop_duplicates() if rows else pd.DataFrame()
    if len(left):
        names = [f"{row.experiment} on {_title(row.data, row.variant, row.exits)}" for row in left.itertuples()]
        yield from [
            "",
            "Still open, without rows that bet (signed drop, limited cost) or to be measured again with today's planning:",
        ]
        yield from ["; ".join(names) + "."]


def _title(data: str, variant: str, exits: str) -> str:
    return ", ".join(WORDS.get(part, part) for part in (data, variant, exits) if part)


def _kinds(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """(training, exits), the paper's first."""
    seen = dict.fromkeys(zip(frame["variant"], frame["exits"], strict=True))
    return sorted(seen, key=lambda kind: (kind[0] != "paper", kind[1] != "cls", kind))


def _beside_the_paper(frame: pd.DataFrame, numbers: Any, column: str, form: str) -> Iterator[str]:
    """For each data set a table of methods: the paper's numbers at all alphas, and ours for each kind of table."""
    alphas = sorted(frame["alpha"].unique())
    for data in (name for name in DATA if (frame["data"] == name).any()):
        rows = frame[frame["data"] == data]
        kinds = _kinds(rows)
        heads = [f"{WORDS[variant]}, {WORDS[exits]}" for variant, exits in kinds]
        yield from ["", f"**{WORDS[data]}**, alpha = {' / '.join(f'{alpha:g}' for alpha in alphas)}", ""]
        yield f"| method | the paper, BERT-base | {' | '.join(heads)} |"
        yield "| --- | --- |" + " --- |" * len(kinds)
        for method in dict.fromkeys(rows["method"]):
            theirs = papers(numbers, method, data) if method in METHODS else []
            cells = [" / ".join(f"{value:{form}}" for value in theirs)]
            for variant, exits in kinds:
                mine = rows[(rows["variant"] == variant) & (rows["exits"] == exits) & (rows["method"] == method)]
                cells.append(" / ".join(f"{value:{form}}" for value in mine.sort_values("alpha")[column]))
            yield f"| {_marked(method)} | " + " | ".join(cells) + " |"


def _marked(method: str) -> str:
    return f"{method} (no guarantee)" if method in claims.UNGUARDED else method


def _flops(frame: pd.DataFrame | None) -> Iterator[str]:
    if frame is None:
        return
    yield "FLOPs of the full model over the mean of those of the chosen settings; the full model where nothing is certified."
    yield from _beside_the_paper(frame, FLOPS, "speed-up", ".2f")
    yield from ["", *claims.at_least_the_paper(frame)]


def _cost_controlled(frame: pd.DataFrame | None) -> Iterator[str]:
    if frame is None:
        return
    yield "Mean accuracy reduction (signed) of the chosen settings; lower is better, negative is a gain over the full model."
    yield from _beside_the_paper(frame, COST_CONTROLLED, "accuracy reduction", ".3f")


def _curves(frame: pd.DataFrame | None, name: str, folder: Path) -> Iterator[str]:
    """Mean cost at four alphas with standard errors and violations, and the figure, for each table."""
    if frame is None:
        return
    objective = EXPERIMENTS[name].objectives[0]
    spent = f"{objective} or the full model"
    spent = spent if spent in frame else objective
    first = frame["alpha"].map(claims.first_alpha)
    for (data, variant, exits), rows in frame.groupby(["data", "variant", "exits"], sort=False):
        yield from ["", f"**{_title(str(data), str(variant), str(exits))}**", ""]
        shown = [alpha for alpha in (0.025, 0.05, 0.1, 0.2) if (first == alpha).any()]
        yield (
            f"| mean {objective} at alpha = | "
            + " | ".join(f"{alpha:g}" for alpha in shown)
            + " | any broken limit, most |"
        )
        yield "| --- |" + " --- |" * (len(shown) + 1)
        for method, mine in rows.groupby("method", sort=False):
            cells = []
            for alpha in shown:
                row = mine[first.loc[mine.index] == alpha].iloc[0]
                error = row.get(f"{objective}, standard error")
                cells.append(f"{row[spent]:.4f} ± {error:.4f}" if row["certified_something"] else "nothing")
            worst = mine["any_violated"].max()
            yield f"| {_marked(str(method))} | " + " | ".join(cells) + f" | {worst:.2f} |"
        yield from _figure(folder, name, data, variant, exits)


def _figure(folder: Path, name: str, *parts: object) -> Iterator[str]:
    file = f"{name}.{'.'.join(str(part) for part in parts if part)}.png"
    if (folder / file).is_file():
        yield from ["", f"![{name}: {_title(*map(str, parts))}]({file})"]


def _sets(frame: pd.DataFrame | None, folder: Path) -> Iterator[str]:
    if frame is None:
        return
    yield "Settings chosen, and the share of the plane of selective cost and answered share that they dominate."
    for (data, variant, exits), rows in frame.groupby(["data", "variant", "exits"], sort=False):
        yield from ["", f"**{_title(str(data), str(variant), str(exits))}**", ""]
        yield from _table(rows, ["method", "n_chosen", "covered", "covered, standard error", "violated", "trials"])
        yield from _figure(folder, "selective-two-free", data, variant, exits)


def _optimizer(frame: pd.DataFrame | None, folder: Path) -> Iterator[str]:
    if frame is None:
        return
    for (data, variant, exits), rows in frame.groupby(["data", "variant", "exits"], sort=False):
        yield from ["", f"**{_title(str(data), str(variant), str(exits))}**, {rows['trials'].iloc[0]} trials", ""]
        alphas = sorted(rows["alpha"].unique())
        yield "| search | evaluations | " + " | ".join(f"{alpha:g}" for alpha in alphas) + " |"
        yield "| --- | --- |" + " --- |" * len(alphas)
        for (method, evaluations), mine in rows.groupby(["method", "evaluations"], sort=False):
            values = mine.sort_values("alpha")["relative cost"]
            yield f"| {method} | {evaluations} | " + " | ".join(f"{value:.4f}" for value in values) + " |"
        yield from _figure(folder, "optimizer", data, variant, exits)


def _cloud(frame: pd.DataFrame | None, folder: Path) -> Iterator[str]:
    if frame is None:
        return
    yield "How many settings prune what, and how many of those are on the front of accuracy and cost."
    for (data, variant, exits), rows in frame.groupby(["data", "variant", "exits"], sort=False):
        parts = [f"{row.pruned}: {row.on_front} of {row.so_pruned}" for row in rows.itertuples()]
        yield from ["", f"**{_title(str(data), str(variant), str(exits))}**: {'; '.join(parts)}."]
        yield from _figure(folder, "cloud", data, variant, exits)


def _dimensions(frame: pd.DataFrame | None) -> Iterator[str]:
    if frame is None:
        return
    yield "FLOPs speed-up where only some thresholds may prune; in brackets that of the best setting that truly holds."
    yield from ["", *claims.more_than_one_dimension(frame)]
    for (data, variant, exits, method), rows in frame.groupby(["data", "variant", "exits", "method"], sort=False):
        yield from ["", f"**{_title(str(data), str(variant), str(exits))}**: {method}", ""]
        yield from ["| pruned | settings | .025 | .05 | .1 |", "| --- | --- | --- | --- | --- |"]
        for name in RESTRICTED:
            mine = rows[rows["dimensions"] == name].sort_values("alpha")
            cells = [f"x{row['speed-up']:.2f} (x{row['best_that_holds']:.2f})" for _, row in mine.iterrows()]
            yield f"| {name} | {mine['n_settings'].iloc[0]} | " + " | ".join(cells) + " |"
        yield claims.over_the_best_single(rows)


def _logs(found: dict[str, pd.DataFrame], folder: Path) -> Iterator[str]:
    for name in ("quantisation", "router"):
        if name in found:
            yield from ["", f"**{name}**: {EXPERIMENTS[name].question}"]
            objective = EXPERIMENTS[name].objectives[0]
            columns = ["method", "alpha", "drop of the score", objective, f"{objective}, standard error"]
            columns += ["certified_something", "any_violated"]
            yield from ["", *_table(found[name], columns), *_figure(folder, name, name, "", "")]


def _table(frame: pd.DataFrame, columns: Sequence[str]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in frame[list(columns)].to_dict("records"):
        yield (
            "| "
            + " | ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values())
            + " |"
        )


if __name__ == "__main__":
    main()
