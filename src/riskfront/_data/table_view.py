"""A table of losses as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from riskfront._support import notebook

if TYPE_CHECKING:
    from riskfront._data.table import LossTable


def table_view(table: LossTable) -> str:
    """Sizes, losses, groups and the first settings, as HTML."""
    kinds = ("0/1" if table.is_binary(name) else "number" for name in table.loss_names)
    rows = [[name, kind, *table.observed_range(name)] for name, kind in zip(table.loss_names, kinds, strict=True)]
    groups = [[name, len(table.group(name).levels)] for name in table.group_names]
    return notebook.card(
        "LossTable",
        {"settings": table.n_configs, "examples": table.n_examples},
        notebook.table("Losses", ["name", "kind", "smallest", "largest"], rows),
        notebook.table("Groups", ["name", "levels"], groups) if groups else "",
        notebook.frame("Settings", table.configs),
    )
