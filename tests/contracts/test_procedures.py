"""What every procedure must do: the public contract, on every procedure and kind of graph; later hypotheses change nothing."""

import numpy as np
import pytest
from scipy import stats

from riskfront import statistics
from riskfront.statistics import Bonferroni, FixedSequence, Graphical, Holm
from riskfront.statistics import _graphs as graphs
from riskfront.testing import check_procedure
from riskfront.testing._procedures import DEPENDENCE, uniforms
from tests.support.graphs import chain
from tests.validity import broken

M, DELTA = 12, 0.1


def ring(n: int) -> graphs.Graph:
    """Equal weights, budget handed round in a circle in both directions: a graph with cycles."""
    nodes = np.arange(n)
    targets = np.stack([(nodes + 1) % n, (nodes - 1) % n], axis=1).ravel()
    return graphs.Graph(np.full(n, 1 / n), np.arange(0, 2 * n + 1, 2), targets, np.full(2 * n, 0.5))


PROCEDURES = {
    "bonferroni": Bonferroni(),
    "holm": Holm(),
    "fixed sequence": FixedSequence(),
    "chain": Graphical(chain(M)),
    "chain with a second start": Graphical(chain(M, np.array([0.8, *[0] * 5, 0.2, *[0] * 5]))),
    "hamming 3 x 4": Graphical(graphs.hamming((3, 4))),
    "hamming 2 x 2 x 3": Graphical(graphs.hamming((2, 2, 3))),
    "fallback": Graphical(graphs.fallback((3, 4))),
    "ring": Graphical(ring(M)),
}


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", PROCEDURES)
def test_the_contract(name: str) -> None:
    assert len(check_procedure(PROCEDURES[name], hypotheses=M)) == 4 * len(DEPENDENCE)
    assert PROCEDURES[name].reject(np.zeros(M), DELTA).all()


def test_every_public_procedure_is_here() -> None:
    public = {name for name in statistics.__all__ if hasattr(getattr(statistics, name), "reject")}
    assert public == {type(procedure).__name__ for procedure in PROCEDURES.values()}


@pytest.mark.parametrize("dependence", DEPENDENCE)
def test_uniforms_are_uniform(dependence: str) -> None:
    p = uniforms(dependence, np.random.default_rng(3), (3000, M))
    assert stats.kstest(p[:, 5], "uniform").pvalue > 1e-4


class Judged:
    """A procedure that is one function of p-values and delta."""

    sequential = False

    def __init__(self, rule) -> None:
        self.rule = rule

    def levels(self, p: np.ndarray, delta: float) -> np.ndarray:
        return np.where(self.reject(p, delta), delta, np.nan)

    def reject(self, p: np.ndarray, delta: float) -> np.ndarray:
        return np.asarray(self.rule(p, delta))


class SeesWhatComesLater(Judged):
    sequential = True


BROKEN = {
    "goes on after a failure": (Judged(broken.goes_on_after_a_failure), "a true hypothesis was rejected in"),
    "two starts": (Judged(broken.two_starts), "a true hypothesis was rejected in"),
    "direction of the tested data": (Judged(broken.whichever_end_looks_better), "a true hypothesis was rejected in"),
    "budget for the smallest": (Judged(broken.budget_for_the_smallest), "a true hypothesis was rejected in"),
    "at 1.6 delta": (Judged(lambda p, delta: FixedSequence().reject(p, 1.6 * delta)), "a true hypothesis was rejected"),
    "rejects nothing": (Judged(lambda p, delta: p < 0), "p-values of 0: nothing was rejected"),
    "rejects all": (Judged(lambda p, delta: p <= 1), "p-values of 1: 12 of 12 hypotheses were rejected"),
    "numbers": (Judged(lambda p, delta: (p <= delta) * 1.0), "reject must return 12 booleans; got float64"),
    "looks ahead": (SeesWhatComesLater(Holm().reject), "a p-value after the first failure changed"),
    "a second, not a first": (Judged(lambda p, d: (p > d / 12) & (p <= d / 6)), "a lower p-value lost a rejection"),
}


@pytest.mark.monte_carlo
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_procedure_fails_the_contract(fault: str) -> None:
    procedure, words = BROKEN[fault]
    with pytest.raises(AssertionError, match=words):
        check_procedure(procedure)
