"""The default form (smoothed planning, front of p-values, net, bets with a target) on hard nulls, and broken on purpose.

Every population is a grid of numbers, so that smoothing is at work, and its nulls break a limit by a hair.
"""

from functools import cache

import pytest

import riskfront as rf
from riskfront.experiments import repeated_splits
from tests.monte_carlo.test_validity import caught
from tests.support.populations import POPULATIONS, Population

pytestmark = pytest.mark.monte_carlo
TRIALS = 2000
CASES = [
    ("0/1, independent", "binomial"),
    ("0/1, independent, all null", "binomial"),
    ("0/1, mirrored", "betting"),
    ("rare class", "binomial"),
    ("selective", "betting"),
    ("beta", "betting"),
    ("signed, 30 % flips", "betting"),
]


@cache
def population(name: str) -> Population:
    return POPULATIONS[name]()


@pytest.mark.parametrize(("name", "p_value"), CASES)
def test_misses_at_most_delta(name: str, p_value: str) -> None:
    method = rf.ParetoTesting(net=0.3)  # a share at which both arms have something to say
    found = population(name).trials([method], p_value, TRIALS, seed=11)
    assert caught(found) == []
    if "all null" not in name:
        assert (found["n_certified"] > 0).mean() > 0.6


def test_smoothing_that_sees_test_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning whose sums are those of the testing examples: the front collects what is lucky on them."""
    split = repeated_splits._Trial.split

    def peeking(self: repeated_splits._Trial, method: rf.ParetoTesting) -> tuple[rf.LossTable, rf.LossTable]:
        opt, test = split(self, method)
        opt._sums = test._sums
        return opt, test

    monkeypatch.setattr(repeated_splits._Trial, "split", peeking)
    found = population("0/1, independent").trials([rf.ParetoTesting(net=0.0)], "binomial", TRIALS, seed=12)
    assert caught(found) == ["pareto-testing"]
