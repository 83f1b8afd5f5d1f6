"""Groups of examples, few and many."""

import itertools

import numpy as np
import pytest

import riskfront as rf
from riskfront._problems.terms import Term
from riskfront.methods._evidence import limit_tests
from riskfront.methods._evidence.limit_tests import Evidence


def test_sums_in_many_groups_are_those_of_few() -> None:
    """Above some hundred groups sums are added up another way."""
    random = np.random.default_rng(0)
    n, levels = 4000, 700
    codes = np.concatenate([np.arange(levels), random.integers(0, levels, n - levels)])
    losses = {
        "error": random.random((5, n)) < 0.3,
        "cost": random.random((5, n)),
        "answered": random.random((5, n)) < 0.6,
    }
    hard = random.random(n) < 0.5
    table = rf.LossTable([{"k": k} for k in range(5)], losses, {"g": codes, "hard": hard})
    for part, positions in ((table, np.arange(n)), (table.subset(np.arange(0, n, 3)), np.arange(0, n, 3))):
        for name, given in itertools.product(("error", "cost"), (None, "hard", "answered")):
            found = part.totals(Term(name, per="g", given=given), np.array([0, 3]))
            for at, row in enumerate((0, 3)):
                kept = np.ones(n, bool) if given is None else hard if given == "hard" else losses["answered"][row]
                chosen = positions[kept[positions]]
                expected = np.bincount(codes[chosen], losses[name][row, chosen], levels)
                np.testing.assert_allclose(found.total[at], expected)
                counts = np.broadcast_to(found.n, found.total.shape)[at]
                np.testing.assert_array_equal(counts, np.bincount(codes[chosen], minlength=levels))
            assert found.total.dtype == (np.int64 if name == "error" else np.float64)


@pytest.mark.parametrize("given", [None, "answered"])
def test_bets_in_many_groups_are_those_of_each(given: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    n, levels = 5000, 300
    losses = {
        "loss": random.random((6, n)) ** 3 * np.linspace(0.2, 1, 6)[:, None],
        "answered": random.random((6, n)) < 0.7,
    }
    codes = np.concatenate([np.arange(levels), random.integers(0, levels, n - levels)])
    table = rf.LossTable([{"k": k} for k in range(6)], losses, {"g": codes})
    problem = rf.Problem([rf.Limit("loss", at_most=0.4, per="g", given=given)], minimize="loss")
    rows, aims = np.array([5, 0, 3]), np.array([0.1, 0.02, 0.05])
    together = Evidence(problem, table).tests[0].p_values(table, rows, aims)
    monkeypatch.setattr(limit_tests, "MANY_GROUPS", 10**9)
    alone = Evidence(problem, table).tests[0].p_values(table, rows, aims)
    assert together.shape == (3, levels)
    assert np.unique(together).size > levels
    np.testing.assert_allclose(together, alone, rtol=1e-12)
