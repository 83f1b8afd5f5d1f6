"""Weighted sums against plain loops; whole numbers stay whole."""

import numpy as np
import pytest

from riskfront._data import sums
from riskfront._data.sums import PartialTotals, Totals, row_blocks, weighted_sums


def values(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((9, 40)) < 0.3, rng.random((9, 40)), rng.integers(0, 3, (40, 4))


def test_counts_are_integers() -> None:
    binary, _, weights = values()
    found = weighted_sums(lambda at: binary[at], None, weights, range(9), binary=True)
    assert found.total.dtype == np.int64
    assert found.total.tolist() == (binary.astype(int) @ weights).tolist()
    assert found.n.tolist() == [weights.sum(axis=0).tolist()]


def test_counts_past_single_precision_are_exact(monkeypatch: object) -> None:
    binary = np.ones((2, 3), dtype=bool)
    weights = np.array([[2**24], [1], [2]])  # 2^24 + 1 is not a single-precision number
    found = weighted_sums(lambda at: binary[at], None, weights, range(2), binary=True)
    assert found.total.tolist() == [[2**24 + 3]] * 2


def test_conditions_select() -> None:
    binary, floats, weights = values(1)
    kept = floats < 0.5
    found = weighted_sums(lambda at: binary[at], lambda at: kept[at], weights, range(9), binary=True)
    assert found.total.tolist() == ((binary & kept).astype(int) @ weights).tolist()
    assert found.n.tolist() == (kept.astype(int) @ weights).tolist()
    means = found.means()
    assert np.isnan(means[found.n == 0]).all()
    np.testing.assert_allclose(means[found.n > 0], (found.total / np.maximum(found.n, 1))[found.n > 0])


def test_some_rows_only_and_in_blocks(monkeypatch: object) -> None:
    _, floats, weights = values(2)
    rows = np.array([7, 2, 2, 5])
    whole = weighted_sums(lambda at: floats[at], None, weights, rows, binary=False).total
    np.testing.assert_allclose(whole, floats[rows] @ weights, rtol=1e-13)
    monkeypatch.setattr(sums, "_BLOCK_BYTES", 400)
    np.testing.assert_allclose(
        weighted_sums(lambda at: floats[at], None, weights, rows, False).total, whole, rtol=1e-13
    )


def test_nothing_selected_is_nan_without_a_warning() -> None:
    empty = Totals(np.array([[0, 2]]), np.array([[0, 1], [0, 2]]))
    means = empty.means()
    assert np.isnan(means[:, 0]).all()
    assert means[:, 1].tolist() == [0.5, 1.0]


def test_partial_totals_compute_each_row_once() -> None:
    asked: list[list[int]] = []

    def compute(rows: np.ndarray) -> Totals:
        asked.append(rows.tolist())
        return Totals(np.full((1, 1), 10), rows[:, None] * 2)

    partial = PartialTotals(6)
    assert partial.at(np.array([4, 1, 4]), compute).total.ravel().tolist() == [8, 2, 8]
    assert partial.at(np.array([1, 5]), compute).total.ravel().tolist() == [2, 10]
    assert partial.at(np.array([5, 4]), compute).n.ravel().tolist() == [10, 10]
    assert asked == [[1, 4], [5]]


def test_row_blocks_cover_everything_once() -> None:
    for rows in (0, 1, 5, 1000):
        covered = [index for block in row_blocks(rows, 1 << 20) for index in range(rows)[block]]
        assert covered == list(range(rows))


@pytest.mark.parametrize("examples", [0, 1, 7, 64, 65, 1000])
@pytest.mark.parametrize("by_bits", [True, False])
def test_counts_are_those_of_plain_indexing_by_bits_and_by_products(
    examples: int, by_bits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_bits:
        monkeypatch.delattr(np, "bitwise_count", raising=False)  # as with an older numpy
    rng = np.random.default_rng(examples)
    binary, kept = rng.random((2, 30, examples)) < 0.4
    weights = (rng.random((examples, 3)) < 0.5).astype(np.int64)
    some = np.array([4, 1, 9])
    plain = weighted_sums(lambda at: binary[at], None, weights, range(30), binary=True)
    given = weighted_sums(lambda at: binary[at], lambda at: kept[at], weights, some, binary=True)
    for row in range(30):
        assert plain.total[row].tolist() == [int(binary[row, column == 1].sum()) for column in weights.T]
    for place, row in enumerate(some):
        assert given.n[place].tolist() == [int(kept[row, column == 1].sum()) for column in weights.T]
        assert given.total[place].tolist() == [int((binary & kept)[row, column == 1].sum()) for column in weights.T]


def test_examples_without_weight_are_left_out_and_change_nothing() -> None:
    rng = np.random.default_rng(3)
    floats, kept = rng.random((20, 900)).astype(np.float32), rng.random((20, 900)) < 0.5
    weights = np.zeros((900, 2), dtype=np.int64)
    weights[rng.permutation(900)[:100]] = rng.integers(0, 3, (100, 2))
    found = weighted_sums(lambda at: floats[at], lambda at: kept[at], weights, range(20), binary=False)
    np.testing.assert_array_equal(found.n, kept.astype(int) @ weights)
    np.testing.assert_allclose(found.total, (floats.astype(float) * kept) @ weights, rtol=1e-12)
