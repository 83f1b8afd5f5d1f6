"""riskfront broken on purpose, in more than forty ways: the simulations must notice every one of them.

``make mutants`` (``python -m tests.mutants``) applies each, runs the suite of tests/monte_carlo/suites that guards it, and
prints whether it was caught. test_mutants.py keeps a handful in CI.
"""
