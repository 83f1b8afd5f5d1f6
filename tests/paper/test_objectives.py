"""Section 6 and its appendix: accuracy reduction, worst class, abstention, selective risks, cost."""

from fractions import Fraction

import numpy as np
import pytest

import riskfront as rf
from benchmarks.adaptive_classifier import HEADS, LAYERS, make_world
from riskfront.methods._evidence.limit_tests import Evidence
from tests.support import reference as ref
from tests.support.tables import random_table

ALL = np.arange(20)


@pytest.fixture(scope="module")
def world():
    return make_world(400, seed=1, heads=4, tokens=4, exits=4, lambdas=(0.5, 0.8))


def test_eq_cost(world) -> None:
    """Eq. (cost): sum_j W_j L_j^2 up to the exit over the full model's; the unpruned model costs 1."""
    cost = world.losses["cost"]
    assert (cost[0] == 1).all()
    assert (cost > 0).all()
    heads_only = world.truth("cost").reshape(world.shape)[:, 0, 0, 0] * LAYERS * HEADS
    np.testing.assert_allclose(heads_only, np.round(heads_only), atol=1e-4)  # whole heads, full length, all layers


def test_eq_acc(world) -> None:
    """Eq. (acc): D = 1{f_0 right} - 1{f right} in {-1, 0, 1}; its mean is the difference of accuracies; D' = max(D, 0) >= D."""
    error = world.losses["error"].astype(int)
    drop = world.losses["drop"]
    assert (drop == error - error[0]).all()
    np.testing.assert_allclose(world.truth("drop"), world.truth("error") - world.truth("error")[0])
    assert (world.losses["drop_clipped"] == (drop > 0)).all()
    assert (world.truth("drop_clipped") >= world.truth("drop")).all()


def test_eq_class_conditioned_and_eq_acc_class() -> None:
    """Eq. (class_conditioned) <=> Eq. (acc_class): E[D' | Y = y] <= alpha iff E[D' 1{Y=y} + alpha 1{Y!=y}] <= alpha."""
    table = random_table(n=200)
    groups = table.group("label")
    for alpha in (Fraction(1, 20), Fraction(1, 10), Fraction(3, 25)):
        for row in range(20):
            for code in range(3):
                mask = (groups.codes == code).tolist()
                losses = [int(x) for x in table.losses("error")[row]]
                conditional = Fraction(sum(ref.selected(losses, mask)), sum(mask))
                padded = sum(map(Fraction, ref.padded(losses, mask, alpha))) / 200
                assert (conditional <= alpha) == (padded <= alpha)
                # and the library's two forms are these two
    conditional = Evidence(rf.Problem([rf.Limit("error", at_most=0.1, per="label")], ["cost"]), table)
    padded = Evidence(
        rf.Problem([rf.Limit("error", at_most=0.1, per="label", padded=True, p_value="hoeffding")], ["cost"]), table
    )
    assert ((conditional.risks() <= 0.1) == (padded.risks() <= 0.1 + 1e-12)).all()


@pytest.mark.parametrize("name", ["hoeffding", "hoeffding-simple", "bentkus", "hoeffding-bentkus"])
def test_worst_class_as_a_single_objective(name: str) -> None:
    """Appendix: p is monotone in the empirical risk, so max_y p(Q_y) = p(max_y Q_y) for the padded losses, all of one n."""
    table = random_table(n=300)
    limit = rf.Limit("error", at_most=0.1, per="label", padded=True, p_value=name)
    evidence = Evidence(rf.Problem([limit], ["cost"]), table)
    sums = evidence.tests[0].sums(table, ALL)
    assert (sums.n == 300).all()
    from tests.support.p_values import OF_SUMS

    np.testing.assert_allclose(evidence.combined(ALL), OF_SUMS[name](sums.total.max(axis=1), 300, 0.1), rtol=1e-12)


def test_padding_shrinks_the_sample() -> None:
    """Why the library tests the class's own examples: the padded mean is diluted, the evidence is that of n P(y)^2 examples."""
    n = 4000
    label = np.arange(n) % 4 == 0
    losses = np.zeros((1, n), dtype=bool)
    losses[0, np.flatnonzero(label)[: n // 4 // 20]] = True  # risk .05 in a class of a quarter
    table = rf.LossTable([{"t": 0}], {"error": losses, "cost": np.ones((1, n))}, groups={"y": label})

    def p_value(**how: object) -> float:
        limit = rf.Limit("error", at_most=0.1, per="y", p_value="hoeffding-simple", **how)
        return float(Evidence(rf.Problem([limit], ["cost"]), table).combined(np.array([0]))[0])

    assert np.log(p_value(padded=True)) == pytest.approx(-2 * (n / 16) * 0.05**2)
    assert np.log(p_value()) == pytest.approx(-2 * (n / 4) * 0.05**2)


def test_eq_abstention(world) -> None:
    """Eq. (abstention): E[1{confidence < lambda}], the complement of answered, rising with lambda."""
    abstained = 1 - world.truth("answered").reshape(world.shape)
    assert (np.diff(abstained, axis=-1) >= 0).all()
    table = rf.LossTable(world.configs, {"answered": world.losses["answered"], "cost": world.losses["cost"]})
    evidence = Evidence(rf.Problem([rf.Limit("answered", at_least=0.8)], ["cost"]), table)
    np.testing.assert_allclose(evidence.risks()[:, 0], 1 - world.truth("answered"))


@pytest.mark.parametrize("loss", ["cost", "error"])
def test_eq_select_cost_and_eq_select_acc(loss: str) -> None:
    """Eq. (select_cost), Eq. (select_acc): q 1{answered} + alpha 1{abstained}, mean over all examples."""
    table = random_table(n=250)
    limit = rf.Limit(loss, at_most=0.6, given="answered", padded=True, p_value="hoeffding-bentkus")
    evidence = Evidence(rf.Problem([limit], ["cost"]), table)
    for row in range(20):
        q = [float(x) for x in table.losses(loss)[row]]
        answered = table.losses("answered")[row].tolist()
        by_hand = sum(q[i] if answered[i] else 0.6 for i in range(250)) / 250
        assert evidence.risks()[row, 0] == pytest.approx(by_hand, abs=1e-11)


def test_selective_padding_is_equivalent() -> None:
    """E[q | answered] <= alpha iff the padded risk is <= alpha, also when answering depends on the setting and on q."""
    table = random_table(n=250)
    conditional = Evidence(rf.Problem([rf.Limit("error", at_most=0.1, given="answered")], ["cost"]), table)
    padded = Evidence(
        rf.Problem([rf.Limit("error", at_most=0.1, given="answered", padded=True, p_value="hoeffding")], ["cost"]),
        table,
    )
    assert ((conditional.risks() <= 0.1) == (padded.risks() <= 0.1 + 1e-12)).all()
    assert ((conditional.risks() <= 0.1).any(), (conditional.risks() > 0.1).any()) == (True, True)
