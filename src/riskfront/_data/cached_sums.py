"""What a table answers about sums and means of its losses: each sum is computed once, for many samples in one pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from riskfront._data.configs import numbers_of_settings
from riskfront._data.derived_losses import drop, find_reference, gap, own_term, ratios
from riskfront._data.sample import Sample
from riskfront._data.sums import PartialTotals, Totals, row_blocks, rows_per_block, weighted_sums
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, BoolArray, FloatArray, IntArray
from riskfront._support.cluster import cluster_size, shares
from riskfront._support.progress import ProgressBar

_GROUPED_BYTES = 1 << 26  # of losses that are added up at a time where there are many groups
_LONG = 1 << 27  # losses in a store that take seconds to add up
_MANY = 8  # one in this many settings is enough to make the sums of all of them worth computing together


class KnownSums:
    """The sums over one sample that are known so far. A ``batch`` computes those of all settings for many samples at once,
    with this one at ``slot``; sums over ``parts`` that share no example are added up."""

    def __init__(
        self, sample: Sample, batch: _Batch | None = None, slot: int = 0, parts: Sequence[KnownSums] = ()
    ) -> None:
        self._sample, self._batch, self._slot, self._parts = sample, batch, slot, parts
        self._whole: dict[Term, Totals] = {}
        self._halves: dict[Term, tuple[Totals, Totals]] = {}
        self._partial: dict[Term, PartialTotals] = {}

    @classmethod
    def batch(cls, samples: Sequence[Sample], losses: Collection[str] | None = None) -> list[KnownSums]:
        """The sums of many samples of one table; those of all settings are computed together, by one matrix product. If losses
        are named, only theirs: the others are needed of some of the samples alone."""
        shared = _Batch(samples, losses)
        return [cls(sample, shared, slot) for slot, sample in enumerate(samples)]

    def totals(self, term: Term, rows: IntArray | None = None) -> Totals:
        """The sums of a term for all settings, or for the given rows."""
        whole = self._whole.get(term)
        if whole is None and self._parts:
            first, *others = (part.totals(term, rows) for part in self._parts)
            added = sum(others, start=first)
            if rows is None:
                self._whole[term] = added
            return added
        if whole is None:
            known = self._batch is not None and term in self._batch._found
            if rows is not None and not known and not self._all_are_worth_it(rows):
                return self._some(term).at(rows, lambda missing: _sums_of([self._sample], term, missing)[0])
            batch = self._batch if self._batch is not None and self._batch.takes(term) else None
            whole = batch.totals(term)[self._slot] if batch else _sums_of([self._sample], term)[0]
            self._whole[term] = whole
            self._partial.pop(term, None)
        return whole if rows is None else whole.at(rows)

    def halves(self, term: Term) -> tuple[Totals, Totals]:
        """The sums of a term for all settings over every other example, and over the rest; both from one pass."""
        if term not in self._halves:
            batch = self._batch if self._batch is not None and self._batch.takes(term) else None
            found = batch.halves(term)[self._slot] if batch else _halves_of([self._sample], term)[0]
            self._halves[term] = found
            self._whole.setdefault(term, found[0] + found[1])
        return self._halves[term]

    @staticmethod
    def read_together(parts: Sequence[KnownSums], term: Term, rows: IntArray) -> None:
        """Sum a term of these settings over several samples of one table, from a single read of their losses."""
        if any(term in part._whole or part._all_are_worth_it(rows) for part in parts):
            return
        partial = [part._some(term) for part in parts]
        if any(sums.lacks(rows) for sums in partial):
            for sums, found in zip(partial, _sums_of([part._sample for part in parts], term, rows), strict=True):
                sums.put(rows, found)

    def _some(self, term: Term) -> PartialTotals:
        if term not in self._partial:
            self._partial[term] = PartialTotals(self._sample.n_configs)
        return self._partial[term]

    def _all_are_worth_it(self, rows: IntArray) -> bool:
        """Whether sums of all settings should be computed when those of some are needed.

        A table in memory is read fast, so many are enough. A store is read once for all samples of a batch, but never for one.
        """
        return self._batch is not None if self._sample.is_lazy else _MANY * len(rows) > self._sample.n_configs


class _Batch:
    """Samples of one table; the first that needs the sums of a term over all settings computes them for all samples."""

    def __init__(self, samples: Sequence[Sample], losses: Collection[str] | None = None) -> None:
        self._samples, self._losses = samples, losses
        self._found: dict[Term, list[Totals]] = {}
        self._halves: dict[Term, list[tuple[Totals, Totals]]] = {}

    def takes(self, term: Term) -> bool:
        return self._losses is None or term.loss in self._losses

    def totals(self, term: Term) -> list[Totals]:
        if term not in self._found:
            self._found[term] = _sums_of(self._samples, term)
        return self._found[term]

    def halves(self, term: Term) -> list[tuple[Totals, Totals]]:
        if term not in self._halves:
            self._halves[term] = _halves_of(self._samples, term)
            self._found.setdefault(term, [first + second for first, second in self._halves[term]])
        return self._halves[term]


def _halves_of(samples: Sequence[Sample], term: Term) -> list[tuple[Totals, Totals]]:
    found = _sums_of([half for sample in samples for half in sample.halves()], term)
    return list(zip(found[0::2], found[1::2], strict=True))


def _sums_of(samples: Sequence[Sample], term: Term, rows: IntArray | None = None) -> list[Totals]:
    """The sums over each of these samples of one table, from one pass over all settings or over the given rows."""
    if samples[0].many_groups(term) is not None:
        return [_sums_in_many_groups(sample, term, rows) for sample in samples]
    weights = [sample.weights(term) for sample in samples]
    side_by_side = weights[0] if len(weights) == 1 else np.concatenate(weights, axis=1)
    sample, side_by_side = samples[0].narrowed(term, side_by_side)
    found = _pass_over(sample, term, side_by_side, rows)
    # one sample is looked at at a time: keep its numbers next to each other
    n, total = np.asfortranarray(found.n), np.asfortranarray(found.total)
    ends = np.cumsum([weight.shape[1] for weight in weights])
    return [Totals(n[:, a:b], total[:, a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def _sums_in_many_groups(sample: Sample, term: Term, rows: IntArray | None) -> Totals:
    """The same for one sample, with work and memory that do not grow with the number of groups."""
    groups, counts = sample.groups[str(term.per)], sample.counted(term)
    used = np.flatnonzero(counts)
    codes, counts, count = groups.codes[used], counts[used].astype(np.float64), len(groups.levels)
    every = np.arange(sample.n_configs) if rows is None else rows
    total = np.empty((len(every), count), dtype=np.int64 if sample.counts(term) else np.float64)
    varies = sample.varies(term)
    n = np.empty((len(every) if varies else 1, count), dtype=np.int64)
    n[:] = np.bincount(codes, counts, count)
    for block in row_blocks(len(every), 8 * sample.n_stored, _GROUPED_BYTES):
        values = sample.values(term, every[block])[:, used] * counts
        if varies:
            kept = sample.varying_condition(term, every[block])[:, used]
            values = values * kept
            n[block] = [np.bincount(codes, row * counts, count) for row in kept]
        sums = np.array([np.bincount(codes, row, count) for row in values]).reshape(-1, count)
        total[block] = np.rint(sums) if total.dtype == np.int64 else sums
    return Totals(n, total)


def _pass_over(sample: Sample, term: Term, weights: Array, rows: IntArray | None) -> Totals:
    """Sums with these weights, (stored examples, sums); a pass over a whole store is shared out if there is a cluster."""
    workers = cluster_size() if rows is None and sample.is_lazy else 0
    if not workers:
        if rows is None and sample.is_lazy and sample.n_configs * sample.n_stored > _LONG:
            with ProgressBar(f"adding up '{term.loss}'", sample.n_configs) as bar:
                return sums_here(sample, term, weights, rows, bar)
        return sums_here(sample, term, weights, rows)
    import joblib

    step = rows_per_block(weights, sample.counts(term))
    blocks = [sample.needed_for(term, part) for part in shares(sample.n_configs, step, workers)]
    found = joblib.Parallel(n_jobs=workers)(joblib.delayed(sums_here)(block, term, weights) for block in blocks)
    return Totals.stack(found, same_n=not sample.varies(term))


def sums_here(
    sample: Sample, term: Term, weights: Array, rows: IntArray | None = None, bar: ProgressBar | None = None
) -> Totals:
    """The same in this process."""

    def values(at: Any) -> Array:
        found = sample.values(term, at)
        if bar is not None:
            bar.advance(len(found))
        return found

    return weighted_sums(
        values,
        (lambda at: sample.varying_condition(term, at)) if sample.varies(term) else None,
        weights,
        range(sample.n_configs) if rows is None else rows,
        binary=sample.counts(term),
    )


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
        """Like ``remember``, for results of the settings alone, which all parts of a table share, such as its grid."""
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
        """What ``Sample.sequences`` returns; of a drop, the differences from the reference."""
        if term.drop_from is None:
            return self._sample.sequences(term, rows)
        own, reference = self._against(term)
        best = self._sample.sequences(own.of_reference, reference)[0]
        values, condition, groups = self._sample.sequences(own, rows)
        kind = np.int8 if values.dtype == np.bool_ else np.float64
        return best.astype(kind) - values.astype(kind), condition, groups


def _once(known: dict[Hashable, Any], key: Hashable, compute: Callable[[], T]) -> T:
    if key not in known:
        known[key] = compute()
    found: T = known[key]
    return found
