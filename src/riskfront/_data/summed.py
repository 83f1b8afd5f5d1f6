"""What a table answers about sums and means of its losses, and what it remembers of the answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from riskfront._data.cached_sums import KnownSums
from riskfront._data.configs import numbers_of_settings
from riskfront._data.derived.combined import ratios
from riskfront._data.derived.gaps import gap
from riskfront._data.references import drop, drops, find_reference, own_term
from riskfront._data.sample import Sample
from riskfront._data.sums import Totals
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray

T = TypeVar("T")


class SummedLosses:
    """The part of a LossTable that adds up: settings, a sample of losses, and the sums that are known so far."""

    _configs: pd.DataFrame
    _sample: Sample
    _sums: KnownSums
    _memory: dict[Hashable, Any]
    _shared: dict[Hashable, Any]

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of ``compute``, computed once for this part of the data: a front, say, that every alpha shares."""
        return _once(self._memory, key, compute)

    def shared(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Like ``remember``, for what rests on the settings alone and is the same for all parts of a table: its grid, say."""
        return _once(self._shared, key, compute)

    def means(self, term: Term | str, rows: IntArray | None = None) -> FloatArray:
        """(settings, groups): the mean of a term in each group, nan without examples; a number of the settings is its own."""
        term = Term(term) if isinstance(term, str) else term
        if self.belongs_to_settings(term.loss):
            return numbers_of_settings(self._configs, term.loss, rows)[:, None]
        if term.is_ratio:
            return ratios(self.totals(replace(term, at=0.0), rows), self.totals(replace(term, at=1.0), rows))
        return self.totals(term, rows).means()

    def totals(self, term: Term, rows: IntArray | None = None) -> Totals:
        """The sums of a term for all settings, or for the given rows."""
        if term.gap:
            return gap(self.totals(replace(term, gap=False), rows))
        if term.drop_from is None:
            return self._sums.totals(term, rows)
        own, reference = self._against(term)
        return drop(self._sums.totals(own.of_reference, reference), self._sums.totals(own, rows))

    def reference(self, name: str) -> int:
        """The row of the setting that others are compared with."""
        return self.shared(("reference", name), lambda: find_reference(self._configs, name))

    def belongs_to_settings(self, name: str) -> bool:
        """Whether a name stands for a column of the settings, and not for a loss."""
        return name not in self._sample.losses and name in self._configs.columns

    def _against(self, term: Term) -> tuple[Term, IntArray]:
        """A drop as the term of each setting and the row of the reference."""
        return own_term(term, self._sample.varies(term)), np.array([self.reference(str(term.drop_from))])

    def halves(self, term: Term) -> tuple[Totals, Totals]:
        """The sums of a term for all settings over every other example, and over the rest."""
        if term.gap:
            one, other = self.halves(replace(term, gap=False))
            return gap(one), gap(other)
        if term.drop_from is None:
            return self._sums.halves(term)
        own, reference = self._against(term)
        first, second = self._sums.halves(own)
        best = (first, second) if own.of_reference == own else self._sums.halves(own.of_reference)
        return drop(best[0].at(reference), first), drop(best[1].at(reference), second)

    @staticmethod
    def read_together(parts: Sequence[SummedLosses], term: Term, rows: IntArray) -> None:
        """Sum a term of these settings in several parts of one table, from a single read of their losses."""
        if parts[0].belongs_to_settings(term.loss):
            return
        KnownSums.read_together([part._sums for part in parts], replace(term, drop_from=None, gap=False), rows)

    def sequences(self, term: Term, rows: IntArray) -> tuple[Array, BoolArray | None, list[IntArray]]:
        """The losses of some settings one by one, in the order of the examples.

        Returns (rows, n) losses, (rows, n) or (1, n) condition or None, and for each group the positions of its examples.
        """
        if term.drop_from is None:
            return self._sample.sequences(term, rows)
        own, reference = self._against(term)
        return drops(self._sample.sequences(own.of_reference, reference)[0], *self._sample.sequences(own, rows))


def _once(known: dict[Hashable, Any], key: Hashable, compute: Callable[[], T]) -> T:
    if key not in known:
        known[key] = compute()
    found: T = known[key]
    return found
