"""What every procedure must do: keep the family-wise error, be monotone, and not be changed by what comes later."""

import numpy as np
import pytest
from scipy import stats

from riskfront.statistics import graphs
from riskfront.statistics.procedures import Bonferroni, FixedSequence, Graphical, Holm
from tests.support.checks import too_many

M, DELTA, TRIALS = 12, 0.1, 3000


def ring(n: int) -> graphs.Graph:
    """Equal weights, budget handed round in a circle in both directions: a graph with cycles."""
    nodes = np.arange(n)
    targets = np.stack([(nodes + 1) % n, (nodes - 1) % n], axis=1).ravel()
    return graphs.Graph(np.full(n, 1 / n), np.arange(0, 2 * n + 1, 2), targets, np.full(2 * n, 0.5))


PROCEDURES = {
    "bonferroni": Bonferroni(),
    "holm": Holm(),
    "fixed sequence": FixedSequence(),
    "chain": Graphical(graphs.chain(M)),
    "chain with a second start": Graphical(graphs.chain(M, np.array([0.8, *[0] * 5, 0.2, *[0] * 5]))),
    "hamming 3 x 4": Graphical(graphs.hamming((3, 4))),
    "hamming 2 x 2 x 3": Graphical(graphs.hamming((2, 2, 3))),
    "fallback": Graphical(graphs.fallback((3, 4))),
    "ring": Graphical(ring(M)),
}


def uniforms(dependence: str, rng: np.random.Generator) -> np.ndarray:
    """(TRIALS, M) uniform null p-values."""
    if dependence == "independent":
        return rng.random((TRIALS, M))
    if dependence == "equal":
        return np.repeat(rng.random((TRIALS, 1)), M, axis=1)
    if dependence == "positive":
        normal = np.sqrt(0.8) * rng.standard_normal((TRIALS, 1)) + np.sqrt(0.2) * rng.standard_normal((TRIALS, M))
    elif dependence == "pairwise negative":
        half = rng.random((TRIALS, M // 2))
        return np.concatenate([half, 1 - half], axis=1)
    else:  # as negative as M normals can be: correlation -1 / (M - 1)
        normal = rng.standard_normal((TRIALS, M))
        normal = (normal - normal.mean(axis=1, keepdims=True)) * np.sqrt(M / (M - 1))
    return stats.norm.cdf(normal)


DEPENDENCE = ["independent", "equal", "positive", "pairwise negative", "negative"]
NULLS = {
    "all null": np.ones(M, dtype=bool),
    "first half safe": np.arange(M) >= M // 2,
    "every other safe": np.arange(M) % 2 == 0,
    "only the last null": np.arange(M) == M - 1,
}


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", PROCEDURES)
@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("dependence", DEPENDENCE)
def test_family_wise_error(name: str, nulls: str, dependence: str) -> None:
    """Settings that hold have p-value 0: the hardest case, since all their budget arrives at the nulls."""
    null = NULLS[nulls]
    p = np.where(null, uniforms(dependence, np.random.default_rng(3)), 0.0)
    procedure = PROCEDURES[name]
    misses = sum(bool(procedure.reject(row, DELTA)[null].any()) for row in p)
    assert not too_many(misses, TRIALS, DELTA)


@pytest.mark.parametrize("name", PROCEDURES)
def test_lowering_a_p_value_never_loses_a_rejection(name: str) -> None:
    rng = np.random.default_rng(4)
    procedure = PROCEDURES[name]
    for _ in range(300):
        p = rng.beta(0.2, 3, size=M)
        lower = np.where(rng.random(M) < 0.3, p * rng.random(M), p)
        assert not (procedure.reject(p, DELTA) & ~procedure.reject(lower, DELTA)).any()


@pytest.mark.parametrize("name", PROCEDURES)
def test_raising_delta_never_loses_a_rejection(name: str) -> None:
    rng = np.random.default_rng(5)
    procedure = PROCEDURES[name]
    for _ in range(300):
        p = rng.beta(0.2, 3, size=M)
        assert not (procedure.reject(p, 0.05) & ~procedure.reject(p, 0.1)).any()


@pytest.mark.parametrize(
    ("short", "long"),
    [(FixedSequence(), FixedSequence()), (Graphical(graphs.chain(M)), Graphical(graphs.chain(M + 3)))],
    ids=["fixed sequence", "chain"],
)
def test_a_hypothesis_at_the_end_changes_nothing_before_it(short: object, long: object) -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        p = rng.beta(0.2, 3, size=M + 3)
        np.testing.assert_array_equal(long.reject(p, DELTA)[:M], short.reject(p[:M], DELTA))


@pytest.mark.parametrize("name", PROCEDURES)
def test_nothing_to_reject(name: str) -> None:
    assert not PROCEDURES[name].reject(np.ones(M), DELTA).any()
    assert PROCEDURES[name].reject(np.zeros(M), DELTA).all()


def test_uniforms_are_uniform() -> None:
    for dependence in DEPENDENCE:
        p = uniforms(dependence, np.random.default_rng(3))
        assert stats.kstest(p[:, 5], "uniform").pvalue > 1e-4
