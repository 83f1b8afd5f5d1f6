"""Results in a terminal: sentences in lines of at most 80 characters, tables as wide as the window; plain in a pipe."""

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

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._data.table import LossTable
from riskfront._reporting import sentences
from riskfront._support.values import plain

WIDTH = 80
_GAP = 3  # between columns
_EDGES = 2  # left and right of a table


class _PipeConsole(Console):
    """Sentences stay narrow where tables may be wide. Leaves quietly, with the status of a closed pipe, when nobody reads any
    more (``| head``)."""

    def print(self, *objects: Any, **options: Any) -> None:
        if all(isinstance(part, str) for part in objects):
            options.setdefault("width", min(self.width, WIDTH))
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141)


def make_console() -> Console:
    """A console as wide as the window, 80 columns in a pipe."""
    console = _PipeConsole(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
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
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


def show_grid(
    console: Console, title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1
) -> None:
    """A table whose first ``left`` columns hold words. Numbers are never broken: headers go on in the next line, then the first
    column does, and what still does not fit comes in further tables below, each with the first column."""
    cells = [[number(cell) for cell in row] for row in rows]
    console.print(title, style="bold", markup=False)  # as a title of the table it would be broken at the table's width
    for columns in _blocks(headers, cells, console.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for index, width in columns.items():
            table.add_column(
                escape(headers[index]), justify="left" if index < left else "right", overflow="fold", width=width
            )
        for row in cells:
            table.add_row(*(escape(row[index]) for index in columns))
        console.print(table)


def _blocks(headers: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[dict[int, int]]:
    """Which columns stand side by side, with their widths: as many as fit, and the first one in every block."""
    room -= _EDGES
    inner = [max((len(row[index]) for row in cells), default=0) for index in range(len(headers))]
    whole = [max(width, len(header)) for width, header in zip(inner, headers, strict=True)]
    least = [max(w, *map(len, header.split() or [""])) for w, header in zip(inner, headers, strict=True)]
    words = [word for text in (headers[0], *(row[0] for row in cells)) for word in text.split()]
    first = min(max(map(len, words), default=0), room // 2)
    for first_width, others in ((whole[0], whole[1:]), (first, whole[1:]), (first, least[1:])):
        spare = room - sum(others) - _GAP * len(others)
        if spare >= first_width:
            return [dict(enumerate([min(spare, whole[0]), *others]))]
    first = min(least[0], room // 2)
    blocks, used = [{0: first}], first
    for index, width in enumerate(least[1:], start=1):
        width = min(width, room - first - _GAP)
        if len(blocks[-1]) > 1 and used + _GAP + width > room:
            blocks.append({0: first})
            used = first
        blocks[-1][index] = width
        used += _GAP + width
    return blocks


def show_certificate(console: Console, certificate: Certificate) -> None:
    """The verdict in words, the setting, the limits, the chosen settings, and how it was made."""
    if not certificate.guaranteed and not certificate.is_used_up:
        console.print(sentences.why_no_guarantee(certificate.method), style="bold red", markup=False)
    style = "bold red" if certificate.is_used_up else "bold"
    style = "bold green" if certificate and certificate.guaranteed else style
    console.print(certificate.verdict(), style=style, markup=False)
    for sentence in sentences.earlier_looks(certificate):
        console.print(f"\n{sentence}", style="bold yellow", markup=False)
    for note in certificate.notes:
        console.print(f"Note: {note}", markup=False)
    if certificate:
        setting = ", ".join(f"{name} = {sentences.setting_value(value)}" for name, value in certificate.config.items())
        console.print(f"\nUse: [bold]{escape(setting)}[/bold]")
        _show_limits(console, certificate)
        if len(certificate.chosen) > 1:
            _show_chosen(console, certificate)
        console.print(*sentences.objectives(certificate), markup=False)
        for sentence in sentences.near_misses(certificate):
            console.print(f"\n{sentence}", style="dim", markup=False)
    if words := sentences.unlabelled_words(certificate):
        console.print("\n" + " ".join(words), markup=False)
    count, tested = int(certificate.path["certified"].sum()), len(certificate.path)
    done = f"tested settings certified by {certificate.method}"
    if not certificate.guaranteed:
        done = f"settings within the limits as measured, picked from by {certificate.method} (no guarantee)"
    counted = f"{count:,} of {tested:,} {done}"
    if certificate.frontier is not None and certificate.guaranteed:  # it holds the chosen settings alone
        counted = f"Tested by {certificate.method}"
    console.print(
        f"\n{counted}; {certificate.n_opt:,} planning examples, {certificate.n_test:,} testing examples"
        f"{'' if certificate.seed is None else f' (seed {certificate.seed})'}.",
        style="dim",
        markup=False,
    )
    if source := sentences.chosen_from(certificate):
        console.print(f"Chosen from {source}.", style="dim", markup=False)
    if made := sentences.evaluations(certificate):
        console.print(made, style="dim", markup=False)
    console.print(str(certificate.intake), style="dim", markup=False)


def _show_limits(console: Console, certificate: Certificate) -> None:
    """The limits of the best setting; of a limit per group, the group that came nearest to failing."""
    rows = [
        [
            f"{row['limit']}" + (f" (nearest: {row['group']})" if row["group"] is not None else ""),
            sentences.measured_cell(certificate, row),
            row["examples"],
            row["p_value"],
            row["tested_at"],
        ]
        for row in sentences.nearest_groups(certificate)
    ]
    if certificate.measured["p_value"].isna().all():  # no test was made
        show_grid(console, "\nLimits", ["limit", "measured", "examples"], [row[:3] for row in rows])
    else:
        show_grid(console, "\nLimits", ["limit", "measured", "examples", "p-value", "tested at"], rows)
    console.print(sentences.what_holds(certificate), markup=False)


def _show_chosen(console: Console, certificate: Certificate, most: int = 12) -> None:
    settings = list(certificate.setting_columns.values())
    goals = [objective.name for objective in certificate.problem.objectives]
    columns = list(dict.fromkeys([*settings, *goals, *certificate.problem.limit_names]))
    chosen = certificate.chosen
    shown = chosen[columns].head(most).to_numpy(dtype=object).tolist()
    more = f", the first {most} of {len(chosen)}" if len(chosen) > most else ""
    show_grid(
        console,
        f"\nChosen settings, none better than another in every objective{more}",
        ["#", *columns],
        [[rank, *row] for rank, row in enumerate(shown, start=1)],
        left=1 + len(settings),
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
    show_grid(console, "\nSettings", ["name", "values", "range"], rows)
    outcomes = []
    for name in table.loss_names:
        means = table.means(name)[:, 0]
        kind = "0/1" if table.is_binary(name) else str(table.losses(name).dtype)
        outcomes.append([name, kind, means.min(), means.max()])
    show_grid(console, "Outcomes", ["name", "type", "lowest mean", "highest mean"], outcomes, left=2)
    if table.group_names:
        counts = [[name, len(table.group(name).levels), _sizes(table, name)] for name in table.group_names]
        show_grid(console, "Groups", ["name", "groups", "examples in each"], counts)


def _sizes(table: LossTable, name: str, most: int = 6) -> str:
    groups = table.group(name)
    counts = pd.Series(groups.codes).value_counts().sort_index()
    listed = [f"{groups.levels[code]}: {count:,}" for code, count in counts.items()]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def show_frame(console: Console, title: str, frame: pd.DataFrame, left: int = 1) -> None:
    """A data frame as a table."""
    show_grid(console, title, [str(name) for name in frame.columns], frame.to_numpy(dtype=object).tolist(), left=left)
