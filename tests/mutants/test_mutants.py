"""A handful of mutants in CI, and a look at whether all of them still fit the code. ``make mutants`` runs all in full."""

import pytest

from tests.monte_carlo.suites import SUITES
from tests.mutants.trial_of_mutants import MUTANTS, judge_all

#: mutants that simulations once let through
SURVIVORS = [
    "half of the opt rows inside the test part",
    "undivided budget on the wide walk",
    "holm off by one",
    "a setting skipped between chunks",
    "classes known only from opt data forgotten",
]
#: all mutants in one test took two minutes of a busy machine, and a test has five
PARTS = 8


@pytest.mark.monte_carlo
@pytest.mark.parametrize("name", SURVIVORS)
def test_mutants_that_once_survived_are_caught(name: str) -> None:
    (found,) = judge_all([(name, MUTANTS[name].suite)], seconds=200)
    assert found.status == "caught"


@pytest.mark.monte_carlo
@pytest.mark.parametrize("part", range(PARTS))
def test_every_mutant_fits_the_code(part: int) -> None:
    """A mutant that ends in an error that is not riskfront's own proves nothing: the code has moved on, write it anew."""
    chosen = list(MUTANTS.items())[part::PARTS]
    few = judge_all([(name, mutant.suite) for name, mutant in chosen], share=0.001, seconds=200)
    assert [(v.mutant, v.words) for v in few if v.status == "broken"] == []


def test_mutants_name_suites_that_exist_and_cover_all_of_them() -> None:
    assert {mutant.suite for mutant in MUTANTS.values()} == set(SUITES)
    assert len(MUTANTS) > 40
