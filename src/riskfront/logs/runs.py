"""Runs: what each setting (a model, a prompt, a quantisation) scored on each example, and what it took."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from riskfront.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.losses.values import known
from riskfront.reading.incomplete import complete_part
from riskfront.reading.runs_layout import KEY
from riskfront.runtime.files import written_whole


@dataclass(frozen=True, eq=False)
class Runs:
    """One run a setting.

    Attributes:
        settings: data frame, one row a run.
        examples: data frame, one row an example: its name ("example"), its task, and whatever else is known of it.
        values: name -> (runs, examples): "score", and what was logged of "cost", "latency", "tokens", a confidence. nan where
            nothing was logged.
    """

    settings: pd.DataFrame
    examples: pd.DataFrame
    values: Mapping[str, FloatArray]

    @cached_property
    def names(self) -> list[str]:
        """A short name for each run: its model, and whatever else tells it apart."""
        columns = [self.settings[name].astype(str) for name in self.settings.columns]
        names = [" / ".join(parts) for parts in zip(*columns, strict=True)]
        models = self.settings.iloc[:, 0].astype(str).tolist()
        return models if len(set(models)) == len(models) else names

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        return f"Runs({len(self):,} runs x {self.n_examples:,} examples; {', '.join(self.values)})"

    def value(self, name: str) -> FloatArray:
        """(runs, examples)."""
        return self.values[known(name, self.values, "column of runs")]

    def row(self, name: str) -> int:
        """The position of a run, by its name."""
        return self.names.index(known(name, self.names, "run"))

    def only(self, runs: Sequence[str]) -> Runs:
        """These runs alone."""
        rows = [self.row(name) for name in runs]
        kept = {name: array[rows] for name, array in self.values.items()}
        return replace(self, settings=self.settings.iloc[rows].reset_index(drop=True), values=kept)

    def at(self, examples: IntArray) -> Runs:
        """These examples alone."""
        kept = {name: array[:, examples] for name, array in self.values.items()}
        return replace(self, examples=self.examples.iloc[examples].reset_index(drop=True), values=kept)

    def complete(self, needed: Sequence[str]) -> Runs:
        """The runs that have these values on every example; the others are left out, and it is said."""
        has = np.logical_and.reduce([~np.isnan(self.value(name)) for name in needed])
        rows, examples = complete_part(has, lambda row: f"'{self.names[row]}'")
        return self.only([self.names[row] for row in rows]).at(examples)

    def priced(self, prices: Mapping[str, float | Mapping[str, float]]) -> Runs:
        """The same with a column "cost": by model the price of a call, or prices per_million_input and per_million_output."""
        from riskfront.logs.prices import priced

        return priced(self, prices)

    def frame(self) -> pd.DataFrame:
        """One row for each run and example."""
        runs, examples = (
            np.repeat(np.arange(len(self)), self.n_examples),
            np.tile(np.arange(self.n_examples), len(self)),
        )
        parts: dict[str, Any] = {str(name): self.settings[name].to_numpy()[runs] for name in self.settings}
        parts |= {str(name): self.examples[name].to_numpy()[examples] for name in self.examples}
        parts |= {name: array.ravel() for name, array in self.values.items()}
        found = pd.DataFrame(parts)
        return found[~np.all([np.isnan(array.ravel()) for array in self.values.values()], axis=0)].reset_index(
            drop=True
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a Parquet file, which ``read_runs``, ``calibrate`` and ``cascade`` read."""
        if Path(path).suffix.lower() not in (".parquet", ".pq"):
            raise InvalidInputError(f"runs are written as Parquet; '{path}' must end in .parquet.")
        table = pa.Table.from_pandas(self.frame(), preserve_index=False)
        about = {"settings": list(self.settings.columns), "about": list(self.examples.columns)}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: json.dumps(about)})
        with written_whole(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")


def from_frame(frame: pd.DataFrame, settings: Sequence[str], about: Sequence[str]) -> Runs:
    """Runs from one row for each run and example; ``about`` are columns of the examples, the name "example" first."""
    if frame.duplicated([*settings, "example"]).any():
        twice = frame[frame.duplicated([*settings, "example"])].iloc[0]
        raise InvalidInputError(
            f"a run must have one row for each example; example {twice['example']!r} comes more than once for "
            f"{ {name: twice[name] for name in settings} }."
        )
    runs = frame.drop_duplicates(list(settings))[list(settings)].reset_index(drop=True)
    examples = frame.drop_duplicates("example")[list(about)].reset_index(drop=True)
    which = runs.reset_index(names="_run").merge(
        frame[list(settings)].reset_index(drop=True), on=list(settings), how="right"
    )
    row = which["_run"].to_numpy(dtype=np.int64)
    column = pd.Index(examples["example"]).get_indexer(pd.Index(frame["example"]))
    values: dict[str, FloatArray] = {}
    for name in frame.columns:
        if name in settings or name in about or frame[name].dtype.kind not in "biuf":
            continue
        values[str(name)] = np.full((len(runs), len(examples)), np.nan)
        values[str(name)][row, column] = frame[name].to_numpy(dtype=np.float64)
    if not values:
        raise InvalidInputError("runs must have at least one column of numbers, such as 'score'; found none.")
    return Runs(runs, examples, values)
