"""Time sharing: any random mixture of certified settings is certified too (the paper's Corollary on convex hulls)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from riskfront.arrays import FloatArray
from riskfront.columns import unknown
from riskfront.errors import InvalidInputError
from riskfront.problem import Problem


def mixture_weights(problem: Problem, values: FloatArray, targets: Mapping[str, float]) -> FloatArray:
    """Weights, (settings,), that meet the targets on average and make the other objectives best, by linear programming.

    Args:
        values: (settings, objectives) in the units of the losses.
        targets: objective name -> a mean that must not be worse.
    """
    from scipy.optimize import linprog  # slow to import, and most certificates are never mixed

    names = [objective.name for objective in problem.objectives]
    for name in targets:
        if name not in names:
            raise InvalidInputError(unknown(name, names, "free objective"))
    signs = np.array([-1.0 if objective.maximize else 1.0 for objective in problem.objectives])
    costs = values * signs
    bound = [names.index(name) for name in targets]
    wanted = np.array([signs[index] * targets[name] for index, name in zip(bound, targets, strict=True)])
    free = [index for index in range(len(names)) if index not in bound] or bound
    # objectives have different units: each counts relative to its spread over the chosen settings
    spread = np.ptp(costs, axis=0)
    goal = (costs[:, free] / np.where(spread > 0, spread, 1.0)[free]).sum(axis=1)
    solution = linprog(
        goal,
        A_ub=costs[:, bound].T if bound else None,
        b_ub=wanted + 1e-12 * np.maximum(1.0, np.abs(wanted)) if bound else None,
        A_eq=np.ones((1, len(values))),
        b_eq=[1.0],
        bounds=(0, 1),
    )
    if not solution.success:
        reachable = ", ".join(
            f"{names[i]} {'at most' if signs[i] < 0 else 'at least'} {signs[i] * costs[:, i].min():.4g}" for i in bound
        )
        raise InvalidInputError(
            f"no mixture of the chosen settings meets {dict(targets)}; alone, each can reach {reachable}. Loosen the target."
        )
    weights = np.maximum(np.asarray(solution.x), 0.0)
    return np.asarray(weights / weights.sum())
