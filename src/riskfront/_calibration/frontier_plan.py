"""What planning examples say about a frontier: which settings are tested at which values, in which order, at which shares.

Three layers of sequences run through the values of a limit: one through all values, a few through neighbouring values, and one
through each value by itself. A sequence through several values takes their pairs by the slack that planning predicts, so that
all values advance together; it has a large share of delta and ends for all of them at the first failure of one. The sequences
of single values have small shares and go on by themselves. Exact tests pool what waits at one setting.
``benchmarks/results/decide.md`` compares this with other designs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np

from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError
from riskfront.methods import Method
from riskfront.methods._denoising import PlannedLimit, planned_limits
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.ranges import open_thresholds
from riskfront.methods._plan import make_plan
from riskfront.statistics import _fronts as fronts
from riskfront.statistics._bounds import special_functions
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
    """The sequences, the share of delta for a test of all settings, the share of the rest that bets aim at, and (values,) where
    sequences that wait at one setting pool their shares."""

    sequences: list[TestSequence]
    holm_share: float
    aim: float
    pooled: BoolArray


def plan_frontier(planner: Method, opt: LossTable, grid: ValueGrid, n_test: int, seed: int = 0) -> FrontierPlan:
    """Plan on planning examples alone; ``n_test`` is the number of testing examples."""
    planned = plan_paths(planner, opt, grid, n_test, seed)
    in_one = 1 if planned.apart else _VALUES_A_BET
    aim = min([ceil(len(one.values) / in_one) ** -1.0 for one in grid.varying]) / len(grid.varying)
    return FrontierPlan(
        in_sequences(planned, grid), planned.holm_share, aim if planned.paths else 1.0, pools(planned, grid)
    )


def pools(planned: PlannedPaths, grid: ValueGrid) -> BoolArray:
    """(values,): whether sequences that wait at one setting pool their shares: for exact tests, in a planned order. An order
    that no example planned may be one of settings that the tested examples offer, as the widenings of intervals."""
    pooled = [exact and not planned.apart for exact in planned.exact]
    return np.repeat(np.array(pooled, dtype=bool), [len(one.values) for one in grid.varying])


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPaths:
    """The settings that are tested at every value of every limit, safest first; none if only the fallback test is used.

    slacks: for each limit and value, (settings,): how far inside the limits a setting is planned to measure, in standard
    errors. bets: whether a limit is tested by bets. apart: whether no example planned, so that nothing tells at which of two
    values a setting lies further inside: each value then has a sequence of its own. exact: whether a limit is tested by the
    exact binomial test, whose p-value can only fall as the value gets looser.
    """

    paths: list[list[IntArray]]
    slacks: list[list[FloatArray]]
    bets: list[bool]
    holm_share: float
    apart: bool = False
    exact: tuple[bool, ...] = ()


def plan_paths(planner: Method, opt: LossTable, grid: ValueGrid, n_test: int, seed: int = 0) -> PlannedPaths:
    """Which settings are tested at which values, in which order."""
    if not planner.guaranteed:
        raise _refused(planner)
    if len(grid.varying) == 1:
        plans = [make_plan(planner, opt, grid.alone(0, place), seed) for place in range(len(grid.varying[0].values))]
        if isinstance(plans[0].procedure, Bonferroni):
            return PlannedPaths([], [], [], 1.0, exact=(False,))
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
    seen = [Evidence.of_planning(grid.alone(which, 0), opt) for which in range(len(grid.varying))]
    exact = tuple(one.tests[0].kind.needs == "count" for one in seen)
    return PlannedPaths(paths, slacks, [one.bets for one in seen], holm_share, opt.n_examples == 0, exact)


def in_sequences(planned: PlannedPaths, grid: ValueGrid) -> list[TestSequence]:
    """The paths as sequences that share the level."""
    sequences: list[TestSequence] = []
    for which, of_limit in enumerate(planned.paths):
        layers = [(len(of_limit), 1.0)] if planned.apart else _layers(len(of_limit), planned.bets[which])
        weight = 1 / len(planned.paths)
        offset = sum(len(one.values) for one in grid.varying[:which])
        sequences += _in_layers(of_limit, planned.slacks[which], layers, weight, offset)
    return sequences


def _refused(planner: Method) -> InvalidInputError:
    return InvalidInputError(
        "simultaneous=True needs a method that tests in a sequence, such as pareto-testing, or bonferroni; got "
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
    return np.asarray(np.maximum(score.min(axis=1), _LOWEST))


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
        order = np.argsort(mine, kind="stable")
        straight = np.interp(at, mine[order], score[order])
        exact = _quantiles(limit, at[:, None], n[:, group : group + 1], straight[:, None])[:, 0]
        found[:, group] = np.interp(mine, at, exact)
    return found


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
        found.add(int(np.argmax(inside)))
    return np.array(sorted(found), dtype=np.int64)


#: the most combinations of values on one frontier
MOST_COMBINATIONS = 5_000
_SAME = 1e-6  # values that differ by less, relative to the larger, are one: of numbers in single precision, too


@dataclass(frozen=True, slots=True)
class VaryingLimit:
    """A limit whose number is chosen after looking: its place in the problem, its name and its values, loosest first."""

    index: int
    name: str
    values: tuple[float, ...]

    def place(self, value: float) -> int:
        """Where a value stands in the list; an error that names the nearest ones if it is not there."""
        if not is_number(value):
            raise InvalidInputError(f"the value of '{self.name}' must be a number; got {value!r}.")
        distance = np.abs(np.array(self.values) - value)
        place = int(np.argmin(distance))
        if distance[place] <= _SAME * max(abs(value), abs(self.values[place])):
            return place
        near = sorted(self.values[at] for at in np.argsort(distance)[:2])
        raise InvalidInputError(
            f"'{self.name}' must have one of the values of the frontier, from {min(self.values):.10g} to "
            f"{max(self.values):.10g}; got {value:.10g}. The nearest are {' and '.join(f'{v:.10g}' for v in near)}."
        )


@dataclass(frozen=True, slots=True)
class ValueGrid:
    """A problem with several values for some of its limits. The other limits keep their numbers everywhere."""

    problem: Problem
    varying: tuple[VaryingLimit, ...]

    @classmethod
    def of(cls, problem: Problem, alphas: Mapping[str, Sequence[float]]) -> ValueGrid:
        """From limit name -> values, in any order; an error if they do not fit the problem."""
        if not alphas:
            raise InvalidInputError("a frontier must name at least one limit with its values; got none.")
        names = problem.limit_names
        for name in alphas:
            known(name, names, "limit")
        grid = cls(
            problem, tuple(_varying(problem, place, alphas[name]) for place, name in enumerate(names) if name in alphas)
        )
        count = prod(len(one.values) for one in grid.varying)
        if count > MOST_COMBINATIONS:
            raise InvalidInputError(
                f"a frontier must have at most {MOST_COMBINATIONS:,} combinations of values; got {count:,}. Give fewer values."
            )
        return grid

    @property
    def values(self) -> dict[str, list[float]]:
        """Limit name -> values, loosest first."""
        return {one.name: list(one.values) for one in self.varying}

    @property
    def fixed(self) -> list[Limit]:
        """The limits that keep their numbers."""
        varying = {one.index for one in self.varying}
        return [limit for place, limit in enumerate(self.problem.limits) if place not in varying]

    def combinations(self) -> Iterator[tuple[int, ...]]:
        """Places of values, one for each limit that varies: the last changes fastest."""
        return product(*(range(len(one.values)) for one in self.varying))

    def at(self, places: Sequence[int]) -> Problem:
        """The problem with these values."""
        limits = list(self.problem.limits)
        for one, place in zip(self.varying, places, strict=True):
            limits[one.index] = with_value(limits[one.index], one.values[place])
        return self.problem.with_limits(limits)

    def alone(self, which: int, place: int) -> Problem:
        """One varying limit at one of its values, with the limits that do not vary. These need no share of delta: a setting
        counts only if it keeps them too."""
        one = self.varying[which]
        limit = with_value(self.problem.limits[one.index], one.values[place])
        return self.problem.with_limits([limit, *self.fixed])

    def places(self, wanted: Mapping[str, float]) -> tuple[int, ...]:
        """Where a choice, limit name -> value, stands. A limit with a single value need not be named."""
        names = [one.name for one in self.varying]
        for name in wanted:
            known(name, names, "limit of this frontier")
        missing = [one.name for one in self.varying if one.name not in wanted and len(one.values) > 1]
        if missing:
            raise InvalidInputError(
                f"a choice must give a value to every limit of the frontier; '{missing[0]}' has none. "
                f"For example: {{{', '.join(f'{one.name!r}: {one.values[0]:.10g}' for one in self.varying)}}}."
            )
        return tuple(one.place(wanted.get(one.name, one.values[0])) for one in self.varying)


def with_value(limit: Limit, value: float) -> Limit:
    """The same limit with another number."""
    upper = limit.at_least is None
    return replace(limit, at_most=value if upper else None, at_least=None if upper else value)


def _varying(problem: Problem, place: int, values: Sequence[float]) -> VaryingLimit:
    limit, name = problem.limits[place], problem.limit_names[place]
    if limit.quantile is not None:
        raise InvalidInputError(
            f"a frontier must vary limits on means; got '{limit}', on a quantile. Limit a 0/1 column instead, or calibrate."
        )
    listed: list[Any] = [values] if is_number(values) else list(values)
    if not listed or not all(is_number(value) for value in listed):
        raise InvalidInputError(f"the values of '{name}' must be finite numbers; got {values!r}.")
    different = sorted({float(value) for value in listed}, reverse=limit.at_least is None)
    return VaryingLimit(place, name, tuple(different))
