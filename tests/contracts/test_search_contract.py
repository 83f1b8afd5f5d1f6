"""One suite that every search strategy passes: ask / tell are honoured whatever the strategy is built on."""

import logging
import math

import pytest

from riskfront.errors import InvalidInputError
from riskfront.search import LimitTarget, Search, make_search
from riskfront.spaces.space import Choice, Float, Int, Space, config_id

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

STARTUP = 5
STRATEGIES = {
    "grid": ("grid", {}),
    "random": ("random", {}),
    "optuna-nsga2": ("optuna", {"sampler": "nsga2", "n_startup": STARTUP}),
    "optuna-tpe": ("optuna", {"sampler": "tpe", "n_startup": STARTUP}),
    "optuna-gp": ("optuna", {"sampler": "gp", "n_startup": STARTUP}),
    "parego": ("parego", {"n_startup": STARTUP}),
    "guided": ("guided", {"n_startup": STARTUP}),
}
ENOUGH = STARTUP + 1  # the surrogate, where there is one, has proposed a setting; each proposal takes it a second


@pytest.fixture(params=STRATEGIES)
def make(request):
    name, options = STRATEGIES[request.param]

    def build(space=MIXED, objectives=("error", "cost"), seed=0, budget=24):
        extra = dict(options)
        if name == "guided":
            limits = objectives[:-1] or objectives
            extra["targets"] = [LimitTarget(n, alpha=0.3, n_opt=200, n_test=200) for n in limits]
            extra["delta"] = 0.1
        return make_search(name, space, list(objectives), seed=seed, budget=budget, **extra)

    return build


def evaluate(config, objectives=("error", "cost")):
    """Smooth trade-offs in [0, 1] that depend on every dimension."""
    place = sum(int(digit, 16) for digit in config_id(config)) / (16 * 15)
    x = config.get("exit at", place) * 0.8 + 0.2 * (config.get("depth", config.get("n", 1)) / 12)
    curves = [1 - x, x**2, abs(x - 0.5), math.sin(x)]
    return dict(zip(objectives, curves[-1:] if len(objectives) == 1 else curves, strict=False))


def run(search, n, objectives=("error", "cost")):
    configs = []
    for _ in range(n):
        asked = search.ask()
        configs += asked
        for config in asked:
            search.tell(config, evaluate(config, objectives))
    return configs


def ids(configs):
    return [config_id(c) for c in configs]


def test_is_a_search_and_asks_for_fresh_settings_of_the_space(make):
    search = make()
    assert isinstance(search, Search)
    configs = run(search, ENOUGH)
    assert len(configs) == len(set(ids(configs))) == ENOUGH
    for config in configs:
        checked = MIXED.check(config)
        assert checked == config
        assert [type(v) for v in checked.values()] == [type(v) for v in config.values()]


def test_is_repeatable_by_seed(make):
    first, again = (run(make(seed=3), ENOUGH) for _ in range(2))
    assert first == again
    assert first[:2] != make(seed=4).ask(2)


def test_parallel_asks_and_late_unordered_tells(make):
    search = make()
    run(search, STARTUP - 2)
    batch = search.ask(2)
    more = search.ask(2)
    assert len(set(ids(batch + more))) == 4
    for config in reversed(batch + more):
        search.tell(config, evaluate(config))
    assert len(search.ask()) == 1


def test_settings_told_but_never_asked_are_learned_from_and_not_asked(make):
    search = make()
    foreign = make(seed=9).ask(4)
    for config in foreign:
        search.tell(config, evaluate(config))
    asked = run(search, 2)
    assert not set(ids(foreign)) & set(ids(asked))


def test_a_setting_may_be_told_twice(make):
    search = make()
    configs = run(search, STARTUP)
    search.tell(configs[0], evaluate(configs[0]))
    assert len(search.ask()) == 1


def test_a_finite_space_is_asked_whole_and_then_no_more(make):
    search = make(space=FINITE)
    configs = run(search, 20)
    assert sorted(ids(configs)) == sorted(ids(FINITE.grid(9)))
    assert search.ask(5) == []


# Of the widest and the narrowest dimensions there are, and of the largest values, each strategy makes something.
EXTREMES = {
    "wide": (Space(n=Int(-(2**53), 2**53), k=Int(1, 2**40, log=True)), ENOUGH),
    "tiny": (Space(x=Float(0, 1e-300), y=Float(1e-300, 1e300, log=True)), ENOUGH),
    "narrow": (Space(x=Float(1.0, 1.0000000000000004)), 3),  # there are three such numbers
    "switches": (Space(**{f"c{i}": Choice([False, True]) for i in range(30)}), ENOUGH),
}


@pytest.mark.parametrize("kind", EXTREMES)
def test_spaces_at_the_limits_of_numbers(make, kind):
    space, n = EXTREMES[kind]
    configs = run(make(space=space), n + 1)
    assert len(set(ids(configs))) == len(configs) == (3 if n == 3 else ENOUGH + 1)


def test_the_largest_values_there_are(make):
    search = make()
    for i in range(ENOUGH):
        (config,) = search.ask()
        search.tell(config, {"error": evaluate(config)["error"], "cost": (-1) ** i * 1.5e308})
    assert len(search.ask()) == 1
    search.tell(config, {"error": 0.5, "cost": 10**400})


def test_asking_for_more_than_there_is(make):
    assert len(make(space=FINITE).ask(50)) == 8


@pytest.mark.parametrize("objectives", [("error",), ("error", "recall", "cost"), ("error", "recall", "skips", "cost")])
def test_other_numbers_of_objectives(make, objectives):
    search = make(objectives=objectives)
    configs = run(search, ENOUGH, objectives)
    assert len(set(ids(configs))) == ENOUGH


def test_numpy_values_and_equal_numbers_are_taken(make):
    import numpy as np

    search = make(space=Space(x=Float(0, 4), n=Int(0, 9)))
    search.tell({"x": np.int64(1), "n": 3.0}, {"error": np.float32(0.25), "cost": 1})
    assert len(search.ask()) == 1


@pytest.mark.parametrize(
    "values",
    [{"error": 0.1}, {"error": 0.1, "cost": float("nan")}, {"error": 0.1, "cost": "x"}, {"error": 1, "b": 1}, 0.5],
)
def test_bad_values_are_refused(make, values):
    search = make()
    (config,) = search.ask()
    with pytest.raises(InvalidInputError):
        search.tell(config, values)
    search.tell(config, evaluate(config))


def test_settings_outside_the_space_are_refused(make):
    with pytest.raises(InvalidInputError, match="exactly the keys"):
        make().tell({"x": 1}, {"error": 0.1, "cost": 0.1})


def test_says_nothing_and_leaves_logging_alone(make, capfd, caplog):
    levels = {name: logging.getLogger(name).level for name in ("", "optuna", "smac")}
    run(make(), ENOUGH)
    output = capfd.readouterr()
    assert (output.out, output.err, caplog.text) == ("", "", "")
    assert levels[""] == logging.getLogger().level
