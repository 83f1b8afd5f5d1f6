"""The command behind the validity page: every guarantee is on it, too many misses are seen, and traps are traps."""

import pytest

from riskfront.methods import METHODS
from riskfront.methods._registry import BY_NAME
from riskfront.statistics._p_values import NAMES
from tests.monte_carlo.suites import SUITES
from tests.mutants.trial_of_mutants import MUTANTS
from tests.validity.doors import count_misses
from tests.validity.guarantees import FAMILIES, NO_GUARANTEE, guaranteed_methods, of_p_values, of_procedures
from tests.validity.measured import Measured
from tests.validity.page import page
from tests.validity.traps import TRAPS, Faulty
from tests.validity.trial_of_traps import Fell, try_trap

SMALL = [trap for trap in TRAPS if not isinstance(trap, Faulty) and "chosen" not in trap.name]


def test_every_method_with_a_guarantee_is_on_the_page() -> None:
    assert {name for name in BY_NAME if METHODS[name].guaranteed} <= set(guaranteed_methods())
    assert any("knob" in suite for suite in SUITES)  # which must be declared, and is guarded by a suite


def test_every_p_value_and_procedure_is_on_the_page() -> None:
    named = {line.guarantee for line in of_p_values(2)}
    assert named == set(NAMES) - {"auto"}
    assert {line.guarantee for line in of_procedures(2)} > {"holm", "fixed sequence", "fallback"}


def test_doors_are_counted_in_parts_and_a_run_goes_on(tmp_path) -> None:
    asked, kept = {"calibrate: holm": range(7, 67)}, tmp_path / "kept.jsonl"
    misses = SUITES["calibrate: holm"].misses(range(7, 67))
    ((name, counted, seconds),) = count_misses(asked, 2, kept)
    assert (name, counted) == ("calibrate: holm", misses)
    whole = kept.read_text().splitlines()
    assert len(whole) == 2
    kept.write_text(whole[0] + "\n")  # as if the run had been stopped
    assert [found[:2] for found in count_misses(asked, 1, kept)] == [(name, misses)]
    assert kept.read_text().splitlines()[0] == whole[0]
    kept.write_text("\n".join(whole))
    assert list(count_misses(asked, 1, kept)) == [(name, misses, pytest.approx(seconds))]  # nothing is counted again


def test_suites_left_out_exist() -> None:
    assert set(NO_GUARANTEE) <= set(SUITES)
    assert {trap.mutant for trap in TRAPS if isinstance(trap, Faulty)} <= set(MUTANTS)


def test_too_many_misses_are_seen_and_few_are_not() -> None:
    assert Measured("methods", "broken", "somewhere", 200, 1000).fails
    assert not Measured("methods", "right", "somewhere", 120, 1000).fails
    low, high = Measured("methods", "right", "somewhere", 0, 100).interval
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 100))  # the exact interval of none


@pytest.mark.monte_carlo
@pytest.mark.parametrize("trap", SMALL, ids=lambda trap: trap.name)
def test_a_trap_is_fallen_into_there_and_not_here(trap) -> None:
    assert try_trap(trap, 1000).as_it_should


def test_the_page() -> None:
    lines = [Measured(family, "a guarantee", "a population", 9, 100) for family in FAMILIES]
    text = page(
        [*lines, Measured("methods", "broken", "b", 90, 100)], [Fell("a trap", "on", "there", "here", True)], 100, 60
    )
    assert text.startswith("# Validity")
    assert "| methods: a guarantee | 1 | 0.090 |" in text
    assert "**1 fail.**" in text
    assert "0.900 **fails**" in text
    assert "| a trap | on | there | here |" in text
