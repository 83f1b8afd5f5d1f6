"""Simulations through the public doors, by name. test_public_doors.py runs them, tests/mutants breaks what they guard."""

from tests.monte_carlo.suites import limits, models, procedures, tables, targets, unlabelled

SUITES = {
    suite.name: suite for part in (procedures, limits, tables, models, targets, unlabelled) for suite in part.SUITES
}
