"""Fronts against brute force, and thinning."""

import numpy as np
import pytest

from riskfront.errors import InvalidInputError
from riskfront.statistics import _fronts as fronts
from tests.support import reference as ref


@pytest.mark.parametrize("objectives", [1, 2, 3, 4, 5])
def test_front_as_brute_force(objectives: int) -> None:
    rng = np.random.default_rng(objectives)
    for _ in range(20):
        points = rng.integers(0, 6, size=(30, objectives)).astype(float)  # many ties
        expected = np.flatnonzero(ref.pareto_front(points.tolist()))
        assert fronts.front(points).tolist() == expected.tolist()
        first = [i for i in expected if not any((points[j] == points[i]).all() for j in range(i))]
        assert fronts.front(points, keep_duplicates=False).tolist() == first


def test_infinity_ranks_last() -> None:
    points = np.array([[0.0, np.inf], [1.0, 2.0], [1.0, np.inf], [np.inf, 0.0], [-np.inf, 5.0]])
    assert fronts.front(points).tolist() == np.flatnonzero(ref.pareto_front(points.tolist())).tolist()


def test_small_fronts() -> None:
    assert fronts.front(np.empty((0, 2))).tolist() == []
    assert fronts.front(np.empty((0, 1))).tolist() == []
    assert fronts.front([[1.0, 2.0]]).tolist() == [0]
    assert fronts.front([[2.0], [1.0], [1.0]]).tolist() == [1, 2]
    assert fronts.front([[2.0], [1.0], [1.0]], keep_duplicates=False).tolist() == [1]


def test_thinning_keeps_the_ends_and_the_shape() -> None:
    x = np.linspace(0, 1, 500)
    curve = np.column_stack([x, 1 - np.sqrt(x)])
    kept = fronts.thin(curve, 20)
    assert len(kept) == 20
    assert kept[0] == 0
    assert kept[-1] == 499
    gaps = np.linalg.norm(np.diff(curve[kept], axis=0), axis=1)
    assert gaps.max() < 4 * gaps.min()
    assert fronts.thin(curve, 500).tolist() == list(range(500))
    assert fronts.thin(curve, 1000).tolist() == list(range(500))
    assert len(fronts.thin(curve, 1)) == 1


def test_thinning_with_infinite_values_and_constant_objectives() -> None:
    values = np.column_stack([np.arange(10.0), np.full(10, np.inf), np.full(10, 3.0)])
    values[0, 0] = np.inf
    kept = fronts.thin(values, 4)
    assert len(set(kept.tolist())) == 4


def test_refusals() -> None:
    for call, words in (
        (lambda: fronts.front([[np.nan, 1.0]]), "must not contain NaN"),
        (lambda: fronts.front([1.0, 2.0]), r"shape \(points, objectives\)"),
        (lambda: fronts.thin([[1.0, 2.0]], 0), "at least 1; got 0"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            call()
