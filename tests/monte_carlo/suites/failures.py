"""Suites in which the user's function fails on some examples: a failure is the worst outcome, whatever else one makes of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import riskfront as rf
from riskfront.errors import InvalidInputError
from tests.support.simulation import Suite, one_by_one

ALPHA, DELTA, HAIR = 0.05, 0.1, 1e-9
PROBLEM = rf.Problem([rf.Limit("error", at_most=ALPHA)], minimize=["cost"], delta=DELTA)
PARETO = rf.ParetoTesting(opt_fraction=0.3)
LUCKIEST = rf.SplitFST(opt_fraction=0.3)  # the setting with the fewest failures among planning examples comes first
_N = 66  # of which 46 are tested: all of them right has a chance of .0945 at the limit, and all 66 of .034
_M = 80


def evaluate(trial: int) -> bool:
    """Each of many settings crashes on its own examples, a hair more often than the limit allows, and is right on all others.

    Settings without a crash are the lucky ones: with those alone .97 of trials gave a false certificate.
    """
    return _certified(_on_fixed_examples(np.random.default_rng([46, trial])), trial)


def by_chance(trial: int) -> bool:
    """Each call crashes on each example with a chance of its own, a hair above the limit. A second try is no outcome."""
    random = np.random.default_rng([47, trial])

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        if (random.random(len(examples)) < ALPHA + HAIR).any():
            raise TimeoutError
        return _right(config, examples)

    return _certified(losses, trial)


def tune(trial: int, m: int = 25) -> bool:
    """The same through tune: on planning and on testing examples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        certificate = rf.tune(
            _on_fixed_examples(np.random.default_rng([48, trial])),
            np.arange(_N),
            rf.Space(setting=rf.Int(0, m - 1)),
            PROBLEM,
            search="grid",
            budget=m,
            seed=trial,
            method=PARETO,
            on_error="skip",
            progress=False,
        )
    return bool(certificate)


def _on_fixed_examples(random: np.random.Generator) -> Callable[..., Any]:
    crash = random.random((_M, _N)) < ALPHA + HAIR

    def losses(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
        if crash[config["setting"], examples].any():
            raise RuntimeError
        return _right(config, examples)

    return losses


def _right(config: dict[str, int], examples: np.ndarray) -> dict[str, np.ndarray]:
    cost = np.full(len(examples), 1 / (1 + config["setting"]))
    return {"error": np.zeros(len(examples), dtype=bool), "cost": cost}


def _certified(losses: Callable[..., Any], trial: int) -> bool:
    configs = [{"setting": setting} for setting in range(_M)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            table = rf.evaluate(losses, np.arange(_N), configs, on_error="skip", progress=False)
        except InvalidInputError:  # no setting is left
            return False
        return bool(rf.calibrate(table, PROBLEM, method=LUCKIEST, seed=trial))


SUITES = [
    Suite("evaluate: settings that crash", one_by_one(evaluate), 100),
    Suite("evaluate: crashes by chance", one_by_one(by_chance), 100),
    Suite("tune: settings that crash", one_by_one(tune), 100),
]
