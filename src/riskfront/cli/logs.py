"""Commands for people who have the logs of an evaluation tool: import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import riskfront as rf
from riskfront.cli.options import must_be_writable
from riskfront.logs.gather import describe
from riskfront.logs.prices import read_prices
from riskfront.logs.read_runs import TOOLS
from riskfront.reporting.terminal import make_console, show_frame


def import_(
    tool: Annotated[str, typer.Argument(help=f"Who wrote the logs: {', '.join(TOOLS)}.")],
    path: Annotated[Path, typer.Argument(help="A folder of logs, or one log.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("runs.parquet"),
    score: Annotated[str, typer.Option(help="The metric that becomes the score, or 'task=metric, task=metric'.")] = "",
    filter: Annotated[
        str, typer.Option("--filter", help="The answer filter of lm-eval, where there are several.")
    ] = "",
    prices: Annotated[
        str,
        typer.Option(
            help="What a call costs, where the logs do not say: 'small=0.001, large=0.03', or a file with the columns model "
            "and per_call, per_million_input or per_million_output (tokens)."
        ),
    ] = "",
    where: Annotated[list[str], typer.Option("--where", help="Runs and examples that count: 'task == arc'.")] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> int:
    """Turn the logs of an evaluation tool into one file of runs."""
    must_be_writable(out, inputs=[path])
    runs = rf.read_runs(path, tool, score=score or None, filter=filter or None, where=where)
    if prices:
        runs = runs.priced(read_prices(prices))
    runs.save(out)
    summary = pd.DataFrame(describe(runs))
    if as_json:
        print(json.dumps({"runs": json.loads(summary.to_json(orient="records")), "examples": runs.n_examples}))
        return 0
    console = make_console()
    show_frame(console, f"{len(runs):,} runs x {runs.n_examples:,} examples (means)", summary)
    console.print(f"Wrote {out}", markup=False, style="dim")
    return 0
