"""The simulated classifier of the benchmarks keeps the promises its docstring makes."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.adaptive_classifier import World, make_world, optimum


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(600, seed=3, heads=5, tokens=4, exits=6)


def test_shapes_and_types(world: World) -> None:
    assert len(world.configs) == 5 * 4 * 6
    assert list(world.configs) == ["tau_head", "tau_token", "tau_exit"]
    kinds = {name: (values.shape, values.dtype) for name, values in world.losses.items()}
    shape = (120, 600)
    assert kinds == {
        "error": (shape, np.bool_),
        "drop": (shape, np.int8),
        "drop_clipped": (shape, np.bool_),
        "cost": (shape, np.float32),
    }


def test_first_setting_prunes_nothing(world: World) -> None:
    assert (world.configs.iloc[0] == 0).all()
    assert (world.losses["cost"][0] == 1).all()
    assert not world.losses["drop"][0].any()
    assert world.truth("error")[0] == pytest.approx(0.08, abs=0.005)


def test_axes_ascend_in_grid_order(world: World) -> None:
    for axis, name in enumerate(world.configs):
        values = world.configs[name].to_numpy().reshape(world.shape)
        assert (np.diff(values, axis=axis) > 0).all()


def test_drop_follows_from_error(world: World) -> None:
    error = world.losses["error"].astype(int)
    drop = error - error[0]
    assert (world.losses["drop"] == drop).all()
    assert (world.losses["drop_clipped"] == (drop > 0)).all()
    assert (world.truth("drop") < world.truth("drop_clipped")).any()


def test_cost_is_in_the_unit_interval_and_falls_with_every_threshold(world: World) -> None:
    assert (world.losses["cost"] > 0).all()
    assert (world.losses["cost"] <= 1).all()
    cost = world.truth("cost").reshape(world.shape)
    assert (np.diff(cost[:, 0, 0]) < 0).all()
    assert (np.diff(cost[0, :, 0]) < 0).all()
    assert (np.diff(cost[0, 0, :]) <= 0).all()


def test_truth_is_the_exact_population_mean(world: World) -> None:
    for name in ("error", "drop", "drop_clipped"):
        exact = [float(Fraction(sum(int(x) for x in row), len(row))) for row in world.losses[name]]
        assert world.truth(name).tolist() == exact


def test_truth_per_class_averages_to_the_truth(world: World) -> None:
    shares = np.bincount(world.groups["label"]) / 600
    np.testing.assert_allclose(world.truth_per("error") @ shares, world.truth("error"), rtol=1e-12)


def test_same_seed_same_world(world: World) -> None:
    again = make_world(600, seed=3, heads=5, tokens=4, exits=6)
    other = make_world(600, seed=4, heads=5, tokens=4, exits=6)
    assert (again.losses["cost"] == world.losses["cost"]).all()
    assert (other.losses["error"] != world.losses["error"]).any()


def test_lambda_is_a_fourth_dimension() -> None:
    world = make_world(300, heads=3, tokens=3, exits=3, lambdas=(0.0, 0.7, 0.9))
    plain = make_world(300, heads=3, tokens=3, exits=3)
    assert world.shape == (3, 3, 3, 3)
    answered = world.truth("answered").reshape(world.shape)
    assert (answered[..., 0] == 1).all()
    assert (np.diff(answered, axis=-1) < 0).any()
    assert (np.diff(answered, axis=-1) <= 0).all()
    for name, values in plain.losses.items():
        assert (world.losses[name].reshape(27, 3, 300) == values[:, None]).all()
    selective = world.truth("error", given="answered").reshape(world.shape)
    assert selective[0, 0, 0, 2] < selective[0, 0, 0, 0] == plain.truth("error")[0]


def test_draws_come_from_the_population(world: World) -> None:
    losses, groups = world.draw(np.random.default_rng(0), 50)
    assert losses["cost"].shape == (120, 50)
    assert losses["error"].dtype == np.bool_
    assert groups["label"].shape == (50,)


def test_the_best_setting_prunes_in_all_three_dimensions() -> None:
    world = make_world(3_000)
    risk = world.truth("drop_clipped")
    for alpha, near in ((0.025, 0.457), (0.05, 0.344), (0.1, 0.226)):
        cost, row = optimum(world, risk, alpha)
        assert cost == pytest.approx(near, rel=0.15)
        assert (world.configs.iloc[row] > 0).all()
        for tau in world.configs:
            alone = (world.configs.drop(columns=tau) == 0).all(axis=1).to_numpy()
            assert optimum(world, risk, alpha, alone)[0] > 1.1 * cost
