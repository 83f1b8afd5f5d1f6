"""Validity: how often a certificate of each guaranteed method contains any setting that truly breaks a limit.

Each case draws 1,000 calibration samples with replacement from a population whose risks are known exactly, and calibrates with
every guaranteed method. tests/support/checks.py has the arithmetic of the check.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import riskfront as rf
from riskfront.evidence.evidence import Evidence
from tests.support.checks import too_many
from tests.support.populations import CORNER, POPULATIONS, STEPS, Population

TRIALS = 1000
METHODS = [
    rf.ParetoTesting(),
    rf.SplitFST(),
    rf.SGT(),
    rf.SGT(safest=CORNER),
    rf.Fallback(safest=CORNER),
    rf.LowRiskPath(),
    rf.ConstrainedPath(),
    rf.BonferroniTesting(),
    rf.HolmTesting(),
]
CASES = [(name, p_value) for name, make in POPULATIONS.items() for p_value in make().p_values]


@cache
def population(name: str) -> Population:
    return POPULATIONS[name]()


def rates(found: pd.DataFrame) -> dict[str, int]:
    """Trials whose certificate contains a setting that breaks a limit, by method."""
    return found.groupby("method")["any_violated"].sum().astype(int).to_dict()


def caught(found: pd.DataFrame, delta: float = 0.1) -> list[str]:
    """The methods that miss too often: the check that correct methods pass and broken ones fail."""
    sizes = found.groupby("method").size()
    return [name for name, misses in rates(found).items() if too_many(misses, int(sizes[name]), delta)]


@pytest.mark.monte_carlo
@pytest.mark.parametrize(("name", "p_value"), CASES)
def test_misses_at_most_delta(name: str, p_value: str) -> None:
    world = population(name)
    found = world.trials(METHODS, p_value, TRIALS, seed=len(name))
    assert len(found) == TRIALS * len(METHODS)
    assert caught(found) == []
    if "all null" not in name:
        # the check has teeth: the safe settings are certified nearly always, so that the nulls behind them are tested
        pareto = found[found["method"] == "pareto-testing"]
        assert (pareto["n_certified"] > 0).mean() > 0.6


@pytest.mark.monte_carlo
def test_the_error_budget_is_used() -> None:
    """The exact test at the border of the safe region spends most of delta: the suite looks where errors happen."""
    world = population("0/1, equal")
    found = rf.experiment.run(
        world.table,
        world.problem,
        methods=["pareto-testing"],
        trials=TRIALS,
        calibration=world.calibration,
    )
    assert 0.04 < found["any_violated"].mean() < 0.13


@pytest.mark.parametrize("name", POPULATIONS)
def test_populations_are_what_they_say(name: str) -> None:
    """Nulls break a limit by a hair, the others hold all; the truth is the table's own means."""
    world = population(name)
    excess = Evidence(world.problem, world.table).excess()
    safe = (STEPS < 3) if "all null" not in name else np.zeros(STEPS.size, dtype=bool)
    assert (excess[~safe] > 0).all()
    assert (excess[~safe] < 3e-3).all()
    assert (excess[safe] < -0.01).all()
