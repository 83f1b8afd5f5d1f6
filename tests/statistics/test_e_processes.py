"""E-processes: equal to the betting p-value of all losses, however they come; stakes that know the past only."""

import numpy as np
import pytest

from riskfront.statistics import _e_processes as e_processes
from riskfront.statistics._betting import betting
from riskfront.statistics._e_processes import EProcesses, Expected
from tests.support import reference


@pytest.mark.parametrize("bets", [3, 30])  # one by one, and side by side
@pytest.mark.parametrize("selected", [False, True])
def test_losses_in_parts_give_the_p_value_of_the_whole(bets: int, selected: bool) -> None:
    rng = np.random.default_rng(0)
    losses, kept = rng.beta(0.3, 5, (bets, 200)), rng.random((bets, 200)) < 0.7
    n = kept.sum(axis=1) if selected else np.full(bets, 200)
    made = EProcesses(np.full(bets, 0.1), 0.1, n)
    for part in (slice(0, 13), slice(13, 14), slice(14, 140), slice(140, 200)):
        made.add(losses[:, part], kept[:, part] if selected else None)
    whole = betting(losses, 0.1, 0.1, kept if selected else None)
    np.testing.assert_allclose(np.log(made.p_values), np.log(whole), atol=1e-9)
    np.testing.assert_array_equal(made.seen, n)


def test_plain_loops_give_the_same() -> None:
    losses = np.random.default_rng(1).beta(0.5, 6, 80)
    made = EProcesses([0.15], 0.05, 80)
    made.add(losses[None, :])
    assert made.p_values[0] == pytest.approx(reference.betting(losses.tolist(), 0.15, 0.05), rel=1e-9)


def test_one_by_one_and_side_by_side_agree_where_something_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = np.random.default_rng(2).random((4, 150)) < 0.03
    expected = Expected(np.full(4, 0.04), np.full(4, 0.04), np.full(4, 100.0))
    found = []
    for few in (16, 0):
        monkeypatch.setattr(e_processes, "_FEW", few)
        made = EProcesses(np.full(4, 0.1), 0.1, 1000, expected)
        made.add(losses)
        found.append(made.log_wealth)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_expectations_win_sooner_and_cannot_see_the_next_loss() -> None:
    losses = np.zeros((1, 60))
    expected = Expected(np.array([0.01]), np.array([0.01]), np.array([200.0]))
    plain, warned = EProcesses([0.1], 0.1, 2000), EProcesses([0.1], 0.1, 2000, expected)
    plain.add(losses)
    warned.add(losses)
    assert warned.p_values[0] < 0.1 < plain.p_values[0]
    stakes = []
    for last in (0.0, 1.0):
        again = EProcesses([0.1], 0.1, 2000, expected)
        again.add(losses)
        stakes.append(float(again.next_stake()[0]))
        again.add(np.array([[last]]))
    assert stakes[0] == stakes[1]


@pytest.mark.monte_carlo
@pytest.mark.parametrize("mean", [0.02, 0.1, 0.3])
def test_the_chance_of_ever_reaching_the_target_is_at_most_the_level(mean: float) -> None:
    """At the border of the hypothesis, whatever was expected; a simulation of 2,000 paths."""
    losses = np.random.default_rng(3).random((2000, 300)) < 0.1
    expected = Expected(np.full(2000, mean), np.full(2000, mean * (1 - mean)), np.full(2000, 200.0))
    made = EProcesses(np.full(2000, 0.1), 0.1, 300, expected)
    made.add(losses)
    assert (made.p_values <= 0.1).mean() <= 0.1 + 4 * np.sqrt(0.09 / 2000)
