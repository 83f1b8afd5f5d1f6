"""Search strategies: propose settings, learn from what is told.

One file a strategy; `make_search` knows them by name. Optional libraries are loaded when a strategy is made.

`guided`, the default of `tune`, certifies the cheapest settings at 25 to 200 evaluations (benchmarks/results/search.md): the
others look for the whole front, and what can be certified is a small part of it. A proposal takes it a tenth of a second at
100 evaluations; "tpe", the default sampler of `optuna` and the only other one that beats random search everywhere, takes a
hundredth.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from riskfront._problems.spaces.space import Space
from riskfront._support.values import plain
from riskfront.errors import InvalidInputError
from riskfront.search._grid_search import GridSearch, RandomSearch
from riskfront.search._guided.strategy import GuidedSearch, LimitTarget
from riskfront.search._ledger import Search
from riskfront.search._optuna_search import OptunaSearch
from riskfront.search._parego_search import ParEGOSearch

__all__ = [
    "STRATEGIES",
    "GridSearch",
    "GuidedSearch",
    "LimitTarget",
    "OptunaSearch",
    "ParEGOSearch",
    "RandomSearch",
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
