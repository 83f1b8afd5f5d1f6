"""Time sharing: any random mixture of certified settings is certified too (the paper's Corollary on convex hulls)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from riskfront._problems.problem import Problem
from riskfront._support.arrays import FloatArray
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError


def mixture_weights(problem: Problem, values: FloatArray, targets: Mapping[str, float]) -> FloatArray:
    """Weights, (settings,), that meet the targets on average and make the other objectives best, by linear programming.

    Args:
        values: (settings, objectives) in the units of the losses.
        targets: objective name -> a mean that must not be worse.
    """
    from scipy.optimize import linprog  # slow to import, and most certificates are never mixed

    names = [objective.name for objective in problem.objectives]
    _check(problem, names, values, targets)
    signs = np.array([-1.0 if objective.maximize else 1.0 for objective in problem.objectives])
    costs = values * signs
    bound = [names.index(name) for name in targets]
    wanted = np.array([signs[index] * targets[name] for index, name in zip(bound, targets, strict=True)])
    free = [index for index in range(len(names)) if index not in bound] or bound
    # objectives have different units: each counts relative to its spread over the chosen settings
    spread = np.ptp(costs, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    best = costs.min(axis=0)
    if np.any(wanted < best[bound] - 1e-9 * spread[bound]):
        reachable = ", ".join(
            f"{names[i]} {'at most' if signs[i] < 0 else 'at least'} {signs[i] * best[i]:.4g}" for i in bound
        )
        raise InvalidInputError(
            f"no mixture of the chosen settings meets {dict(targets)}; they reach {reachable}. Loosen the target."
        )
    scaled = (costs - best) / spread
    solution = linprog(
        scaled[:, free].sum(axis=1),
        A_ub=scaled[:, bound].T if bound else None,
        b_ub=np.maximum((wanted - best[bound]) / spread[bound], 0.0) if bound else None,
        A_eq=np.ones((1, len(values))),
        b_eq=[1.0],
        bounds=(0, 1),
    )
    if not solution.success:
        raise InvalidInputError(f"no mixture of the chosen settings meets {dict(targets)} at once. Loosen a target.")
    weights = np.maximum(np.asarray(solution.x), 0.0)
    return np.asarray(weights / weights.sum())


def _refuse_limits_that_do_not_mix(problem: Problem) -> None:
    """A mixture keeps a limit that is tested as one mean, because means mix with the weights: a mean, a share above a number
    (a quantile), a difference between groups, and a ratio N / D as N - limit * D, so a mean given a condition, too. The worst
    cases are tested with one threshold for all settings, which is a mean. The difference of two conditional means is none.
    """
    for limit in problem.limits:
        if limit.gap_per is not None and limit.given is not None:
            raise InvalidInputError(
                f"mixtures keep limits whose value mixes like a mean; '{limit}' compares groups given a condition, whose share "
                "differs from setting to setting: two settings that keep it may break it together. Use one setting."
            )


def _check(problem: Problem, names: list[str], values: FloatArray, targets: Mapping[str, float]) -> None:
    _refuse_limits_that_do_not_mix(problem)
    for name, target in targets.items():
        known(name, names, "free objective")
        if not is_number(target):
            raise InvalidInputError(f"the target for '{name}' must be a finite number; got {target!r}.")
    for objective in problem.objectives:
        if objective.given is not None:
            raise InvalidInputError(
                f"mixtures need objectives that average over all examples; '{objective.name}' averages over those where "
                f"{objective.given} holds, and its mean does not mix with the weights."
            )
    if not np.isfinite(values).all():
        raise InvalidInputError(
            "mixtures need objectives that are known for every chosen setting; some have no example."
        )
