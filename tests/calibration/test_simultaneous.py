"""One confidence for a whole frontier: testing along sequences that share delta, and what it costs."""

import json
from itertools import product

import numpy as np
import pytest
from scipy import stats

import riskfront as rf
from riskfront._calibration import frontier_plan
from riskfront._calibration.frontier_plan import ValueGrid, plan_frontier, plan_paths
from riskfront.statistics._nested_sequences import TestSequence, reject_along
from riskfront.testing._findings import too_many
from tests.support.command_line import riskfront

ALPHAS = (0.3, 0.2, 0.1)


def world(n: int = 3000, m: int = 40, seed: int = 0) -> rf.LossTable:
    rng = np.random.default_rng(seed)
    error = rng.random((m, n)) < np.linspace(0.01, 0.4, m)[:, None]
    cost = np.linspace(1, 0, m)[:, None] + 0.01 * rng.random((m, n))
    return rf.LossTable(
        [{"k": k} for k in range(m)], {"error": error, "cost": cost, "right": ~error}, groups={"g": np.arange(n) % 3}
    )


PROBLEM = rf.Problem("error <= 0.1", minimize="cost")
BOTH = rf.Problem(["error <= 0.1", "error <= 0.2 per g"], minimize="cost")
GRID = {"error": [0.05, 0.1, 0.2, 0.3], "error per g": [0.1, 0.2, 0.3]}


def _one_each(paths: list[list[int]], shares: list[float]) -> list[TestSequence]:
    return [
        TestSequence(np.full(len(path), value), np.array(path), share)
        for value, (path, share) in enumerate(zip(paths, shares, strict=True))
    ]


def test_a_sequence_waits_at_its_first_failure_and_gets_looser_limits_for_free() -> None:
    p = {(2, 0): 0.01, (2, 1): 0.04, (0, 1): 0.03, (0, 0): 0.9, (1, 2): 0.9, (1, 0): 0.02}
    sequences = _one_each([[0, 1], [0, 2], [0, 1]], [1 / 3] * 3)
    found, at = reject_along(sequences, lambda v, s: p[v, s], 0.1, np.zeros((3, 3), bool), np.zeros(3, int))
    # setting 0 fails the loosest limit, until it is seen to keep a tighter one; then everything behind it is tested
    assert found.tolist() == [[True, True, False]] * 3
    assert np.nanmax(at) == pytest.approx(0.05)  # one sequence had ended: two share what it had
    assert np.isnan(at[:, 2]).all()


def test_limits_do_not_imply_each_other() -> None:
    """Two blocks of values: what keeps the second limit says nothing of the first."""
    sequences = _one_each([[0], [0]], [0.5, 0.5])
    found, _ = reject_along(sequences, lambda v, s: [1.0, 0.0][v], 0.1, np.zeros((2, 1), bool), np.array([0, 1]))
    assert found.tolist() == [[False], [True]]


def test_shares_of_sequences_that_wait_at_one_pair_add_up() -> None:
    both = [TestSequence(np.array([0]), np.array([0]), 0.4), TestSequence(np.array([0]), np.array([0]), 0.6)]
    for p, passes in ((0.09, True), (0.11, False)):
        found, _ = reject_along(both, lambda v, s, p=p: p, 0.1, np.zeros((1, 1), bool), np.zeros(1, int))
        assert bool(found[0, 0]) is passes


@pytest.mark.parametrize("pooled", [(False, False), (True, True), (True, False)])
def test_against_plain_loops(pooled: tuple[bool, bool]) -> None:
    """Every rejection again by the definition: the level of a pair is what waits at it, in any state that was passed."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        values, m = 4, 5
        sequences = [
            TestSequence(
                *np.array([(v, s) for v, s in rng.permutation(list(product(range(values), range(m))))[:9]]).T, w
            )
            for w in rng.dirichlet(np.ones(4))
        ]
        p = rng.random((values, m)) ** 3
        p[0], p[1] = np.minimum(p[0], p[1]), np.maximum(p[0], p[1])  # no larger at the looser value
        p[2], p[3] = np.minimum(p[2], p[3]), np.maximum(p[2], p[3])
        loosest, of_values = np.array([0, 0, 2, 2]), np.repeat(pooled, 2)
        held = np.zeros((values, m), bool)
        found, _ = reject_along(sequences, lambda v, s, p=p: p[v, s], 0.3, held, loosest, of_values)
        np.testing.assert_array_equal(found, _by_definition(sequences, p, 0.3, loosest, of_values))
        alone, _ = reject_along(sequences, lambda v, s, p=p: p[v, s], 0.3, held, loosest)
        assert (found >= alone).all()


def _by_definition(
    sequences: list[TestSequence], p: np.ndarray, level: float, loosest: np.ndarray, pooled: np.ndarray
) -> np.ndarray:
    rejected = np.zeros(p.shape, bool)
    while True:
        open_ = {}
        for one in sequences:
            left = [(v, s) for v, s in zip(one.values, one.settings, strict=True) if not rejected[v, s]]
            if left:
                open_[id(one)] = (left[0], one.share)
        handed = 1 - sum(share for _, share in open_.values())
        handed -= 1 - sum(one.share for one in sequences)
        levels: dict = {}
        for pair, share in open_.values():
            levels[pair] = levels.get(pair, 0) + share + handed / len(open_)
        levels = {
            (v, s): sum(
                share
                for (u, t), share in levels.items()
                if (u, t) == (v, s) or (pooled[v] and t == s and u > v and loosest[u] == loosest[v])
            )
            for v, s in levels
        }
        passed = [pair for pair, share in levels.items() if p[pair] <= level * share]
        if not passed:
            return rejected
        for v, s in passed:
            rejected[loosest[v] : v + 1, s] = True


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_error_of_all_statements_together(broken: bool) -> None:
    """Six settings, each a hair above another limit of three, in any order: exact tests of the same examples at all limits.
    Three sequences at the full level each are caught."""
    rng = np.random.default_rng(1)
    n, trials, level = 200, 4000, 0.1
    risks = np.repeat(ALPHAS, 2) + 1e-9
    counts = rng.binomial(n, risks, (trials, 6))
    p = np.stack([stats.binom.cdf(counts, n, alpha) for alpha in ALPHAS], axis=1)
    false = risks[None, :] > np.array(ALPHAS)[:, None]
    misses, held = 0, np.zeros((3, 6), dtype=bool)
    for trial in range(trials):
        # the safe settings of each limit come first, so that its nulls are reached
        paths = [[*rng.permutation(np.flatnonzero(~f)), *rng.permutation(np.flatnonzero(f))] for f in false]
        sequences = _one_each(paths, [1.0 if broken else 1 / 3] * 3)
        certified, _ = reject_along(sequences, lambda v, s, of=p[trial]: of[v, s], level, held, np.zeros(3, int))
        misses += bool((certified & false).any())
    assert too_many(misses, trials, level) is broken


def test_shares_are_pooled_for_exact_tests_in_a_planned_order_alone() -> None:
    opt, test = world().split(0.3)
    graded = rf.LossTable(opt.configs, {"error": opt.losses("error") * 0.5, "cost": opt.losses("cost")})
    grid, unplanned = ValueGrid.of(BOTH, GRID), rf.methods.OrderedKnob(safest={"k": "low"})
    assert plan_frontier(rf.ParetoTesting(), opt, grid, test.n_examples).pooled.all()
    one = ValueGrid.of(PROBLEM, {"error": [0.1, 0.2]})
    assert not plan_frontier(rf.ParetoTesting(), graded, one, test.n_examples).pooled.any()
    assert not plan_frontier(unplanned, opt.subset(np.arange(0)), one, test.n_examples).pooled.any()


@pytest.mark.parametrize("values", [{"error": list(ALPHAS)}, {"error": np.linspace(0.05, 0.3, 11)}, GRID])
def test_shares_of_a_plan_add_up_to_one(values: dict) -> None:
    opt, test = world().split(0.3)
    problem = PROBLEM if len(values) == 1 else BOTH
    plan = plan_frontier(rf.ParetoTesting(), opt, ValueGrid.of(problem, values), test.n_examples)
    assert sum(one.share for one in plan.sequences) == pytest.approx(1)
    places = sum(len(listed) for listed in values.values())
    assert {int(v) for one in plan.sequences for v in one.values} == set(range(places))


def test_a_plan_sees_no_testing_example() -> None:
    """The sequences rest on the planning part alone: other testing examples leave them as they are."""
    table = world(seed=7)
    opt, _ = table.split(0.3)
    plans = [
        plan_frontier(rf.ParetoTesting(), part, ValueGrid.of(BOTH, GRID), 2100)
        for part in (opt, table.subset(np.arange(3000)).split(0.3)[0])
    ]
    for one, other in zip(plans[0].sequences, plans[1].sequences, strict=True):
        np.testing.assert_array_equal(one.settings, other.settings)


@pytest.mark.slow
def test_error_of_all_statements_through_the_public_door() -> None:
    """Cheap settings sit a hair above each limit; no pair of the whole frontier may be false in more than delta of runs."""
    rng = np.random.default_rng(2)
    risks = np.array([0.0, 0.02, 0.1 + 1e-9, 0.15, 0.2 + 1e-9, 0.25, 0.3 + 1e-9])
    misses, trials = 0, 80
    for seed in range(trials):
        error = rng.random((7, 240)) < risks[:, None]
        cost = np.linspace(1, 0.1, 7)[:, None] + 0.001 * rng.random((7, 240))
        table = rf.LossTable([{"k": k} for k in range(7)], {"error": error, "cost": cost})
        found = rf.frontier(table, PROBLEM, ALPHAS, seed=seed, simultaneous=True).dropna(subset="k")
        misses += bool((risks[found["k"].astype(int)] > found["alpha"]).any())
    assert not too_many(misses, trials, 0.1)


@pytest.mark.parametrize("method", ["pareto-testing", "split-fst", "bonferroni"])
def test_each_limit_is_nearly_as_good_as_by_itself(method: str) -> None:
    alone = rf.frontier(world(), PROBLEM, ALPHAS, method=method)
    together = rf.frontier(world(), PROBLEM, ALPHAS, method=method, simultaneous=True)
    assert together["alpha"].tolist() == list(ALPHAS)
    assert (together["cost"].to_numpy() - alone["cost"].to_numpy() < 0.12).all()
    assert (together["error"] <= together["alpha"]).all()
    assert together.attrs["simultaneous"]
    assert not alone.attrs["simultaneous"]


def test_a_frontier_is_a_look_at_its_examples() -> None:
    """Whoever reads an alpha off a frontier and calibrates at it has asked these examples before."""
    table = world(500, 10, seed=5)
    rf.frontier(table, PROBLEM, ALPHAS)
    certificate = rf.calibrate(table, PROBLEM.at(0.2))
    (earlier,) = certificate.earlier_looks  # the frontier began with .3; .2 is the same question as this one
    assert earlier.asked.startswith(f"{PROBLEM.at(0.3)}; pareto-testing")


def test_limits_from_below_and_in_any_order() -> None:
    problem = rf.Problem("right >= 0.9", minimize="cost")
    found = rf.frontier(world(), problem, [0.9, 0.7, 0.8], simultaneous=True).set_index("alpha")
    assert found.loc[0.7, "cost"] < found.loc[0.8, "cost"] < found.loc[0.9, "cost"]
    same = rf.frontier(world(), PROBLEM, [0.1, 0.3, 0.2], simultaneous=True).set_index("alpha")
    np.testing.assert_allclose(found["cost"].to_numpy(), same["cost"].to_numpy())


def test_a_setting_costs_the_same_at_every_value() -> None:
    """The path certifies it at tight values, the fallback test on more examples at loose ones: a looser limit must not seem to
    cost more because of that."""
    rng = np.random.default_rng(3)
    error = rng.random((40, 900)) < np.linspace(0.01, 0.4, 40)[:, None]
    cost = np.linspace(1, 0, 40)[:, None] + rng.random((40, 900))
    table = rf.LossTable(
        [{"k": k} for k in range(40)], {"error": error, "cost": cost}, groups={"g": np.arange(900) % 2}
    )
    found = rf.frontier(table, BOTH, GRID, simultaneous=True)
    assert found.path.groupby("k")["cost"].nunique().max() == 1
    best = found.frame.pivot_table(index="limit on error", columns="limit on error per g", values="cost").to_numpy()
    assert (np.diff(best, axis=0) <= 0).all()
    assert (np.diff(best, axis=1) <= 0).all()
    certificate = found.choose({"error": 0.3, "error per g": 0.3})
    assert (certificate.tested["p_value"] <= certificate.tested["tested_at"]).all()
    assert rf.verify(certificate, table) == []


def test_command_and_page(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    world(1000, 10).save("t.parquet")
    common = ["t.parquet", "--limit", "error <= 0.2", "--minimize", "cost", "--alphas", "0.1,0.2,0.3", "--together"]
    done = riskfront("frontier", *common)
    assert "you may choose the limit after looking" in " ".join(done.stdout.split()), done.stderr
    assert len(json.loads(riskfront("frontier", *common, "--json").stdout)) == 3
    riskfront("calibrate", *common, "--report", "page.html")
    assert "you may choose the limit after looking" in (tmp_path / "page.html").read_text()


def test_slacks_from_some_totals_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    table = world(n=400, m=600)
    grid, planner = ValueGrid.of(BOTH, GRID), rf.ParetoTesting()
    some = plan_paths(planner, table, grid, 1600)
    monkeypatch.setattr(frontier_plan, "_TOTALS", 10_000)
    every = plan_paths(planner, table, grid, 1600)
    for ours, exact in zip(map(np.array, some.slacks), map(np.array, every.slacks), strict=True):
        decisive = np.abs(exact) < 7  # beyond, p-values are too near to 0 or 1, and a test passes or fails in any order
        assert decisive.sum() > 200
        assert np.abs(ours - exact)[decisive].max() < 0.02
        assert (np.abs(ours) >= 6.9)[~decisive].all()


@pytest.mark.slow
def test_a_known_order_gives_every_value_a_share_of_its_own() -> None:
    """Nothing plans, so nothing tells which value is next: a sequence through several would wait at the loosest for ever."""
    rng = np.random.default_rng(0)
    risk = np.linspace(0.01, 0.3, 60)[:, None]
    graded = np.clip(risk + 0.15 * (rng.random(1500) - 0.5) * np.sqrt(risk), 0, 1)
    cost = np.repeat(np.linspace(1, 0.1, 60)[:, None], 1500, axis=1)
    values = [0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18]
    method = rf.methods.OrderedKnob(safest={"k": "low"})
    for error in (graded, rng.random((60, 1500)) < risk):
        table = rf.LossTable([{"k": k} for k in range(60)], {"error": error, "cost": cost})
        found = rf.frontier(table, PROBLEM, {"error": values}, method=method, simultaneous=True)
        certified = found.frame["n_certified"].to_numpy()
        assert (np.diff(certified) < 0).all(), "each tighter value certifies fewer settings, and none certifies nothing"
        assert certified[-1] > 0
