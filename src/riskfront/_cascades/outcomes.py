"""What cascades of logged runs would have scored and taken, and where that is not known.

A call that failed is not trusted: the cascade, and the router, goes on to the next model, as a policy does when a call raises
an error. An answer whose confidence is missing is not trusted either. Where the last model fails, its score is the worst.
An example that a run lacks altogether is no failure: the model would have said something, and what becomes of a cascade that
asks it is not known. Nor is it where a model was asked more or less often than on the other examples and its confidence is a
mean over its answers, because a policy asks as often as on those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from riskfront._cascades.confidence import LearntConfidence, trusted
from riskfront._cascades.gain import LearntGain
from riskfront._cascades.routes import Routes, Stages, all_routes
from riskfront._cascades.run_time import Confidence, names_of, said_with_answers
from riskfront._data.intake import Intake
from riskfront._data.logs.runs import Runs
from riskfront._data.reading.column_roles import PAID
from riskfront._data.sums import Rows
from riskfront._data.table import LossTable
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Columns of cascades or routers over some runs.

    Args:
        stops: (gates, examples): where a setting stops at a gate; the last gate always does.
        called: (gates, examples): where a model is called at all; None if whoever is reached is called.
        sampled: "all" if every model is asked several times, to see how sure it is, "first" if only the model asked first is,
            "" if none.
        unsaid: (runs, examples): where nobody knows how sure a model would have been.
        partly_failed: (runs, examples): where some calls failed and others did not, of which a policy makes one.
    """

    kind: str
    runs: Runs
    stages: Stages
    stops: BoolArray
    called: BoolArray | None
    sampled: str
    unsaid: BoolArray
    partly_failed: BoolArray

    @classmethod
    def by_confidence(
        cls,
        kind: str,
        runs: Runs,
        confidence: str | LearntConfidence,
        known: FloatArray,
        thresholds: Sequence[FloatArray],
        stages: Stages,
        times: IntArray | None,
    ) -> Outcomes:
        """Of settings that compare a confidence, known (runs, examples), with the thresholds of each run.

        times: as ``usual_times``.
        """
        failed, unsaid = failed_calls(runs), nobody_knows(kind, runs, confidence, times)
        of_gates = np.repeat(np.arange(len(runs)), [len(limits) for limits in thresholds])
        stops = trusted(known, thresholds)
        called = stops.copy() if kind == "router" and failed.any() else None
        stops[:-1] &= ~failed[of_gates]
        stops[:-1] |= unsaid[of_gates]
        sampled = "all" if times is not None and said_by_answers(kind, runs, confidence) else ""
        return cls(kind, runs, stages, stops, called, sampled, unsaid, _partly_failed(kind, runs, confidence))

    @classmethod
    def by_gain(
        cls, kind: str, runs: Runs, learnt: LearntGain, alone: Sequence[str], times: IntArray | None
    ) -> tuple[Outcomes, Routes]:
        """Of single models and of settings that route by gain a dollar, and these settings."""
        failed, unsaid = failed_calls(runs), nobody_knows(kind, runs, learnt, times)
        routes = all_routes(learnt, runs, alone, failed, unsaid)
        called = routes.called if kind == "cascade" or failed.any() else None
        sampled = "first" if times is not None and said_by_answers(kind, runs, learnt) else ""
        partly_failed = _partly_failed(kind, runs, learnt)
        return cls(kind, runs, routes.stages, routes.stops, called, sampled, unsaid, partly_failed), routes

    def column(
        self, name: str, *, binary: bool = False, reference: int | None = None
    ) -> tuple[CascadeColumn, CascadeColumn | None]:
        """A loss of every setting, and where it is missing; None if it is known everywhere.

        Args:
            name: a column of the runs; of ``PAID`` ones every model that is called takes its part.
            binary: whether it can only ever be 0 or 1.
            reference: the run from whose value the drop is taken; None for the value itself.
        """
        values, once = self._paid_samples(name)
        return self._known(name, values, once, name in PAID and self._is_sum, binary, reference)

    def calls(self) -> tuple[CascadeColumn, CascadeColumn | None]:
        """How many models a setting calls, and where that is not known."""
        unknown = self.runs.absent if self.kind == "cascade" else False  # whether a cascade would have gone on
        return self._known("calls", np.where(unknown, np.nan, np.ones(self.unsaid.shape)), None, self._is_sum)

    @property
    def _is_sum(self) -> bool:
        """Whether a setting may call several models."""
        return self.kind == "cascade" or self.called is not None

    def _known(
        self,
        name: str,
        values: FloatArray,
        once: FloatArray | None,
        paid: bool,
        binary: bool = False,
        reference: int | None = None,
    ) -> tuple[CascadeColumn, CascadeColumn | None]:
        missing = np.isnan(values)
        unknown = self.unsaid | self.partly_failed if name in (*PAID, "calls") else self.unsaid
        asked, last = missing | unknown, missing if once is None else np.isnan(once)
        if binary and not np.isin(values[~missing], (0, 1)).all():
            raise InvalidInputError(f"a 0/1 loss must hold only 0 and 1; '{name}' does not.")
        fill = 0.0 if missing.all() else float(np.nanmin(values))
        filled = np.where(missing, fill, values).astype(np.bool_ if binary else np.float64, copy=False)
        column = self._over(filled, paid, reference, None if once is None else np.where(np.isnan(once), fill, once))
        if not asked.any():
            return column, None
        differs = once is not None or bool((asked & ~last).any())
        if reference is not None:
            asked, last = asked | missing[reference], last | missing[reference]
        return column, self._over(asked, paid, None, last if differs else None)

    def _over(self, values: Array, paid: bool, reference: int | None, once: Array | None) -> CascadeColumn:
        asked, first_only = self.called if paid else None, self.sampled == "first"
        return CascadeColumn(self.stages, self.stops, values, paid, reference, once, asked, first_only)

    def _paid_samples(self, name: str) -> tuple[FloatArray, FloatArray | None]:
        """What a run takes when it is asked how sure it is, and when it is not: of a mean over answers all are paid."""
        values = self.runs.value(name)
        if self.kind != "cascade" or name not in PAID or not self.sampled or "samples" not in self.runs.values:
            return values, None
        return values * self.runs.value("samples"), values

    def answers(self, row: int) -> IntArray:
        """(examples,): which stage of a setting answers."""
        stages = int((self.stages.models[row] >= 0).sum())
        stops = [self.stops[self.stages.gates[row, stage]] for stage in range(stages - 1)]
        return np.argmax(np.stack([*stops, np.ones(self.runs.n_examples, dtype=bool)]), axis=0)

    def shares(self, row: int) -> tuple[float, ...]:
        """The share of examples that each stage of a setting answers."""
        stages = int((self.stages.models[row] >= 0).sum())
        return tuple(float(share) for share in np.bincount(self.answers(row), minlength=stages) / self.runs.n_examples)


def failed_calls(runs: Runs) -> BoolArray:
    """(runs, examples): where every call of a run failed."""
    shares = runs.values.get("failed")
    return np.zeros((len(runs), runs.n_examples), dtype=bool) if shares is None else np.asarray(shares == 1)


def _partly_failed(kind: str, runs: Runs, confidence: Confidence) -> BoolArray:
    """Where some calls failed and others did not; none where all are made at work too, to see how sure a model is."""
    shares = runs.values.get("failed")
    if shares is None or said_by_answers(kind, runs, confidence):
        return np.zeros((len(runs), runs.n_examples), dtype=bool)
    return np.asarray((shares > 0) & (shares < 1))


def usual_times(runs: Runs) -> IntArray | None:
    """(runs,): how often a model was asked on most examples; None where nobody was asked more than once."""
    asked = runs.values.get("samples")
    if asked is None or not (asked > 1).any():
        return None
    counts = [np.unique(row[~np.isnan(row)], return_counts=True) for row in asked]
    return np.array([int(values[np.argmax(times)]) if len(values) else 1 for values, times in counts])


def said_by_answers(kind: str, runs: Runs, confidence: Confidence) -> set[str]:
    """The columns that a confidence rests on and that answers say, so that of several answers they are means."""
    if kind == "router" or isinstance(confidence, LearntGain):
        return said_with_answers(kind, confidence)
    return set(names_of(confidence)) & set(runs.values)


def nobody_knows(kind: str, runs: Runs, confidence: Confidence, times: IntArray | None) -> BoolArray:
    """(runs, examples): where a cascade asks a model of which nobody knows how sure it would have been.

    times: as ``usual_times``, how often a policy asks.
    """
    if kind != "cascade":
        return np.zeros((len(runs), runs.n_examples), dtype=bool)
    if times is None or not said_by_answers(kind, runs, confidence):
        return runs.absent
    asked = runs.values.get("samples", np.ones((len(runs), runs.n_examples)))
    return np.asarray(runs.absent | ((asked != times[:, None]) & ~np.isnan(asked)))


def must_be_asked_as_often(runs: Runs, models: Sequence[str], times: int) -> None:
    """An error if none of some models was asked as often on these runs as a policy asks it."""
    asked = runs.values.get("samples", np.where(runs.absent, np.nan, 1.0))[[runs.row(name) for name in models]]
    known = asked[~np.isnan(asked)]
    if known.size and not (known == times).any():
        raise InvalidInputError(
            f"every answer must be judged as it was when the thresholds were set: by {times} answers of "
            f"{' and '.join(models)} to each prompt; these runs hold "
            f"{', '.join(f'{n:g}' for n in np.unique(known))}. Ask as often."
        )


def accounted(runs: Runs, score: str) -> Callable[[Collection[str], Collection[str]], Intake]:
    """The account of a table of cascades: what became of the answers of the runs."""

    def account(limited: Collection[str], objectives: Collection[str]) -> Intake:
        needed = {score if name == f"{score} drop" else name for name in limited or [score]}
        return runs.account(needed, objectives, score)

    return account


def table_of(
    configs: pd.DataFrame,
    found: Mapping[str, tuple[CascadeColumn, CascadeColumn | None]],
    groups: Mapping[str, Any],
    bounds: Mapping[str, tuple[float, float]],
    account: Callable[[Collection[str], Collection[str]], Intake] | None = None,
) -> LossTable:
    """A table of columns, each with where it is missing; None if it is known everywhere."""
    columns = {name: column for name, (column, _) in found.items()}
    missing = {name: missing for name, (_, missing) in found.items() if missing is not None}
    return LossTable.of_columns(configs, columns, groups, bounds, missing, account=account)


@dataclass(frozen=True, eq=False)
class CascadeColumn:
    """(settings, examples) of a cascade, never held as a whole.

    Args:
        trusted: (gates, examples): the ``stops`` of ``Outcomes``.
        values: (runs, examples): what each run scored or took; booleans for 0/1 scores.
        paid: add up what every called model took, instead of taking the value of the one that answers.
        once: (runs, examples): what a run takes as the last one, which nobody asks how sure it is; None if that is the same.
        asked: (gates, examples): the ``called`` of ``Outcomes``.
        first_only: whether all stages but the first take what they take as the last one.

    Over booleans that tell where a value is missing it is where the value of a setting is: of any model that is paid, or of
    the one that answers.
    """

    stages: Stages
    trusted: BoolArray
    values: Array
    paid: bool = False
    reference: int | None = None
    once: Array | None = None
    asked: BoolArray | None = None
    first_only: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.stages.models), self.values.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        if self.reference is None:
            return self.values.dtype
        return np.dtype(np.int8) if self.values.dtype == np.bool_ else np.dtype(np.float64)

    @cached_property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value that any cascade of these runs could have."""
        low, high = self.values.min(axis=1).astype(np.float64), self.values.max(axis=1).astype(np.float64)
        if self.paid:
            most = min(self.stages.models.shape[1], len(high))
            return float(low.min()), float(np.sort(np.maximum(high, 0.0))[-most:].sum())
        bottom, top = float(low.min()), float(high.max())
        return (bottom, top) if self.reference is None else (bottom - top, top - bottom)

    def __getitem__(self, rows: Rows) -> Array:
        models, gates = self.stages.models[rows], self.stages.gates[rows]
        # -1 takes some run: the gates before it stop always
        found = (self.values if self.once is None else self.once)[models[:, -1]]
        for stage in range(gates.shape[1] - 1, -1, -1):
            stop, own = self.trusted[gates[:, stage]], self.values[models[:, stage]]
            if self.once is not None:
                last = (gates[:, stage] == len(self.trusted) - 1) | (self.first_only and stage > 0)
                own[last] = self.once[models[last, stage]]
            if self.paid:
                if self.asked is not None:
                    np.multiply(own, self.asked[gates[:, stage]], out=own)
                np.multiply(found, ~stop, out=found)
                found += own
            else:
                np.copyto(found, own, where=stop)
        if self.reference is None:
            return found
        kind: Any = np.int8 if found.dtype == np.bool_ else np.float64
        return self.values[self.reference].astype(kind) - found.astype(kind, copy=False)

    def row_digests(self) -> list[bytes]:
        """One digest of all rows: of the runs that they are computed from, and of their rules."""
        rule = f"{self.paid} {self.reference} {self.first_only}".encode()
        base = hashlib.sha256(rule)
        for array in (self.trusted, self.values, *(part for part in (self.once, self.asked) if part is not None)):
            base.update(np.ascontiguousarray(array).data)
        for rules in (self.stages.models, self.stages.gates):
            base.update(np.ascontiguousarray(rules).data)
        return [base.digest()]

    def part(self, rows: slice) -> CascadeColumn:
        return replace(self, stages=self.stages.at(rows))

    def of_examples(self, examples: IntArray) -> CascadeColumn:
        """The same on these examples alone, so that planning does not compute what only testing needs."""
        once, asked = (None if part is None else part[:, examples] for part in (self.once, self.asked))
        return replace(self, trusted=self.trusted[:, examples], values=self.values[:, examples], once=once, asked=asked)

    def check(self, rows: Array | None = None) -> None:
        """Nothing to compare: the runs are in memory."""
