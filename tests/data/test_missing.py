"""Missing outcomes: limits count them as the worst, objectives are means over what is known."""

import numpy as np
import pytest

import riskfront as rf
from riskfront._problems.terms import Term
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest

N = 400
SETTINGS = [{"k": k} for k in range(6)]


def arrays(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A 0/1 error, a cost in [0, 5], and where each is missing."""
    random = np.random.default_rng(seed)
    error = random.random((6, N)) < np.linspace(0.02, 0.3, 6)[:, None]
    cost = random.uniform(0, 5, (6, N)).astype(np.float32)
    return error, cost, random.random((6, N)) < 0.1, random.random((6, N)) < 0.2


def tables(fill_error: float, fill_cost: float) -> tuple[rf.LossTable, rf.LossTable]:
    """The same outcomes with gaps, and with the gaps filled by hand."""
    error, cost, no_error, no_cost = arrays()
    bounds = {"cost": (0.0, 5.0)}
    with_gaps = {"error": np.ma.MaskedArray(error, no_error), "cost": np.where(no_cost, np.nan, cost)}
    filled = {
        "error": np.where(no_error, bool(fill_error), error),
        "cost": np.where(no_cost, fill_cost, cost.astype(np.float64)),
    }
    groups = {"label": np.arange(N) % 3}
    return rf.LossTable(SETTINGS, with_gaps, groups, bounds), rf.LossTable(SETTINGS, filled, groups, bounds)


@pytest.mark.parametrize(
    ("limit", "error", "cost"),
    [
        ("error <= 0.3", 1, 0),
        ("error >= 0.01", 0, 0),
        ("error <= 0.4 per label", 1, 0),
        ("cost <= 4", 0, 5),
        ("cost >= 1", 0, 0),
        ("q0.5(cost) <= 4", 0, 5),
        ("cost / error <= 80", 0, 5),
        ("error / cost <= 0.4", 1, 0),
        ("worst 50 % of cost <= 4.9", 0, 5),
    ],
)
def test_a_missing_outcome_counts_as_the_worst(limit: str, error: float, cost: float) -> None:
    with_gaps, filled = tables(error, cost)
    problem = rf.Problem(limit, minimize="k")
    rows = np.arange(6)
    if "worst" in limit:
        problem = problem.with_limits([rf.Limit("cost", worst=0.5, threshold=3.0, at_most=4.9)])
    ours, oracle = Evidence(problem, with_gaps), Evidence(problem, filled)
    np.testing.assert_allclose(ours.risks(rows), oracle.risks(rows), rtol=1e-12)
    np.testing.assert_allclose(ours.p_values(rows), oracle.p_values(rows), rtol=1e-9)
    np.testing.assert_allclose(ours.tests[0].measured(with_gaps, rows), oracle.tests[0].measured(filled, rows))


def test_a_drop_counts_the_reference_as_the_best_and_the_setting_as_the_worst() -> None:
    error, _, missing, _ = arrays()
    table = rf.LossTable(SETTINGS, {"score": np.ma.MaskedArray(~error, missing), "cost": np.ones((6, N))})
    problem = rf.Problem("score drop from 0 <= 0.5", minimize="cost")
    rows = np.arange(1, 6)
    best = np.where(missing[0], True, ~error[0]).astype(int)
    worst = np.where(missing, False, ~error).astype(int)
    found = Evidence(problem, table).tests[0].measured(table, rows)[:, 0]
    np.testing.assert_allclose(found, (best - worst)[1:].mean(axis=1))


def test_the_other_side_of_a_limit_counts_it_as_the_best() -> None:
    with_gaps, filled = tables(0, 0)
    limit = rf.Limit("error", at_most=0.2)
    ours, oracle = (LimitTest.of(limit, table, 0.1).opposite for table in (with_gaps, filled))
    np.testing.assert_array_equal(ours.p_values(with_gaps, np.arange(6)), oracle.p_values(filled, np.arange(6)))


def test_an_unknown_condition_holds_with_the_worst_outcome() -> None:
    error, _, missing, _ = arrays()
    answered = np.random.default_rng(1).random((6, N)) < 0.7
    losses = {"error": error, "answered": np.ma.MaskedArray(answered, missing), "cost": np.ones((6, N))}
    table = rf.LossTable(SETTINGS, losses)
    test = LimitTest.of(rf.Limit("error", at_most=0.3, given="answered"), table, 0.1)
    sums = test.sums(table, None)
    counted = answered | missing
    np.testing.assert_array_equal(sums.n[:, 0], counted.sum(axis=1))
    np.testing.assert_array_equal(sums.total[:, 0], ((error | missing) & counted).sum(axis=1))


def test_an_objective_is_the_mean_over_what_is_known() -> None:
    with_gaps, _ = tables(1, 0)
    _, cost, _, missing = arrays()
    expected = [row[~gaps].astype(np.float64).mean() for row, gaps in zip(cost, missing, strict=True)]
    np.testing.assert_allclose(with_gaps.means("cost")[:, 0], expected, rtol=1e-6)
    some = with_gaps.subset(np.arange(50))
    np.testing.assert_allclose(some.totals(Term("cost")).n[:, 0], (~missing[:, :50]).sum(axis=1))


def test_a_missing_cost_never_touches_the_error() -> None:
    """An example whose cost is missing everywhere keeps its error."""
    error, cost, _, _ = arrays()
    unknown = cost.copy()
    unknown[:, error.any(axis=0)] = np.nan
    problem = rf.Problem("error <= 0.1", minimize="cost")
    tested = [
        rf.calibrate(
            rf.LossTable(SETTINGS, {"error": error, "cost": c}, bounds={"cost": (0, 5)}), problem, method="holm"
        )
        for c in (cost, unknown)
    ]
    np.testing.assert_array_equal(tested[0].path["p_value"], tested[1].path["p_value"])


def test_a_gap_between_groups_needs_every_outcome() -> None:
    with_gaps, _ = tables(1, 0)
    with pytest.raises(rf.InvalidInputError, match="no value is the worst for both groups"):
        rf.calibrate(with_gaps, rf.Problem("error gap between label <= 0.2", minimize="cost"))


def test_gaps_survive_saving_selecting_and_splitting(tmp_path: object) -> None:
    table, _ = tables(1, 0)
    table.save(f"{tmp_path}/table.parquet")
    again = rf.LossTable.load(f"{tmp_path}/table.parquet")
    assert again.sha256 == table.sha256 != tables(1, 0)[1].sha256
    assert again.is_binary("error")
    for part in (table.select([1, 3]), table.split(0.5)[1], table.subset(range(7))):
        assert part.missing == ["error", "cost"]
    np.testing.assert_array_equal(table.losses("cost"), again.losses("cost"))


def test_averaged_rows_count_missing_ones_as_the_worst_before_they_are_averaged() -> None:
    error, cost, missing, no_cost = arrays()
    losses = {"error": np.ma.MaskedArray(error, missing), "cost": np.where(no_cost, np.nan, cost)}
    table = rf.LossTable(SETTINGS, losses, {"patient": np.arange(N) // 4}, {"cost": (0, 5)})
    made = table.by_cluster("patient", {"error": 1.0})
    expected = np.where(missing, True, error).reshape(6, -1, 4).mean(axis=2)
    np.testing.assert_allclose(made.losses("error"), expected)
    known = np.where(no_cost, np.nan, cost).reshape(6, -1, 4)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            made.losses("cost"), np.nansum(known, axis=2) / (~np.isnan(known)).sum(axis=2), rtol=1e-6
        )
