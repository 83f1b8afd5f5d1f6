"""What is particular to single strategies and to `make_search`; what they share is in the contract suite."""

import builtins
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

from riskfront._problems.spaces.space import Choice, Float, Int, Space, config_id
from riskfront.errors import InvalidInputError, MissingExtraError, StoreError
from riskfront.search import STRATEGIES, GridSearch, LimitTarget, OptunaSearch, RandomSearch, make_search
from riskfront.search._ledger import Remembering
from tests.support.processes import output

SPACE = Space(x=Float(0, 1), n=Int(1, 3), m=Choice(["a", "b"]))
OBJECTIVES = ["error", "cost"]


def tell(search, config):
    search.tell(config, {"error": config["x"], "cost": (1 - config["x"]) * config["n"]})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"search": "bayes"}, "one of"),
        ({"search": object()}, "ask and tell"),
        ({"search": GridSearch}, "ask and tell"),
        ({"search": "random", "budget": 0}, "budget"),
        ({"search": "random", "budget": 2.5}, "budget"),
        ({"search": "random", "seed": -1}, "seed"),
        ({"search": "random", "points": 3}, "options of random"),
        ({"search": "guided", "delta": 0.1}, "needs \\['delta', 'targets'\\]"),
        ({"search": "random", "objectives": []}, "objectives"),
        ({"search": "random", "objectives": ["a", "a"]}, "objectives"),
        ({"search": "random", "space": {"x": Float(0, 1)}}, "space"),
        ({"search": "grid", "space": {"x": Float(0, 1)}}, "space"),
        ({"search": "optuna", "sampler": "cma"}, "sampler"),
        ({"search": "optuna", "storage": "sqlite:///x.db"}, "study_name"),
    ],
)
def test_make_search_refuses(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        make_search(**{"space": SPACE, "objectives": OBJECTIVES, **arguments})


def test_make_search_takes_an_object_as_it_is():
    search = RandomSearch(SPACE, OBJECTIVES)
    assert make_search(search, SPACE, OBJECTIVES) is search
    with pytest.raises(InvalidInputError, match="options"):
        make_search(search, SPACE, OBJECTIVES, points=3)


def test_grid_takes_the_finest_grid_within_the_budget():
    for budget in (1, 7, 25, 200):
        configs = make_search("grid", SPACE, OBJECTIVES, budget=budget).ask(10_000)
        assert max(2, budget // 2) <= len(configs) <= max(2, budget)  # the two options are never left out
    assert len(make_search("grid", SPACE, OBJECTIVES, points=5).ask(10_000)) == 5 * 3 * 2


def test_a_grid_of_many_choices_is_never_listed():
    space = Space(**{f"c{i}": Choice([0, 1]) for i in range(30)}, x=Float(0, 1))
    search = make_search("grid", space, OBJECTIVES, budget=50)
    configs = search.ask(50)
    assert len({config_id(c) for c in configs}) == 50
    assert {c["x"] for c in configs} == {0.5}
    assert all(5 < sum(c[f"c{i}"] for c in configs) < 45 for i in range(30)), "an even sample"
    wide = Space(**{f"c{i}": Choice([0, 1]) for i in range(80)})
    assert len(make_search("grid", wide, OBJECTIVES, budget=50).ask(50)) == 50


def test_grids_are_asked_in_the_order_they_always_were():
    configs = SPACE.grid(5)
    order = np.random.default_rng(3).permutation(len(configs))
    assert make_search("grid", SPACE, OBJECTIVES, points=5, seed=3).ask(99) == [configs[i] for i in order]


def test_grids_are_the_same_in_every_process():
    code = (
        "from riskfront.search import make_search; from riskfront._problems.spaces.space import *\n"
        "print(make_search('grid', Space(head=Int(0, 17), token=Int(0, 19), exit=Int(0, 17)), ['e'], budget=25).ask(25))"
    )
    assert len({output([sys.executable, "-c", code], env={"PYTHONHASHSEED": str(i)}) for i in range(4)}) == 1


def test_random_search_covers_evenly():
    configs = make_search("random", Space(x=Float(0, 1), y=Float(0, 1)), OBJECTIVES).ask(16)
    cells = {(int(c["x"] * 4), int(c["y"] * 4)) for c in configs}
    assert len(cells) == 16


@pytest.mark.parametrize("sampler", ["nsga2", "tpe"])
def test_machines_that_share_a_storage_search_together(tmp_path, sampler):
    options = {"storage": f"sqlite:///{tmp_path}/run.db", "study_name": "shared", "sampler": sampler, "budget": 40}
    here = make_search("optuna", SPACE, OBJECTIVES, **options)
    there = make_search("optuna", SPACE, OBJECTIVES, **options)  # the same seed
    asked = []
    for _ in range(6):
        for search in (here, there):
            (config,) = search.ask()
            asked.append(config)
            tell(search, config)
    assert len({config_id(c) for c in asked}) == 12
    assert len(here._study.trials) >= 12
    # A run that stopped with a setting in flight: another tells it, and it is then no longer running.
    (in_flight,) = here.ask()
    later = make_search("optuna", SPACE, OBJECTIVES, **options)
    tell(later, in_flight)
    assert not [t for t in later._study.trials if t.state.name == "RUNNING"]
    for search in (here, there, later):
        search._study._storage.remove_session()


def test_settings_that_a_killed_process_was_busy_with_are_asked_again(tmp_path, monkeypatch):
    options = {"storage": f"sqlite:///{tmp_path}/run.db", "study_name": "shared", "sampler": "tpe", "budget": 40}
    killed = make_search("optuna", SPACE, OBJECTIVES, **options)
    (done,) = killed.ask()
    tell(killed, done)
    lost = killed.ask(2)
    clock = [1000.0]
    monkeypatch.setattr("riskfront.search._optuna_search.time.monotonic", lambda: clock[0])
    later = make_search("optuna", SPACE, OBJECTIVES, **options)
    for wait in (0.0, 9.0):  # for all it knows the other process is still at work
        clock[0] += wait
        (config,) = later.ask()
        assert config not in lost
        tell(later, config)
    clock[0] += 1.0
    assert later.ask(2) == lost
    (config,) = later.ask()
    assert config not in lost, "once is enough"
    for config in lost:
        tell(later, config)
        tell(killed, config)  # it was only slow
    complete = [t.params for t in later._study.trials if t.state.name == "COMPLETE"]
    assert all(complete.count(config) == 1 for config in lost)
    for search in (killed, later):
        search._study._storage.remove_session()


def test_settings_in_flight_are_asked_again_when_nothing_else_is_left(tmp_path):
    options = {"storage": f"sqlite:///{tmp_path}/run.db", "study_name": "shared", "sampler": "tpe"}
    space = Space(n=Int(1, 4))
    killed = make_search("optuna", space, ["error"], **options)
    lost = killed.ask(2)
    later = make_search("optuna", space, ["error"], **options)
    asked = []
    while batch := later.ask():
        asked += batch
        later.tell(batch[0], {"error": 0.5})
    assert sorted(config["n"] for config in asked) == [1, 2, 3, 4]
    assert asked[2:] == lost
    assert sum(t.state.name == "COMPLETE" for t in later._study.trials) == 4
    for search in (killed, later):
        search._study._storage.remove_session()


def test_a_study_is_told_of_a_setting_once_and_remembers_it(tmp_path):
    options = {"storage": f"sqlite:///{tmp_path}/run.db", "study_name": "shared", "sampler": "tpe"}
    first = make_search("optuna", SPACE, OBJECTIVES, **options)
    configs = [{"x": 0.25, "n": 1, "m": "a"}, *first.ask(2)]
    for config in configs:
        tell(first, config)
    later = make_search("optuna", SPACE, OBJECTIVES, **options)
    for config in configs:
        tell(later, config)
    assert len(later._study.trials) == 3
    assert later.remembered() == first.remembered() == [*configs[1:], configs[0]]
    for search in (first, later):
        search._study._storage.remove_session()


def test_a_database_that_another_process_is_just_preparing_is_tried_again(monkeypatch):
    import optuna
    from sqlalchemy.exc import IntegrityError

    create, failures = optuna.create_study, [IntegrityError("CREATE TYPE", None, Exception("already exists"))]

    def busy(**options):
        if failures:
            raise failures.pop()
        return create(**options)

    monkeypatch.setattr(optuna, "create_study", busy)
    monkeypatch.setattr("riskfront.search._optuna_search.time.sleep", lambda _: None)
    assert make_search("optuna", SPACE, OBJECTIVES, sampler="tpe").ask()
    failures += [IntegrityError("CREATE TYPE", None, Exception("broken"))] * 3
    with pytest.raises(StoreError, match="must be in a database that can be opened; got broken"):
        make_search("optuna", SPACE, OBJECTIVES, sampler="tpe")


def test_a_study_of_another_space_is_refused(tmp_path):
    options = {"storage": f"sqlite:///{tmp_path}/run.db", "study_name": "shared", "sampler": "tpe"}
    search = make_search("optuna", SPACE, OBJECTIVES, **options)
    search.ask()
    for space, objectives in ((Space(x=Float(0, 2)), OBJECTIVES), (SPACE, ["a", "b", "c"])):
        with pytest.raises(InvalidInputError, match="another study_name"):
            make_search("optuna", space, objectives, **options)


def test_an_optuna_sampler_of_your_own():
    import optuna

    search = OptunaSearch(SPACE, OBJECTIVES, sampler=optuna.samplers.RandomSampler(seed=1), n_startup=0)
    assert len(search.ask(3)) == 3


@pytest.mark.parametrize(
    ("strategy", "package", "extra"),
    [("optuna", "optuna", "search"), ("parego", "smac", "parego")],
)
def test_a_missing_package_names_its_extra(monkeypatch, strategy, package, extra):
    real = builtins.__import__

    def without(name, *arguments, **keywords):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=rf"{package}.*riskfront\[{extra}\]"):
        make_search(strategy, SPACE, OBJECTIVES)


def test_importing_the_strategies_loads_no_optional_library():
    optional = ["optuna", "smac", "torch", "ConfigSpace"]
    code = f"import sys, riskfront.search; print([m for m in {optional} if m in sys.modules])"
    assert output([sys.executable, "-c", code]).strip() == "[]"


def test_every_search_with_a_storage_has_an_owner_and_a_memory() -> None:
    """Else tune would join a study that was told of its test examples, and repeat what was done."""
    target = LimitTarget("error", 0.1, 100, 200)
    options = {"guided": {"targets": [target], "delta": 0.1}}
    for name, strategy in STRATEGIES.items():
        if "storage" in inspect.signature(strategy).parameters:
            assert isinstance(make_search(name, SPACE, OBJECTIVES, **options.get(name, {})), Remembering), name


def test_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="must be in a database that can be opened; got unable to open"):
        make_search("optuna", SPACE, OBJECTIVES, storage=f"sqlite:///{tmp_path}/none/x.db", study_name="run")
