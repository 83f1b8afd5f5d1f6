"""Runs: what each setting (a model, a prompt, a quantisation) scored on each example, and what it took."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from riskfront._data.intake import Intake
from riskfront._data.reading.column_roles import KEY, PAID, recorded_as
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront._support.checked_json import seal
from riskfront._support.files import written_whole
from riskfront._support.values import known, plain
from riskfront.errors import InvalidInputError

#: columns that belong to an answer, even where they are the same for all models
_SURE = ("confidence", "judge", "logprob", "choice_logprob", "agreement", "answer_agreement", "response_chars")
OUTCOMES = ("score", *PAID, "samples", "failed", *_SURE)
_ROWS = 1 << 17  # that are written at a time
#: columns of a table that say what was asked, which is one question for all models
QUESTIONS = ("prompt", "question", "query", "instruction", "input")
#: why answers are left out
FILTERED = "left out by a filter (where)"


def is_text(column: pd.Series[Any]) -> bool:
    """Whether a column holds texts, and nothing else but gaps."""
    return bool(column.notna().any() and column.dropna().map(lambda value: isinstance(value, str)).all())


def added(left_out: Mapping[str, int], why: str, answers: int) -> dict[str, int]:
    """The account of what is left out, with these answers."""
    return {**left_out, **({why: left_out.get(why, 0) + answers} if answers else {})}


@dataclass(frozen=True, eq=False)
class Runs:
    """One run a setting.

    Attributes:
        settings: data frame, one row a run.
        examples: data frame, one row an example: its name ("example"), its task, and whatever else is known of it.
        values: name -> (runs, examples): "score", and what was logged of "cost", "latency", "tokens", a confidence. nan where
            nothing was logged. "failed" is the share of the calls that failed, "samples" how many answers an outcome is the
            mean over; each is there only if it says something.
        left_out: reason -> answers that were read and do not count because of it.
        call_prices: run -> the declared price of a call, where prices are by call: no call costs more.
    """

    settings: pd.DataFrame
    examples: pd.DataFrame
    values: Mapping[str, FloatArray]
    left_out: Mapping[str, int] = field(default_factory=dict)
    call_prices: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """A short name for each run: its model, and whatever else tells it apart."""
        columns = [[str(value) for value in self.settings[name]] for name in self.settings.columns]
        names, models = [" / ".join(parts) for parts in zip(*columns, strict=True)], columns[0]
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

    @property
    def intake(self) -> Intake:
        """What became of every answer that was read. Failed calls, and answers that nobody scored, count as the worst."""
        return self.account(["score"])

    def account(self, limited: Collection[str], objectives: Collection[str] = (), score: str = "score") -> Intake:
        """The same if these columns must be known, and objectives are means over what is known of theirs."""
        answers = self._answers()
        worst = np.zeros(answers.shape)
        if score in limited and "failed" in self.values:
            worst = np.rint(answers * np.nan_to_num(self.values["failed"]))
        for name in limited:
            worst = np.where(np.isnan(self.values[name]), answers, worst) if name in self.values else worst
        gaps = [name for name in objectives if name in self.values and np.isnan(self.values[name]).any()]
        known = {name: int(answers[~np.isnan(self.values[name])].sum()) for name in gaps}
        read, counted = int(answers.sum()), int(worst.sum())
        left_out = dict(self.left_out)
        absent = int((answers == 0).sum())
        return Intake(read + sum(left_out.values()), read - counted, counted, left_out, absent, known)

    def _answers(self) -> FloatArray:
        """(runs, examples): how many answers each outcome is made of."""
        if "samples" in self.values:
            return np.nan_to_num(self.values["samples"])
        return _logged(self.values).astype(np.float64)

    @cached_property
    def absent(self) -> BoolArray:
        """(runs, examples): where nothing was logged, not even that a call failed."""
        return np.asarray(self._answers() == 0)

    def only(self, runs: Sequence[str]) -> Runs:
        """These runs alone."""
        rows = [self.row(name) for name in runs]
        kept = {name: array[rows] for name, array in self.values.items()}
        settings = self.settings.iloc[rows].reset_index(drop=True)
        return self._part("other models", replace(self, settings=settings, values=kept))

    def at(self, examples: IntArray, why: str = "other examples") -> Runs:
        """These examples alone. The account of the answers tells ``why`` the others are left out."""
        kept = {name: array[:, examples] for name, array in self.values.items()}
        about = self.examples.iloc[examples].reset_index(drop=True)
        return self._part(why, replace(self, examples=about, values=kept))

    def _part(self, why: str, part: Runs) -> Runs:
        gone = int(self._answers().sum() - part._answers().sum())
        return replace(part, left_out=added(self.left_out, why, gone))

    def failures(self, score: str) -> dict[str, tuple[float, float]]:
        """Score -> what calls that failed have there (``recorded_as``); empty where none failed."""
        scores, failed = self.value(score), self.values.get("failed")
        if failed is None or np.isnan(scores).all():
            return {}
        some = ~np.isnan(scores) & (failed > 0)
        found = recorded_as(scores[some], failed[some], float(np.nanmin(scores)), float(np.nanmax(scores)))
        return {} if found is None else {score: found}

    def priced(self, prices: Mapping[str, float | Mapping[str, float]]) -> Runs:
        """The same with a column "cost": by model the price of a call, or prices per_million_input and per_million_output."""
        from riskfront._data.logs.prices import priced

        return priced(self, prices)

    def frame(self) -> pd.DataFrame:
        """One row for each run and example."""
        runs, examples = np.nonzero(_logged(self.values))
        parts: dict[str, Any] = {str(name): self.settings[name].to_numpy()[runs] for name in self.settings}
        parts |= {str(name): self.examples[name].to_numpy()[examples] for name in self.examples}
        return pd.DataFrame(parts | {name: array[runs, examples] for name, array in self.values.items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a Parquet file, which ``read_runs``, ``calibrate`` and ``cascade`` read."""
        if Path(path).suffix.lower() not in (".parquet", ".pq"):
            raise InvalidInputError(f"runs are written as Parquet; '{path}' must end in .parquet.")
        about = {
            "settings": list(self.settings.columns),
            "about": list(self.examples.columns),
            "left_out": dict(self.left_out),
            "call_prices": dict(self.call_prices),
        }
        settings, examples = (pa.Table.from_pandas(of, preserve_index=False) for of in (self.settings, self.examples))
        fields = [*settings.schema, *examples.schema, *(pa.field(name, pa.float64()) for name in self.values)]
        schema = pa.schema(fields, {KEY: json.dumps(about)})
        step = max(1, _ROWS // max(1, self.n_examples))
        with written_whole(path) as temporary:
            with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
                for start in range(0, len(self), step):  # some runs at a time: every row has its prompt
                    values = {name: array[start : start + step] for name, array in self.values.items()}
                    run, example = np.nonzero(_logged(values))
                    columns = settings.take(pa.array(start + run)).columns + examples.take(pa.array(example)).columns
                    columns += [
                        pa.array(array[run, example], pa.float64(), from_pandas=True) for array in values.values()
                    ]
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            seal(temporary)


def _logged(values: Mapping[str, FloatArray]) -> BoolArray:
    """(runs, examples): where anything was logged."""
    return np.asarray(~np.all([np.isnan(array) for array in values.values()], axis=0))


def from_frame(
    frame: pd.DataFrame, settings: Sequence[str], about: Sequence[str], left_out: Mapping[str, int] | None = None
) -> Runs:
    """Runs from one row for each run and example; ``about`` are columns of the examples, the name "example" first."""
    if frame.duplicated([*settings, "example"]).any():
        twice = frame[frame.duplicated([*settings, "example"])].iloc[0]
        raise InvalidInputError(
            f"a run must have one row for each example; example {plain(twice['example'])!r} comes more than once for "
            f"{', '.join(f'{name} = {twice[name]}' for name in settings)}."
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
        numbers = None if name in settings or name in about else _numbers(frame[name])
        if numbers is None and name in OUTCOMES and name not in settings and name not in about:
            _refuse_texts(str(name), frame[name])
        if numbers is not None:
            values[str(name)] = np.full((len(runs), len(examples)), np.nan)
            values[str(name)][row, column] = numbers
    if not values:
        raise InvalidInputError("runs must have at least one column of numbers, such as 'score'; found none.")
    if "samples" not in values and np.all([np.isnan(array[row, column]) for array in values.values()], axis=0).any():
        values["samples"] = np.full((len(runs), len(examples)), np.nan)  # tells an empty answer from none
        values["samples"][row, column] = 1.0
    return Runs(runs, examples, values, dict(left_out or {}))


def _refuse_texts(name: str, column: pd.Series[Any]) -> None:
    """An error if a column that must hold numbers holds texts: without it, the column would be missing without a word."""
    found = column[[isinstance(value, str) and bool(value.strip()) for value in column]]
    # of a CSV all values are texts
    texts = found[pd.to_numeric(found, errors="coerce").isna()].tolist() or found.tolist()
    if texts:
        raise InvalidInputError(
            f"the column '{name}' must hold numbers, and nothing where one is not known; {len(texts):,} of {len(column):,} "
            f"rows hold texts, such as {texts[0]!r}. Write them as numbers, or rename the column."
        )


def _numbers(column: pd.Series[Any]) -> FloatArray | None:
    """(rows,): the numbers of a column, nan where there is none; None if it holds anything else."""
    known = column.dropna()
    objects = column.dtype.kind == "O"
    if objects and (known.empty or not known.map(lambda value: isinstance(value, bool | int | float)).all()):
        return None
    if column.dtype.kind not in "biufO":
        return None
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
