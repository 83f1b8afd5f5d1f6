"""From a race on planning examples to a path, and to its test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from riskfront._calibration.sequential.path_test import PathTest
from riskfront._calibration.sequential.racing import Race, Standing, anchors, standing
from riskfront._calibration.sequential.told import Outcomes
from riskfront._data.configs import as_settings
from riskfront._data.derived_losses import find_reference
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods import Method, Plan
from riskfront.methods._evidence.ranges import with_thresholds
from riskfront.methods._plan import make_plan

_SPARES = 2  # safe settings beside the path, in case its first one is given up
_GAIN = 0.015  # of an objective, below which a test is not worth its evaluations
_CERTAIN = 2.5  # score from which a setting is as good as certain to pass


def check_adaptive(problem: Problem, method: Method) -> None:
    """What e-processes cannot test, and methods that do not test along a path, are refused."""
    for limit in problem.limits:
        if limit.p_value not in ("auto", "betting"):
            raise InvalidInputError(
                f"sequential tests use p_value 'betting'; '{limit}' asks for p_value='{limit.p_value}'. Leave it out."
            )
        if limit.proxy is not None:
            raise InvalidInputError(
                "a proxy needs unlabelled examples, which sequential tests and tune do not take; "
                f"'{limit}' names one. Leave it out (the limit stays the same), or use calibrate(..., unlabelled=)."
            )
    if method.opt_fraction == 0:
        raise InvalidInputError(
            f"sequential testing needs a method that plans a path on planning examples, such as pareto-testing; {method.name} "
            "plans on none."
        )


def references(configs: Sequence[Mapping[str, Any]], problem: Problem) -> list[int]:
    """The settings that drops are measured from: they are needed on every example."""
    named = dict.fromkeys(limit.drop_from for limit in problem.limits if limit.drop_from is not None)
    frame = as_settings(configs) if named else None
    return [find_reference(frame, name) for name in named] if frame is not None else []


class Testing:
    """A path that was planned on planning examples, by the settings that raced all the way, and its test."""

    def __init__(
        self,
        configs: Sequence[Mapping[str, Any]],
        problem: Problem,
        method: Method,
        opt: Outcomes,
        test: Outcomes,
        finalists: Sequence[int],
        n_test: int | None = None,
        open_ended: bool = False,
    ) -> None:
        self.problem, self.finalists = problem, list(finalists)
        needed = references(configs, problem)
        rows = list(dict.fromkeys([*self.finalists, *needed]))
        self.opt = opt.table(rows, slice(0, len(opt.edges) - 1))
        self.plan = path_plan(method, self.opt, problem)
        n = int(test.edges[-1]) if n_test is None else n_test
        found = standing(problem, self.opt, n)
        self.places = thinned(self.plan.rows, found)
        self.resolve_defaults = with_thresholds(problem, self.opt)
        others = [at for at in anchors(found, count=_SPARES + 1) if at not in self.places and found.hopeful[at]]
        path, spares = ([rows[at] for at in part] for part in (self.places, others))
        planned = found.at(np.array([*self.places, *others], dtype=np.int64))
        n_opt = self.opt.n_examples
        self.path = PathTest(test, self.resolve_defaults, path, spares, planned, n_opt, needed, n, open_ended)


def path_plan(method: Method, opt: LossTable, problem: Problem) -> Plan:
    """The plan of a method that tests along a path."""
    plan = make_plan(method, opt, problem)
    if not plan.procedure.sequential or plan.by_mean:
        raise InvalidInputError(
            f"sequential testing needs a method that tests along a path, such as pareto-testing; {method.name} does not."
        )
    return plan


def thinned(path: IntArray, found: Standing) -> IntArray:
    """A path without what brings little: of settings at its beginning that are as good as certain to pass, the safest and the
    best; then those that are better by 1.5 % than the one before. With several objectives each may be chosen, and all stay."""
    if found.objectives.shape[1] > 1 or len(path) < 2:
        return path
    cost, score = found.objectives[path, 0], found.score[path]
    head = max(int(np.logical_and.accumulate(score >= _CERTAIN).sum()), 1)
    kept = [0]
    best = int(np.argmin(cost[:head]))
    for place in [best, *range(head, len(path))]:
        if place and cost[kept[-1]] - cost[place] > _GAIN * abs(cost[kept[-1]]):
            kept.append(place)
    return path[kept]


def raced(
    opt: Outcomes,
    configs: Sequence[Mapping[str, Any]],
    problem: Problem,
    n_test: int,
    rows: Sequence[int],
    rivals: Sequence[int] = (),
    prices: FloatArray | None = None,
    start: int = 0,
    stop: int | None = None,
) -> Race:
    """A race of these settings."""
    always = references(configs, problem) if configs else ()
    return Race(opt, problem, n_test, rows, rivals, always, prices, start, stop)
