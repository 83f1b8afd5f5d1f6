"""ParEGO through SMAC3, the optimiser of the paper's experiments (Knowles 2006; Lindauer et al. 2022)."""

import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import joblib

from riskfront._problems.spaces.space import Config, Dimension, Float, Int, Space, config_id
from riskfront.errors import MissingExtraError
from riskfront.search._ledger import Ledger, quiet, startup_size

if TYPE_CHECKING:
    from smac.runhistory import TrialInfo

_LEAVES = 2**12  # more than there will be settings told
_PROPOSALS = 3  # how often SMAC may repeat what is known before a random fresh setting takes the place
_CHALLENGERS = 1000  # candidates of the acquisition function; SMAC's own 10,000 take seconds for each setting


class ParEGOSearch:
    """SMAC3 with ParEGO: a new random weighting of the objectives, and a new surrogate, for every setting.

    The first `n_startup` settings are quasi-random. SMAC keeps settings in sets: to repeat a search in another process, set
    PYTHONHASHSEED as well as `seed`.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[str],
        *,
        seed: int = 0,
        budget: int = 200,
        n_startup: int | None = None,
    ) -> None:
        self._ledger = Ledger(space, objectives, seed)
        self._dimensions = list(space.dimensions.items())
        smac = _import_smac()
        with quiet("smac"):
            self._configspace = self._make_configspace(seed)
            self._smac = self._make_smac(smac, seed, budget, startup_size(budget) if n_startup is None else n_startup)
            # Asked once, SMAC is ready to be told of settings that are not its own; the answer waits for our first ask.
            self._waiting: list[TrialInfo] = [self._smac.ask()]
        self._running: dict[str, TrialInfo] = {}
        self._dry = False

    def ask(self, n: int = 1) -> list[Config]:
        # SMAC's forests are small: threads cost them ten times what they save.
        with quiet("smac"), joblib.parallel_config("sequential"):
            return list(islice(iter(self._next, None), n))

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        from smac.runhistory import TrialValue

        checked, numbers = self._ledger.record(config, values)
        with quiet("smac"):
            info = self._running.pop(config_id(checked), None) or self._foreign(checked)
            self._smac.tell(info, TrialValue(cost=list(numbers)), save=False)

    def _next(self) -> Config | None:
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        if self._ledger.exhausted:
            return None
        for _ in range(0 if self._dry else _PROPOSALS):
            try:
                info = self._waiting.pop() if self._waiting else self._smac.ask()
            except (StopIteration, ConfigurationSpaceExhaustedException):
                self._dry = True  # SMAC gives up before every last setting of a finite space is found
                break
            config = self._from_smac(info)
            if self._ledger.claim(config):
                self._running[config_id(config)] = info
                return config
        return self._ledger.fresh()

    # SMAC knows dimensions and options by number, and real numbers by their place in [0, 1]: names and values are free then.
    def _make_configspace(self, seed: int) -> Any:
        from ConfigSpace import Categorical, ConfigurationSpace, Integer
        from ConfigSpace import Float as Real

        space = ConfigurationSpace(seed=seed)
        for i, (_, dimension) in enumerate(self._dimensions):
            if isinstance(dimension, Float):
                space.add(Real(str(i), (0.0, 1.0)))
            elif isinstance(dimension, Int):
                space.add(Integer(str(i), (dimension.low, dimension.high), log=dimension.log))
            else:
                space.add(Categorical(str(i), list(range(dimension.size))))
        return space

    def _make_smac(self, smac: Any, seed: int, budget: int, n_startup: int) -> Any:
        from smac.multi_objective.parego import ParEGO

        facade = smac.HyperparameterOptimizationFacade
        # SMAC insists on writing its state; nothing is written again once it is made and told with save=False.
        with tempfile.TemporaryDirectory() as folder:
            scenario = smac.Scenario(
                self._configspace,
                name="parego",
                output_directory=folder,
                objectives=list(self._ledger.objectives),
                n_trials=budget,
                seed=seed,
                deterministic=True,
            )
            return facade(
                scenario,
                multi_objective_algorithm=ParEGO(scenario) if len(self._ledger.objectives) > 1 else None,
                intensifier=facade.get_intensifier(scenario, max_config_calls=1),
                model=self._make_forest(seed),
                initial_design=facade.get_initial_design(scenario, n_configs=n_startup, max_ratio=1.0),
                acquisition_maximizer=facade.get_acquisition_maximizer(scenario, challengers=_CHALLENGERS),
                config_selector=facade.get_config_selector(scenario, retrain_after=1),
                logging_level=False,
                overwrite=True,
            )

    def _make_forest(self, seed: int) -> Any:
        """SMAC's own forest for this facade, but for the memory its trees take before they grow (2**20 leaves)."""
        from smac.model.random_forest.random_forest import RandomForest

        return RandomForest(
            self._configspace,
            log_y=True,
            ratio_features=1.0,
            min_samples_split=2,
            min_samples_leaf=1,
            max_depth=2**20,
            max_leaf_nodes=_LEAVES,
            seed=seed,
        )

    def _from_smac(self, info: "TrialInfo") -> Config:
        found = {int(i): value for i, value in dict(info.config).items()}
        return self._ledger.space.check({name: _decode(d, found[i]) for i, (name, d) in enumerate(self._dimensions)})

    def _foreign(self, config: Config) -> "TrialInfo":
        """A setting SMAC did not ask for, under the one seed it gives to all its own: else it finds no more to do."""
        from ConfigSpace import Configuration
        from smac.runhistory import TrialInfo

        values = {str(i): _encode(dimension, config[name]) for i, (name, dimension) in enumerate(self._dimensions)}
        (key,) = self._smac.intensifier.get_instance_seed_keys_of_interest()
        return TrialInfo(Configuration(self._configspace, values=values), seed=key.seed)


def _encode(dimension: Dimension, value: Any) -> Any:
    if isinstance(dimension, Float):
        return dimension.to_unit(value)
    return value if isinstance(dimension, Int) else dimension.options.index(value)


def _decode(dimension: Dimension, value: Any) -> Any:
    if isinstance(dimension, Float):
        return dimension.from_unit(value)
    return value if isinstance(dimension, Int) else dimension.options[int(value)]


def _import_smac() -> Any:
    try:
        with quiet("smac"):
            import smac
    except ImportError as error:
        raise MissingExtraError("smac", "parego") from error
    return smac
