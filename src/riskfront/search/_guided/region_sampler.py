"""An Optuna sampler that looks for the front inside the regions of interest only.

Imported by guided search alone, and only when one is made: it needs Optuna at import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from riskfront._problems.spaces.space import Config, Space
from riskfront._support.arrays import FloatArray
from riskfront.search._guided.candidates import Candidates
from riskfront.search._guided.improvement import draw_levels, log_improvement, log_odds, thresholds
from riskfront.search._guided.region import LimitTarget, Region
from riskfront.search._guided.surrogate import Surrogate

_AROUND = 5  # good settings that a large space is searched near


class RegionSampler(BaseSampler):
    """Proposes the setting of the largest expected improvement; see `riskfront.search._guided.improvement`.

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
