"""What is said besides one certificate: a whole frontier that holds together, and what new data say of a certified setting."""

from __future__ import annotations

from functools import cache

import numpy as np

import riskfront as rf
from riskfront._verification.check import BROKEN, HOLDS
from tests.support.simulation import Suite, one_by_one, sharp_size

DELTA, HAIR = 0.1, 1e-9
PROBLEM = rf.Problem("error <= 0.1", minimize="cost", delta=DELTA)
ALPHAS = (0.5, 0.4, 0.3, 0.2, 0.1)
_RISKS = np.array([0.01, *sorted(ALPHAS)]) + HAIR


def frontier(trial: int, n: int = 400) -> bool:
    """A setting sits a hair above each of five limits, the looser the cheaper; one false pair is a miss."""
    rng = np.random.default_rng([51, trial])
    error = rng.random((6, n)) < _RISKS[:, None]
    cost = np.linspace(1, 0.1, 6)[:, None] + 0.001 * rng.random((6, n))
    table = rf.LossTable([{"k": k} for k in range(6)], {"error": error, "cost": cost})
    method = rf.ParetoTesting(opt_fraction=0.3, holm_share=0)
    found = rf.frontier(table, PROBLEM, ALPHAS, method=method, seed=trial, simultaneous=True).dropna(subset="k")
    return bool((_RISKS[found["k"].astype(int)] > found["alpha"]).any())


_N = sharp_size(0.1, DELTA, 300)


def _one_setting(rng: np.random.Generator, risk: float, n: int) -> rf.LossTable:
    return rf.LossTable([{"m": "it"}], {"error": rng.random((1, n)) < risk, "cost": np.ones((1, n))})


@cache
def _certificate() -> rf.Certificate:
    return rf.calibrate(_one_setting(np.random.default_rng(52), 0.02, 800), PROBLEM)


def _says(trial: int, risk: float) -> str:
    return rf.check(_certificate(), _one_setting(np.random.default_rng([53, trial]), risk, _N)).says


@cache
def _in_every_group() -> rf.Certificate:
    return rf.calibrate(
        _grouped(np.random.default_rng(54), (0.02, 0.02, 0.02)), rf.Problem("error <= 0.1 per g", minimize="cost")
    )


def _grouped(rng: np.random.Generator, risks: tuple[float, ...], n: int = 1200) -> rf.LossTable:
    group = rng.integers(0, len(risks), n)
    error = rng.random((1, n)) < np.array(risks)[group]
    return rf.LossTable([{"m": "it"}], {"error": error, "cost": np.ones((1, n))}, groups={"g": group})


def other_groups(trial: int) -> bool:
    """The last certified group does not come at all, or one comes that was never certified and loses more: neither does the
    check confirm the first, nor may the second break a limit."""
    rng = np.random.default_rng([55, trial])
    if trial % 2:
        return rf.check(_in_every_group(), _grouped(rng, (0.02, 0.02))).says == HOLDS
    return rf.check(_in_every_group(), _grouped(rng, (0.02, 0.02, 0.02, 0.5))).says == BROKEN


SUITES = [
    Suite("frontier: five limits together", one_by_one(frontier), 600),
    Suite("check: broken by a hair", one_by_one(lambda trial: _says(trial, 0.1 + HAIR) == HOLDS), 600),
    Suite("check: kept by a hair", one_by_one(lambda trial: _says(trial, 0.1 - HAIR) == BROKEN), 600),
    Suite("check: other groups than the certified ones", one_by_one(other_groups), 60),
]
