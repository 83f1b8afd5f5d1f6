"""Search strategies: propose settings, learn from what is told.

One file a strategy; `make_search` knows them by name. Optional libraries are loaded when a strategy is made.

Cost of the certified setting on a simulated early-exit classifier, mean of 6 seeds (benchmarks/search_strategies.py);
a full grid of 6,480 settings reaches 0.581. Each row is one search planned for its last column (grids: one a column):

    evaluations          25     50    100    200    seconds a setting
    random            0.654  0.629  0.606  0.599    none
    grid              0.750  0.608  0.626  0.600    none
    optuna, nsga2     0.668  0.614  0.599  0.591    0.01
    optuna, tpe       0.633  0.603  0.590  0.589    0.03
    optuna, gp        0.594  0.584                  1
    parego            0.672  0.620                  0.6
    guided            0.604  0.576                  1 to 3, more with more limits

So: `guided` or Optuna's default, "gp", when an evaluation takes seconds; "tpe" when it takes less. NSGA-II, ParEGO and
grids need more than 25 evaluations to beat random search.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from riskfront.dimensions import plain
from riskfront.errors import InvalidInputError
from riskfront.search.grid import GridSearch
from riskfront.search.guided import GuidedSearch
from riskfront.search.optuna import OptunaSearch
from riskfront.search.parego import ParEGOSearch
from riskfront.search.protocol import Search
from riskfront.search.random import RandomSearch
from riskfront.search.region import LimitTarget, Region
from riskfront.space import Space

__all__ = [
    "STRATEGIES",
    "GridSearch",
    "GuidedSearch",
    "LimitTarget",
    "OptunaSearch",
    "ParEGOSearch",
    "RandomSearch",
    "Region",
    "Search",
    "make_search",
]

STRATEGIES: Mapping[str, Callable[..., Search]] = MappingProxyType(
    {
        "grid": GridSearch,
        "random": RandomSearch,
        "optuna": OptunaSearch,
        "parego": ParEGOSearch,
        "guided": GuidedSearch,
    }
)


def make_search(
    search: str | Search,
    space: Space,
    objectives: Sequence[str],
    *,
    seed: int = 0,
    budget: int = 200,
    **options: Any,
) -> Search:
    """A search strategy by its name, or the object given if it has ask and tell already.

    `objectives` names what will be told, each to be minimised; `budget` is how many settings the caller means to ask
    for, which strategies plan by but do not enforce; `options` are those of the strategy's class.
    """
    if not isinstance(search, str):
        if not isinstance(search, Search) or isinstance(search, type):
            raise InvalidInputError(
                f"search must be one of {sorted(STRATEGIES)} or an object with ask and tell; got {search!r}."
            )
        if options:
            raise InvalidInputError(f"options must be given to the search object itself; got {sorted(options)}.")
        return search
    strategy = STRATEGIES.get(search)
    if strategy is None:
        raise InvalidInputError(f"search must be one of {sorted(STRATEGIES)}; got {search!r}.")
    seed, budget = plain(seed), plain(budget)
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise InvalidInputError(f"budget must be a whole number of at least 1; got {budget!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise InvalidInputError(f"seed must be a whole number from 0 to 2**32 - 1; got {seed!r}.")
    _check_options(search, strategy, options)
    return strategy(space, objectives, seed=seed, budget=budget, **options)


def _check_options(name: str, strategy: Callable[..., Search], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(strategy).parameters
    known = parameters.keys() - {"space", "objectives", "seed", "budget"}
    needed = {option for option in known if parameters[option].default is inspect.Parameter.empty}
    if not needed <= options.keys() <= known:
        needs = f", of which it needs {sorted(needed)}" if needed else ""
        raise InvalidInputError(f"The options of {name} are {sorted(known)}{needs}; got {sorted(options)}.")
