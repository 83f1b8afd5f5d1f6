"""Evidence against the oracle: risks, p-values, conditional and padded limits, bounds."""

import numpy as np
import pytest

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from tests.support import reference as ref
from tests.support.tables import random_table

ALL = np.arange(20)
TABLE = random_table(n=150)


def evidence(*limits: rf.Limit, table: rf.LossTable = TABLE, delta: float = 0.1) -> Evidence:
    return Evidence(rf.Problem(limits, ["cost"], delta=delta), table)


def conditions(row: int, limit: rf.Limit, table: rf.LossTable) -> list[np.ndarray]:
    """Which examples count, for each group."""
    kept = np.ones(table.n_examples, dtype=bool) if limit.given is None else table.losses(limit.given)[row]
    if limit.per is None:
        return [kept]
    groups = table.group(limit.per)
    return [kept & (groups.codes == code) for code in range(len(groups.levels))]


def by_oracle(limit: rf.Limit, name: str, table: rf.LossTable = TABLE) -> list[float]:
    """The p-value of each setting: the largest over groups of the plain-loop p-value on the selected examples."""
    low, high = table.bounds(limit.loss)
    alpha = (limit.value - low) / (high - low) if limit.at_least is None else (high - limit.value) / (high - low)
    found = []
    for row in range(table.n_configs):
        x = (table.losses(limit.loss)[row].astype(float) - low) / (high - low)
        x = x if limit.at_least is None else 1 - x

        def p_value(losses: list[float]) -> float:
            if sum(losses) > alpha * len(losses) * (1 + 1e-12):
                return 1.0  # what measures above its limit is never certified
            if name == "betting":
                return ref.betting(losses, alpha, 0.1)
            total = ref.total(losses)
            total = round(float(total), 9) if total.denominator != 1 else int(total)
            return getattr(ref, name.replace("-", "_"))(total, len(losses), alpha)

        masks = conditions(row, limit, table)
        if limit.padded:
            found.append(max(p_value(ref.padded(x.tolist(), mask, alpha)) for mask in masks))
        else:
            found.append(max(ref.p_value_given(x.tolist(), mask, p_value) for mask in masks))
    return found


@pytest.mark.parametrize("where", [{}, {"per": "label"}, {"given": "answered"}, {"per": "label", "given": "answered"}])
@pytest.mark.parametrize(
    "name", ["binomial", "hoeffding", "hoeffding-simple", "bentkus", "hoeffding-bentkus", "betting"]
)
def test_p_values_of_counts(name: str, where: dict[str, str]) -> None:
    for limit in (
        rf.Limit("error", at_most=0.12, p_value=name, **where),
        rf.Limit("error", at_least=0.05, p_value=name, **where),
    ):
        np.testing.assert_allclose(evidence(limit).combined(ALL), by_oracle(limit, name), rtol=1e-8)


@pytest.mark.parametrize("loss", ["regret", "drop"])
@pytest.mark.parametrize("name", ["hoeffding", "betting"])
def test_p_values_of_other_losses(name: str, loss: str) -> None:
    for limit in (
        rf.Limit(loss, at_most=0.2, p_value=name),
        rf.Limit(loss, at_most=0.2, p_value=name, per="label"),
        rf.Limit(loss, at_least=0.01, p_value=name, given="answered"),
    ):
        np.testing.assert_allclose(evidence(limit).combined(ALL), by_oracle(limit, name), rtol=1e-8)


@pytest.mark.parametrize("name", ["hoeffding", "betting"])
def test_padded_p_values(name: str) -> None:
    for where in ({"per": "label"}, {"given": "answered"}, {"per": "label", "given": "answered"}):
        limit = rf.Limit("error", at_most=0.12, p_value=name, padded=True, **where)
        np.testing.assert_allclose(evidence(limit).combined(ALL), by_oracle(limit, name), rtol=1e-8)


def test_auto_rests_on_the_declaration() -> None:
    floats = rf.LossTable([{"t": 0}], {"e": np.zeros((1, 50)), "cost": np.ones((1, 50))})
    assert evidence(rf.Limit("error", at_most=0.1)).tests[0].p_value == "binomial"
    assert evidence(rf.Limit("drop", at_most=0.1)).tests[0].p_value == "betting"
    assert evidence(rf.Limit("e", at_most=0.1), table=floats).tests[0].p_value == "betting"
    assert evidence(rf.Limit("error", at_most=0.1, per="label", padded=True)).tests[0].p_value == "betting"


def test_booleans_with_other_bounds_are_not_counted() -> None:
    """Rescaled by its bounds, the sum is no count: at risk 1/2 of bounds (0, 2) one example gave p = .82 for certain."""
    table = rf.LossTable([{"t": 0}], {"e": np.ones((1, 1), dtype=bool), "cost": np.ones((1, 1))}, bounds={"e": (0, 2)})
    test = evidence(rf.Limit("e", at_most=1.0), table=table)
    assert test.tests[0].p_value == "betting"
    assert test.combined(np.array([0])).tolist() == [1.0]


def test_the_largest_over_limits_counts() -> None:
    limits = (rf.Limit("error", at_most=0.12), rf.Limit("drop", at_most=0.3), rf.Limit("answered", at_least=0.4))
    together = evidence(*limits)
    assert together.p_values(ALL).shape == (20, 3)
    singly = np.stack([evidence(limit).combined(ALL) for limit in limits])
    np.testing.assert_array_equal(together.combined(ALL), singly.max(axis=0))


def test_every_limit_has_its_own_sample_size() -> None:
    """Effective sizes filled for the first limit only would make everything after it fail for ever."""
    limits = (
        rf.Limit("error", at_most=0.5),
        rf.Limit("error", at_most=0.6, given="answered"),
        rf.Limit("cost", at_most=0.99),
    )
    assert (evidence(*limits).p_values(ALL[:3]) < 1e-3).all()


def test_a_quantile_is_a_count() -> None:
    limit = rf.Limit("latency", at_most=90.0, quantile=0.8)
    counts = (TABLE.losses("latency") > 90).sum(axis=1)
    expected = [ref.binomial(int(k), 150, 1 - 0.8) if k <= 0.2 * 150 else 1 for k in counts]
    np.testing.assert_allclose(evidence(limit).combined(ALL), expected, rtol=1e-8)


def test_nothing_selected_gives_one() -> None:
    losses = {"e": np.zeros((2, 30), dtype=bool), "cost": np.ones((2, 30)), "on": np.zeros((2, 30), dtype=bool)}
    table = rf.LossTable([{"t": 0}, {"t": 1}], losses, groups={"y": np.arange(30) % 2})
    part = table.subset(np.arange(0, 30, 2))  # group 1 has no examples here
    for name in ("auto", "hoeffding-bentkus", "betting"):
        assert evidence(rf.Limit("e", at_most=0.1, given="on", p_value=name), table=table).combined(
            ALL[:2]
        ).tolist() == [1, 1]
        assert evidence(rf.Limit("e", at_most=0.1, per="y", p_value=name), table=part).combined(ALL[:2]).tolist() == [
            1,
            1,
        ]
    unseen = evidence(rf.Limit("e", at_most=0.1, per="y"), table=part)
    assert unseen.risks().tolist() == [[1], [1]]
    assert unseen.tests[0].worst_mean(part, None).tolist() == [0, 0]


def test_objectives_are_minimised() -> None:
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"], [rf.Objective("answered", per="label")])
    values = Evidence(problem, TABLE).objectives()
    np.testing.assert_allclose(values[:, 0], TABLE.losses("cost").mean(axis=1), atol=1e-12)
    codes = TABLE.group("label").codes
    worst = np.min([TABLE.losses("answered")[:, codes == code].mean(axis=1) for code in range(3)], axis=0)
    np.testing.assert_allclose(values[:, 1], -worst, atol=1e-12)
