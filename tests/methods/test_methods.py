"""Each plan against the oracle's."""

import math

import numpy as np
import pytest

import riskfront as rf
from riskfront._data.splits import permutation
from riskfront.errors import InvalidInputError
from riskfront.methods import METHODS, make_method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._plan import parameters
from riskfront.methods._sequences import _nearest
from riskfront.statistics._procedures import FixedSequence, Graphical
from tests.support import reference as ref
from tests.support.tables import random_table

ONE = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"])
TWO = rf.Problem([rf.Limit("error", at_most=0.12), rf.Limit("drop", at_most=0.3)], ["cost"])
ALL = np.arange(20)


@pytest.mark.parametrize("seed", range(6))
def test_pareto_testing(seed: int) -> None:
    opt = random_table(seed)
    evidence = Evidence(ONE, opt)
    plan = rf.ParetoTesting.as_in_the_paper().plan(opt, ONE)
    expected = ref.pareto_testing_order(
        evidence.risks().tolist(), evidence.objectives().tolist(), evidence.combined(ALL).tolist()
    )
    p = evidence.combined(ALL)
    # equal settings are tested once, so compare what is tested and the order of the p-values
    assert set(plan.rows.tolist()) <= set(expected)
    assert {tuple(evidence.risks()[r]) for r in plan.rows} == {tuple(evidence.risks()[r]) for r in expected}
    assert (np.diff(p[plan.rows]) >= 0).all()
    assert isinstance(plan.procedure, FixedSequence)


@pytest.mark.parametrize("seed", range(6))
def test_pareto_testing_prunes_for_several_limits(seed: int) -> None:
    opt = random_table(seed)
    evidence = Evidence(TWO, opt)
    whole = rf.ParetoTesting.as_in_the_paper(prune=False).plan(opt, TWO).rows
    points = np.column_stack([evidence.combined(whole), evidence.objectives(whole)])
    pruned = rf.ParetoTesting.as_in_the_paper().plan(opt, TWO).rows
    front = {tuple(point) for point in points[ref.pareto_front(points.tolist())]}
    assert {tuple(points[whole.tolist().index(row)]) for row in pruned} == front
    assert set(pruned.tolist()) <= set(whole.tolist())


def test_pareto_testing_thins_to_the_largest_front() -> None:
    opt = random_table(shape=(10, 10), n=500)
    for most in (1, 3, 10):
        assert len(rf.ParetoTesting.as_in_the_paper(max_settings=most).plan(opt, ONE)) <= most


def test_pareto_testing_orders_ties_by_risk() -> None:
    """p-values of very safe settings underflow to 0; the safest must still come first."""
    n = 20_000
    losses = np.zeros((4, n), dtype=bool)
    for row, count in enumerate((30, 0, 20, 10)):
        losses[row, :count] = True
    cost = np.repeat([[0.1], [0.4], [0.2], [0.3]], n, axis=1)
    opt = rf.LossTable([{"t": i} for i in range(4)], {"error": losses, "cost": cost})
    problem = rf.Problem([rf.Limit("error", at_most=0.5)], ["cost"])
    assert Evidence(problem, opt).combined(np.arange(4)).max() == 0
    assert rf.ParetoTesting.as_in_the_paper().plan(opt, problem).rows.tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("problem", [ONE, TWO])
@pytest.mark.parametrize("spacing", ["log", "linear"])
def test_split_fst(spacing: str, problem: rf.Problem) -> None:
    opt = random_table(3)
    method = rf.SplitFST(betas=50, spacing=spacing)
    order = permutation(opt.n_configs, seed=0)  # ties go to the first in this order
    expected = ref.split_fst_order(Evidence(problem, opt).p_values(order).tolist(), method._grid())
    assert method.plan(opt, problem).rows.tolist() == order[expected].tolist()


def test_nearest_in_the_infinity_norm() -> None:
    rng = np.random.default_rng(0)
    p, betas = rng.random((30, 3)), np.linspace(0, 1, 7)
    expected = [int(np.argmin(np.abs(p - beta).max(axis=1))) for beta in betas]
    assert _nearest(p, betas).tolist() == expected


def test_sgt_and_fallback_walk_from_the_learned_corner() -> None:
    opt = random_table(0)
    for method in (rf.SGT(), rf.Fallback()):
        plan = method.plan(opt, ONE)
        assert isinstance(plan.procedure, Graphical)
        assert plan.rows[0] == 0  # risk rises along both axes
        assert sorted(plan.rows.tolist()) == list(range(20))
        assert method.opt_fraction == 0.1
    turned = rf.SGT(safest={"a": "high", "b": "low"})
    assert turned.plan(opt.subset([]), ONE).rows[0] == 15
    assert turned.opt_fraction == 0


@pytest.mark.parametrize("shape", [(20,), (4, 5), (2, 3, 3), (2, 2, 2, 2)])
def test_low_risk_path(shape: tuple[int, ...]) -> None:
    size = math.prod(shape)
    for seed in range(4):
        opt = random_table(seed, shape=shape, n=211)
        evidence = Evidence(ONE, opt)
        risks, cost = evidence.risks(), evidence.objectives()[:, 0]
        optimum = ref.constrained_optimum(risks.tolist(), cost.tolist(), [0.12])
        optimum = int(np.argmin(risks)) if optimum is None else optimum
        path = rf.LowRiskPath(safest=dict.fromkeys("abcd"[: len(shape)], "low")).plan(opt, ONE).rows.tolist()
        p = evidence.combined(np.arange(size))
        ranked = np.where(p == 1, 1 + evidence.margin(), p)  # what measures above its limit has p-value 1
        assert path == ref.low_risk_path(shape, ranked, optimum)


@pytest.mark.parametrize("problem", [ONE, TWO])
def test_constrained_path(problem: rf.Problem) -> None:
    for seed in range(6):
        opt = random_table(seed, n=97)
        evidence = Evidence(problem, opt)
        alphas = [test.alpha for test in evidence.tests]
        # every eps at which the solution can change, and a hair beside it
        epsilons = sorted({e + s for e in (-evidence.margin()).tolist() for s in (-1e-9, 0, 1e-9)} | {0.0})
        epsilons = [e for e in epsilons if 0 <= e <= min(alphas)]
        expected = ref.constrained_path(
            evidence.risks().tolist(), evidence.objectives()[:, 0].tolist(), alphas, epsilons
        )
        found = rf.ConstrainedPath().plan(opt, problem).rows.tolist()
        cost = evidence.objectives()[:, 0]
        assert cost[found].tolist() == cost[expected].tolist()
        assert evidence.margin()[found].tolist() == evidence.margin()[expected].tolist()


def test_constrained_path_with_nothing_below_the_limits() -> None:
    hopeless = rf.Problem([rf.Limit("error", at_most=0.0001)], ["cost"])
    losses = np.ones((20, 30), dtype=bool)
    opt = rf.LossTable(random_table().configs, {"error": losses, "cost": np.ones((20, 30))})
    assert len(rf.ConstrainedPath().plan(opt, hopeless)) == 0


def test_methods_by_name() -> None:
    """These names are in certificates and on command lines: none may go."""
    assert set(METHODS) >= {
        "pareto-testing",
        "split-fst",
        "sgt",
        "fallback",
        "low-risk-path",
        "constrained-path",
        "ordered-knob",
        "bonferroni",
        "holm",
        "alpha-constrained",
        "alpha-delta-constrained",
    }
    for name, kind in METHODS.items():
        method = make_method(name)
        assert isinstance(method, kind)
        assert make_method(name, **parameters(method)) == method
        assert make_method(method) is method
        assert method.guaranteed or name.startswith("alpha")
    assert make_method("pareto-testing", max_settings=7).max_settings == 7


def test_split_fst_of_every_setting_goes_by_p_value() -> None:
    rng = np.random.default_rng(3)
    losses = {"error": rng.random((40, 300)) < np.linspace(0.01, 0.4, 40)[:, None], "cost": rng.random((40, 300))}
    table = rf.LossTable([{"k": k} for k in range(40)], losses)
    problem = rf.Problem(["error <= 0.1", "cost <= 0.6"], minimize="cost")
    opt, _ = table.split(0.5)
    rows = rf.SplitFST(spacing="every").plan(opt, problem).rows
    assert sorted(rows.tolist()) == list(range(40))
    assert (np.diff(Evidence.of_planning(problem, opt).combined(rows)) >= 0).all()


@pytest.mark.parametrize("smooth", [True, False])
def test_where_nothing_looks_certifiable_the_nearest_setting_is_tested_first(smooth: bool) -> None:
    """The best setting without its limits would tell nobody what is missing."""
    recall, alarms = np.array([[0.95], [0.88], [0.5], [0.02]]), np.array([[0.6], [0.32], [0.1], [0.0]])
    positive, negative = np.random.default_rng(0).random((2, 1, 3000))
    losses = {"missed": positive >= recall, "alarm": negative < alarms, "cost": negative < alarms}
    table = rf.LossTable([{"t": t} for t in range(4)], losses)
    limits = [rf.Limit(n, at_most=a, p_value="hoeffding-bentkus") for n, a in (("missed", 0.1), ("alarm", 0.3))]
    certificate = rf.calibrate(table, rf.Problem(limits, "cost"), method=make_method("pareto-testing", smooth=smooth))
    assert not certificate
    assert certificate.tested["t"].tolist()[0] == 1


RAGGED = random_table().select(np.arange(1, 20))
PLANNING = (rf.ParetoTesting, rf.SplitFST, rf.LowRiskPath, rf.ConstrainedPath)
REFUSED = {
    "an unknown name": (lambda: make_method("pareto"), "no method 'pareto'.*Did you mean 'pareto-testing'"),
    "an unknown option": (lambda: make_method("holm", speed=3), r"holm takes the parameters \[\]; got \['speed'\]"),
    "options of an object": (lambda: make_method(rf.HolmTesting(), speed=3), "options go with a method's name"),
    "no settings to keep": (
        lambda: rf.ParetoTesting.as_in_the_paper(max_settings=0),
        "max_settings must be at least 1",
    ),
    **{
        f"{share} of delta for Holm": (lambda s=share: rf.ParetoTesting(holm_share=s), "holm_share must lie in")
        for share in (-0.1, 1.0, 1.5)
    },
    "one beta": (lambda: rf.SplitFST(betas=1), "betas must be at least 2"),
    "an unknown spacing": (lambda: rf.SplitFST(spacing="cubic"), "spacing must be 'log', 'linear' or 'every'"),
    "no corner and no examples": (lambda: rf.SGT().plan(random_table().subset([]), ONE), "corner must be declared"),
    **{
        f"no grid for {method.name}": (lambda m=method: m.plan(RAGGED, ONE), "full grid.*but the table has 19 settings")
        for method in (rf.SGT(), rf.Fallback(), rf.LowRiskPath())
    },
    **{
        f"{bad} of the examples for {kind.__name__}": (
            lambda k=kind, b=bad: k(opt_fraction=b),
            "opt_fraction must lie in",
        )
        for kind in PLANNING
        for bad in (0, 1, -0.1, 1.5)
    },
    **{
        f"{bad} of the examples for {kind.__name__}": (
            lambda k=kind, b=bad: k(learn_fraction=b),
            "learn_fraction must lie",
        )
        for kind in (rf.SGT, rf.Fallback)
        for bad in (0, 1, -0.1, 1.5)
    },
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    use, message = REFUSED[case]
    with pytest.raises(InvalidInputError, match=message):
        use()
