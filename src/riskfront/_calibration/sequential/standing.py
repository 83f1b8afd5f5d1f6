"""How settings stand after some planning examples: how likely each is to pass a test. No guarantee rests on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.methods._evidence.cvar_thresholds import with_thresholds
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.statistics._e_processes import Expected

_NEVER, _SURE = -50.0, 50.0
_DOUBT = 0.5  # standard errors by which a setting is expected to be worse than it looked
_MOST_EXPECTED = 200.0  # examples that an expectation weighs as much as
_OPTIMISM = 2.0  # standard errors by which a setting may be better than it looks


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Settings after some planning examples.

    score (settings,): the number of standard errors by which a setting is expected to pass its weakest limit on the testing
    examples; above 2 it passes nearly always. hopeful (settings,): whether it would pass if it were better than it looks.
    objectives (settings, objectives): to be minimised. mean, spread, share (settings, bets): normalised loss, its variance,
    and the share of examples that speak of each limit and group; alpha (bets,). sure (settings, bets): what needs no test, the
    drop of a reference from itself. by_limit: how many bets each limit has, one a group.
    """

    score: FloatArray
    hopeful: BoolArray
    objectives: FloatArray
    mean: FloatArray
    spread: FloatArray
    share: FloatArray
    alpha: FloatArray
    sure: BoolArray
    by_limit: tuple[int, ...]

    def at(self, rows: IntArray) -> Standing:
        """The same of some of the settings."""
        return replace(
            self,
            score=self.score[rows],
            hopeful=self.hopeful[rows],
            objectives=self.objectives[rows],
            mean=self.mean[rows],
            spread=self.spread[rows],
            share=self.share[rows],
            sure=self.sure[rows],
        )

    def horizons(self, row: int, n_test: int) -> FloatArray:
        """(bets,): how many of the testing examples will speak of each limit and group, as far as planning examples tell."""
        return np.maximum(np.ceil(self.share[row] * n_test), 1.0)

    def expected(self, row: int, n_opt: int) -> Expected:
        """What the planning examples let expect of the losses of a setting; pulled towards the limit, for it was chosen."""
        count = np.maximum(self.share[row] * n_opt, 1.0)
        mean = self.mean[row] + _DOUBT * np.sqrt(self.spread[row] / count)
        return Expected(mean, self.spread[row], np.minimum(count, _MOST_EXPECTED))


def standing(problem: Problem, table: LossTable, n_test: int) -> Standing:
    """How the settings of a table of planning examples stand."""
    evidence = Evidence(with_thresholds(problem, table), table)
    z = NormalDist().inv_cdf(1 - min(problem.delta, 0.5))
    parts = [_moments(test, table) for test in evidence.tests]
    n, mean, spread, known = (np.concatenate([part[i] for part in parts], axis=1) for i in range(4))
    alpha = np.concatenate(
        [np.full(part[0].shape[1], test.alpha) for part, test in zip(parts, evidence.tests, strict=True)]
    )
    share = n / max(table.n_examples, 1)
    tested = np.maximum(share * n_test, 1.0)
    margin = alpha - mean - z * np.sqrt(spread / tested)
    score = margin / np.sqrt(spread / np.maximum(n, 1) + spread / tested)
    best = (margin + _OPTIMISM * np.sqrt(spread / np.maximum(n, 1))) / np.sqrt(spread / tested)
    score = np.where(known, _SURE, np.where(n > 0, score, _NEVER))
    best = np.where(known, _SURE, np.where(n > 0, best, 0.0))
    by_limit = tuple(part[0].shape[1] for part in parts)
    objectives = evidence.objectives()
    return Standing(score.min(axis=1), best.min(axis=1) > -0.5, objectives, mean, spread, share, alpha, known, by_limit)


def _moments(test: LimitTest, table: LossTable) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """(settings, groups) each: examples, mean, variance, pulled a little towards the limit, and whether nothing is to test."""
    rows = np.arange(table.n_configs)
    n, mean, spread = [], [], []
    for losses, kept in test.sequences(table, rows):
        mask = np.ones(losses.shape, dtype=bool) if kept is None else np.broadcast_to(kept, losses.shape)
        count = mask.sum(axis=1)
        total = np.where(mask, losses, 0.0).sum(axis=1)
        centre = (total + 0.5 * test.alpha) / (count + 0.5)
        squares = (np.where(mask, losses - centre[:, None], 0.0) ** 2).sum(axis=1)
        n.append(count.astype(float))
        mean.append(centre)
        spread.append((squares + 0.5 * test.alpha * (1 - test.alpha)) / (count + 1.0))
    known = np.zeros((table.n_configs, len(n)), dtype=bool)
    if test.limit.drop_from is not None and test.limit.holds_for_reference:
        known[table.reference(test.limit.drop_from)] = True
    return np.stack(n, axis=1), np.stack(mean, axis=1), np.stack(spread, axis=1), known
