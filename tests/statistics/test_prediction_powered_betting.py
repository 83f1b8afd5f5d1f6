"""The betting p-value with a proxy: next to a plain loop, without a proxy, and on proxies good and bad."""

import numpy as np
import pytest

from riskfront.statistics._betting import CAP, betting
from riskfront.statistics._prediction_powered_betting import STEEPEST, powered_betting


def plain_loop(
    losses: np.ndarray, differences: np.ndarray, alpha: float, level: float, reach: tuple[float, float]
) -> float:
    """The formulas of the docstring, one example after the other."""
    n, wealth, best, target = len(losses), 1.0, 1.0, 1 / level
    for t in range(n):
        x, d = losses[:t] - alpha, differences[:t]
        rho = float(np.clip((x * d).sum() / (alpha * (1 - alpha) + (d * d).sum()), -STEEPEST, STEEPEST))
        seen = max(t, 0.5)
        spread = min(((x - rho * d) ** 2).sum() / seen + (1 - alpha) * n / seen**2, alpha * (1 - alpha))
        largest = 1 + max(-rho * reach[0], -rho * reach[1])
        stake = min(CAP / (largest - alpha), np.sqrt(2 * np.log(target / wealth) / ((n - t) * max(spread, 1e-12))))
        wealth *= 1 + stake * (alpha - losses[t] + rho * differences[t])
        best = max(best, wealth)
        if best >= target:
            target = best**2
    return 1 / best


@pytest.mark.parametrize("reach", [(-1.0, 1.0), (-0.5, 1.0), (-1.0, 0.2)])
def test_as_in_a_plain_loop(reach: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    losses = (rng.random((20, 150)) < 0.05) * rng.random((20, 150))
    differences = np.clip(losses + 0.3 * rng.standard_normal((20, 150)), *reach)
    levels = np.geomspace(0.001, 0.3, 20)
    found = powered_betting(losses, differences, 0.1, levels, reach)
    expected = [plain_loop(x, d, 0.1, level, reach) for x, d, level in zip(losses, differences, levels, strict=True)]
    assert np.allclose(found, expected, rtol=1e-9)
    assert (found < 0.1).any()


def test_a_proxy_that_never_differs_changes_nothing() -> None:
    losses = np.random.default_rng(1).random((30, 200)) < 0.03
    assert np.allclose(powered_betting(losses, np.zeros((30, 200)), 0.1, 0.05), betting(losses, 0.1, 0.05))


def test_selected_examples_count_as_if_the_others_were_absent() -> None:
    rng = np.random.default_rng(2)
    losses, differences = rng.random((10, 100)) < 0.05, rng.uniform(-1, 1, (10, 100))
    kept = rng.random((10, 100)) < 0.6
    found = powered_betting(losses, differences, 0.2, 0.1, selected=kept)
    alone = [
        powered_betting(losses[i : i + 1, kept[i]], differences[i : i + 1, kept[i]], 0.2, 0.1)[0] for i in range(10)
    ]
    assert np.allclose(found, alone)
    assert (powered_betting(losses, differences, 0.2, 0.1, selected=np.zeros((1, 100), dtype=bool)) == 1).all()


def test_wealth_is_never_lost_at_once() -> None:
    """However far differences reach, no stake can lose more than there is: every p-value is a number."""
    rng = np.random.default_rng(3)
    losses = np.ones((50, 40))
    losses[:, :30] = 0
    differences = np.where(rng.random((50, 40)) < 0.5, 1.0, -1.0)
    found = powered_betting(losses, differences, 0.3, 1e-6)
    assert np.isfinite(found).all()
    assert (found > 0).all()


def passing(proxy: str, n: int = 400, rows: int = 1000) -> tuple[float, float]:
    """The share of settings that pass with the proxy, and by betting without it; risk .06 against .1."""
    rng = np.random.default_rng(4)
    signal = rng.random((rows, n)) < 0.075
    losses = signal & (rng.random((rows, n)) < 0.8)
    proxies = {"good": signal, "opposite": ~signal, "useless": rng.random((rows, n)) < 0.5}[proxy]
    differences = proxies - rng.binomial(20, proxies.mean(), (rows, n)) / 20
    powered = powered_betting(losses, differences, 0.1, 0.1)
    return float((powered <= 0.1).mean()), float((betting(losses, 0.1, 0.1) <= 0.1).mean())


def test_a_good_proxy_saves_labels_and_a_useless_one_costs_next_to_nothing() -> None:
    for proxy in ("good", "opposite"):
        powered, alone = passing(proxy)
        assert powered > alone + 0.05
    powered, alone = passing("useless")
    assert powered > alone - 0.02
