"""Simulations through the public doors, by name. test_public_doors.py runs them, tests/mutants breaks what they guard."""

from tests.monte_carlo.suites import (
    cascades,
    doors,
    failures,
    frontiers,
    identity,
    intake,
    limits,
    logs,
    models,
    monitoring,
    procedures,
    sequential,
    statements,
    tables,
    targets,
    unlabelled,
)

_PARTS = (
    procedures,
    sequential,
    statements,
    limits,
    tables,
    models,
    targets,
    unlabelled,
    doors,
    failures,
    frontiers,
    identity,
    cascades,
    intake,
    logs,
    monitoring,
)
SUITES = {suite.name: suite for part in _PARTS for suite in part.SUITES}
