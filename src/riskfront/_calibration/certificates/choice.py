"""Which of the chosen settings to use, one or a mixture. All certified settings hold together, so picking costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.arrays import BoolArray, FloatArray
from riskfront._support.values import is_number, known
from riskfront.errors import InvalidInputError

if TYPE_CHECKING:
    from riskfront._calibration.certificates.certificate import Certificate


def choose(certificate: Certificate, choice: str) -> Certificate:
    """The same certificate with another of its chosen settings in front.

    Args:
        choice: the name of an objective or a limit, to take the setting that is best in it; or a condition on one, such as
            "answered >= 0.9", to take the best setting of those that were measured to meet it; or several of either, with
            commas between them. "" leaves all as it is.
    """
    if not choice or not certificate:
        return replace(certificate, choice=choice)
    chosen = certificate.chosen.reset_index(drop=True)
    rows = np.ones(len(chosen), dtype=bool)
    for part in [choice] if choice in chosen else choice.split(","):
        name, meeting = _meeting(certificate, chosen, part)
        rows &= meeting
        if not rows.any():
            values = chosen[name].to_numpy(dtype=float)
            raise InvalidInputError(
                f"the choice '{choice}' must be met by a certified setting; the chosen ones have {name} from "
                f"{np.nanmin(values):.4g} to {np.nanmax(values):.4g}."
            )
    return _in_front(certificate, int(np.argmax(rows)), choice)


def _meeting(certificate: Certificate, chosen: pd.DataFrame, choice: str) -> tuple[str, BoolArray]:
    """The column that a choice speaks of, and which of the chosen settings meet it."""
    problem = certificate.problem
    larger = {objective.name: objective.maximize for objective in problem.objectives}
    larger |= {
        name: limit.at_least is not None
        for name, limit in zip(problem.limit_names, problem.limits, strict=True)
        if name not in larger
    }
    if choice.strip() in larger:
        name = choice.strip()
        values = chosen[name].to_numpy(dtype=float)
        return name, values == (np.nanmax(values) if larger[name] else np.nanmin(values))
    try:
        wanted = Limit.parse(choice)
    except InvalidInputError:
        wanted = None
    if wanted is None or wanted.name not in larger:
        raise InvalidInputError(
            f"a choice must be one of {', '.join(larger)}, or a condition on one, as '{next(iter(larger))} >= 0.9'; got "
            f"{choice!r}."
        )
    values = chosen[wanted.name].to_numpy(dtype=float)
    return wanted.name, values <= wanted.value if wanted.at_least is None else values >= wanted.value


def _in_front(certificate: Certificate, position: int, choice: str) -> Certificate:
    """Ranks from 1: the setting at this position first, the others in the order they had."""
    new_rank = np.arange(len(certificate.chosen) + 1)  # by old rank; 0 stays 0, not chosen
    new_rank[1 : position + 1] += 1
    new_rank[position + 1] = 1
    path = certificate.path.assign(chosen=new_rank[certificate.path["chosen"].to_numpy()])
    measured = certificate.measured.assign(chosen=new_rank[certificate.measured["chosen"].to_numpy()])
    measured = measured.sort_values("chosen", kind="stable", ignore_index=True)
    return replace(certificate, path=path, measured=measured, choice=choice)


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
