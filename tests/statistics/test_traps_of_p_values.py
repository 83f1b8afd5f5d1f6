"""Traps of p-values beyond those of tests/validity/traps.py: other limits, counts, and the smaller of two p-values."""

import numpy as np
import pytest
from scipy import stats

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _p_values as pv
from riskfront.testing._findings import too_many
from tests.support import worlds
from tests.support.p_values import OF_SUMS
from tests.support.tables import table_of


def type_one_errors(p: np.ndarray, delta: float = 0.1) -> int:
    return int((p <= delta).sum())


def ours(table: rf.LossTable, alpha: float, name: str = "auto") -> np.ndarray:
    problem = rf.Problem([rf.Limit("loss", at_most=alpha, p_value=name)], ["cost"])
    return Evidence(problem, table).combined(np.arange(table.n_configs))


@pytest.mark.parametrize(("alpha", "flips"), [(0.1, 0.3), (0.025, 0.1), (0.025, 0.3)])
def test_signed_differences_fed_to_hoeffding_bentkus(alpha: float, flips: float) -> None:
    world = worlds.signed(alpha, flips=flips, settings=3000, safe=0)
    table = table_of(world, np.random.default_rng(0), 500)
    sums = table.losses("loss").sum(axis=1, dtype=int)
    mutant = np.where(sums < 0, 0.0, pv.hoeffding_bentkus(np.maximum(sums, 0), 500, alpha))
    assert too_many(type_one_errors(mutant), 3000, 0.1)
    assert type_one_errors(mutant) / 3000 > 0.17
    assert stats.binom.cdf(-3, 500, alpha) == 0  # a negative mean gives p = 0
    for name in ("betting", "hoeffding-bentkus"):  # on the declared bounds, (-1, 1)
        assert not too_many(type_one_errors(ours(table, alpha, name)), 3000, 0.1)


def test_counts_are_whole_all_the_way() -> None:
    """No count is made from a mean: ceil(n * (k / n)) is not k."""
    for n in (49, 100, 1000):
        losses = np.tri(n + 1, n, k=-1, dtype=bool)  # row k has k losses
        table = rf.LossTable([{"k": k} for k in range(n + 1)], {"loss": losses, "cost": np.ones((n + 1, n))})
        for name in ("binomial", "hoeffding-bentkus"):
            below = np.arange(int(0.1 * n) + 1)  # what measures above its limit has p-value 1
            np.testing.assert_array_equal(ours(table, 0.1, name)[below], OF_SUMS[name](below, n, 0.1))


def test_the_smaller_of_two_families_on_the_same_data() -> None:
    """Hoeffding-Bentkus may take a minimum since both parts bound the tail of one mean. Binomial or betting may not."""
    x = np.random.default_rng(6).random((6000, 300)) < 0.1
    exact, bet = pv.binomial(x.sum(axis=1), 300, 0.1), pv.betting(x, 0.1, 0.1)
    level = float(np.unique(exact)[np.searchsorted(np.unique(exact), 0.1) - 1])  # a level the exact test uses up
    assert not too_many(type_one_errors(exact, level), 6000, level)
    assert too_many(type_one_errors(np.minimum(exact, bet), level), 6000, level)
