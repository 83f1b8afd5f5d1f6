"""Which settings are alike, and means over them."""

import numpy as np
import pandas as pd
import pytest

from riskfront.methods import _similarity as similarity_module
from riskfront.methods._similarity import GridSimilarity, NeighbourSimilarity, similarity
from tests.support.tables import grid_configs


def frame(shape: tuple[int, ...]) -> pd.DataFrame:
    return pd.DataFrame(grid_configs(shape))


def naive(configs: pd.DataFrame, values: np.ndarray, scales: tuple[float, ...]) -> np.ndarray:
    """Weights from squared distances in steps, one setting at a time."""
    steps = np.column_stack([np.unique(configs[name], return_inverse=True)[1] for name in configs])
    found = []
    for place in steps:
        squares = [
            np.where(moved == 0, 0.0, np.inf) if s == 0 else (moved / s) ** 2
            for moved, s in zip((steps - place).T, scales, strict=True)
        ]
        weights = np.exp(-0.5 * np.sum(squares, axis=0))
        found.append(weights @ values / weights.sum())
    return np.array(found)


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.0, 2.0), (0.7, 0.0)])
def test_a_grid_is_averaged_along_its_axes(scales: tuple[float, float]) -> None:
    configs, values = frame((7, 13)), np.random.default_rng(0).random((91, 2))
    order = np.random.default_rng(1).permutation(91)  # rows of a table come in any order
    like = similarity(configs.iloc[order].reset_index(drop=True))
    assert isinstance(like, GridSimilarity)
    np.testing.assert_allclose(like.smooth(values[order], scales), naive(configs, values, scales)[order])


def test_averages_reach_over_a_sixth_of_an_axis_at_most() -> None:
    """Of four values, as of a threshold for abstaining, the first and the last have little to do with each other."""
    configs, values = frame((4, 13)), np.random.default_rng(0).random((52, 1))
    like = similarity(configs)
    assert like is not None
    np.testing.assert_allclose(like.smooth(values, (2.0, 2.0)), naive(configs, values, (0.5, 2.0)))


def test_anything_but_numbers_is_like_nothing_but_itself() -> None:
    configs = pd.DataFrame([{"model": m, "t": t} for m in ("small", "large") for t in range(6)])
    values = np.repeat([[0.0], [1.0]], 6, axis=0)
    like = similarity(configs)
    assert isinstance(like, GridSimilarity)
    assert like.axes == 1
    np.testing.assert_allclose(like.smooth(values, (2.0,)), values, atol=1e-12)


def test_settings_off_a_grid() -> None:
    """Every pair of models has its thresholds; the pair of a model with itself does not exist."""
    pairs = [(a, b) for a in "abc" for b in "abc" if a != b]
    configs = pd.DataFrame([{"first": a, "second": b, "t": t / 10} for a, b in pairs for t in range(11)])
    like = similarity(configs)
    assert isinstance(like, NeighbourSimilarity)
    values = np.random.default_rng(2).random((len(configs), 1))
    smooth = like.smooth(values, (1.0,))
    one = naive(configs[["t"]].iloc[:11], values[:11], (1.0,))
    np.testing.assert_allclose(smooth[:11], one, rtol=1e-9)


def test_a_word_among_numbers_is_like_nothing_but_itself() -> None:
    """A cascade of one model has no threshold; the others have thresholds of their own, ranked among themselves."""
    configs = pd.DataFrame(
        [{"models": "a", "t": "none"}, {"models": "b", "t": "none"}]
        + [{"models": f"a > {b}", "t": t / 10 + place} for place, b in enumerate("bc") for t in range(11)]
    )
    like = similarity(configs)
    assert isinstance(like, NeighbourSimilarity)
    values = np.random.default_rng(2).random((len(configs), 1))
    smooth = like.smooth(values, (1.0,))
    np.testing.assert_array_equal(smooth[:2], values[:2])
    for start in (2, 13):
        kernel = np.exp(-0.5 * ((np.arange(11)[:, None] - np.arange(11)) * like.squared[start, 1] ** 0.5) ** 2)
        one = (kernel / kernel.sum(axis=1, keepdims=True)) @ values[start : start + 11]
        np.testing.assert_allclose(smooth[start : start + 11], one, rtol=1e-9)


def test_random_settings_of_numbers_find_their_neighbours() -> None:
    rng = np.random.default_rng(3)
    configs = pd.DataFrame(rng.random((500, 2)), columns=["x", "y"])
    risk = (configs["x"] * configs["y"]).to_numpy()[:, None]
    noisy = risk + 0.05 * rng.standard_normal(risk.shape)
    smooth = similarity(configs).smooth(noisy, (1.0,))
    assert np.abs(smooth - risk).mean() < 0.6 * np.abs(noisy - risk).mean()


@pytest.mark.parametrize(
    "configs",
    [
        pd.DataFrame({"prompt": list("abcdef")}),
        pd.DataFrame({"prompt": list("abcdef"), "length": [3, 4, 5, 6, 7, 8]}),
        pd.DataFrame({"on": [False, True]}),
        pd.DataFrame({"t": [0.5]}),
    ],
)
def test_settings_without_structure(configs: pd.DataFrame) -> None:
    assert similarity(configs) is None


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 3.0])
def test_a_long_axis_is_averaged_like_a_short_one(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).random((2, 300, 3))
    near = similarity_module._along(values, 1, scale)
    monkeypatch.setattr(similarity_module, "_FEW_STEPS", 300)
    np.testing.assert_allclose(near, similarity_module._along(values, 1, scale), rtol=1e-13)
