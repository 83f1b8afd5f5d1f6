"""Time sharing by linear programming."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._calibration.certificates.choice import mixture_weights
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.limit_tests import Evidence

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


GAP = [rf.Limit("error", at_most=0.1, gap_per="country", given="answered")]
GIVEN = rf.Objective("cost", given="answered")
REFUSED = {
    "a cost that is too low": (COST_AND_SPEED, {"cost": 0.1}, r"no mixture .* meets .*cost at least 0\.2. Loosen"),
    "a gain that is too high": (COST_AND_SPEED, {"gain": 5}, "gain at most 4"),
    "an unknown objective": (COST_AND_SPEED, {"costs": 0.5}, "no free objective 'costs'.*Did you mean 'cost'"),
    # two settings that keep a gap given "answered" may break it together: each answers another group
    "a gap given a condition": (rf.Problem(GAP, ["cost", "time"]), {"cost": 0.3}, "compares groups given a condition"),
    "an objective given a condition": (rf.Problem(LIMIT, [GIVEN]), {"cost given answered": 0.5}, "does not mix"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    problem, targets, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message):
        mixture_weights(problem, VALUES[:, : len(problem.objectives)], targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit",
    [
        "error <= 0.3",
        "error <= 0.4 per country",
        "error <= 0.5 given answered",
        "q0.7(error) <= 0.5",
        "error / answered <= 0.5",
        "error gap between country <= 0.2",
    ],
)
def test_what_every_setting_keeps_every_mixture_keeps(limit: str) -> None:
    """On populations of a few examples with equal weights, mixtures are worked out by brute force."""
    random = np.random.default_rng(3)
    country, checked = np.repeat(["a", "b"], 6), 0
    for _ in range(300):
        losses = {"error": random.random((2, 12)) < random.random(), "answered": random.random((2, 12)) < 0.7}
        table = rf.LossTable([{"k": 0}, {"k": 1}], losses, {"country": country})
        test = Evidence(rf.Problem(limit, minimize="error"), table).tests[0]
        kept = test.sums(table, None).means()
        if np.isnan(kept).any() or (kept > test.alpha + 1e-12).any():
            continue
        checked += 1
        for share in (0.25, 0.5, 0.75):  # of every hundred requests
            copies = [round(100 * share), round(100 * (1 - share))]
            mixed = {name: np.repeat(values, copies, axis=0).reshape(1, -1) for name, values in losses.items()}
            whole = rf.LossTable([{"k": 0}], mixed, {"country": np.tile(country, 100)})
            assert (test.sums(whole, None).means() <= test.alpha + 1e-9).all()
    assert checked > 10
