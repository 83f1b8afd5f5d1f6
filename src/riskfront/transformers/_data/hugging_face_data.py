"""Data sets of the `datasets` package as data frames: one table, or several splits in one column `split`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from riskfront.errors import InvalidInputError


def is_data_set(source: Any) -> bool:
    """Whether an object is one of the `datasets` package, which need not be installed for the answer."""
    return any(kind.__module__.split(".")[0] == "datasets" for kind in type(source).__mro__)


def to_frame(source: Any) -> pd.DataFrame:
    """A Dataset, or a DatasetDict, whose names of splits become the column `split`."""
    if isinstance(source, Mapping):
        parts = [_table(part, split).assign(split=str(split)) for split, part in source.items()]
        if not parts:
            raise InvalidInputError("data must have at least one split; got an empty DatasetDict.")
        return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    return _table(source, "the data")


def _table(part: Any, name: Any) -> pd.DataFrame:
    """One table. Labels that have names are texts; those without, -1 as in the tests of GLUE, leave with a warning."""
    if not hasattr(part, "to_pandas") or not hasattr(part, "__len__"):
        raise InvalidInputError(
            f"data must be a Dataset or a DatasetDict with a known number of rows; {name} is a {type(part).__name__}. Take "
            "some: Dataset.from_list(list(stream.take(10_000)))."
        )
    frame: pd.DataFrame = part.to_pandas()
    names = getattr(part.features.get("label"), "names", None)
    if names is None or "label" not in frame:
        return frame
    labelled = frame["label"].notna() & (frame["label"] >= 0)
    if not labelled.all():
        warnings.warn(
            f"{int((~labelled).sum())} of {len(frame)} rows of {name} have no label and are left out.", stacklevel=2
        )
        frame = frame[labelled]
    return frame.assign(label=[names[int(label)] for label in frame["label"]])
