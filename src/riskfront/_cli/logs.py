"""Commands for people who have the logs of an evaluation tool: import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

import riskfront as rf
from riskfront._cli.options import Json, Latest, Prices, SkipBroken, must_be_writable
from riskfront._cli.output import say, say_written
from riskfront._data.logs.gather import describe
from riskfront._data.logs.prices import read_prices
from riskfront._data.logs.read_runs import TOOLS
from riskfront._reporting.terminal import make_console, show_frame


def import_(
    tool: Annotated[str, typer.Argument(help=f"Who wrote the logs: {', '.join(TOOLS)}.")],
    path: Annotated[Path, typer.Argument(help="A folder of logs, or one log.")],
    out: Annotated[Path, typer.Option(help="Parquet file to write.")] = Path("runs.parquet"),
    score: Annotated[str, typer.Option(help="The metric that becomes the score, or 'task=metric, task=metric'.")] = "",
    filter: Annotated[
        str, typer.Option("--filter", help="The answer filter of lm-eval, where there are several.")
    ] = "",
    prices: Prices = "",
    where: Annotated[list[str], typer.Option("--where", help="Runs and examples that count: 'task == arc'.")] = [],  # noqa: B006
    worst: Annotated[
        float | None, typer.Option(help="What a failed call scores; 0 by default if all scores lie in [0, 1].")
    ] = None,
    skip_broken: SkipBroken = False,
    latest: Latest = False,
    as_json: Json = False,
) -> int:
    """Turn the logs of an evaluation tool into one file of runs."""
    must_be_writable(out, inputs=[path])
    runs = rf.read_runs(
        path,
        tool,
        score=score or None,
        filter=filter or None,
        where=where,
        worst=worst,
        skip_broken=skip_broken,
        latest=latest,
    )
    if prices:
        runs = runs.priced(read_prices(prices))
    runs.save(out)
    summary = pd.DataFrame(describe(runs))
    if as_json:
        listed = json.loads(summary.to_json(orient="records"))
        print(json.dumps({"runs": listed, "examples": runs.n_examples, "intake": runs.intake.to_dict()}))
        return 0
    show_frame(make_console(), f"{len(runs):,} runs x {runs.n_examples:,} examples (means)", summary)
    say(str(runs.intake))
    say_written([out])
    return 0
