"""Every guarantee on every hard population, and every known trap: the numbers of the validity page. ``make validity``.

A guarantee joins by the list that it stands in anyway: a p-value, a method or a procedure by its registry or contract suite, a
population by src/riskfront/testing/_populations.py, a public door by a suite in tests/monte_carlo/suites, a trap by a line in
traps.py.
"""
