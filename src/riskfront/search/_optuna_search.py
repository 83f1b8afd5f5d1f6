"""Optuna's samplers behind ask / tell, with the study in memory or in a storage that several machines share."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from riskfront._problems.spaces.dimensions import Dimension, Float, Int
from riskfront._problems.spaces.space import Config, Space, config_id
from riskfront.errors import InvalidInputError, MissingExtraError, StoreError
from riskfront.search._grid_search import RandomSearch
from riskfront.search._ledger import Ledger, quiet, startup_size

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SamplerName: TypeAlias = Literal["tpe", "nsga2"]

_PROPOSALS = 3  # how often a sampler may repeat itself before a random fresh setting takes the place
_OPENINGS = 3  # how often to try to open a study
_PATIENCE = 3  # a setting that others take so many times as long for as for any before is taken to be lost
_OWNER = "riskfront task "  # user attributes of a study, by task
_LEAST_PATIENCE = 10.0  # seconds


class OptunaSearch:
    """A multi-objective Optuna study. `sampler` is "tpe", "nsga2" or any Optuna sampler.

    The first `n_startup` settings are quasi-random. With `storage` (any SQLAlchemy URL, such as "sqlite:///run.db" or
    "postgresql+psycopg://user@host/database", whose driver you install, or an Optuna storage object) and one
    `study_name`, several machines search together: each sees what the others asked and were told, and a later run goes on
    with the study. Machines that start at the same moment with the same seed may evaluate some settings twice. A setting
    that another process asked for and does not tell, because it was killed, is asked again: after ten seconds and three
    times as long as any setting has taken, or when nothing else is left.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[str],
        *,
        seed: int = 0,
        budget: int = 200,
        sampler: "SamplerName | BaseSampler" = "tpe",
        n_startup: int | None = None,
        storage: "str | BaseStorage | None" = None,
        study_name: str | None = None,
    ) -> None:
        import_optuna()
        if storage is not None and study_name is None:
            raise InvalidInputError("study_name must be given with a storage, so that others can join the study.")
        self._ledger = Ledger(space, objectives, seed)
        self._distributions = make_distributions(space)
        self._n_startup = startup_size(budget) if n_startup is None else n_startup
        self._shared = storage is not None
        with quiet("optuna"):
            self._study = _open_study(storage, study_name, len(self._ledger.objectives))
            n_before = self._check_same_study(study_name)
            # Whoever joins a study must not replay the points it began with.
            seeds = [int(s) for s in np.random.SeedSequence([seed, n_before]).generate_state(2)]
            self._study.sampler = _make_sampler(sampler, seeds[0], budget, self._n_startup)
        self._startup = RandomSearch(space, objectives, seed=seeds[1])
        self._running: dict[str, int] = {}  # the trials this search is to tell, by setting
        self._first_seen: dict[int, float] = {}  # running trials of other processes

    def ask(self, n: int = 1) -> list[Config]:
        with quiet("optuna"):
            return list(islice(iter(self._next, None), n))

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        checked, numbers = self._ledger.record(config, values)
        with quiet("optuna"):
            number = self._running.pop(config_id(checked), None)
            if number is None and self._shared:
                number = next((t.number for t in self._trials() if t.params == checked), None)
            if number is not None:
                self._study.tell(number, numbers, skip_if_finished=True)
                return
            create = import_optuna().trial.create_trial
            self._study.add_trial(create(params=checked, distributions=self._distributions, values=list(numbers)))

    def belong_to(self, task: Callable[[], Mapping[str, str]]) -> None:
        """A study in a storage belongs to the first task that used it: all who join it must share its planning examples."""
        if not self._shared:
            return
        own = dict(task())
        with quiet("optuna"):
            if not self._owners():
                if self._study.get_trials(deepcopy=False):
                    raise self._refused("it has trials and does not say of which task")
                # one entry a task: of two that join at the same moment, each sees the other's below, whoever comes first
                self._study.set_user_attr(f"{_OWNER}{config_id(own)}", own)
            different = {
                part for known in self._owners() for part in {**own, **known} if own.get(part) != known.get(part)
            }
        if different:
            raise self._refused(f"other {', '.join(sorted(different))}")

    def _owners(self) -> list[dict[str, str]]:
        return [task for name, task in self._study.user_attrs.items() if name.startswith(_OWNER)]

    def _refused(self, found: str) -> InvalidInputError:
        return InvalidInputError(
            f"the study {self._study.study_name!r} must be of this very task; got {found}. What it was told may be of examples "
            "that are tested here: give another study_name, or the same task, split and seed."
        )

    def remembered(self) -> list[Config]:
        """Every setting told, by whichever process, in the order in which they were asked or first told."""
        trials = self._trials(import_optuna().trial.TrialState.COMPLETE)
        return [self._ledger.space.check(t.params) for t in sorted(trials, key=lambda t: t.number)]

    def _next(self) -> Config | None:
        trials = self._trials()
        if not self._shared:
            return self._propose(trials)
        for trial in trials:
            self._ledger.claim(self._ledger.space.check(trial.params))
        return self._take_over(trials, _patience(trials)) or self._propose(trials) or self._take_over(trials, 0.0)

    def _propose(self, trials: "list[FrozenTrial]") -> Config | None:
        if self._ledger.exhausted:
            return None
        for _ in range(_PROPOSALS):
            if len(trials) < self._n_startup:
                for point in self._startup.ask():
                    self._study.enqueue_trial(point)
            trial = self._study.ask(self._distributions)
            config = self._ledger.space.check(trial.params)
            if self._ledger.claim(config):
                self._running[config_id(config)] = trial.number
                return config
            self._study.tell(trial, state=import_optuna().trial.TrialState.FAIL)
        return self._ledger.fresh()

    def _take_over(self, trials: "list[FrozenTrial]", patience: float) -> Config | None:
        """A setting that another process is busy with, as this one has seen for `patience` seconds: it may have been killed.

        If it was only slow, whoever tells first counts. Only this process's own clock is trusted.
        """
        now = time.monotonic()
        for trial in trials:
            if trial.state.is_finished() or trial.number in self._running.values():
                continue
            if now - self._first_seen.setdefault(trial.number, now) >= patience:
                config = self._ledger.space.check(trial.params)
                self._running[config_id(config)] = trial.number
                return config
        return None

    def _trials(self, *states: Any) -> "list[FrozenTrial]":
        state = import_optuna().trial.TrialState
        trials = self._study.get_trials(deepcopy=False, states=states or (state.COMPLETE, state.RUNNING))
        # A trial that another machine is just making has only some of its parameters yet.
        return [t for t in trials if t.params.keys() == self._distributions.keys()]

    def _check_same_study(self, name: str | None) -> int:
        """The number of trials already in the study, which must be one of this space and these objectives."""
        trials = self._study.get_trials(deepcopy=False)
        known = self._distributions.items()
        same = len(self._study.directions) == len(self._ledger.objectives)
        if not same or any(not t.distributions.items() <= known for t in trials):
            raise InvalidInputError(
                f"The study {name!r} must have the same space and number of objectives as this search; "
                "it was made for others. Choose another study_name."
            )
        return len(trials)


def _patience(trials: "list[FrozenTrial]") -> float:
    """How many seconds a setting may take before it is taken to be lost; endless while none was told."""
    taken = [trial.duration.total_seconds() for trial in trials if trial.duration is not None]
    return max(_LEAST_PATIENCE, _PATIENCE * max(taken)) if taken else math.inf


def import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("optuna", "search") from error
    return optuna


def _open_study(storage: "str | BaseStorage | None", name: str | None, n_objectives: int) -> "Study":
    from sqlalchemy.exc import DBAPIError

    known: dict[str, Any] = {"storage": storage, "study_name": name, "load_if_exists": True}
    left = _OPENINGS
    while True:
        try:
            return import_optuna().create_study(directions=["minimize"] * n_objectives, **known)
        except DBAPIError as error:
            left -= 1
            if not left:
                said = f"the study {name!r} must be in a database that can be opened; got {error.orig}."
                raise StoreError(said) from error
            time.sleep(1.0)  # processes that start at once on an empty database all make its tables, and one succeeds


def make_distributions(space: Space) -> "dict[str, BaseDistribution]":
    """The dimensions of a space as Optuna knows them."""
    return {name: _distribution(dimension) for name, dimension in space.dimensions.items()}


def _distribution(dimension: Dimension) -> "BaseDistribution":
    distributions = import_optuna().distributions
    if isinstance(dimension, Float):
        return distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    if isinstance(dimension, Int):
        return distributions.IntDistribution(dimension.low, dimension.high, log=dimension.log)
    return distributions.CategoricalDistribution(dimension.options)


def _make_sampler(sampler: "SamplerName | BaseSampler", seed: int, budget: int, n_startup: int) -> "BaseSampler":
    samplers = import_optuna().samplers
    if isinstance(sampler, samplers.BaseSampler):
        return sampler
    if sampler == "tpe":
        return samplers.TPESampler(seed=seed, n_startup_trials=n_startup, multivariate=True)
    if sampler == "nsga2":
        return samplers.NSGAIISampler(seed=seed, population_size=max(4, min(50, budget // 5)))
    raise InvalidInputError(
        f'sampler must be "tpe", "nsga2" or an Optuna sampler, such as GPSampler(seed=0); got {sampler!r}.'
    )
