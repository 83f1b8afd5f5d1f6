"""The public doors on hundreds of settings: at most 40 trials of every suite. ``make mutants`` runs them in full.

40 trials find a rate of six tenths nearly always. The seeds are fixed, so whether a correct library passes is decided once for
each state of the code: with probability at least 1 - 1e-4 for a suite, .98 for all of them.
"""

import pytest
from scipy import stats

from riskfront.testing._findings import most_allowed
from tests.monte_carlo.suites import SUITES
from tests.support.simulation import LEVEL, LOOKS, run

MOST, ONCE = 40, 1e-4


def power(rate: float, trials: int, delta: float, level: float) -> float:
    """The probability that a true rate of misses is found."""
    return float(stats.binom.sf(most_allowed(trials, delta, level), trials, rate))


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", SUITES)
def test_misses_are_rarer_than_delta(name: str) -> None:
    suite = SUITES[name]
    if suite.needs:
        pytest.importorskip(suite.needs)
    found = run(suite, share=min(0.1, MOST / suite.trials), level=ONCE)
    assert not found.caught, f"{found.misses} misses in {found.trials} trials, {suite.delta} allowed"


def test_what_the_suites_can_see() -> None:
    """In full the sharp suite tells .12 from .10, all others of a hundred trials or more tell one half from a tenth."""
    assert power(0.6, MOST, 0.1, ONCE / len(LOOKS)) > 0.99
    assert power(0.12, SUITES["experiment.run: sharp"].trials, 0.1, LEVEL / len(LOOKS)) > 0.95
    for suite in SUITES.values():
        if suite.trials >= 100:
            assert power(0.5, suite.trials, suite.delta, LEVEL / len(LOOKS)) > 0.99
