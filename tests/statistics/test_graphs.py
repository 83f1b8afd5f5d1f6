"""Graphs and the graphical test against the dense oracle in exact fractions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from riskfront.errors import InvalidInputError
from riskfront.statistics import _graphs as graphs
from riskfront.statistics._graphs import Graph
from riskfront.statistics._procedures import Graphical
from tests.support import reference as ref
from tests.support.graphs import chain


def dense(graph: Graph) -> np.ndarray:
    matrix = np.zeros((graph.weights.size,) * 2)
    for node, (a, b) in enumerate(pairwise(graph.starts)):
        matrix[node, graph.targets[a:b]] = graph.transitions[a:b]
    return matrix


def from_dense(weights: list[float], transitions: list[list[float]]) -> Graph:
    matrix = np.array([[float(x) for x in row] for row in transitions])
    sources, targets = np.nonzero(matrix)
    starts = np.searchsorted(sources, np.arange(len(weights) + 1))
    return Graph(np.array([float(w) for w in weights]), starts, targets, matrix[sources, targets])


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (4, 1, 3), (2, 2, 2), (3, 2, 2, 2), ()])
def test_hamming_as_the_oracle(shape: tuple[int, ...]) -> None:
    graph = graphs.hamming(shape)
    weights, transitions = ref.hamming(shape)
    np.testing.assert_allclose(graph.weights, [float(w) for w in weights])
    np.testing.assert_allclose(dense(graph), [[float(x) for x in row] for row in transitions])


def test_chain_and_fallback() -> None:
    assert dense(chain(3)).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert chain(3).weights.tolist() == [1, 0, 0]
    fallback = graphs.fallback((2, 2, 2))
    # each slice starts at its origin with half the budget and is walked by distance from it
    assert fallback.weights.tolist() == [0.5, 0, 0, 0, 0.5, 0, 0, 0]
    assert dense(fallback).sum(axis=1).tolist() == [1, 1, 1, 1, 1, 1, 1, 0]
    assert [int(np.argmax(row)) for row in dense(fallback)[:4]] == [1, 2, 3, 4]
    assert graphs.fallback((3,)).weights.tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.slow
def test_tests_as_the_oracle_on_grids() -> None:
    rng = np.random.default_rng(0)
    for shape in ((5,), (3, 4), (2, 3, 3), (2, 2, 2, 2)):
        graph = graphs.hamming(shape)
        for _ in range(20):
            p = rng.beta(0.15, 2, size=graph.weights.size)
            assert Graphical(graph).reject(p, 0.1).tolist() == ref.graphical(p, *ref.hamming(shape), 0.1)


@pytest.mark.parametrize("width", ["narrow", "wide"])
def test_both_passes_agree(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_NARROW", 10**9 if width == "narrow" else 0)
    rng = np.random.default_rng(1)
    graph = graphs.hamming((4, 5))
    for _ in range(20):
        p = rng.beta(0.15, 2, size=20)
        assert Graphical(graph).reject(p, 0.1).tolist() == ref.graphical(p, *ref.hamming((4, 5)), 0.1)


def test_tests_as_the_oracle_on_graphs_with_cycles() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        v = int(rng.integers(2, 7))
        raw = rng.integers(0, 4, size=(v, v))
        np.fill_diagonal(raw, 0)
        spare = int(rng.integers(0, 2))
        transitions = [[Fraction(int(x), max(int(row.sum()) + spare, 1)) for x in row] for row in raw]
        weights = [Fraction(int(x), 8) for x in rng.multinomial(8, [1 / v] * v)]
        p = rng.beta(0.5, 3, size=v) * 0.2
        ours = Graphical(from_dense(weights, transitions)).reject(p, 0.1)
        assert ours.tolist() == ref.graphical(p, weights, transitions, 0.1)


def test_holm_as_a_graph() -> None:
    rng = np.random.default_rng(3)
    for v in (2, 3, 6, 12):
        graph = from_dense(*ref.holm_graph(v))
        for _ in range(20):
            p = rng.beta(0.3, 3, size=v)
            assert Graphical(graph).reject(p, 0.1).tolist() == ref.holm(p, 0.1)


def test_a_node_without_budget_is_never_rejected() -> None:
    """Even if its p-value underflows to 0: a deliberate difference from p <= w * delta read literally."""
    for graph in (chain(3), from_dense([0.5, 0, 0], [[0, 0, 0], [0, 0, 0.5], [0, 0.5, 0]])):
        rejected = Graphical(graph).reject(np.array([1.0, 0.0, 0.0]), 0.1)
        assert not rejected.any()
        assert np.isnan(graph.final_weights(np.array([1.0, 0.0, 0.0]), 0.1)[1:]).all()


def test_budget_is_never_made() -> None:
    """The budget of the nodes that are left never exceeds what there was."""
    rng = np.random.default_rng(4)
    for shape in ((4, 5), (3, 3, 3)):
        graph = graphs.hamming(shape)
        for _ in range(50):
            p = rng.beta(0.15, 2, size=graph.weights.size)
            final = np.nan_to_num(graph.final_weights(p, 0.1))
            left = final[~(p <= 0.1 * final)]
            assert left.sum() <= 1 + 1e-12


def test_bad_graphs() -> None:
    zero = np.zeros(0, dtype=np.int64)
    with pytest.raises(InvalidInputError, match=r"sum to at most 1; got a sum of 1\.2"):
        Graph(np.array([0.6, 0.6]), np.zeros(3, dtype=np.int64), zero, zero.astype(float))
    with pytest.raises(InvalidInputError, match=r"at least 0"):
        Graph(np.array([-0.1, 0.6]), np.zeros(3, dtype=np.int64), zero, zero.astype(float))
    with pytest.raises(InvalidInputError, match=r"got a sum of 1\.5 at node 0"):
        Graph(np.array([1.0, 0.0]), np.array([0, 1, 1]), np.array([1]), np.array([1.5]))
    with pytest.raises(InvalidInputError, match=r"itself"):
        Graph(np.array([1.0, 0.0]), np.array([0, 1, 1]), np.array([0]), np.array([0.5]))
    with pytest.raises(InvalidInputError, match=r"needs as many p-values"):
        chain(3).final_weights(np.zeros(2), 0.1)
