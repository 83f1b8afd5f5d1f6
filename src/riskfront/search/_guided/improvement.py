"""What one more setting is worth to guided search: expected hypervolume improvement inside the region of interest.

Draw a threshold for each limit: what a setting that is just certifiable may show on planning examples. Among the settings below
it, the certificate would take the one with the lowest free objective. A new setting is worth what it is expected to lower
that by, on average over thresholds. As a mean over thresholds this is a hypervolume (of the volume below the reference
point that the front leaves free, weighted by how likely a threshold is); it has a closed form in the last objective.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from riskfront._support.arrays import FloatArray
from riskfront.search._guided.region import LimitTarget, Region

_DRAWS = 64
_FAR = -6.0  # standard deviations from which on the expected improvement is told by its leading term


def log_odds(risk: FloatArray, n: int) -> FloatArray:
    """Risks in [0, 1] of n examples on a scale where settings near a small limit are as far apart as others."""
    count = np.clip(risk, 0, 1) * n
    return np.log((count + 0.5) / (n - count + 0.5))


def draw_levels(dimensions: int, rng: np.random.Generator) -> FloatArray:
    """(draws, dimensions) even points of the unit cube."""
    from scipy.stats import qmc  # slow to import

    return np.asarray(qmc.Sobol(dimensions, rng=rng).random(_DRAWS)) if dimensions else np.zeros((1, 0))


def thresholds(target: LimitTarget, region: Region, levels: FloatArray) -> FloatArray:
    """Opt risks of a setting whose test risk is just certifiable: normal, cut to the region of interest."""
    spread = np.sqrt(region.r_max * (1 - region.r_max) * (1 / target.n_opt + 1 / target.n_test))
    return np.clip(region.r_max + spread * ndtri(np.clip(levels, 1e-9, 1 - 1e-9)), region.low, region.high)


def log_improvement(
    limited: list[tuple[FloatArray, FloatArray]], free: tuple[FloatArray, FloatArray], at: FloatArray, best: FloatArray
) -> FloatArray:
    """The logarithm of the expected improvement, (candidates,).

    Args:
        limited: mean and standard deviation, (candidates,) each, of every value that has thresholds.
        free: the same of the value to be lowered.
        at: thresholds, (draws, values).
        best: the lowest free value so far below each threshold, (draws,).
    """
    mean, deviation = free
    worth = _log_expected_drop((best - mean[:, None]) / deviation[:, None]) + np.log(deviation)[:, None]
    for (mean, deviation), limits in zip(limited, at.T, strict=True):
        worth += log_ndtr((limits - mean[:, None]) / deviation[:, None])
    return np.asarray(logsumexp(worth, axis=1))


def _log_expected_drop(z: FloatArray) -> FloatArray:
    """log E max(z - X, 0) for a standard normal X."""
    near = np.maximum(z, _FAR)
    density = -0.5 * np.log(2 * np.pi) - 0.5 * z**2
    close = np.log(near * ndtr(near) + np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi))
    return np.where(z > _FAR, close, density - 2 * np.log(np.maximum(-z, 1)))
