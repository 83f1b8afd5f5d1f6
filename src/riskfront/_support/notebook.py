"""Small HTML views for notebooks. They know plain values only: objects hand over what they want to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

_MOST_ROWS = 10
_CELL = 'style="text-align:left;padding:2px 12px 2px 0"'


def card(title: str, facts: Mapping[str, Any], *tables: str, note: str = "") -> str:
    """A title, a sentence, a line of facts, and tables made by ``table`` or ``frame``."""
    line = " · ".join(f"{escape(str(name))}: <b>{_shown(value)}</b>" for name, value in facts.items())
    said = f'<p style="margin:4px 0">{escape(note)}</p>' if note else ""
    return f'<div class="riskfront"><b>{escape(title)}</b>{said}<div>{line}</div>{"".join(tables)}</div>'


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], more: int = 0) -> str:
    """A table with a caption; ``more`` rows are said to be left out."""
    head = "".join(f'<th scope="col" {_CELL}>{escape(str(name))}</th>' for name in header)
    body = "".join(f"<tr>{''.join(f'<td {_CELL}>{_shown(cell)}</td>' for cell in row)}</tr>" for row in rows)
    rest = f"<div>… and {more:,} more</div>" if more > 0 else ""
    title = f'<caption style="text-align:left;caption-side:top"><i>{escape(caption)}</i></caption>'
    return f'<table style="margin:6px 0">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}'


def frame(caption: str, data: pd.DataFrame) -> str:
    """The first rows of a data frame; columns without any value are left out."""
    kept = data.dropna(axis="columns", how="all") if len(data) else data
    rows = kept.head(_MOST_ROWS).itertuples(index=False, name=None)
    return table(caption, [str(name) for name in kept.columns], rows, len(data) - _MOST_ROWS)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(str(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
