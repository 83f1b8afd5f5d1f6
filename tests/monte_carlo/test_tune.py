"""tune on a hard null: every setting truly breaks the limit by a hair, the search picks the luckiest on planning examples."""

import numpy as np
import pytest
from scipy.stats import binom

import riskfront as rf
from riskfront.arrays import IntArray
from riskfront.tuning import opt_test_parts

ALPHA, DELTA, TRIALS, N_SETTINGS, N_EXAMPLES = 0.2, 0.1, 400, 25, 120


def false_certificates() -> int:
    """In how many trials a setting was certified; none may be, for every true risk is above the limit."""
    space = rf.Space(setting=rf.Int(0, N_SETTINGS - 1))
    problem = rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA)
    found = 0
    for trial in range(TRIALS):
        errors = np.random.default_rng([7, trial]).random((N_SETTINGS, N_EXAMPLES)) < ALPHA + 1e-6

        def losses(config: dict[str, int], examples: IntArray, errors: np.ndarray = errors) -> dict[str, np.ndarray]:
            row = errors[config["setting"], examples]
            return {"error": row, "cost": np.full(len(row), 1 / (1 + config["setting"]))}

        certificate = rf.tune(
            losses, np.arange(N_EXAMPLES), space, problem, search="grid", budget=N_SETTINGS, seed=trial, progress=False
        )
        found += bool(certificate)
    return found


@pytest.mark.monte_carlo
def test_false_certificates_are_rarer_than_delta() -> None:
    assert binom.sf(false_certificates() - 1, TRIALS, DELTA) > 1e-9


@pytest.mark.monte_carlo
def test_the_check_catches_a_search_that_saw_the_test_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    split = opt_test_parts.split_examples

    def peeking(n: int, fraction: float, seed: int, *salt: bytes) -> tuple[IntArray, IntArray]:
        _, test = split(n, fraction, seed, *salt)
        return test, test

    monkeypatch.setattr(opt_test_parts, "split_examples", peeking)
    assert binom.sf(false_certificates() - 1, TRIALS, DELTA) < 1e-9
