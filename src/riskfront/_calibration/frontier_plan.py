"""What planning examples say about a frontier: which settings are tested at which values, in which order, at which shares.

Three layers of sequences run through the values of a limit: one through all values, a few through neighbouring values, and one
through each value by itself. A sequence through several values takes their pairs by the slack that planning predicts, so that
all values advance together; it has a large share of delta and ends for all of them at the first failure of one. The sequences
of single values have small shares and go on by themselves. ``benchmarks/results/decide.md`` compares this with other designs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from riskfront._calibration.value_grid import ValueGrid
from riskfront._data.table import LossTable
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods import Method
from riskfront.methods._denoising import PlannedLimit, planned_limits
from riskfront.methods._evidence.cvar_thresholds import open_thresholds
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._plan import make_plan
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._binomial import special_functions
from riskfront.statistics._nested_sequences import TestSequence
from riskfront.statistics._procedures import Bonferroni

#: (number of sequences, share of the level) for many values, a few, and one; exact tests
_MANY, _FEW = ((1, 0.4), (4, 0.3), (None, 0.3)), ((1, 0.5), (None, 0.5))
#: values a sequence where bets are placed: a bet must know beforehand the level at which it will be judged
_VALUES_A_BET = 4
_SLACKS = (4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5)  # in standard errors: how far inside its limits a planned setting is
_SETTINGS_A_SLACK = 6  # with several objectives
_COMBINATIONS = 400  # that are planned for one by one
_LOWEST = -30.0
_TOTALS = 500  # at which exact p-values are computed where they depend on the total alone


@dataclass(frozen=True, slots=True, eq=False)
class FrontierPlan:
    """The sequences, the share of delta for a test of all settings, and the share of the rest that bets aim at."""

    sequences: list[TestSequence]
    holm_share: float
    aim: float


def plan_frontier(planner: Method, opt: LossTable, grid: ValueGrid, n_test: int, seed: int = 0) -> FrontierPlan:
    """Plan on planning examples alone; ``n_test`` is the number of testing examples."""
    planned = plan_paths(planner, opt, grid, n_test, seed)
    aim = min([ceil(len(one.values) / _VALUES_A_BET) ** -1.0 for one in grid.varying]) / len(grid.varying)
    return FrontierPlan(in_sequences(planned, grid), planned.holm_share, aim if planned.paths else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPaths:
    """The settings that are tested at every value of every limit, safest first; none if only the fallback test is used.

    slacks: for each limit and value, (settings,): how far inside the limits a setting is planned to measure, in standard
    errors. bets: whether a limit is tested by bets.
    """

    paths: list[list[IntArray]]
    slacks: list[list[FloatArray]]
    bets: list[bool]
    holm_share: float


def plan_paths(planner: Method, opt: LossTable, grid: ValueGrid, n_test: int, seed: int = 0) -> PlannedPaths:
    """Which settings are tested at which values, in which order."""
    if not planner.guaranteed:
        raise _refused(planner)
    if len(grid.varying) == 1:
        plans = [make_plan(planner, opt, grid.alone(0, place), seed) for place in range(len(grid.varying[0].values))]
        if isinstance(plans[0].procedure, Bonferroni):
            return PlannedPaths([], [], [], 1.0)
        if not all(plan.procedure.sequential for plan in plans):
            raise _refused(planner)
        paths, holm_share = [[plan.rows for plan in plans]], min(plan.holm_share for plan in plans)
        slacks = [_slacks_of(planner, opt, grid, 0, n_test)]
    else:
        if planner.name != "pareto-testing":
            raise InvalidInputError(
                f"a frontier of several limits is planned by pareto-testing; got '{planner.name}'. Let one limit vary, or "
                "leave the method out."
            )
        slacks = [_slacks_of(planner, opt, grid, which, n_test) for which in range(len(grid.varying))]
        rows = _candidates(opt, grid, slacks)
        paths = [[rows[np.argsort(-slack[rows], kind="stable")] for slack in of_limit] for of_limit in slacks]
        open_ = any(open_thresholds(grid.alone(which, 0)) for which in range(len(grid.varying)))
        holm_share = 0.0 if open_ else float(getattr(planner, "holm_share", 0.0))
    bets = [Evidence.of_planning(grid.alone(which, 0), opt).bets for which in range(len(grid.varying))]
    return PlannedPaths(paths, slacks, bets, holm_share)


def in_sequences(planned: PlannedPaths, grid: ValueGrid) -> list[TestSequence]:
    """The paths as sequences that share the level."""
    sequences: list[TestSequence] = []
    for which, of_limit in enumerate(planned.paths):
        layers = _layers(len(of_limit), planned.bets[which])
        weight = 1 / len(planned.paths)
        sequences += _in_layers(of_limit, planned.slacks[which], layers, weight, _offset(grid, which))
    return sequences


def _offset(grid: ValueGrid, which: int) -> int:
    return sum(len(one.values) for one in grid.varying[:which])


def _refused(planner: Method) -> InvalidInputError:
    return InvalidInputError(
        f"limits hold together for methods that test in a sequence, such as pareto-testing, and for bonferroni; got "
        f"'{planner.name}'."
    )


def _layers(count: int, bets: bool) -> list[tuple[int, float]]:
    """(number of sequences, share of the level)."""
    if bets:
        return [(ceil(count / _VALUES_A_BET), 1.0)]
    if count == 1:
        return [(1, 1.0)]
    return [(groups or count, share) for groups, share in (_MANY if count > 4 else _FEW)]


def _in_layers(
    paths: Sequence[IntArray],
    slacks: Sequence[FloatArray],
    layers: Sequence[tuple[int, float]],
    weight: float,
    offset: int,
) -> list[TestSequence]:
    found = []
    for groups, share in layers:
        for values in np.array_split(np.arange(len(paths)), groups):
            # along each path as planned, and between paths by the slack that is left
            order = np.concatenate([np.minimum.accumulate(slacks[v][paths[v]]) for v in values])
            settings = np.concatenate([paths[v] for v in values])
            at = np.repeat(values, [len(paths[v]) for v in values])
            by_slack = np.argsort(-order, kind="stable")
            found.append(TestSequence(at[by_slack] + offset, settings[by_slack], weight * share / groups))
    return found


def _slacks_of(planner: Method, opt: LossTable, grid: ValueGrid, which: int, n_test: int) -> list[FloatArray]:
    """For each value of a limit, (settings,): how far inside the limits a setting is planned to measure, in standard errors."""
    if opt.n_examples == 0:
        return [np.zeros(opt.n_configs)] * len(grid.varying[which].values)
    scale = n_test / opt.n_examples
    found = []
    for place in range(len(grid.varying[which].values)):
        limits = planned_limits(
            Evidence.of_planning(grid.alone(which, place), opt), bool(getattr(planner, "smooth", False))
        )
        found.append(np.min([_slack(limit, scale) for limit in limits], axis=0))
    return found


def _slack(limit: PlannedLimit, scale: float) -> FloatArray:
    """(settings,): the normal quantile of the p-value that is expected, in the worst group."""
    alpha, n = limit.test.alpha, np.maximum(limit.sums.n * scale, 1e-9)
    spread: FloatArray | float = max(alpha * (1 - alpha), 1e-12)
    if limit.squares is not None:
        spread = np.clip((limit.squares + 1 - alpha) / np.maximum(limit.sums.n, 1e-9), 1e-12, alpha * (1 - alpha))
    score = (alpha - limit.sums.total / np.maximum(limit.sums.n, 1e-9)) * np.sqrt(n / spread)
    if limit.squares is None:
        score = _exact(limit, limit.sums.total * scale, n, score)
    score = np.where(limit.sums.n > 0, score, _LOWEST)
    worst: FloatArray = np.maximum(score.min(axis=1), _LOWEST)
    return worst


def _exact(limit: PlannedLimit, totals: FloatArray, n: FloatArray, otherwise: FloatArray) -> FloatArray:
    """(settings, groups): normal quantiles of exact p-values; ``otherwise`` where these are too small for a number.

    Where all settings have as many examples, a p-value depends on the total alone: some totals are enough, and the others lie
    between them.
    """
    if len(n) > 1 or len(totals) <= _TOTALS:
        return _quantiles(limit, totals, n, otherwise)
    found = np.empty(totals.shape)
    for group in range(totals.shape[1]):
        mine, score = totals[:, group], otherwise[:, group]
        at = np.unique(np.quantile(mine, np.linspace(0, 1, _TOTALS)))
        straight = np.interp(at, *_sorted(mine, score))
        exact = _quantiles(limit, at[:, None], n[:, group : group + 1], straight[:, None])[:, 0]
        found[:, group] = np.interp(mine, at, exact)
    return found


def _sorted(at: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.argsort(at, kind="stable")
    return at[order], values[order]


def _quantiles(limit: PlannedLimit, totals: FloatArray, n: FloatArray, otherwise: FloatArray) -> FloatArray:
    p_values = limit.test.kind.function(totals, n, limit.test.alpha)
    exact = -special_functions().ndtri(np.clip(p_values, 1e-250, 1.0))
    return np.where(np.isfinite(exact) & (p_values > 1e-200), exact, otherwise)


def _candidates(opt: LossTable, grid: ValueGrid, slacks: Sequence[Sequence[FloatArray]]) -> IntArray:
    """The settings that planning finds best for some combination of values at some distance from the limits."""
    objectives = Evidence(grid.at([0] * len(grid.varying)), opt).objectives()
    every = list(grid.combinations())
    some = [every[place] for place in np.unique(np.linspace(0, len(every) - 1, _COMBINATIONS).astype(int))]
    found: set[int] = set()
    for places in some:
        inside = np.min([slacks[which][place] for which, place in enumerate(places)], axis=0)
        for least in _SLACKS:
            kept = np.flatnonzero(inside >= least)
            if kept.size and objectives.shape[1] == 1:
                found.add(int(kept[np.argmin(objectives[kept, 0])]))
            elif kept.size:
                best = kept[fronts.front(objectives[kept], keep_duplicates=False)]
                found.update(best[fronts.thin(objectives[best], _SETTINGS_A_SLACK)].tolist())
        safest = int(np.argmax(inside))
        found.add(safest)
    return np.array(sorted(found), dtype=np.int64)
