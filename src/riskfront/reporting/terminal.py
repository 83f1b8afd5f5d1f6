"""Results in a terminal: laid out for 80 columns, in colour on a terminal, plain in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from riskfront.calibration.certificate import Certificate
from riskfront.losses.table import LossTable
from riskfront.losses.values import plain
from riskfront.reporting import sentences

WIDTH = 80


class _PipeConsole(Console):
    """Leaves quietly, with the status of a closed pipe, when nobody reads any more (``| head``)."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141)


def make_console() -> Console:
    """A console of at most 80 columns."""
    console = _PipeConsole(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def number(value: Any) -> str:
    """A value in few characters: four significant digits for decimals, a dash for nothing."""
    value = plain(value)
    if value is None or value != value:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


def grid(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1) -> Table:
    """A table whose first ``left`` columns hold words."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(headers):
        table.add_column(
            escape(header),
            justify="left" if index < left else "right",
            overflow="fold",
            no_wrap=index == 0 and left > 0,
        )
    for row in rows:
        table.add_row(*(escape(number(cell)) for cell in row))
    return table


def show_certificate(console: Console, certificate: Certificate) -> None:
    """The verdict in words, the setting, the limits, the chosen settings, and how it was made."""
    if not certificate.guaranteed:
        console.print(f"NO GUARANTEE: {certificate.method} does not control any error probability.", style="bold red")
    console.print(
        certificate.verdict(), style="bold green" if certificate and certificate.guaranteed else "bold", markup=False
    )
    for note in certificate.notes:
        console.print(f"Note: {note}", markup=False)
    if certificate:
        setting = ", ".join(f"{name} = {number(value)}" for name, value in certificate.config.items())
        console.print(f"\nUse: [bold]{escape(setting)}[/bold]")
        console.print(_limits(certificate))
        if len(certificate.chosen) > 1:
            console.print(_chosen(certificate))
        console.print(*sentences.objectives(certificate), markup=False)
    count, tested = int(certificate.path["certified"].sum()), len(certificate.path)
    console.print(
        f"\n{count:,} of {tested:,} tested settings {'certified' if certificate.guaranteed else 'accepted'} by "
        f"{certificate.method}; planned on {certificate.n_opt:,} examples, tested on {certificate.n_test:,}"
        f"{'' if certificate.seed is None else f' (seed {certificate.seed})'}.",
        style="dim",
        markup=False,
    )


def _limits(certificate: Certificate) -> Table:
    """The limits of the best setting; of a limit per group, its group with the smallest margin."""
    best = certificate.bounds[certificate.bounds["chosen"] == 1]
    tightest = best.loc[best.groupby("limit", sort=False)["margin"].idxmin()]
    rows = [
        [
            f"{row.limit}" + (f" (worst: {row.group})" if row.group is not None else ""),
            row.risk,
            row.bound,
            row.margin,
            row.n,
        ]
        for row in tightest.itertuples()
    ]
    return grid("\nLimits", ["limit", "measured", "bound", "margin", "examples"], rows)


def _chosen(certificate: Certificate, most: int = 12) -> Table:
    settings = list(certificate.setting_columns.values())
    goals = [objective.name for objective in certificate.problem.objectives]
    columns = list(dict.fromkeys([*settings, *goals, *certificate.problem.limit_names]))
    chosen = certificate.chosen
    shown = chosen[columns].head(most).to_numpy(dtype=object).tolist()
    more = f", the first {most} of {len(chosen)}" if len(chosen) > most else ""
    return grid(
        f"Chosen settings, none better than another in every objective{more}", columns, shown, left=len(settings)
    )


def show_table(console: Console, table: LossTable) -> None:
    """What is in a table."""
    console.print(f"{table.n_configs:,} settings x {table.n_examples:,} examples", style="bold")
    configs = table.configs
    rows = []
    for name in table.config_names:
        values = configs[name].unique().tolist()
        spread = (
            f"{number(min(values))} .. {number(max(values))}"
            if configs[name].dtype.kind in "iuf"
            else ", ".join(map(str, values[:4]))
        )
        rows.append([name, len(values), spread])
    console.print(grid("\nSettings", ["name", "values", "range"], rows))
    losses = []
    for name in table.loss_names:
        means = table.means(name)[:, 0]
        kind = "0/1" if table.is_binary(name) else str(table.losses(name).dtype)
        losses.append([name, kind, means.min(), means.max()])
    console.print(grid("Losses", ["name", "type", "lowest mean", "highest mean"], losses, left=2))
    if table.group_names:
        counts = [[name, len(table.group(name).levels), _sizes(table, name)] for name in table.group_names]
        console.print(grid("Groups", ["name", "groups", "examples in each"], counts))


def _sizes(table: LossTable, name: str, most: int = 6) -> str:
    groups = table.group(name)
    counts = pd.Series(groups.codes).value_counts().sort_index()
    listed = [f"{groups.levels[code]}: {count:,}" for code, count in counts.items()]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def show_frame(console: Console, title: str, frame: pd.DataFrame, left: int = 1) -> None:
    console.print(grid(title, [str(name) for name in frame.columns], frame.to_numpy(dtype=object).tolist(), left=left))
