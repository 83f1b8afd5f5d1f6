"""The contract of a search: ask and tell are honoured, whatever the strategy is built on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from riskfront._problems.spaces.space import Choice, Config, Float, Int, Space, config_id
from riskfront.search import Search
from riskfront.testing._findings import Findings

OBJECTIVES = ("error", "cost")
MIXED = Space.from_dict(
    {
        "exit at": Float(0, 1),
        "rate": Float(1e-4, 1e-1, log=True),
        "depth": Int(1, 12),
        "width": Int(1, 8, log=True),
        "model": Choice(["small", "large", 3, True]),
        "fixed": Choice([7]),
    }
)
FINITE = Space(n=Int(1, 4), on=Choice([True, False]))
#: the widest and the narrowest dimensions there are, and how many settings they have at least
EXTREMES = {
    "numbers up to 2^53": (Space(n=Int(-(2**53), 2**53), k=Int(1, 2**40, log=True)), math.inf),
    "numbers near 0": (Space(x=Float(0, 1e-300), y=Float(1e-300, 1e300, log=True)), math.inf),
    "three numbers": (Space(x=Float(1.0, 1.0000000000000004)), 3),
    "30 switches": (Space.from_dict({f"c{i}": Choice([False, True]) for i in range(30)}), math.inf),
}


class SearchFactory(Protocol):
    """Makes a search: ``factory(space, objectives, seed=0, budget=24)``."""

    def __call__(self, space: Space, objectives: Sequence[str], *, seed: int, budget: int) -> Search: ...


def check_search(factory: SearchFactory, *, evaluations: int = 6, repeatable: bool = True) -> None:
    """Check that a search strategy of your own honours ask and tell.

    It asks for settings of the space that were never asked or told, in the space's own types; asks for every setting of a
    finite space and then for none; takes tells late, in any order, twice, of settings that it never asked for, and with the
    largest numbers; refuses values that are missing or not numbers, and settings outside of the space, with a ValueError;
    gives the same settings for the same seed; and works with one to four objectives.

    Args:
        factory: makes the search: ``factory(space, objectives, seed=0, budget=24)``, such as its class.
        evaluations: how many settings to evaluate in each check; enough that a surrogate model has proposed one.
        repeatable: whether the same seed must give the same settings.

    Raises:
        AssertionError: a rule is broken; says which, and what came instead.

    Examples:
        >>> from riskfront.search import RandomSearch
        >>> from riskfront.testing import check_search
        >>> check_search(RandomSearch)
    """
    found = Findings(f"the search {getattr(factory, '__name__', repr(factory))}", 0.0)
    rules: Mapping[str, Callable[[], str | None]] = {
        "asks for new settings of the space": lambda: _new_settings(factory, evaluations),
        "the same seed asks for the same settings": lambda: _repeatable(factory, evaluations) if repeatable else None,
        "tells may come late and in any order": lambda: _late_tells(factory, evaluations),
        "settings told but never asked are not asked": lambda: _foreign(factory),
        "a finite space is asked whole, then no more": lambda: _finite(factory),
        "one to four objectives": lambda: _objectives(factory, evaluations),
        "the largest values": lambda: _largest(factory, evaluations),
        "bad values and settings are refused": lambda: _refusals(factory),
        **{
            f"a space of {kind}": _extreme(factory, space, size, evaluations)
            for kind, (space, size) in EXTREMES.items()
        },
    }
    for rule, broken in rules.items():
        try:
            said = broken()
        except Exception as error:  # the user's search may raise anything
            said = f"it raised {type(error).__name__}: {error}"
        found.require(said is None, f"{rule}: {said}")
    found.end()


def values_at(config: Config, objectives: Sequence[str] = OBJECTIVES) -> dict[str, float]:
    """Smooth trade-offs in [0, 1]."""
    of: dict[str, Any] = dict(config)
    place = sum(int(digit, 16) for digit in config_id(config)) / (16 * 15)
    x = float(of.get("exit at", place)) * 0.8 + 0.2 * float(of.get("depth", of.get("n", 1))) / 12
    curves = [1 - x, x**2, abs(x - 0.5), math.sin(x)]
    return dict(zip(objectives, curves[-1:] if len(objectives) == 1 else curves, strict=False))


def _make(
    factory: SearchFactory, space: Space = MIXED, objectives: Sequence[str] = OBJECTIVES, seed: int = 0
) -> Search:
    return factory(space, list(objectives), seed=seed, budget=24)


def _run(search: Search, n: int, objectives: Sequence[str] = OBJECTIVES) -> list[Config]:
    """Ask one by one and tell; the settings that were asked."""
    configs = []
    for _ in range(n):
        asked = search.ask()
        configs += asked
        for config in asked:
            search.tell(config, values_at(config, objectives))
    return configs


def _ids(configs: Sequence[Config]) -> list[str]:
    return [config_id(config) for config in configs]


def _repeats(configs: Sequence[Config], wanted: int) -> str | None:
    different = len(set(_ids(configs)))
    if len(configs) == different == wanted:
        return None
    return f"{wanted} asks must give {wanted} different settings; got {len(configs)}, {different} of them different."


def _new_settings(factory: SearchFactory, n: int) -> str | None:
    made: object = _make(factory)
    if not isinstance(made, Search):
        return f"a search must have ask and tell; got {type(made).__name__}."
    configs = _run(made, n)
    for config in configs:
        checked = MIXED.check(config)
        if checked != config or [type(v) for v in checked.values()] != [type(v) for v in config.values()]:
            return f"a setting must hold the space's own values and types, such as {checked}; got {config}."
    return _repeats(configs, n)


def _repeatable(factory: SearchFactory, n: int) -> str | None:
    one, two = (_run(_make(factory, seed=3), n) for _ in range(2))
    other = _make(factory, seed=4).ask(2)
    for number, (asked, again) in enumerate(zip(one, two, strict=False), 1):
        if asked != again:
            return f"with seed 3 ask number {number} gave {asked}, and when made again {again}."
    return f"seeds 3 and 4 began with the same settings, {other}." if other == one[:2] else None


def _late_tells(factory: SearchFactory, n: int) -> str | None:
    search = _make(factory)
    known = _run(search, max(n - 3, 1))
    waiting = search.ask(2) + search.ask(2)
    if len(set(_ids(waiting))) != 4:
        return f"two asks of 2 without a tell must give 4 different settings; got {len(set(_ids(waiting)))}."
    for config in [*reversed(waiting), known[0]]:
        search.tell(config, values_at(config))
    return None if len(search.ask()) == 1 else "after late tells ask gave no setting."


def _foreign(factory: SearchFactory) -> str | None:
    search, foreign = _make(factory), _make(factory, seed=9).ask(4)
    for config in foreign:
        search.tell(config, values_at(config))
    again = set(_ids(foreign)) & set(_ids(_run(search, 2)))
    return f"{len(again)} of 2 settings that it asked for had been told before." if again else None


def _finite(factory: SearchFactory) -> str | None:
    search = _make(factory, FINITE)
    asked, there = _run(search, 20), _ids(FINITE.grid(9))
    if sorted(_ids(asked)) != sorted(there):
        return (
            f"20 asks of a space of {len(there)} settings gave {len(asked)}, {len(set(_ids(asked)))} of them different."
        )
    if left := search.ask(5):
        return f"every setting had been asked; ask(5) gave {len(left)} more."
    many = _make(factory, FINITE).ask(50)
    return None if len(many) == len(there) else f"ask(50) of {len(there)} settings gave {len(many)}."


def _objectives(factory: SearchFactory, n: int) -> str | None:
    for objectives in (("error",), ("error", "recall", "cost"), ("error", "recall", "skips", "cost")):
        if said := _repeats(_run(_make(factory, objectives=objectives), n, objectives), n):
            return f"{len(objectives)} objectives: {said}"
    return None


def _extreme(factory: SearchFactory, space: Space, size: float, n: int) -> Callable[[], str | None]:
    return lambda: _repeats(_run(_make(factory, space), n + 1), int(min(n + 1, size)))


def _largest(factory: SearchFactory, n: int) -> str | None:
    search = _make(factory)
    for i in range(n):
        (config,) = search.ask()
        search.tell(config, {"error": values_at(config)["error"], "cost": (-1) ** i * 1.5e308})
    if len(search.ask()) != 1:
        return "after costs of 1.5e308 and -1.5e308 ask gave no setting."
    search.tell(config, {"error": 0.5, "cost": 10**400})
    return None


def _refusals(factory: SearchFactory) -> str | None:
    search = _make(factory)
    (config,) = search.ask()
    bad: tuple[tuple[Any, Any], ...] = (
        (config, {"error": 0.1}),
        (config, {"error": 0.1, "cost": math.nan}),
        (config, {"error": 0.1, "cost": "x"}),
        (config, {"error": 1, "b": 1}),
        (config, 0.5),
        ({"x": 1}, {"error": 0.1, "cost": 0.1}),
    )
    for told, values in bad:
        try:
            search.tell(told, values)
        except ValueError:
            continue
        return f"tell({'config' if told is config else told}, {values}) must raise a ValueError; it was taken."
    search.tell(config, values_at(config))
    return None
