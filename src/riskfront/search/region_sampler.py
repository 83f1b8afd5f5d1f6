"""An Optuna sampler that looks for the front inside the regions of interest only.

Imported by guided search alone, and only when one is made: it needs Optuna at import.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from riskfront.search.region import Region


class RegionSampler(BaseSampler):
    """A surrogate sampler that is shown every past trial with its violations of the regions as constraints.

    Constraints are worked out afresh for each proposal, from the values in the study alone, so that settings told by
    other machines, or before this search began, count like its own.
    """

    def __init__(self, surrogate: BaseSampler, objectives: Sequence[str], regions: Mapping[str, Region]) -> None:
        self._surrogate = surrogate
        self._objectives = tuple(objectives)
        self._regions = dict(regions)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        # Not the surrogate's own answer: it keeps a cache that is bound to the studies it is shown below.
        space = optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))
        return {name: distribution for name, distribution in space.items() if not distribution.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        past = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING))
        view = optuna.create_study(directions=study.directions, sampler=self._surrogate)
        view.add_trials([self._seen(t) for t in past if search_space.keys() <= t.params.keys()])
        return view.ask(search_space).params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._surrogate.sample_independent(study, trial, param_name, param_distribution)

    def _seen(self, trial: FrozenTrial) -> FrozenTrial:
        finished = trial.state == TrialState.COMPLETE
        return optuna.trial.create_trial(
            state=trial.state,
            params=trial.params,
            distributions=trial.distributions,
            values=trial.values if finished else None,
            constraints=self._violations(trial.values) if finished else None,
        )

    def _violations(self, values: Sequence[float]) -> dict[str, float]:
        """How far each limit's risk lies below and above its region; at most 0 inside."""
        violations = {}
        for name, value in zip(self._objectives, values, strict=True):
            if name in self._regions:
                region = self._regions[name]
                violations[f"{name} above"] = value - region.high
                if region.low > 0:  # no risk lies below 0, and each constraint costs a model
                    violations[f"{name} below"] = region.low - value
        return violations
