"""Losses whose mean is exactly the limit, made to break a p-value that can be broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from riskfront._support.arrays import Array

Draw = Callable[[np.random.Generator, tuple[int, int]], Array]


@dataclass(frozen=True, slots=True)
class NullLosses:
    """A distribution of losses within ``bounds``, whose mean is at or above ``limit``.

    Args:
        draw: (rng, (tests, examples)) -> independent losses of that shape.
        binary: whether every loss is 0 or 1.
        examples: how many losses a test has.
    """

    draw: Draw
    limit: float
    bounds: tuple[float, float] = (0.0, 1.0)
    binary: bool = False
    examples: int = 250


def zero_one(mean: float, limit: float | None = None, examples: int = 250) -> NullLosses:
    """0/1 losses."""
    return NullLosses(
        lambda rng, shape: rng.random(shape) < mean, mean if limit is None else limit, (0, 1), True, examples
    )


def beta(mean: float, concentration: float) -> NullLosses:
    """Beta losses; a small concentration is nearly 0/1."""
    return NullLosses(lambda rng, shape: rng.beta(mean * concentration, (1 - mean) * concentration, shape), mean)


def uniform(mean: float) -> NullLosses:
    """Losses uniform on [0, 2 mean]."""
    return NullLosses(lambda rng, shape: 2 * mean * rng.random(shape), mean)


def nearly_constant(mean: float, noise: float = 1e-3) -> NullLosses:
    """The mean plus a little noise: a test that trusts a small variance rejects here."""
    return NullLosses(lambda rng, shape: mean + noise * (2 * rng.random(shape) - 1), mean)


def two_point(mean: float, share: float = 0.05) -> NullLosses:
    """Mostly a constant a little below the mean, and with probability share * mean a loss of 1 that makes up for it.

    Many samples see no 1 at all: no variance, and a mean below the limit.
    """
    rare = share * mean
    low = (mean - rare) / (1 - rare)
    return NullLosses(lambda rng, shape: np.where(rng.random(shape) < rare, 1.0, low), mean)


def signed(mean: float, flips: float) -> NullLosses:
    """The signed drop in {-1, 0, 1}: a share ``flips`` turns correct, flips + mean turn wrong."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
        u = rng.random(shape)
        return (u < flips + mean).astype(np.int8) - (u >= 1 - flips).astype(np.int8)

    return NullLosses(draw, mean, (-1, 1))


NULLS: dict[str, NullLosses] = {
    "0/1": zero_one(0.1),
    "0/1, rare": zero_one(0.01),
    "0/1, 15 examples": zero_one(0.1, examples=15),
    "0/1, mean 0.6": zero_one(0.6, limit=0.1),
    "beta": beta(0.1, 2.0),
    "beta, nearly 0/1": beta(0.1, 0.1),
    "uniform": uniform(0.1),
    "nearly constant": nearly_constant(0.1),
    "two-point": two_point(0.1),
    "signed, 5 % flips": signed(0.1, 0.05),
    "signed, 30 % flips": signed(0.1, 0.3),
    "signed, small limit": signed(0.025, 0.3),
}
