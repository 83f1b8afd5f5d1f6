"""One confidence for a whole frontier: the walk, its order, and what it costs."""

import json

import numpy as np
import pytest
from scipy import stats

import riskfront as rf
from riskfront.calibration.simultaneous import walk
from tests.cli.test_cli import riskfront
from tests.support.checks import too_many

ALPHAS = (0.3, 0.2, 0.1)


def world(n: int = 3000, m: int = 40, seed: int = 0) -> rf.LossTable:
    rng = np.random.default_rng(seed)
    error = rng.random((m, n)) < np.linspace(0.01, 0.4, m)[:, None]
    cost = np.linspace(1, 0, m)[:, None] + 0.01 * rng.random((m, n))
    return rf.LossTable([{"k": k} for k in range(m)], {"error": error, "cost": cost, "right": ~error})


PROBLEM = rf.Problem("error <= 0.1", minimize="cost")


def test_a_path_waits_at_its_first_failure_and_gets_looser_limits_for_free() -> None:
    p = {(2, 0): 0.01, (2, 1): 0.04, (0, 1): 0.03, (0, 0): 0.9, (1, 2): 0.9, (1, 0): 0.02}
    asked = []

    def p_value(limit: int, setting: int) -> float:
        asked.append((limit, setting))
        return p[limit, setting]

    paths = [np.array([0, 1]), np.array([0, 2]), np.array([0, 1])]
    found, levels = walk(paths, p_value, 0.1, np.zeros((3, 3), dtype=bool))
    # setting 0 fails the loosest limit, until it is seen to keep a tighter one; then everything behind it is tested
    assert found.tolist() == [[True, True, False]] * 3
    assert levels[1] == pytest.approx(0.1)  # the shares of both paths that came to their ends
    assert asked.index((0, 0)) < asked.index((2, 0)) < asked.index((0, 1))


def test_shares_add_up_to_one() -> None:
    found, levels = walk([np.array([0]), np.array([1]), np.array([2])], lambda k, row: 1.0, 0.3, np.zeros((3, 3), bool))
    assert not found.any()
    assert levels == pytest.approx([0.1, 0.1, 0.1])
    held = np.zeros((3, 3), dtype=bool)
    held[0, 0] = True
    _, levels = walk([np.array([0]), np.array([1]), np.array([2])], lambda k, row: 1.0, 0.3, held)
    assert levels == pytest.approx([0.1, 0.15, 0.15])


@pytest.mark.parametrize("broken", [False, True])
def test_error_of_all_statements_together(broken: bool) -> None:
    """Six settings, each a hair above another limit of three, in any order: exact tests of the same examples at all limits.
    Three paths at the full level each are caught."""
    rng = np.random.default_rng(1)
    n, trials, level = 200, 4000, 0.1
    risks = np.repeat(ALPHAS, 2) + 1e-9
    counts = rng.binomial(n, risks, (trials, 6))
    p = np.stack([stats.binom.cdf(counts, n, alpha) for alpha in ALPHAS], axis=1)
    false = risks[None, :] > np.array(ALPHAS)[:, None]
    misses = 0
    for trial in range(trials):
        # the safe settings of each limit come first, so that its nulls are reached
        paths = [
            np.concatenate([rng.permutation(np.flatnonzero(~f)), rng.permutation(np.flatnonzero(f))]) for f in false
        ]
        whole = 3 * level if broken else level
        certified, _ = walk(paths, lambda k, row, of=p[trial]: of[k, row], whole, np.zeros((3, 6), dtype=bool))
        misses += bool((certified & false).any())
    assert too_many(misses, trials, level) is broken


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


@pytest.mark.parametrize("method", ["sgt", "alpha-constrained"])
def test_other_methods_are_refused(method: str) -> None:
    with pytest.raises(rf.InvalidInputError, match="in a sequence"):
        rf.frontier(world(200, 4), PROBLEM, ALPHAS, method=method, simultaneous=True)


def test_command_and_page(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    world(1000, 10).save("t.parquet")
    common = ["t.parquet", "--limit", "error <= 0.2", "--minimize", "cost", "--alphas", "0.1,0.2,0.3", "--together"]
    done = riskfront("frontier", *common)
    assert "you may choose the limit after looking" in " ".join(done.stdout.split()), done.stderr
    assert len(json.loads(riskfront("frontier", *common, "--json").stdout)) == 3
    riskfront("calibrate", *common, "--report", "page.html")
    assert "you may choose the limit after looking" in (tmp_path / "page.html").read_text()
