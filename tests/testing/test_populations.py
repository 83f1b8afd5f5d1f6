"""The populations of check_method are what they say, and safe settings are certified, so that nulls behind them are tested."""

from functools import cache

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.testing._populations import POPULATIONS, STEPS, Population


@cache
def population(name: str) -> Population:
    return POPULATIONS[name]()


@pytest.mark.parametrize("name", POPULATIONS)
def test_nulls_break_a_limit_by_a_hair_and_the_others_hold_all(name: str) -> None:
    """The truth is the table's own means."""
    excess = Evidence(population(name).problem, population(name).table).margin()
    safe = (STEPS < 3) if "all null" not in name else np.zeros(STEPS.size, dtype=bool)
    assert (excess[~safe] > 0).all()
    assert (excess[~safe] < 3e-3).all()
    assert (excess[safe] < -0.01).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POPULATIONS if "all null" not in name])
def test_safe_settings_are_certified(name: str) -> None:
    found = population(name).trials([rf.ParetoTesting()], population(name).p_values[0], 20, seed=1)
    assert (found["n_certified"] > 0).mean() > 0.4


@pytest.mark.monte_carlo
def test_the_error_budget_is_used() -> None:
    """The exact test at the border of the safe region spends most of delta: trials look where errors happen."""
    found = population("0/1, equal").trials(["pareto-testing"], "binomial", 400, seed=0)
    assert 0.04 < found["any_violated"].mean() < 0.15


def test_other_settings_keep_the_order_of_risk() -> None:
    named = population("0/1, equal").with_settings([{"step": step} for step in range(STEPS.size)])
    risks = np.array([named.table.losses("loss")[row].mean() for row in np.argsort(named.table.configs["step"])])
    assert (np.diff(risks) >= 0).all()
    with pytest.raises(rf.InvalidInputError, match="24 settings, from the safest on; got 3"):
        population("0/1, equal").with_settings([{"step": step} for step in range(3)])
