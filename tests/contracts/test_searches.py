"""What every search strategy must do: the public contract, on every registered name; no output, no change to logging."""

import logging
from functools import partial

import pytest

from riskfront.search import STRATEGIES, LimitTarget, RandomSearch, make_search
from riskfront.testing import check_search
from riskfront.testing._searches import MIXED, OBJECTIVES

STARTUP = 5
ENOUGH = STARTUP + 1  # the surrogate, where there is one, has proposed a setting; each proposal takes it a second
#: what else to try of a strategy than its defaults
VARIANTS = {"optuna": [{"sampler": sampler} for sampler in ("nsga2", "tpe")]}
CASES = [(name, options) for name in STRATEGIES for options in VARIANTS.get(name, [{}])]


NAMES = ["-".join([name, *options.values()]) for name, options in CASES]


def build(name, options, space, objectives, *, seed, budget):
    options = dict(options)
    if name in ("optuna", "parego", "guided"):
        options["n_startup"] = STARTUP
    if name == "guided":
        limits = objectives[:-1] or objectives
        options |= {"targets": [LimitTarget(n, alpha=0.3, n_opt=200, n_test=200) for n in limits], "delta": 0.1}
    return make_search(name, space, list(objectives), seed=seed, budget=budget, **options)


def factory(name, options):
    pytest.importorskip({"optuna": "optuna", "parego": "smac", "guided": "optuna"}.get(name, "numpy"))
    return partial(build, name, options)


@pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)
def test_the_contract(name, options, capfd, caplog):
    """Nothing is printed or logged, and logging is left alone."""
    levels = {logger: logging.getLogger(logger).level for logger in ("", "optuna", "smac")}
    check_search(factory(name, options), evaluations=ENOUGH)
    output = capfd.readouterr()
    assert (output.out, output.err, caplog.text) == ("", "", "")
    assert levels[""] == logging.getLogger().level


@pytest.mark.parametrize(("name", "options"), CASES, ids=NAMES)
def test_numpy_values_and_equal_numbers_are_taken(name, options):
    import numpy as np

    from riskfront import Float, Int, Space

    search = factory(name, options)(Space(x=Float(0, 4), n=Int(0, 9)), OBJECTIVES, seed=0, budget=24)
    search.tell({"x": np.int64(1), "n": 3.0}, {"error": np.float32(0.25), "cost": 1})
    assert len(search.ask()) == 1


class Broken(RandomSearch):
    """A search with one fault."""

    fault = ""

    def ask(self, n=1):
        asked = super().ask(n)
        if self.fault == "forgets":
            return [{**MIXED.grid(2)[0]}] * n
        if self.fault == "wrong types":
            return [{name: str(value) for name, value in config.items()} for config in asked]
        return asked

    def tell(self, config, values):
        if self.fault == "takes all":
            return
        super().tell(config, values)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("forgets", "6 asks must give 6 different settings; got 6, 1 of them different"),
        ("wrong types", "asks for new settings of the space"),
        ("takes all", "bad values and settings are refused: tell"),
    ],
)
def test_a_broken_search_fails_the_contract(fault, words):
    def make(space, objectives, *, seed, budget):
        search = Broken(space, objectives, seed=seed, budget=budget)
        search.fault = fault
        return search

    with pytest.raises(AssertionError, match=words):
        check_search(make)
