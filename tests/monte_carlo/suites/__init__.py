"""Simulations through the public doors, by name. test_public_doors.py runs them, tests/mutants breaks what they guard."""

from tests.monte_carlo.suites import limits, models, procedures, statements, tables, targets

SUITES = {
    suite.name: suite for part in (procedures, limits, tables, models, targets, statements) for suite in part.SUITES
}
