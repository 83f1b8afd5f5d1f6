"""Guided search: spend the evaluations where a setting could be certified and be worth it.

A setting far below a limit wastes the free objectives, one far above it will never be certified. Between the two lies
the region of interest (`LimitTarget.region`); only the front inside it is searched, by scikit-learn's Gaussian processes
and expected hypervolume improvement. Regions rest on opt values and on counts of examples, never on testing examples, so every
guarantee stands. The study is one of Optuna's, so that several machines can search together. Made for ten to some hundred
evaluations: the time of a proposal grows with the cube of their number, a tenth of a second at 100.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from riskfront._problems.spaces.space import Config, Space
from riskfront.errors import InvalidInputError
from riskfront.search._guided.region import LimitTarget
from riskfront.search._ledger import startup_size
from riskfront.search._optuna_search import OptunaSearch, import_optuna, make_distributions

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


class GuidedSearch:
    """The front inside the regions of interest of all `targets`, each told as an objective of the target's name.

    `delta` is the level of the coming test, `delta_prime` the chance of missing a setting at either edge of a region.
    `n_startup`, `storage` and `study_name` are those of `OptunaSearch`.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[str],
        *,
        targets: Sequence[LimitTarget],
        delta: float,
        delta_prime: float = 0.01,
        seed: int = 0,
        budget: int = 200,
        n_startup: int | None = None,
        storage: "str | BaseStorage | None" = None,
        study_name: str | None = None,
    ) -> None:
        names = [objectives] if isinstance(objectives, str) else list(objectives)
        if not targets or not {t.name for t in targets} <= set(names):
            raise InvalidInputError(
                f"targets must hold at least one limit, each named as one of the objectives {names}; "
                f"got {[t.name for t in targets]}."
            )
        self.regions = {t.name: t.region(delta, delta_prime) for t in targets}
        import_optuna()
        from riskfront.search._guided.region_sampler import RegionSampler

        known = {t.name: (t, self.regions[t.name]) for t in targets}
        self._search = OptunaSearch(
            space,
            names,
            seed=seed,
            budget=budget,
            sampler=RegionSampler(space, make_distributions(space), names, known, seed),
            n_startup=startup_size(budget) if n_startup is None else n_startup,
            storage=storage,
            study_name=study_name,
        )

    def ask(self, n: int = 1) -> list[Config]:
        return self._search.ask(n)

    def tell(self, config: Config, values: Mapping[str, float]) -> None:
        self._search.tell(config, values)

    def belong_to(self, task: Callable[[], Mapping[str, str]]) -> None:
        self._search.belong_to(task)

    def remembered(self) -> list[Config]:
        return self._search.remembered()
