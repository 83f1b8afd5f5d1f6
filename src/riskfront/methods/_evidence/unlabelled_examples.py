"""Unlabelled examples in a calibration: where the limits ask for them, and what a certificate says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from riskfront._data.derived.unlabelled_batches import ProxyMeans, with_batch_means
from riskfront._data.table import LossTable
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.proxies import columns_of
from riskfront._support.arrays import IntArray
from riskfront.errors import InvalidInputError
from riskfront.methods._evidence.prediction_powered import Moments


def with_unlabelled(
    table: LossTable, problem: Problem, unlabelled: LossTable, seed: int
) -> tuple[LossTable, dict[str, Any]]:
    """The labelled table with the column that each limit with a proxy needs, and which unlabelled examples it came from."""
    wanted: dict[str, ProxyMeans] = {}
    for limit in _with_proxies(problem):
        proxy, name = columns_of(limit)
        wanted[name] = ProxyMeans(name, proxy, limit.per, limit.given)
    joined, used = with_batch_means(table, unlabelled, list(wanted.values()), seed)
    return joined, {"examples": unlabelled.n_examples, "used": used, "sha256": unlabelled.fingerprint}


def _with_proxies(problem: Problem) -> list[Limit]:
    found = [limit for limit in problem.limits if limit.proxy is not None]
    if not found:
        raise InvalidInputError(
            "unlabelled examples help with limits that name a proxy; none does. Name a loss that is known without labels: "
            "Limit('error', at_most=0.05, proxy='judge'), or 'error <= 0.05 proxy judge'."
        )
    return found


def what_proxies_brought(
    opt: LossTable, planned: IntArray, problem: Problem, best: Callable[[], int | None]
) -> Mapping[str, Any] | None:
    """For each limit with a proxy what it was worth on planning examples; None without such a limit.

    Args:
        planned: the settings that were planned, in their order.
        best: the row of the best setting that was certified; without one, the first that was planned is looked at.
    """
    limits = [limit for limit in problem.limits if limit.proxy is not None]
    if not limits:
        return None
    row = best()
    if row is None and len(planned):
        row = int(planned[0])
    known = opt.n_examples > 0 and row is not None
    left = [Moments.of(limit, opt, np.array([row])).variance_left if known else None for limit in limits]
    return {
        "limits": [
            {"limit": str(limit), "proxy": limit.proxy, "variance_left": share}
            for limit, share in zip(limits, left, strict=True)
        ]
    }
