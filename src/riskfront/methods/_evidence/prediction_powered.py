"""Limits with a proxy: their test on labelled and unlabelled examples, and how far planning examples believe the proxy.

What was measured stays the mean over labelled examples. The unlabelled ones enter the test alone, by the mean proxy of each
labelled example's own batch (``_data/unlabelled_batches.py``), so that labelled examples with their batches are as
independent of each other as labelled examples are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from riskfront._data.problem_fit import check_fit
from riskfront._data.table import LossTable
from riskfront._data.unlabelled_batches import ProxyMeans, with_batch_means
from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._problems.proxies import columns_of
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.statistics._prediction_powered_betting import powered_betting

if TYPE_CHECKING:
    from riskfront.methods._evidence.limit_tests import LimitTest

_ROUNDING = 1e-9  # a mean above its limit by less is at its limit
_SETTINGS = 200  # nearest to the limit, which say how much to believe a proxy in planning


@dataclass(frozen=True, slots=True, eq=False)
class WithProxy:
    """One group of a limit with a proxy: normalised losses (rows, n) in [0, 1]; differences between proxy and batch, (rows, n),
    in ``reach``, of which one end is -1 or 1; and which examples count, (rows, n), (1, n) or None for all."""

    normalised_loss: FloatArray
    differences: FloatArray
    reach: tuple[float, float]
    kept: BoolArray | None

    def counted(self) -> BoolArray:
        """(rows, n) or (1, n)."""
        return np.ones((1, self.normalised_loss.shape[1]), dtype=bool) if self.kept is None else self.kept


def with_proxy(test: LimitTest, table: LossTable, rows: IntArray) -> list[WithProxy]:
    """What a limit with a proxy bets on, group by group."""
    term = replace(test.term, proxy=None, proxy_weight=0.0)
    here, there = columns_of(test.limit)
    proxies, _, _ = table.sequences(replace(term, loss=here), rows)
    batches, _, _ = table.sequences(replace(term, loss=there), rows)
    (low, high), (batch_low, batch_high) = table.bounds(here), table.bounds(there)
    reach = low - batch_high, high - batch_low
    if test.limit.drop_from is not None:  # the difference of the reference minus that of the setting
        reach = reach[0] - reach[1], reach[1] - reach[0]
    largest = max(-reach[0], reach[1])
    differences = (proxies.astype(np.float64) - batches) / largest
    scaled = reach[0] / largest, reach[1] / largest
    plain = replace(test, limit=replace(test.limit, proxy_weight=None))
    _, _, groups = table.sequences(term, rows)
    return [
        WithProxy(normalised_loss, np.clip(differences[:, group], *scaled), scaled, kept)
        for (normalised_loss, kept), group in zip(plain.sequences(table, rows), groups, strict=True)
    ]


def prediction_powered_p_values(
    test: LimitTest, table: LossTable, rows: IntArray, target_levels: FloatArray
) -> FloatArray:
    """(rows, groups). 1 wherever the mean over labelled examples is above the limit, whatever the proxy says."""
    found = []
    for group in with_proxy(test, table, rows):
        counted = group.counted()
        measured = group.normalised_loss.sum(axis=1, where=counted)
        hopeful = np.flatnonzero(measured <= (test.alpha + _ROUNDING) * counted.sum(axis=1))
        kept = group.kept if group.kept is None or len(group.kept) == 1 else group.kept[hopeful]
        p_values = np.ones(len(rows))
        p_values[hopeful] = powered_betting(
            group.normalised_loss[hopeful],
            group.differences[hopeful],
            test.alpha,
            target_levels[hopeful],
            group.reach,
            kept,
        )
        found.append(p_values)
    return np.stack(found, axis=1)


def spread_with_proxy(test: LimitTest, table: LossTable, row: IntArray, group: int) -> float:
    """The standard deviation of normalised loss minus what the proxy tells of it, at one setting."""
    found = with_proxy(test, table, row)[group]
    kept = np.broadcast_to(found.counted(), found.normalised_loss.shape)[0]
    x, d = found.normalised_loss[0][kept], found.differences[0][kept]
    slope = float((x - x.mean()) @ d / (d @ d)) if d.any() else 0.0
    return float(np.std(x - slope * d))


def with_proxy_weights(problem: Problem, opt: LossTable) -> Problem:
    """The problem with proxies believed as far as planning examples show: they plan with the proxy's help, too."""
    left_open = any(limit.proxy is not None and limit.proxy_weight is None for limit in problem.limits)
    if not left_open or opt.n_examples == 0:
        return problem
    check_fit(problem, opt)
    return problem.with_limits([_with_weight(limit, opt) for limit in problem.limits])


def _with_weight(limit: Limit, opt: LossTable) -> Limit:
    if limit.proxy is None or limit.proxy_weight is not None:
        return limit
    return opt.remember(("proxy_weight", limit), lambda: replace(limit, proxy_weight=_proxy_weight(limit, opt)))


def _proxy_weight(limit: Limit, opt: LossTable) -> float:
    """The slope of loss on proxy over the settings nearest to the limit, in the units of both."""
    sums = opt.totals(limit.term)
    means = np.nan_to_num(sums.means(), nan=np.inf)
    worst = means.max(axis=1) if limit.at_least is None else means.min(axis=1)
    rows = np.argsort(np.abs(worst - limit.value), kind="stable")[:_SETTINGS]
    return Moments.of(limit, opt, np.sort(rows)).slope


@dataclass(frozen=True, slots=True)
class Moments:
    """How loss and proxy go together on some examples and settings: (co)variances, and how many examples they rest on."""

    loss: float
    product: float
    difference: float
    n: int

    @classmethod
    def of(cls, limit: Limit, table: LossTable, rows: IntArray) -> Moments:
        """Of these settings, each with its own means."""
        term = replace(limit.term, per=None, proxy=None, proxy_weight=0.0)
        here, there = columns_of(limit)
        losses, condition, _ = table.sequences(term, rows)
        proxies, _, _ = table.sequences(replace(term, loss=here), rows)
        batches, _, _ = table.sequences(replace(term, loss=there), rows)
        kept = np.ones((1, losses.shape[1])) if condition is None else condition.astype(np.float64)
        n = np.maximum(kept.sum(axis=1, keepdims=True), 1.0)
        x, d = losses.astype(np.float64), proxies.astype(np.float64) - batches
        x, d = ((v - (v * kept).sum(axis=1, keepdims=True) / n) * kept for v in (x, d))
        return cls(float((x * x).sum()), float((x * d).sum()), float((d * d).sum()), int(n.mean()))

    @property
    def slope(self) -> float:
        """0 where the proxy says nothing at all."""
        return self.product / self.difference if self.difference > 0 else 0.0

    @property
    def variance_left(self) -> float | None:
        """The variance with the proxy's help over the variance of the labels alone: 1 for a proxy that is worth nothing.
        Corrected for the slope being chosen on the same examples, so that it may come out above 1; None if it cannot be told.
        """
        if self.n < 3 or self.loss <= 0:
            return None
        explained = self.product**2 / (self.loss * self.difference) if self.difference > 0 else 0.0
        return (1 - explained) * (self.n - 1) / (self.n - 2)


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
