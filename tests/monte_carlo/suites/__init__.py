"""Simulations through the public doors, by name. test_public_doors.py runs them, tests/mutants breaks what they guard."""

from tests.monte_carlo.suites import (
    cascades,
    doors,
    frontiers,
    limits,
    models,
    procedures,
    statements,
    tables,
    targets,
    unlabelled,
)

_PARTS = (
    procedures,
    statements,
    limits,
    tables,
    models,
    targets,
    unlabelled,
    doors,
    frontiers,
    cascades,
)
SUITES = {suite.name: suite for part in _PARTS for suite in part.SUITES}
