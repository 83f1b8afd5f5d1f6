"""What a method brings along: words for the report, and a seed for plans that draw."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import riskfront as rf
from riskfront._reporting.sentences import how_made
from riskfront.methods import METHODS, Plan
from riskfront.statistics import FixedSequence
from tests.support.tables import random_table


@dataclass(frozen=True)
class Drawn:
    """Settings in a random order: a plan that draws."""

    name: ClassVar[str] = "drawn"
    guaranteed: ClassVar[bool] = True
    opt_fraction: ClassVar[float] = 0.3

    def plan(self, opt: rf.LossTable, problem: rf.Problem, seed: int) -> Plan:
        return Plan(self, opt, np.random.default_rng(seed).permutation(opt.n_configs), FixedSequence())


@pytest.mark.parametrize("name", METHODS)
def test_every_built_in_method_has_words(name: str) -> None:
    assert METHODS[name].words.endswith(".")


def test_a_plan_that_draws_gets_the_seed() -> None:
    table, problem = random_table(), rf.Problem(["error <= 0.5"], ["cost"])
    first, again, other = (rf.calibrate(table, problem, method=Drawn(), seed=seed) for seed in (0, 0, 1))
    assert first.tested[["a", "b"]].equals(again.tested[["a", "b"]])
    assert not first.tested[["a", "b"]].equals(other.tested[["a", "b"]])
    assert how_made(first)["In words"] == "A method of your own."
