"""The advice on examples agrees with the bets themselves."""

import time

import numpy as np
import pytest

from riskfront.statistics._betting import betting
from riskfront.statistics._sample_size import examples_to_win


def p_value(sequence: np.ndarray, n: int, alpha: float, level: float) -> float:
    return float(betting(np.resize(sequence, (1, n)), alpha, level=level)[0])


@pytest.mark.parametrize("level", [0.1, 0.01])
@pytest.mark.parametrize(("mean", "alpha"), [(0.0, 0.05), (0.03, 0.05), (0.2, 0.3), (0.08, 0.1)])
def test_the_bets_are_won_there_and_not_much_before(mean: float, alpha: float, level: float) -> None:
    rng = np.random.default_rng([int(100 * mean), 5])
    sequence = rng.permutation((np.arange(200) < 200 * mean).astype(float))
    n = examples_to_win(sequence, alpha, level)
    assert n is not None
    assert p_value(sequence, n, alpha, level) <= level
    before = n - max(1, n // 100)
    assert p_value(sequence, before, alpha, level) > level


def test_what_cannot_be_won_is_told_at_once() -> None:
    begin = time.process_time()
    assert examples_to_win(np.array([0.0, 0.2]), 0.1, 0.1) is None  # at the limit
    assert examples_to_win(np.array([0.0, 0.19998]), 0.1, 0.1) is None  # more than a million
    assert time.process_time() - begin < 0.5
