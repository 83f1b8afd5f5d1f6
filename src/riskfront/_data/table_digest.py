"""The identity of a table: one digest of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from riskfront._data.columns import Bounds, Column
from riskfront._data.sample import Sample
from riskfront._support.array_digest import fast_fingerprint, fingerprint
from riskfront._support.arrays import Array
from riskfront._support.values import plain


def table_digest(configs: pd.DataFrame, sample: Sample, bounds: Mapping[str, Bounds], *, fast: bool = False) -> str:
    """The digest of settings, losses, groups, bounds, and of which examples a part of a table has: SHA-256, or BLAKE3."""
    arrays: dict[str, Array | Column] = {f"loss {name}": column for name, column in sample.losses.items()}
    arrays |= {f"missing {name}": column for name, column in sample.missing.items()}
    arrays |= {f"group {name}": groups.codes for name, groups in sample.groups.items()}
    if sample.examples is not None:
        arrays["examples"] = sample.examples
    description = {
        "configs": {name: _plain_values(configs[name]) for name in configs},
        "bounds": {name: bounds.get(name, (0.0, 1.0)) for name in sample.losses},
        "levels": {name: groups.levels for name, groups in sample.groups.items()},
    }
    return (fast_fingerprint if fast else fingerprint)(description, arrays)


def _plain_values(column: pd.Series) -> list[Any]:
    """Values as Python's own; numbers all at once."""
    return column.tolist() if column.dtype.kind in "biuf" else [plain(value) for value in column]
