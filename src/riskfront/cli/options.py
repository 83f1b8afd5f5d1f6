"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import riskfront as rf
from riskfront import files
from riskfront.errors import InvalidInputError
from riskfront.layout import Layout
from riskfront.long_format import read_table
from riskfront.methods import METHODS
from riskfront.p_values import NAMES
from riskfront.terminal import make_console, show_certificate

TableFile = Annotated[
    Path, typer.Argument(help="Losses: long Parquet or CSV (a row a setting and example), or a saved table.")
]
Limits = Annotated[
    list[str],
    typer.Option("--limit", help="'error <= 0.05', 'error <= 0.15 per label', 'error <= 0.02 given answered'."),
]
Goals = Annotated[list[str], typer.Option(help="A free objective; repeat or separate by commas.")]
Delta = Annotated[float, typer.Option(help="Probability with which some limit may be broken.")]
MethodName = Annotated[str, typer.Option(help=f"One of: {', '.join(METHODS)}.")]
PValue = Annotated[str, typer.Option("--p-value", help=f"One of: {', '.join(NAMES)}.")]
Seed = Annotated[int, typer.Option(help="Of the random split.")]
Configs = Annotated[str, typer.Option("--config-columns", help="Columns of the settings, separated by commas.")]
Example = Annotated[str, typer.Option("--example-column", help="Column that names the examples.")]
Groups = Annotated[str, typer.Option("--group-columns", help="Columns with a group of each example.")]
BoundsOption = Annotated[list[str], typer.Option("--bounds", help="Range of a loss, as 'gain=-1,1'.")]
Binary = Annotated[str, typer.Option(help="Loss columns to declare 0/1 although stored as decimals.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Out = Annotated[Path | None, typer.Option(help="File to write.")]


def parse_problem(
    limits: list[str], minimize: list[str], maximize: list[str], delta: float, p_value: str
) -> rf.Problem:
    parsed = [rf.Limit.parse(text, p_value=p_value) for text in limits]
    return rf.Problem(
        parsed,
        [n for text in minimize for n in parse_names(text)],
        [n for text in maximize for n in parse_names(text)],
        delta,
    )


def make_layout(configs: str, example: str, groups: str) -> Layout:
    return Layout(tuple(parse_names(configs)), example or None, tuple(parse_names(groups)))


def read(path: Path, problem: Any, layout: Layout, bounds: list[str], binary: str, *, quiet: bool) -> rf.LossTable:
    """The table, with a statement of what was detected."""
    table, found = read_table(path, problem, layout, parse_bounds(bounds), parse_names(binary))
    if not quiet:
        console = make_console()
        console.print(
            f"{path.name}: {table.n_configs:,} settings x {table.n_examples:,} examples", markup=False, style="dim"
        )
        if found is not None:
            console.print(f"columns: {found}", markup=False, style="dim")
        for name in problem.losses if problem else ():
            if not table.is_binary(name) and table.looks_binary(name):
                console.print(
                    f"hint: can '{name}' only ever be 0 or 1? Then --binary {shlex.quote(name)} allows the exact test.",
                    markup=False,
                )
    return table


def parse_bounds(texts: list[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for text in texts:
        name, _, pair = text.rpartition("=")
        low, _, high = pair.partition(",")
        if not name:
            raise InvalidInputError(f"bounds must read like 'gain=-1,1'; got {text!r}.")
        found[name] = (parse_number(low, "--bounds"), parse_number(high, "--bounds"))
    return found


def parse_number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"{option} must hold numbers; got {text!r}.") from None


def parse_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def must_be_writable(*paths: Path | None, inputs: Sequence[Path] = ()) -> None:
    """Say before the work, not after it, that a result could not be written, or would overwrite an input."""
    outputs = [path for path in paths if path is not None]
    for path in outputs:
        files.check_writable(path)
    taken = [path.resolve() for path in (*inputs, *outputs)]
    for path in outputs:
        if taken.count(path.resolve()) > 1:
            raise InvalidInputError(
                f"every output must be a file of its own; '{path}' is an input or another output too."
            )


def show(certificate: rf.Certificate, as_json: bool, written: Sequence[Path] = ()) -> None:
    if as_json:
        print(json.dumps(certificate.to_dict(), allow_nan=False))
        return
    console = make_console()
    show_certificate(console, certificate)
    for path in written:
        console.print(f"Wrote {path}", markup=False, style="dim")
