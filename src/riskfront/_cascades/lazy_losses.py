"""What every cascade would have scored or paid, computed from one run a model when rows are asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from riskfront._cascades.cascade_settings import Stages
from riskfront._data.sums import Rows
from riskfront._support.arrays import Array, BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class CascadeColumn:
    """(settings, examples) of a cascade, never held as a whole.

    Args:
        stages: which models, and which gates stop after each stage.
        trusted: (gates, examples): where a gate stops, because the model was asked, answered, and is sure; the last always
            does.
        values: (runs, examples): what each run scored or took; booleans for 0/1 scores.
        paid: add up what every called model took, instead of taking the value of the one that answers.
        reference: the run from whose value the drop is taken; None for the value itself.
        once: (runs, examples): what a run takes as the last one, which nobody asks how sure it is; None if that is the same.
        asked: (gates, examples): where a model is called at all; None if each is that is reached.
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
        return replace(self, stages=Stages(self.stages.models[rows], self.stages.gates[rows]))

    def of_examples(self, examples: IntArray) -> CascadeColumn:
        """The same on these examples alone, so that planning does not compute what only testing needs."""
        once, asked = (None if part is None else part[:, examples] for part in (self.once, self.asked))
        return replace(self, trusted=self.trusted[:, examples], values=self.values[:, examples], once=once, asked=asked)

    def check(self, rows: Array | None = None) -> None:
        """Nothing to compare: the runs are in memory."""
