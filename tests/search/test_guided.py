"""The parts of guided search: what one more setting is worth, and where it is looked for."""

import numpy as np
import pytest

from riskfront._problems.spaces.space import Choice, Float, Int, Space
from riskfront.search import LimitTarget, make_search
from riskfront.search._guided.region_sampler import (
    Candidates,
    Surrogate,
    draw_levels,
    log_improvement,
    log_odds,
    thresholds,
)

TARGET = LimitTarget("error", 0.05, n_opt=1500, n_test=3500)


def test_improvement_equals_its_definition_by_simulation():
    rng = np.random.default_rng(0)
    at = rng.normal(size=(20, 1))
    best = rng.normal(size=20)
    limited = [(np.array([-0.3, 0.5, 1.0]), np.array([1.0, 0.4, 0.2]))]
    free = (np.array([0.2, -0.5, 1.5]), np.array([0.3, 1.0, 0.5]))
    risk, cost = (m + s * rng.normal(size=(400_000, 3)) for m, s in (limited[0], free))
    worth = [
        sum((np.maximum(best[d] - cost[:, i], 0) * (risk[:, i] <= at[d, 0])).mean() for d in range(20))
        for i in range(3)
    ]
    assert np.exp(log_improvement(limited, free, at, best)) == pytest.approx(worth, rel=0.03)


def test_improvement_far_from_any_hope_still_prefers_the_nearer():
    free = (np.array([50.0, 80.0, 1e4]), np.ones(3))
    worth = log_improvement([], free, np.zeros((1, 0)), np.zeros(1))
    assert np.isfinite(worth).all()
    assert worth[0] > worth[1] > worth[2]
    near = np.array([5.999, 6.001])  # both forms of the formula meet
    worth = log_improvement([], (near, np.ones(2)), np.zeros((1, 0)), np.zeros(1))
    assert worth[0] == pytest.approx(worth[1], abs=0.1)


def test_thresholds_lie_in_the_region_around_what_is_just_certifiable():
    region = TARGET.region(0.1)
    levels = draw_levels(1, np.random.default_rng(0))[:, 0]
    drawn = thresholds(TARGET, region, levels)
    assert drawn.min() >= region.low
    assert drawn.max() <= region.high
    assert np.median(drawn) == pytest.approx(region.r_max, rel=0.02)
    assert drawn.std() > 0.003


def test_log_odds_are_finite_at_the_ends_and_keep_the_order():
    scaled = log_odds(np.array([0, 0.01, 0.5, 0.99, 1]), 100)
    assert np.isfinite(scaled).all()
    assert (np.diff(scaled) > 0).all()
    assert scaled[2] == 0


def test_a_surrogate_learns_a_smooth_function():
    rng = np.random.default_rng(0)
    points = rng.random((40, 2))
    surrogate = Surrogate()
    surrogate.fit(points[:30], np.sin(3 * points[:30, 0]))
    mean, deviation = surrogate.predict(points[30:])
    assert np.abs(mean - np.sin(3 * points[30:, 0])).max() < 0.05
    assert (deviation > 0).all()
    before = surrogate.predict(np.array([[3.0, 3.0]]))[1]
    surrogate.believe(np.vstack([points[:30], [[3.0, 3.0]]]), np.append(np.sin(3 * points[:30, 0]), 0.0))
    assert surrogate.predict(np.array([[3.0, 3.0]]))[1] < before


@pytest.mark.parametrize("size", [(30, 20), (300, 200)], ids=["looked through whole", "sampled"])
def test_candidates_find_the_best_setting_not_known(size):
    space = Space(a=Int(1, size[0]), b=Int(1, size[1]), c=Choice(["x", "y"]))
    candidates = Candidates(space, np.random.default_rng(0))
    goal = candidates.points([{"a": size[0] // 3, "b": size[1] // 2, "c": "y"}])[0]

    def worth(points):
        return -np.abs(points - goal).sum(axis=1)

    near = [{"a": size[0] // 2, "b": size[1] // 3, "c": "y"}]
    first = candidates.best(worth, near, set())
    second = candidates.best(worth, near, {tuple(first.values())})
    assert worth(candidates.points([first]))[0] > -0.02
    assert first["c"] == "y"
    assert second != first


def test_candidates_run_out():
    space = Space(n=Int(1, 2))
    candidates = Candidates(space, np.random.default_rng(0))
    assert candidates.best(lambda points: points[:, 0], [], {(1,), (2,)}) is None


def early_exit(config):
    """Risk and cost of a setting whose best trade-off needs both dimensions."""
    risk = 0.02 + 0.2 * config["x"] ** 2 + 0.2 * config["y"] ** 2 + 0.1 * config["x"] * config["y"]
    return {"error": risk, "cost": 1 - 0.6 * config["x"] - 0.4 * config["y"]}


@pytest.mark.parametrize(
    "space", [Space(x=Float(0, 1), y=Float(0, 1)), Space(x=Float(0, 1), y=Choice([0.0, 0.1, 0.3]))]
)
def test_guided_search_finds_the_cheapest_setting_near_the_limit(space):
    """Within 3 % of the best there is, after 25 settings; a quasi-random search is left behind."""
    region = TARGET.region(0.1)

    def best(name, **options):
        search = make_search(name, space, ["error", "cost"], budget=25, **options)
        costs = [1.0]
        for _ in range(25):
            (config,) = search.ask()
            values = early_exit(config)
            search.tell(config, values)
            if values["error"] <= region.r_max:
                costs.append(values["cost"])
        return min(costs)

    fine = [early_exit(config) for config in space.grid(200)]
    goal = min(values["cost"] for values in fine if values["error"] <= region.r_max)
    guided = best("guided", targets=[TARGET], delta=0.1)
    assert guided <= 1.03 * goal
    assert guided < best("random")


def test_guided_search_secures_a_setting_that_can_be_certified():
    """Safe settings are few, expensive and far from the cheap ones: one must be found before the front is filled."""
    space = Space(x=Float(0, 1), y=Float(0, 1))
    region = TARGET.region(0.1)
    search = make_search("guided", space, ["error", "cost"], targets=[TARGET], delta=0.1, budget=25, n_startup=5)
    risks = []
    for _ in range(25):
        (config,) = search.ask()
        risks.append(0.001 + 0.4 * (config["x"] + config["y"]))
        search.tell(config, {"error": risks[-1], "cost": 1 - (config["x"] + config["y"]) / 2})
    assert min(risks[:5]) > region.high
    assert min(risks) <= region.low


def test_settings_still_running_are_not_crowded():
    space = Space(x=Float(0, 1), y=Float(0, 1))
    search = make_search("guided", space, ["error", "cost"], targets=[TARGET], delta=0.1, n_startup=5)
    for _ in range(8):
        (config,) = search.ask()
        search.tell(config, early_exit(config))
    points = np.array([list(config.values()) for config in search.ask(4)])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)[np.triu_indices(4, 1)]
    assert distances.min() > 0.005
