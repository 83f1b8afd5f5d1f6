"""An Optuna sampler that looks for the front inside the regions of interest only.

Imported by guided search alone, and only when one is made: it needs Optuna at import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri

from riskfront._problems.spaces.dimensions import Choice, Int
from riskfront._problems.spaces.space import Config, Space
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.search._guided.strategy import LimitTarget, Region
from riskfront.search._ledger import quiet

_AROUND = 5  # good settings that a large space is searched near


class RegionSampler(BaseSampler):
    """Proposes the setting of the largest expected improvement.

    It is worked out afresh for each proposal from the values in the study alone, so that settings told by other machines, or
    before this search began, count like its own. Settings still running are taken to turn out as predicted.
    """

    def __init__(
        self,
        space: Space,
        distributions: Mapping[str, BaseDistribution],
        objectives: Sequence[str],
        targets: Mapping[str, tuple[LimitTarget, Region]],
        seed: int,
    ) -> None:
        self._space = space
        self._distributions = {name: d for name, d in distributions.items() if not d.single()}
        self._targets = dict(targets)
        free = [name for name in objectives if name not in targets]
        # Where everything has a limit, the last of them is lowered.
        self._lowered = list(objectives).index(free[-1] if free else objectives[-1])
        self._names = list(objectives)
        self._surrogates = [Surrogate() for _ in objectives]
        self._rng = np.random.default_rng(seed)
        self._candidates = Candidates(space, self._rng)
        self._independent = optuna.samplers.RandomSampler(seed=seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        past = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING))
        past = [t for t in past if t.params.keys() == set(self._space)]
        told = [t for t in past if t.state == TrialState.COMPLETE]
        if len(told) < 2 or not search_space:
            return {}
        configs = [self._space.check(t.params) for t in told]
        running = [self._space.check(t.params) for t in past if t.state == TrialState.RUNNING]
        config = self._propose(configs, np.array([t.values for t in told]), running)
        return {} if config is None else {name: config[name] for name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _propose(self, configs: list[Config], told: FloatArray, running: list[Config]) -> Config | None:
        values = np.column_stack([self._scaled(i, column) for i, column in enumerate(told.T)])
        values = self._learn(configs, values, running)
        at = self._thresholds(values)
        limited = [i for i in range(len(self._names)) if i != self._lowered]
        below = (values[:, None, limited] <= at).all(axis=2)  # (settings, draws)
        lowered = values[:, self._lowered]
        # Below some thresholds there may be no setting yet. To find one is worth as much as the whole range told.
        best = np.where(below, lowered[:, None], lowered.max()).min(axis=0)

        def worth(points: FloatArray) -> FloatArray:
            predicted = [surrogate.predict(points) for surrogate in self._surrogates]
            return log_improvement([predicted[i] for i in limited], predicted[self._lowered], at, best)

        everyone = configs + running
        useful = np.argsort(-(below & (lowered[:, None] <= best)).sum(axis=1), kind="stable")[:_AROUND]
        return self._candidates.best(worth, [everyone[i] for i in useful], {tuple(c.values()) for c in everyone})

    def _learn(self, configs: list[Config], values: FloatArray, running: list[Config]) -> FloatArray:
        """Fit every surrogate; the values, (settings, told), with those predicted for settings still running."""
        points = self._candidates.points(configs)
        for surrogate, column in zip(self._surrogates, values.T, strict=True):
            surrogate.fit(points, column)
        if running:
            there = self._candidates.points(running)
            values = np.vstack([values, np.column_stack([s.predict(there)[0] for s in self._surrogates])])
            for surrogate, column in zip(self._surrogates, values.T, strict=True):
                surrogate.believe(np.vstack([points, there]), column)
        return values

    def _thresholds(self, values: FloatArray) -> FloatArray:
        """(draws, told values but the lowered one): of limits by their regions, of free objectives anywhere in their range."""
        names = [(i, name) for i, name in enumerate(self._names) if i != self._lowered]
        levels = draw_levels(len(names), self._rng)
        columns = []
        for (i, name), level in zip(names, levels.T, strict=True):
            if name in self._targets:
                columns.append(self._scaled(i, thresholds(*self._targets[name], level)))
            else:
                low, high = values[:, i].min(), values[:, i].max()
                columns.append(low + (high - low) * level)
        return np.stack(columns, axis=1) if columns else levels

    def _scaled(self, index: int, values: FloatArray) -> FloatArray:
        target = self._targets.get(self._names[index])
        return values if target is None else log_odds(values, target[0].n_opt)


_LENGTHS = (0.1, 10.0)  # of the kernel, in units of the space's sides
_SCALES = (0.05, 50.0)
_NOISES = (1e-6, 0.3)  # in units of the variance told
_GROWTH = 20  # kernels are fitted anew when a twentieth more is known, and kept in between


class Surrogate:
    """Learns a value from the settings told, and predicts it, with its uncertainty, for others."""

    def __init__(self) -> None:
        self._kernel: Any = None
        self._fitted_to = 0
        self._model: Any = None

    def fit(self, points: FloatArray, values: FloatArray) -> None:
        """Learn from all (settings, features) and their (settings,) values."""
        due = len(values) - self._fitted_to >= max(1, len(values) // _GROWTH)
        self.believe(points, values, "fmin_l_bfgs_b" if due else None)
        if due:
            self._kernel, self._fitted_to = self._model.kernel_, len(values)

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation, (settings,) each, of what would be told."""
        mean, deviation = self._model.predict(points, return_std=True)
        return mean, np.maximum(deviation, 1e-9)

    def believe(self, points: FloatArray, values: FloatArray, optimizer: str | None = None) -> None:
        """Take these values for granted, without learning a kernel from them unless there is an optimiser."""
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        kernel = self._kernel
        if kernel is None:
            smooth = ConstantKernel(1.0, _SCALES) * Matern([0.5] * points.shape[1], _LENGTHS, nu=2.5)
            # Two settings side by side differ by a little more than a smooth function does: examples flip one by one.
            kernel = smooth + WhiteKernel(1e-3, _NOISES)
        model = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
        with quiet("sklearn"):  # a kernel at its bounds is no news here: it means that a dimension does not matter
            self._model = model.fit(points, values)


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


_ALL = 10_000  # spaces up to here are looked through whole
_AT_RANDOM = 1_000
_STEPS = (0.1, 0.03, 0.01)  # lengths of the steps tried around good settings, in sides of the space
_TRIES = 100  # of each length
_KEPT = 5


class Candidates:
    """Settings of a space as points that a model can learn from: unit coordinates, and a column for each option."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space, self._rng = space, rng
        size = space.size
        self._all = [space.at(i) for i in range(size)] if size is not None and size <= _ALL else None
        self._all_points = None if self._all is None else self.points(self._all)

    def points(self, configs: Sequence[Config]) -> FloatArray:
        """(settings, features)."""
        columns: list[FloatArray] = []
        for name, dimension in self._space.dimensions.items():
            values = [config[name] for config in configs]
            if isinstance(dimension, Choice):
                codes = np.array([dimension.options.index(value) for value in values], dtype=np.int64)
                columns.extend(_one_column_each(codes, dimension.size))
            else:
                columns.append(np.array([dimension.to_unit(value) for value in values], dtype=np.float64))
        return np.stack(columns, axis=1) if columns else np.zeros((len(configs), 0))

    def best(
        self, worth: Callable[[FloatArray], FloatArray], around: Sequence[Config], known: set[tuple[object, ...]]
    ) -> Config | None:
        """The setting, other than those known, whose point is worth most, as `worth` says of (settings, features); None
        when all are known. A large space is looked at around good settings, and near the best found there."""
        if self._all is not None and self._all_points is not None:
            return self._pick(self._all.__getitem__, worth(self._all_points), known)
        units = np.vstack(
            [self._rng.random((_AT_RANDOM, len(self._space))), self._near(map(self._space.to_unit, around))]
        )
        values = worth(self._features(units))
        closer = self._near(units[np.argsort(-values)[:_KEPT]])
        units, values = np.vstack([units, closer]), np.concatenate([values, worth(self._features(closer))])
        return self._pick(lambda i: self._space.from_unit(units[i]), values, known)

    def _pick(
        self, config: Callable[[int], Config], values: FloatArray, known: set[tuple[object, ...]]
    ) -> Config | None:
        """The best setting that is not known; only those that come first are looked up."""
        ranked = (config(int(i)) for i in np.argsort(-values, kind="stable"))
        return next((found for found in ranked if tuple(found.values()) not in known), None)

    def _near(self, centres: Iterable[FloatArray]) -> FloatArray:
        """(points, dimensions): steps of several lengths from each centre, in some of the dimensions."""
        listed = list(centres)
        shape = (_TRIES // max(1, len(listed)) + 1, len(self._space))
        found = [
            centre + step * self._rng.standard_normal(shape) * (self._rng.random(shape) < 0.7)
            for centre in listed
            for step in _STEPS
        ]
        return np.clip(np.vstack([np.empty((0, len(self._space))), *found]), 0, 1)

    def _features(self, units: FloatArray) -> FloatArray:
        """(points, features) of the settings at these points of the unit cube, without making each of them."""
        columns: list[FloatArray] = []
        for u, dimension in zip(units.T, self._space.dimensions.values(), strict=True):
            if isinstance(dimension, Choice):
                codes = np.minimum((u * dimension.size).astype(np.int64), dimension.size - 1)
                columns.extend(_one_column_each(codes, dimension.size))
            elif isinstance(dimension, Int):
                columns.append(np.array([dimension.to_unit(dimension.from_unit(float(x))) for x in u]))
            else:
                columns.append(u)
        return np.stack(columns, axis=1) if columns else np.zeros((len(units), 0))


def _one_column_each(codes: IntArray, size: int) -> list[FloatArray]:
    return [(codes == i).astype(np.float64) for i in range(size if size > 1 else 0)]
