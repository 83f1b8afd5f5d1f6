"""How many examples plan, and how much of delta the safety net gets, by the number of examples and of settings.

Nothing else enters: a share that looked at losses would have seen the examples that test.
"""

from __future__ import annotations

#: where the numbers are not known: for those who split by hand
USUAL_PLANNING_SHARE, USUAL_NET_SHARE = 0.2, 0.1


def planning_share(n_examples: int, n_settings: int) -> float:
    """The share of the examples that plan."""
    return 0.2


def net_share(n_examples: int, n_settings: int) -> float:
    """The share of delta that goes to a test of all settings on all examples."""
    return 0.1
