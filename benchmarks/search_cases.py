"""Two choices of a setting among 6,480, for the comparison of search strategies. Both have their truth in a population.

simulated  the adaptive classifier of `benchmarks.adaptive_classifier`: three pruning thresholds, one limit on the clipped
           drop in accuracy, examples drawn from a population of 20,000
cascade    the real models of ``riskfront demo``: two exits and an abstention threshold, a limit on the error of the answers and
           one on abstentions, examples drawn from the 1,347 images that no model was trained on

Both draw 5,000 examples with replacement, so that the limits can be certified at all and every setting has a true cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

import riskfront as rf
from benchmarks.adaptive_classifier import make_world
from riskfront._cli.demo import cascade_table, train_cascade
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.search import LimitTarget

SHAPE = (18, 20, 18)
EXAMPLES = 5_000
STREAM = 3_001  # of the draws; the split has a stream of its own


@dataclass(frozen=True, slots=True)
class Population:
    """Losses (settings, examples) that examples are drawn from, settings named by their place on the grid."""

    problem: rf.Problem
    losses: dict[str, NDArray[Any]]
    configs: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Case:
    """One draw of calibration examples: what a search is told, what calibration sees, and the truth."""

    problem: rf.Problem
    space: rf.Space
    table: rf.LossTable
    told: NDArray[np.float64]  # (settings, limits and objectives), on opt examples
    names: tuple[str, ...]  # of the columns of `told`
    targets: tuple[LimitTarget, ...]
    true_cost: NDArray[np.float64]  # (settings,)
    seed: int

    def row(self, config: dict[str, Any]) -> int:
        return int(np.ravel_multi_index(tuple(config.values()), SHAPE))

    def certified_cost(self, rows: list[int] | None = None) -> float:
        """The true cost of the best certified setting, of these rows or of all; 1, the full model's, if there is none."""
        table = self.table if rows is None else self.table.select(np.array(rows))
        certificate = rf.calibrate(table, self.problem, seed=self.seed)
        return float(self.true_cost[self.row(certificate.config)]) if certificate else 1.0


def draw(name: str, seed: int) -> Case:
    """The case of this name for a seed: all strategies and the full grid share its examples and its split."""
    population = POPULATIONS[name]()
    problem = population.problem
    size = next(iter(population.losses.values())).shape[1]
    chosen = np.random.default_rng([STREAM, seed]).integers(size, size=EXAMPLES)
    table = rf.LossTable(population.configs, {name: values[:, chosen] for name, values in population.losses.items()})
    opt, test = table.split(rf.ParetoTesting().opt_fraction, seed=seed)
    evidence = Evidence(problem, opt)
    dimensions = zip(population.configs.columns, SHAPE, strict=True)
    return Case(
        problem=problem,
        space=rf.Space(**{name: rf.Int(0, size - 1) for name, size in dimensions}),
        table=table,
        told=np.hstack([evidence.risks(), evidence.objectives()]),
        names=(*problem.limit_names, *(o.name for o in problem.objectives)),
        targets=tuple(
            LimitTarget(name, limit.value, opt.n_examples, test.n_examples)
            for name, limit in zip(problem.limit_names, problem.limits, strict=True)
        ),
        true_cost=population.losses["cost"].mean(axis=1, dtype=np.float64),
        seed=seed,
    )


@cache
def _simulated() -> Population:
    world = make_world()
    problem = rf.Problem([rf.Limit("drop_clipped", at_most=0.05)], minimize=["cost"], delta=0.1)
    losses = {name: world.losses[name] for name in ("drop_clipped", "cost")}
    return Population(problem, losses, _places("head", "token", "exit"))


@cache
def _cascade() -> Population:
    # even steps of log-odds, where confidences live, and never leaving
    first, second = ([*expit(np.linspace(0, 6, steps - 1)), 1.01] for steps in SHAPE[:2])
    abstain = np.linspace(0, 0.85, SHAPE[2])
    table = cascade_table(train_cascade(), np.array(list(itertools.product(first, second, abstain))))
    limits = [rf.Limit("error", at_most=0.03, given="answered"), rf.Limit("abstained", at_most=0.05)]
    losses = {name: table.losses(name) for name in table.loss_names}
    problem = rf.Problem(limits, minimize=["cost"], delta=0.1)
    return Population(problem, losses, _places("exit_1", "exit_2", "abstain"))


def _places(*names: str) -> pd.DataFrame:
    places = np.indices(SHAPE).reshape(len(SHAPE), -1)
    return pd.DataFrame(dict(zip(names, places, strict=True)))


POPULATIONS: dict[str, Callable[[], Population]] = {"simulated": _simulated, "cascade": _cascade}
