"""Limits with proxies, each at the very limit, with proxies that are good, useless, or made to mislead.

Every setting is a trial of its own, with losses and proxies independent of those of the others, so that hundreds are tested by
one ``rf.calibrate``. The uncorrected method tests each of them at delta, which is what a trial is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from tests.support.simulation import Suite, one_by_one

DELTA, HAIR, ALPHA = 0.1, 1e-6, 0.2
BLOCK_SIZE = 500

Draw = Callable[[np.random.Generator, tuple[int, int]], tuple[Any, Any]]


def _good(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Disagreement with another model: every loss is one, and most of them are losses."""
    proxy = rng.random(shape) < 1.25 * (ALPHA + HAIR)
    return proxy & (rng.random(shape) < 0.8), proxy


def _useless(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    return rng.random(shape) < ALPHA + HAIR, rng.random(shape) < 0.5


def _opposite(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    """It is high where the loss is low."""
    loss = rng.random(shape) < ALPHA + HAIR
    return loss, np.where(loss, 0.1, 0.8) + 0.2 * rng.random(shape)


def _constant(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    return rng.random(shape) < ALPHA + HAIR, np.full(shape, 0.7)


def _rare(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Nearly always 0, and a hundred times as large as usual on one example in a hundred, most of them losses."""
    large, loss = rng.random(shape) < 0.01, rng.random(shape) < ALPHA - 0.006 + HAIR
    loss = np.where(large, rng.random(shape) < ALPHA + 0.594, loss)
    return loss, np.where(large, 1.0, 0.01 * rng.random(shape))


def _to_both_sides(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    """Either end where there is a loss, by a coin, and the middle elsewhere: any slope that fits takes losses away."""
    loss = rng.random(shape) < ALPHA + HAIR
    return loss, np.where(loss, rng.random(shape) < 0.5, 0.5)


def _signed(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[Any, Any]:
    """A signed drop, and whether the answer changed at all."""
    u = rng.random(shape)
    drop = (u < 0.15 + HAIR).astype(np.int8) - (u > 0.9).astype(np.int8)
    return drop, (drop != 0) | (rng.random(shape) < 0.1)


def tested(draw: Draw, seed: int, **options: Any) -> Callable[[range], int]:
    """How many settings pass, all of which break their limit by a hair."""

    def misses(numbers: range) -> int:
        return sum(
            _passed(draw, [seed, start], min(BLOCK_SIZE, numbers.stop - start), **options)
            for start in range(numbers.start, numbers.stop, BLOCK_SIZE)
        )

    return misses


def _passed(draw: Draw, seed: list[int], m: int, n: int = 120, times: int = 3, at: float = ALPHA) -> int:
    rng = np.random.default_rng(seed)
    (loss, proxy), (_, elsewhere) = draw(rng, (m, n)), draw(rng, (m, times * n))
    settings = pd.DataFrame({"trial": np.arange(m)})
    free = np.zeros((m, n), dtype=bool)
    bounds = {"loss": (-1.0, 1.0)} if loss.dtype == np.int8 else None
    table = rf.LossTable(settings, {"loss": loss, "proxy": proxy, "free": free}, bounds=bounds)
    problem = rf.Problem(rf.Limit("loss", at_most=at, proxy="proxy"), minimize="free", delta=DELTA)
    others = rf.LossTable(settings, {"proxy": elsewhere})
    found = rf.calibrate(table, problem, method="alpha-delta-constrained", unlabelled=others)
    return int((found.path["p_value"] <= DELTA).sum())


def _of_group(rng: np.random.Generator, group: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
    """In one group the proxy tells of every loss, in the other it is always 0: only batches of one group are right."""
    loss = rng.random(shape) < np.where(group, ALPHA + HAIR, 0.05)
    return loss, group & (loss | (rng.random(shape) < 0.05))


def per_group(numbers: range, n: int = 240) -> int:
    """A limit in every group; the first is at the limit, the second far from it."""
    passed = 0
    for start in range(numbers.start, numbers.stop, BLOCK_SIZE):
        m = min(BLOCK_SIZE, numbers.stop - start)
        rng = np.random.default_rng([46, start])
        here, there = rng.random(n) < 0.5, rng.random(4 * n) < 0.5
        (loss, proxy), (_, elsewhere) = _of_group(rng, here, (m, n)), _of_group(rng, there, (m, 4 * n))
        settings = pd.DataFrame({"trial": np.arange(m)})
        losses = {"loss": loss, "proxy": proxy, "free": np.zeros((m, n), dtype=bool)}
        table = rf.LossTable(settings, losses, {"g": here})
        others = rf.LossTable(settings, {"proxy": elsewhere}, {"g": there})
        problem = rf.Problem("loss <= 0.2 per g proxy proxy", minimize="free", delta=DELTA)
        found = rf.calibrate(table, problem, method="alpha-delta-constrained", unlabelled=others)
        passed += int((found.path["p_value"] <= DELTA).sum())
    return passed


def whole(number: int, m: int = 8, n: int = 150) -> bool:
    """Planning, a path and a fallback test: settings from safe to broken by a hair, which alone would be worth having."""
    rng = np.random.default_rng([47, number])
    risks = np.where(np.arange(m) < 4, 0.08, ALPHA + HAIR)[:, None]

    def drawn(size: int) -> tuple[Any, Any]:
        proxy = rng.random((m, size)) < 1.25 * risks
        return proxy & (rng.random((m, size)) < 0.8), proxy

    (loss, proxy), (_, elsewhere) = drawn(n), drawn(3 * n)
    settings = pd.DataFrame({"k": np.arange(m)})
    cost = np.repeat(np.linspace(1, 0, m)[:, None], n, axis=1)
    table = rf.LossTable(settings, {"loss": loss, "proxy": proxy, "cost": cost})
    problem = rf.Problem(rf.Limit("loss", at_most=ALPHA, proxy="proxy"), minimize="cost", delta=DELTA)
    found = rf.calibrate(table, problem, seed=number, unlabelled=rf.LossTable(settings, {"proxy": elsewhere}))
    return bool((found.certified["k"] >= 4).any())


def poor(numbers: range) -> int:
    """Proxies that say nothing, or next to nothing, and a signed loss; by turns."""
    kinds = ((_useless, ALPHA), (_constant, ALPHA), (_rare, ALPHA), (_signed, 0.05))
    passed = 0
    for start in range(numbers.start, numbers.stop, BLOCK_SIZE):
        draw, at = kinds[start // BLOCK_SIZE % len(kinds)]
        passed += _passed(draw, [41, start], min(BLOCK_SIZE, numbers.stop - start), at=at)
    return passed


SUITES = [
    Suite("unlabelled: good proxy", tested(_good, 40), 24_000),
    Suite("unlabelled: opposite proxy", tested(_opposite, 42), 24_000),
    Suite("unlabelled: poor proxies", poor, 48_000),
    Suite("unlabelled: proxy to both sides", tested(_to_both_sides, 48, n=70, times=10), 24_000),
    Suite("unlabelled: few examples", tested(_to_both_sides, 49, n=40, times=4), 24_000),
    Suite("unlabelled: in every group", per_group, 24_000),
    Suite("unlabelled: path and fallback test", one_by_one(whole), 1_500),
]
