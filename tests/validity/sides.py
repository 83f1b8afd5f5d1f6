"""Both sides of every trap: what published code makes of hard data, and what riskfront makes of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
from scipy import stats

import riskfront as rf
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._registry import BY_NAME
from riskfront.statistics import _graphs as graphs
from riskfront.statistics import _p_values as pv
from riskfront.statistics._procedures import Graphical, Holm
from tests.monte_carlo import test_shown_numbers as shown
from tests.support import worlds
from tests.support.graphs import chain
from tests.support.tables import random_table, table_of
from tests.validity import broken

DELTA = 0.1
Misses = Callable[[int], int]

# ---------------------------------------------------------------- many tests


def nulls(m: int, reject: Callable[[np.ndarray], np.ndarray], safe: int = 0) -> Misses:
    """Trials of m independent null p-values, behind some settings that hold for certain, with a false rejection."""

    def misses(trials: int) -> int:
        p = np.random.default_rng(31).random((trials, m))
        p[:, :safe] = 0
        return sum(bool(reject(row)[safe:].any()) for row in p)

    return misses


RING = graphs.Graph(np.full(6, 1 / 6), np.arange(7), (np.arange(6) + 1) % 6, np.ones(6))
ISOLATED = graphs.Graph(np.full(12, 1 / 12), np.zeros(13, dtype=int), np.zeros(0, dtype=int), np.zeros(0))
SHARED = chain(10, np.array([0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0]))


def loop(there: bool) -> tuple[str, bool]:
    p, budget = np.array([0.01, 0.9, 0.9]), np.array([0.05, 0.03, 0.02])
    if there:
        steps = broken.steps_of_a_loop_without_an_exit(p, budget, 10_000)
        return f"one rejection, then {steps:,} steps and still going", steps < 10_000
    found = Graphical(graphs.Graph(budget / 0.1, np.zeros(4, int), np.zeros(0, int), np.zeros(0))).reject(p, DELTA)
    return f"{found.sum()} of 3 rejected, and it returns", bool(found.sum() == 1)


def path(there: bool) -> tuple[str, bool]:
    if there:
        p_opt = np.add.outer(np.arange(4.0), np.arange(4.0))[::-1, ::-1]
        steps = broken.path_that_moves_while_it_compares((0, 0), (3, 3), p_opt)
        jump = max(np.abs(np.subtract(a, b)).sum() for a, b in pairwise(steps))
        end = len(broken.path_that_moves_while_it_compares((0, 0), (3, 3), p_opt, step=2))
        return f"jumps of {jump} settings; with a step of 2 still under way after {end} steps", jump == 1 and end < 50
    problem, jumps = rf.Problem([rf.Limit("error", at_most=0.12)], ["cost"]), set()
    for seed in range(5):
        rows = rf.LowRiskPath().plan(random_table(seed, shape=(4, 3, 3)), problem).rows
        jumps |= set(np.abs(np.diff(np.array(np.unravel_index(rows, (4, 3, 3))).T, axis=0)).sum(axis=1).tolist())
    return "every step goes to a neighbour, and it arrives", jumps == {1}


def nan(there: bool) -> tuple[str, bool]:
    p = np.array([1e-9, 1e-8, np.nan if there else 1.0])
    found = (broken.holm_of_nan(p, DELTA) if there else Holm().reject(p, DELTA)).sum()
    return f"{found} of 2 clear cases rejected", bool(found == 2)


# ---------------------------------------------------------------- p-values


def losses(alpha: float, n: int, trials: int, seed: int = 32) -> np.ndarray:
    """(trials, n): 0/1 losses of exactly this risk."""
    return np.random.default_rng(seed).random((trials, n)) < alpha


def below(p: np.ndarray) -> int:
    return int((p <= DELTA).sum())


@cache
def _signed(trials: int) -> rf.LossTable:
    return table_of(worlds.signed(0.1, flips=0.3, settings=trials, safe=0), np.random.default_rng(33), 500)


def signed_there(trials: int) -> int:
    sums = _signed(trials).losses("loss").sum(axis=1, dtype=int)
    return below(np.where(sums < 0, 0.0, pv.hoeffding_bentkus(np.maximum(sums, 0), 500, 0.1)))


def signed_here(trials: int) -> int:
    problem = rf.Problem([rf.Limit("loss", at_most=0.1)], ["cost"])
    return below(Evidence(problem, _signed(trials)).combined(np.arange(trials)))


def normal_there(trials: int) -> int:
    x = losses(0.01, 100, trials)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (x.mean(axis=1) - 0.01) / (x.std(axis=1) / 10)
    return below(stats.norm.cdf(z))


def floored(trials: int, floor: bool) -> int:
    """Losses of 0 or .99: the sum of one of them is floored to none."""
    total = 0.99 * losses(0.1 / 0.99, 33, trials).sum(axis=1)
    return below(np.minimum(np.e * pv.binomial(np.floor(total), 33, 0.1), 1) if floor else pv.bentkus(total, 33, 0.1))


def early(there: bool) -> tuple[str, bool]:
    x = np.repeat([0.0, 1.0], [60, 20])[None, :]
    table = rf.LossTable([{"t": 0}], {"loss": x, "cost": np.ones(x.shape)})
    problem = rf.Problem([rf.Limit("loss", at_most=0.1, p_value="betting")], ["cost"])
    p = float(pv.betting(x, 0.1, DELTA)[0] if there else Evidence(problem, table).combined(np.arange(1))[0])
    return f"measured .25, p = {p:.3f}", p > DELTA


def counts(there: bool) -> tuple[str, bool]:
    worst = 0.0
    for n in (49, 100, 1000, 5000, 7600):
        k = np.arange(n + 1)
        off = np.ceil(n * (k / n)) != k if there else np.asarray(np.tri(n + 1, n, k=-1, dtype=bool).sum(axis=1)) != k
        worst = max(worst, float(off.mean()))
    return f"up to {100 * worst:.1f} % of counts are off by one", worst == 0


def mean_zero(there: bool) -> tuple[str, bool]:
    if not there:
        p = float(pv.hoeffding_bentkus(0, 20, 0.1))
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            zero = np.float64(0.0)
            divergence = zero * np.log(zero / 0.1) + (1 - zero) * np.log((1 - zero) / 0.9)
            p = float(np.nanmin([np.exp(-20 * divergence), float(pv.bentkus(0, 20, 0.1))]))
    return f"p = {p:.2f} for no loss in 20", abs(p - 0.9**20) < 0.005


# ---------------------------------------------------------------- what is shipped


def sizes(there: bool) -> tuple[str, bool]:
    rng = np.random.default_rng(0)
    few = {name: rng.random((3, 400)) < 0.01 for name in ("error", "harm")}
    problem = rf.Problem([rf.Limit("error", at_most=0.1), rf.Limit("harm", at_most=0.1)], ["cost"])
    table = rf.LossTable([{"t": i} for i in range(3)], {**few, "cost": np.ones((3, 400))})
    p = 1.0 if there else float(Evidence(problem, table).combined(np.arange(3)).max())
    return f"p = {p:.2g} for 1 % where 10 % are allowed", p < DELTA


def nothing_holds(trials: int, silently: bool) -> int:
    """Every setting always fails. Silently: the smallest of no costs is that of setting number 0."""
    if silently:
        return sum(np.argmin(np.full(20, np.inf)) == 0 for _ in range(trials))
    problem = rf.Problem([rf.Limit("error", at_most=0.1)], ["cost"])
    always = {"error": np.ones((20, 60), dtype=bool), "cost": np.ones((20, 60))}
    table, names = rf.LossTable(random_table().configs, always), list(BY_NAME)
    return sum(
        bool(rf.calibrate(table, problem, method=names[trial % len(names)], seed=trial)) for trial in range(trials)
    )


@cache
def bound_and_limits(trials: int) -> tuple[int, int]:
    """(a bound made as if the chosen settings had been fixed beforehand is broken, their limits are)."""
    bounds = limits = 0
    for seed in range(trials):
        found = shown.run(seed, "pareto-testing")
        true = shown.RISKS[found.chosen["a"].to_numpy(dtype=int)][found.measured["chosen"].to_numpy(dtype=int) - 1]
        n, wrong = found.measured["examples"], (found.measured["examples"] * found.measured["measured"]).round()
        bounds += bool((true > stats.beta.ppf(1 - found.measured["tested_at"], wrong + 1, n - wrong)).any())
        limits += bool((true > found.measured["compared_with"]).any())
    return bounds, limits
