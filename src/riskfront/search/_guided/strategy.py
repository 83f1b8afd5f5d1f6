"""Guided search: spend the evaluations where a setting could be certified and be worth it.

A setting far below a limit wastes the free objectives, one far above it will never be certified. Between the two lies
the region of interest (`LimitTarget.region`); only the front inside it is searched, by scikit-learn's Gaussian processes
and expected hypervolume improvement. Regions rest on planning values and on counts of examples, never on testing examples, so
every guarantee stands. The study is one of Optuna's, so that several machines can search together. Made for ten to some
hundred evaluations: the time of a proposal grows with the cube of their number, a tenth of a second at 100.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import betainc, betaincc

from riskfront._problems.spaces.space import Space
from riskfront.errors import InvalidInputError
from riskfront.search._optuna_search import OptunaSearch, import_optuna, make_distributions

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


class GuidedSearch(OptunaSearch):
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
        storage: str | BaseStorage | None = None,
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
        super().__init__(
            space,
            names,
            seed=seed,
            budget=budget,
            sampler=RegionSampler(space, make_distributions(space), names, known, seed),
            n_startup=n_startup,
            storage=storage,
            study_name=study_name,
        )


@dataclass(frozen=True, slots=True)
class Region:
    """Planning risks in [low, high] are compatible with a true risk of r_max, the largest testing risk still rejected.

    r_max is 0 where even a setting without a loss fails the test: nothing will be certified, and none is more promising.
    """

    r_max: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LimitTarget:
    """A limit as a search needs it: the objective's name, alpha in units of [0, 1], and the examples it is judged on.

    For a limit on some examples only (per class, given a condition), the counts are those of these examples.
    """

    name: str
    alpha: float
    n_opt: int
    n_test: int

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InvalidInputError(f"alpha must lie in (0, 1); got {self.alpha!r} for {self.name}.")
        if self.n_opt < 1 or self.n_test < 1:
            raise InvalidInputError(
                f"n_opt and n_test must be at least 1; got {self.n_opt!r} and {self.n_test!r} for {self.name}."
            )

    def region(self, delta: float, delta_prime: float = 0.01) -> Region:
        """The interval of planning risks that a setting of true risk r_max shows, but for delta_prime in either tail.

        Counts are binomial: exact for 0/1 losses, and on the wide side for other losses in [0, 1], which vary less.
        """
        for name, level in (("delta", delta), ("delta_prime", delta_prime)):
            if not 0 < level < 1:
                raise InvalidInputError(f"{name} must lie in (0, 1); got {level!r}.")
        # The number of counts whose p-value, P(Bin(n_test, alpha) <= k), is at most delta.
        rejected = bisect_left(range(self.n_test), True, key=lambda k: _at_most(k, self.n_test, self.alpha) > delta)
        r_max = max(rejected - 1, 0) / self.n_test
        n = self.n_opt
        low = bisect_left(range(n), True, key=lambda k: _at_most(k, n, r_max) >= delta_prime)
        above = bisect_left(range(1, n + 1), True, key=lambda k: _at_least(k, n, r_max) < delta_prime)
        return Region(r_max, low / n, above / n)


def _at_most(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) <= k) for 0 <= k < n."""
    return float(betaincc(k + 1, n - k, p))


def _at_least(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) >= k) for 1 <= k <= n."""
    return float(betainc(k, n - k + 1, p))
