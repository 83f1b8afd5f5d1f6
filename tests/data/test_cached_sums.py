"""When sums are computed: of all settings or of some, for one sample or for many, and never twice."""

from typing import Any

import numpy as np
import pytest

from riskfront._data.cached_sums import KnownSums, sums_here
from riskfront._data.sample import Sample
from riskfront._data.sums import Rows, Totals
from riskfront._problems.terms import Term
from riskfront._support.arrays import Array, IntArray

SETTINGS, EXAMPLES = 40, 30
ERROR = Term("error")
LOSSES = np.random.default_rng(0).random((SETTINGS, EXAMPLES)) < 0.3
FEW, MANY = np.array([7, 3]), np.arange(10)


class CountedColumn:
    """Losses that are read when asked for; it counts how often each row was."""

    def __init__(self) -> None:
        self.reads: IntArray = np.zeros(SETTINGS, dtype=np.int64)

    shape = LOSSES.shape
    dtype: np.dtype[Any] = LOSSES.dtype
    range = (0.0, 1.0)

    def __getitem__(self, rows: Rows) -> Array:
        self.reads[rows] += 1
        return LOSSES[rows]

    def row_digests(self) -> list[bytes]:
        raise NotImplementedError

    def part(self, rows: slice) -> "CountedColumn":
        raise NotImplementedError

    def check(self, rows: Array | None = None) -> None:
        raise NotImplementedError


@pytest.fixture
def column() -> CountedColumn:
    return CountedColumn()


@pytest.fixture
def samples(column: CountedColumn) -> list[Sample]:
    order = np.random.default_rng(1).permutation(EXAMPLES)
    return [Sample({"error": column}, {}, examples) for examples in (order[:10], order[10:])]


def expected(sample: Sample, rows: Any = slice(None)) -> Array:
    return LOSSES[rows][:, sample.examples].sum(axis=1)[:, None]


def test_rows_of_a_store_are_read_when_they_are_asked_for_and_once(
    column: CountedColumn, samples: list[Sample]
) -> None:
    known = KnownSums(samples[0])
    for rows in (FEW, FEW, MANY):
        np.testing.assert_array_equal(known.totals(ERROR, rows).total, expected(samples[0], rows))
    assert column.reads.tolist() == [1] * 10 + [0] * 30


def test_one_pass_serves_a_batch(column: CountedColumn, samples: list[Sample]) -> None:
    for sample, known in zip(samples, KnownSums.batch(samples), strict=True):
        np.testing.assert_array_equal(known.totals(ERROR, FEW).total, expected(sample, FEW))
        np.testing.assert_array_equal(known.totals(ERROR).total, expected(sample))
    assert column.reads.tolist() == [1] * SETTINGS


def test_samples_are_read_together(column: CountedColumn, samples: list[Sample]) -> None:
    parts = [KnownSums(sample) for sample in samples]
    for _ in range(2):
        KnownSums.read_together(parts, ERROR, MANY)
    for sample, known in zip(samples, parts, strict=True):
        np.testing.assert_array_equal(known.totals(ERROR, FEW).total, expected(sample, FEW))
    assert column.reads.tolist() == [1] * 10 + [0] * 30


def test_sums_of_all_settings_serve_those_of_some(column: CountedColumn, samples: list[Sample]) -> None:
    known = KnownSums(samples[0])
    known.totals(ERROR, FEW)
    known.totals(ERROR)
    KnownSums.read_together([known, KnownSums(samples[1])], ERROR, FEW)  # nothing to do for the first
    np.testing.assert_array_equal(known.totals(ERROR, MANY).total, expected(samples[0], MANY))
    assert column.reads.max() == 2
    assert column.reads.sum() == SETTINGS + len(FEW)


def test_in_memory_many_rows_are_enough_to_sum_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(sample: Sample, term: Term, weights: Array, rows: IntArray | None = None) -> Totals:
        asked.append(SETTINGS if rows is None else len(rows))
        return sums_here(sample, term, weights, rows)

    monkeypatch.setattr("riskfront._data.cached_sums.sums_here", counted)
    known = KnownSums(Sample({"error": LOSSES}, {}))
    for rows in (FEW, MANY, np.arange(SETTINGS)):
        np.testing.assert_array_equal(known.totals(ERROR, rows).total, LOSSES[rows].sum(axis=1)[:, None])
    assert asked == [len(FEW), SETTINGS]
