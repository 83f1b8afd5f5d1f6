"""Time sharing by linear programming."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.certificates.mixture import mixture_weights
from riskfront.errors import InvalidInputError

LIMIT = [rf.Limit("error", at_most=0.1)]
COST_AND_SPEED = rf.Problem(LIMIT, minimize=["cost"], maximize=["gain"])
VALUES = np.array([[0.2, 1.0], [0.5, 3.0], [0.9, 4.0]])


def test_by_hand() -> None:
    # cost 0.35 on average is half of 0.2 and half of 0.5; that gains 2. Mixing 0.2 and 0.9 gains only 1.64.
    weights = mixture_weights(COST_AND_SPEED, VALUES, {"cost": 0.35})
    np.testing.assert_allclose(weights, [0.5, 0.5, 0], atol=1e-9)
    weights = mixture_weights(COST_AND_SPEED, VALUES, {"gain": 3.5})
    np.testing.assert_allclose(weights, [0, 0.5, 0.5], atol=1e-9)


def test_as_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.random((3, 2))
        target = float(values[:, 0].min() + rng.random() * np.ptp(values[:, 0]))
        weights = mixture_weights(rf.Problem(LIMIT, ["cost", "time"]), values, {"cost": target})
        assert weights.min() >= 0
        assert weights.sum() == pytest.approx(1)
        assert weights @ values[:, 0] <= target + 1e-9
        steps = np.linspace(0, 1, 41)
        simplex = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1])
        allowed = simplex[simplex @ values[:, 0] <= target]
        if len(allowed):
            assert weights @ values[:, 1] <= (allowed @ values[:, 1]).min() + 1e-9


def test_a_target_on_the_only_objective() -> None:
    weights = mixture_weights(rf.Problem(LIMIT, ["cost"]), np.array([[0.3]]), {"cost": 0.3})
    assert weights.tolist() == [1]


def test_without_targets_the_best_on_the_whole() -> None:
    weights = mixture_weights(rf.Problem(LIMIT, ["cost"]), np.array([[0.3], [0.2]]), {})
    assert weights.tolist() == [0, 1]


def test_targets_that_cannot_be_met() -> None:
    with pytest.raises(InvalidInputError, match=r"no mixture .* meets .*cost at least 0\.2. Loosen the target"):
        mixture_weights(COST_AND_SPEED, VALUES, {"cost": 0.1})
    with pytest.raises(InvalidInputError, match=r"gain at most 4"):
        mixture_weights(COST_AND_SPEED, VALUES, {"gain": 5})
    with pytest.raises(InvalidInputError, match=r"no free objective 'costs'.*Did you mean 'cost'"):
        mixture_weights(COST_AND_SPEED, VALUES, {"costs": 0.5})
