"""What a monitor takes from a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riskfront._calibration.certificates.certificate import Certificate
from riskfront._problems.problem import Problem
from riskfront._support.values import known


def chosen_limits(problem: Problem, limits: Sequence[Any] | None) -> Problem:
    """The problem with those limits only; with all of them where none is named."""
    if limits is None:
        return problem
    texts = [str(limit) for limit in problem.limits]
    wanted = [known(str(limit), texts, "limit") for limit in limits]
    return problem.with_limits([limit for limit, text in zip(problem.limits, texts, strict=True) if text in wanted])


def notes_on(certificate: Certificate, problem: Problem) -> list[str]:
    """Sentences on what an outcome must be, and what its limits do not say."""
    found = []
    if not certificate.guaranteed:
        found.append(
            f"The setting carries no guarantee ({certificate.method}): a limit may have been broken from the start."
        )
    if certificate.clusters is not None:
        found.append(f"An outcome must be the mean over one {certificate.clusters}: this is what was certified.")
    for limit in problem.limits:
        if limit.weights is not None:
            found.append(f"'{limit}' is watched without weights, on outcomes as they come now.")
    return found
