"""The hard worlds have the risks they claim, and they do break the tests they are meant to break."""

import numpy as np
import pytest

from tests.support import reference as ref
from tests.support import worlds

N = 40_000
WORLDS = worlds.hard_worlds()


def drawn_risks(world: worlds.HardWorld, drawn: worlds.Losses) -> tuple[np.ndarray, np.ndarray]:
    """Empirical controlled risk and the number of examples behind it, (m,) each."""
    loss = drawn["loss"].astype(float)
    if "answered" in drawn:
        return (loss * drawn["answered"]).sum(axis=1) / drawn["answered"].sum(axis=1), drawn["answered"].sum(axis=1)
    if "label" in drawn:
        worst = world.class_risks[-1].argmax()
        rows = drawn["label"] == worst
        return loss[:, rows].mean(axis=1), np.full(len(loss), rows.sum())
    return loss.mean(axis=1), np.full(len(loss), loss.shape[1])


@pytest.mark.parametrize("name", WORLDS)
def test_true_risks_are_true(name: str) -> None:
    world = WORLDS[name]
    drawn = world.sample(np.random.default_rng(0), N)
    means, n = drawn_risks(world, drawn)
    sd = np.maximum(drawn["loss"].std(axis=1), 1e-9)
    if "answered" in drawn or "label" in drawn:
        sd = np.sqrt(world.true_risks * (1 - world.true_risks))
    assert (np.abs(means - world.true_risks) < 5 * sd / np.sqrt(n)).all()


@pytest.mark.parametrize("name", WORLDS)
def test_losses_keep_their_bounds_and_shapes(name: str) -> None:
    world = WORLDS[name]
    drawn = world.sample(np.random.default_rng(1), 500)
    m = world.true_risks.size
    assert drawn["loss"].shape == drawn["cost"].shape == (m, 500)
    assert drawn["loss"].min() >= world.bounds[0]
    assert drawn["loss"].max() <= world.bounds[1]
    if world.shape is not None:
        assert np.prod(world.shape) == m


@pytest.mark.parametrize("name", WORLDS)
def test_nulls_are_the_cheapest(name: str) -> None:
    world = WORLDS[name]
    assert world.null.any()
    if not world.null.all():
        assert world.cost[world.null].max() < world.cost[~world.null].min()


def test_nulls_sit_exactly_at_alpha() -> None:
    for name in ("independent", "one shared uniform", "rare class", "selective", "two-point", "signed, 5 % flips"):
        world = WORLDS[name]
        assert set(world.true_risks[world.null]) == {world.alpha}


def test_safe_region_of_the_grid_is_a_corner() -> None:
    world = worlds.bordered_grid(shape=(3, 4, 5))
    null = world.null.reshape(world.shape)
    for axis in range(3):
        assert (np.diff(null.astype(int), axis=axis) >= 0).all()
    assert not null[0, 0, 0]
    assert null[-1, -1, -1]


def test_shared_uniform_makes_equal_nulls_fail_together() -> None:
    loss = worlds.correlated().sample(np.random.default_rng(2), 300)["loss"]
    assert (loss[5:] == loss[5]).all()
    in_blocks = worlds.correlated(safe=0, blocks=4).sample(np.random.default_rng(2), 300)["loss"]
    assert (in_blocks[0] == in_blocks[4]).all()
    assert (in_blocks[0] != in_blocks[1]).any()


def rejections(world: worlds.HardWorld, p_value, n: int, seed: int = 0) -> float:
    """Share of null settings with p <= 0.1; with independent settings, the type I error."""
    loss = world.sample(np.random.default_rng(seed), n)["loss"][world.null]
    return float(np.mean([p_value(row) <= 0.1 for row in loss]))


@pytest.mark.slow
def test_binomial_is_valid_and_nearly_exact_on_the_hard_null() -> None:
    world = worlds.independent(0.1, settings=4_000, safe=0)
    table = [ref.binomial(k, 200, 0.1) for k in range(201)]
    rate = rejections(world, lambda row: table[int(row.sum())], 200)
    assert 0.06 < rate < 0.1 + 3 * np.sqrt(0.09 / 4_000)


def test_small_variance_is_caught_by_the_two_point_world() -> None:
    """A test by the normal approximation rejects nearly always where the rare 1s have not shown yet."""
    world = worlds.two_point(0.1, settings=1_000, safe=0)
    loss = world.sample(np.random.default_rng(3), 100)["loss"]
    normal = np.mean(loss.mean(axis=1) < 0.1 - 1.2816 * loss.std(axis=1) / 10)
    betting = rejections(world, lambda row: ref.betting(row, 0.1, 0.1), 100)
    assert normal > 0.4
    assert betting < 0.1


def test_rare_class_and_selection_are_missed_by_plain_means() -> None:
    drawn = worlds.rare_class().sample(np.random.default_rng(4), N)
    assert (drawn["loss"].mean(axis=1) < 0.05).all()
    drawn = worlds.selective().sample(np.random.default_rng(5), N)
    assert ((drawn["loss"] & drawn["answered"]).mean(axis=1) < 0.09).all()
