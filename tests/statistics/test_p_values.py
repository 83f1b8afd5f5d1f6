"""p-values against exact fractions, scipy, and each other."""

import math

import numpy as np
import pytest
from scipy import stats

from riskfront.statistics import _p_values as pv
from tests.support import reference as ref
from tests.support.p_values import OF_SUMS

SUMS = [
    (k, n, alpha)
    for n in (1, 2, 7, 40, 150)
    for alpha in (0.01, 0.05, 0.3, 0.9)
    for k in range(0, n + 1, max(n // 7, 1))
]


def test_every_p_value_has_an_oracle() -> None:
    """A plain loop of the same name in ``tests/support/reference.py``, which knows nothing of riskfront."""
    assert [name for name in pv.P_VALUES if not hasattr(ref, name.replace("-", "_"))] == []


@pytest.mark.parametrize("name", OF_SUMS)
def test_of_sums_as_the_oracle(name: str) -> None:
    oracle = getattr(ref, name.replace("-", "_"))
    ours = [float(OF_SUMS[name](*case)) for case in SUMS]
    np.testing.assert_allclose(ours, [oracle(*case) for case in SUMS], rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in OF_SUMS if pv.P_VALUES[name].needs == "sum"])
def test_of_sums_that_are_not_whole(name: str) -> None:
    oracle = getattr(ref, name.replace("-", "_"))
    for total in (0.25, 1.5, 3.999, 4.001, 9.5):
        assert float(OF_SUMS[name](total, 60, 0.2)) == pytest.approx(oracle(total, 60, 0.2), rel=1e-9)


def test_binomial_as_scipy_deep_in_the_tail() -> None:
    for n, k, alpha in ((7600, 100, 0.1), (100_000, 500, 0.05), (20, 0, 0.5)):
        assert float(pv.binomial(k, n, alpha)) == pytest.approx(stats.binom.cdf(k, n, alpha), rel=1e-8)
    # P(Bin(5000, .01) <= 0) = .99^5000 is 1.5e-22: far below the spacing of doubles near 1
    assert float(pv.binomial(0, 5000, 0.01)) == pytest.approx(0.99**5000, rel=1e-9)


def test_sums_broadcast() -> None:
    totals, alphas = np.arange(5)[:, None], np.array([0.1, 0.2, 0.5])
    for function in OF_SUMS.values():
        table = function(totals, 30, alphas)
        assert table.shape == (5, 3)
        assert table[3, 1] == function(3, 30, 0.2)


@pytest.mark.parametrize("name", OF_SUMS)
def test_edges(name: str) -> None:
    function = OF_SUMS[name]
    assert float(function(0, 0, 0.1)) == 1  # nothing seen
    assert float(function(30, 30, 0.1)) == 1  # nothing right
    assert 0 < float(function(0, 30, 0.1)) < 1
    if name != "hoeffding-simple":
        assert float(function(0, 30, 0.1)) <= math.e * 0.9**30 * (1 + 1e-12)


def test_perfect_record_is_worth_all_its_evidence() -> None:
    assert float(pv.hoeffding(0, 20, 0.1)) == pytest.approx(0.9**20)
    assert float(pv.hoeffding_bentkus(0, 20, 0.1)) == pytest.approx(0.9**20)


def test_look_up_is_the_function() -> None:
    totals = np.array([[0, 5], [17, 200]])
    for name, function in OF_SUMS.items():
        np.testing.assert_array_equal(
            pv.P_VALUES[name].from_totals(totals, np.array([[200, 200]]), 0.1), function(totals, 200, 0.1)
        )
        mixed = pv.P_VALUES[name].from_totals(totals, np.array([[200, 300]]), 0.1)
        np.testing.assert_array_equal(mixed, function(totals, [200, 300], 0.1))
        floats = pv.P_VALUES[name].from_totals(totals / 2, np.array([[200, 200]]), 0.1)
        np.testing.assert_array_equal(floats, function(totals / 2, 200, 0.1))


def test_betting_as_the_oracle() -> None:
    rng = np.random.default_rng(0)
    losses = np.concatenate([rng.random((3, 80)) < 0.05, rng.beta(1, 9, (3, 80)), np.full((1, 80), 0.099)])
    for alpha in (0.05, 0.1, 0.4):
        for delta in (0.01, 0.1, 0.5):
            ours = pv.betting(losses, alpha, delta)
            np.testing.assert_allclose(ours, [ref.betting(row, alpha, delta) for row in losses], rtol=1e-9)


def test_betting_with_an_alpha_for_each_row() -> None:
    losses = np.random.default_rng(1).beta(1, 12, (4, 60))
    alphas = np.array([0.05, 0.1, 0.2, 0.4])
    expected = [float(pv.betting(losses[i : i + 1], alphas[i], 0.1)[0]) for i in range(4)]
    np.testing.assert_allclose(pv.betting(losses, alphas, 0.1), expected, rtol=1e-12)


def test_betting_on_selected_losses_is_betting_without_the_others() -> None:
    rng = np.random.default_rng(2)
    losses, kept = rng.beta(1, 15, (5, 120)), rng.random((5, 120)) < 0.4
    expected = [ref.betting(row[mask], 0.1, 0.1) for row, mask in zip(losses, kept, strict=True)]
    np.testing.assert_allclose(pv.betting(losses, 0.1, 0.1, kept), expected, rtol=1e-9)
    one_for_all = pv.betting(losses, 0.1, 0.1, kept[:1])
    np.testing.assert_allclose(one_for_all, pv.betting(losses[:, kept[0]], 0.1, 0.1), rtol=1e-12)
    assert (pv.betting(losses, 0.1, 0.1, np.zeros((1, 120), dtype=bool)) == 1).all()


def test_betting_in_blocks_is_betting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = np.random.default_rng(3).beta(1, 12, (23, 50))
    whole = pv.betting(losses, 0.1, 0.1, losses < 0.2)
    monkeypatch.setattr("riskfront.statistics._betting._ROWS", 7)
    monkeypatch.setattr("riskfront.statistics._betting._STEPS", 13)
    # where a row stands in a block decides how its logarithm is computed, to the last digit
    np.testing.assert_allclose(pv.betting(losses, 0.1, 0.1, losses < 0.2), whole, rtol=1e-12)


def test_betting_never_goes_bankrupt() -> None:
    losses = np.concatenate([np.zeros(50), np.ones(50), np.zeros(400)])[None, :]
    p = pv.betting(losses, 0.3, 1e-9)
    assert np.isfinite(p).all()
    assert 0 < p[0] < 1


def test_betting_without_examples() -> None:
    assert pv.betting(np.empty((3, 0)), 0.1, 0.1).tolist() == [1, 1, 1]
    assert pv.betting(np.empty((0, 10)), 0.1, 0.1).shape == (0,)


def test_stakes_know_the_past_only() -> None:
    """Changing loss t changes no wealth before t: the best wealth of the first t - 1 rounds stays, for the same n."""
    losses = np.zeros((2, 60))
    losses[1, 40:] = 1
    both = pv.betting(losses[:, :], 0.1, 0.1)
    early = ref.betting([0.0] * 40 + [1.0] * 20, 0.1, 0.1)
    assert both[1] == pytest.approx(early)
    # after forty zeros the wealth is what forty zeros give, whatever follows
    for tail in (np.ones(20), np.full(20, 0.9), np.random.default_rng(0).permutation(np.repeat([0.5, 1.0], 10))):
        assert pv.betting(np.concatenate([np.zeros(40), tail])[None, :], 0.1, 0.1)[0] <= early * (1 + 1e-12)


def test_smallest_sample() -> None:
    # (1 - alpha)^n <= delta: the smallest n at which even a perfect setting could be certified
    for alpha, delta in ((0.1, 0.1), (0.05, 0.1), (0.01, 0.05)):
        n = pv.smallest_sample(lambda size, a=alpha: float(pv.binomial(0, size, a)), delta)
        assert n == math.ceil(math.log(delta) / math.log(1 - alpha))
    assert pv.smallest_sample(lambda size: 0.0, 0.1) == 1
    assert pv.smallest_sample(lambda size: 1.0, 0.1, largest=1000) is None


@pytest.mark.parametrize(("mean", "alpha"), [(0.039, 0.05), (0.085, 0.1), (0.18, 0.2)])
def test_the_examples_that_a_near_miss_needs_are_those_of_its_own_test(mean: float, alpha: float) -> None:
    """Hoeffding-Bentkus needs over 1,280 where an exact binomial test would need fewer than the 1,000 that failed."""
    needed = {
        name: pv.P_VALUES[name].examples_like(mean, None, alpha, 0.1) for name in ("hoeffding-bentkus", "binomial")
    }
    assert needed["binomial"] < 1000 < 1280 < needed["hoeffding-bentkus"]
    n = needed["hoeffding-bentkus"]
    assert pv.hoeffding_bentkus(mean * n, n, alpha) <= 0.1 < pv.hoeffding_bentkus(mean * 1000, 1000, alpha)
