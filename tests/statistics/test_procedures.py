"""Procedures against the oracle (which tests/support/test_reference.py compares with statsmodels) and hand-made cases."""

import numpy as np
import pytest

from riskfront.statistics import _graphs as graphs
from riskfront.statistics._procedures import Bonferroni, FixedSequence, Graphical, Holm, TwoSequences, Uncorrected
from riskfront.testing import check_procedure
from tests.support import reference as ref
from tests.support.graphs import chain

RNG = np.random.default_rng(0)
SAMPLES = [RNG.beta(0.3, 3, size=size) for size in (1, 2, 3, 5, 8, 13, 40) for _ in range(5)]


def test_as_the_oracle() -> None:
    for p in SAMPLES:
        assert FixedSequence().reject(p, 0.1).tolist() == ref.fixed_sequence(p, 0.1)
        assert Graphical(chain(len(p))).reject(p, 0.1).tolist() == ref.fixed_sequence(p, 0.1)
        assert Bonferroni().reject(p, 0.1).tolist() == ref.bonferroni(p, 0.1)
        assert Holm().reject(p, 0.1).tolist() == ref.holm(p, 0.1)
        assert Uncorrected().reject(p, 0.1).tolist() == (p <= 0.1).tolist()


def test_nan_is_never_rejected() -> None:
    p = np.array([0.0, np.nan, 0.0])
    for procedure in (FixedSequence(), Bonferroni(), Holm(), Uncorrected(), Graphical(chain(3))):
        assert not procedure.reject(p, 0.1)[1]
    assert FixedSequence().reject(p, 0.1).tolist() == [True, False, False]


@pytest.mark.parametrize(
    "procedure",
    [
        FixedSequence(),
        TwoSequences(7, 2 / 3),
        Bonferroni(),
        Holm(),
        Uncorrected(),
        Graphical(graphs.hamming((4, 5))),
    ],
    ids=repr,
)
def test_levels_say_why(procedure: object) -> None:
    """A hypothesis is rejected exactly if its p-value is at most its level; nan means it was never reached."""
    for seed in range(20):
        p = np.random.default_rng(seed).beta(0.2, 3, size=20)
        levels, rejected = procedure.levels(p, 0.1), procedure.reject(p, 0.1)
        np.testing.assert_array_equal(rejected, p <= levels)
        assert levels.shape == p.shape


def test_two_sequences_are_two_fixed_sequences() -> None:
    p = np.array([0.01, 0.02, 0.04, 0.0, 0.06, 0.07, 0.0])
    assert TwoSequences(4, 2 / 3).reject(p, 0.1).tolist() == [True, True, False, False, True, False, False]
    np.testing.assert_allclose(TwoSequences(4, 2 / 3).levels(p, 0.1)[[0, 2, 4, 5]], [0.1 / 3] * 2 + [0.2 / 3] * 2)
    assert np.isnan(TwoSequences(4, 2 / 3).levels(p, 0.1)[[3, 6]]).all()


@pytest.mark.monte_carlo
def test_two_sequences_keep_the_contract() -> None:
    assert len(check_procedure(TwoSequences(5, 2 / 3), hypotheses=12)) > 0


def test_empty_families() -> None:
    nothing = np.empty(0)
    for procedure in (FixedSequence(), Bonferroni(), Holm(), Uncorrected()):
        assert procedure.reject(nothing, 0.1).shape == (0,)
        assert procedure.levels(nothing, 0.1).shape == (0,)


def test_only_the_fixed_sequence_is_sequential() -> None:
    assert FixedSequence().sequential
    assert not any(procedure.sequential for procedure in (Bonferroni(), Holm(), Uncorrected()))
    assert not Graphical(chain(2)).sequential
