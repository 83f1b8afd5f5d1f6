"""Which of the chosen settings to use. All certified settings hold together, so picking among them costs nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._problems.limits import Limit
from riskfront._support.arrays import BoolArray
from riskfront.errors import InvalidInputError


def choose(certificate: Certificate, choice: str) -> Certificate:
    """The same certificate with another of its chosen settings in front.

    Args:
        choice: the name of an objective or a limit, to take the setting that is best in it; or a condition on one, such as
            "answered >= 0.9", to take the best setting of those that were measured to meet it. "" leaves all as it is.
    """
    if not choice or not certificate:
        return replace(certificate, choice=choice)
    chosen = certificate.chosen.reset_index(drop=True)
    name, rows = _meeting(certificate, chosen, choice)
    values = chosen[name].to_numpy(dtype=float)
    if not rows.any():
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
