"""Stored loss tables: found by name in a folder, and prepared for an experiment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from riskfront._data.table import LossTable
from riskfront._support.arrays import IntArray
from riskfront._support.checked_json import DamagedError, from_bytes
from riskfront.errors import InvalidInputError, StoreError
from riskfront.experiment._paper.language_models import MAKERS

#: names in files -> what people call it
WORDS = {
    "ag_news": "AG News",
    "imdb": "IMDB",
    "qnli": "QNLI",
    "qqp": "QQP",
    "mnli": "MNLI",
    "paper": "trained as in the paper",
    "early": "loss on early layers",
    "cls": "[CLS] exits",
    "pooled": "pooled exits",
}


@dataclass(frozen=True)
class StoredTable:
    """A table of one data set: of one training and one kind of exits where it is of the adaptive Transformer."""

    data: str
    variant: str
    exits: str
    path: Path

    @property
    def title(self) -> str:
        """In words."""
        return ", ".join(WORDS.get(part, part) for part in (self.data, self.variant, self.exits) if part)

    @property
    def file_name(self) -> str:
        return ".".join(part for part in (self.data, self.variant, self.exits) if part)

    @property
    def about(self) -> dict[str, Any]:
        """What it was made from, where that was written down."""
        beside = self.path.with_suffix(".json")
        try:
            return from_bytes(beside.read_bytes(), required=False) if beside.is_file() else {}
        except DamagedError as error:
            raise StoreError(f"'{beside}' must be as it was written; {error}. Make the table again.") from None

    def load(self) -> LossTable:
        return MAKERS[self.data](self.path) if self.data in MAKERS else LossTable.load(self.path)


def find_tables(folder: str | os.PathLike[str], data: Sequence[str]) -> list[StoredTable]:
    """All tables of these data sets in a folder, named DATA.VARIANT.EXITS.parquet; of language models, their logs."""
    place = Path(folder)
    found = [StoredTable(name, "", "", place) for name in data if name in MAKERS]
    for path in sorted(place.glob("*.*.*.parquet")):
        name, variant, exits, _ = path.name.rsplit(".", 3)
        if name in data:
            stored = StoredTable(name, variant, exits, path)
            if (made_of := stored.about.get("data", name)) != name:
                raise StoreError(
                    f"'{path}' must be a table of {name}; the file beside it says that it is one of {made_of}."
                )
            found.append(stored)
    if not found:
        raise StoreError(
            f"'{place}' must hold a table of {' or '.join(data)}, named as {data[0]}.paper.cls.parquet; it holds none. Make "
            "one: riskfront reproduce tables."
        )
    return sorted(found, key=lambda table: data.index(table.data))


def full_row(configs: pd.DataFrame) -> int | None:
    """The setting without any pruning; None where settings are no thresholds."""
    numbers = all(kind.kind in "iuf" for kind in configs.dtypes)
    off = np.flatnonzero((configs == 0).all(axis=1)) if numbers else np.empty(0, dtype=np.int64)
    return int(off[0]) if len(off) else None


def with_fewer_exits(table: LossTable, n: int | None) -> LossTable:
    """The same grid with at most n exit thresholds, evenly chosen, both ends included."""
    if "tau_layer" not in table.config_names:
        raise InvalidInputError(f"the settings must have exit thresholds 'tau_layer'; they have {table.config_names}.")
    values = np.unique(table.configs["tau_layer"].to_numpy())
    if n is None or len(values) <= n:
        return table
    kept = values[np.round(np.linspace(0, len(values) - 1, n)).astype(int)]
    return table.select(np.isin(table.configs["tau_layer"].to_numpy(), kept))


def with_abstaining(table: LossTable, lambdas: Sequence[float]) -> LossTable:
    """Every setting with every lambda: below that confidence there is no answer. Losses stay as they are, limits condition."""
    if not lambdas:
        return table
    configs, n = table.configs, len(lambdas)
    rows: IntArray = np.repeat(np.arange(len(configs)), n)
    repeated = configs.iloc[rows].reset_index(drop=True).assign(**{"lambda": np.tile(lambdas, len(configs))})
    losses = {name: table.losses(name)[rows] for name in table.loss_names if name != "confidence"}
    losses["answered"] = table.losses("confidence")[rows] >= repeated["lambda"].to_numpy(dtype=np.float32)[:, None]
    groups = {name: table.group(name) for name in table.group_names}
    return LossTable(repeated, losses, groups, table.declared_bounds)
