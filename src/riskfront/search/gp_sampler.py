"""Optuna's Gaussian-process sampler, several times as fast where every dimension is discrete.

Optuna looks for the best proposal along one whole number after the other, a point at a time. Here all neighbours of all
starting points are evaluated together. And Optuna lists every value of a whole number: one with too many for that is
modelled as a real number and rounded. Imported only when such a search is made: it needs Optuna at import.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import GPSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from riskfront.arrays import FloatArray

_SAMPLES = 512  # of the whole space, to start from the best of them
_STARTS = 5
_ROUNDS = 20
_DRAWS = 32  # of the values a setting may take; with Optuna's 128 six simulated searches were slower and no better
_MANY = 64  # choices of a dimension beyond which its line is not looked at whole
_TOO_MANY = 10_000  # choices beyond which Optuna's lists of them take longer than all else


class LatticeGPSampler(GPSampler):
    """Improves the acquisition function one dimension at a time, on whole lines; otherwise as Optuna does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._n_qmc_samples_ehvi = _DRAWS

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        found = super().sample_relative(study, trial, {name: _listable(d) for name, d in search_space.items()})
        return {name: _within(search_space[name], value) for name, value in found.items()}

    def _optimize_acqf(self, acqf: Any, best_params: FloatArray | None) -> FloatArray:
        """The point of the unit cube, (dimensions,), that the acquisition function likes best."""
        space = acqf.search_space
        lines = space.get_choices_of_discrete_params()
        if len(space.continuous_indices) or max(map(len, lines)) > _MANY:
            return np.asarray(super()._optimize_acqf(acqf, best_params))
        sampled = space.sample_normalized_params(_SAMPLES, rng=self._rng.rng)
        values = acqf.eval_acqf_no_grad(sampled)
        top = np.argsort(-values, kind="stable")[:_STARTS]
        points, values = sampled[top], values[top]
        if best_params is not None:
            points = np.vstack([points, best_params])
            values = np.concatenate([values, acqf.eval_acqf_no_grad(best_params)])
        for _ in range(_ROUNDS):
            neighbours = np.stack([_neighbours(point, lines) for point in points])
            found = acqf.eval_acqf_no_grad(neighbours.reshape(-1, space.dim)).reshape(neighbours.shape[:2])
            better = found.max(axis=1) > values
            if not better.any():
                break
            best = found.argmax(axis=1)
            points = np.where(better[:, None], neighbours[np.arange(len(points)), best], points)
            values = np.maximum(values, found.max(axis=1))
        return np.asarray(points[np.argmax(values)])


def _listable(distribution: BaseDistribution) -> BaseDistribution:
    """The same, or a real number that covers a whole number of too many values, half a step beyond either end."""
    if not isinstance(distribution, IntDistribution) or distribution.high - distribution.low < _TOO_MANY:
        return distribution
    return FloatDistribution(distribution.low - 0.5, distribution.high + 0.5, log=distribution.log)


def _within(distribution: BaseDistribution, value: Any) -> Any:
    if not isinstance(distribution, IntDistribution):
        return value
    return min(max(round(value), distribution.low), distribution.high)


def _neighbours(point: FloatArray, lines: list[FloatArray]) -> FloatArray:
    """Every point that differs in one dimension at most, (points, dimensions)."""
    found = np.repeat(point[None], sum(map(len, lines)), axis=0)
    start = 0
    for dimension, choices in enumerate(lines):
        found[start : start + len(choices), dimension] = choices
        start += len(choices)
    return found
