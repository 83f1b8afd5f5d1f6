"""How many examples plan, and how much of delta the safety net gets, by the number of examples and of settings.

Nothing else enters: a share that looked at losses would have seen the examples that test.

Both rest on ``benchmarks/default_shares.py`` (its table is ``benchmarks/results/default_shares.md``: a grid, a worst class, a
cascade, prompts without structure, prompts with a trade-off; 300 to 5,000 examples) and on the grid of 6,480 settings of
``benchmarks/power.py``. What they show: the optimum is flat. Where few settings lie far apart (cascades, prompts) smoothing
helps little and .3 plans best; on grids of thousands .15 to .2 does. A net of .1 costs next to nothing and saves most trials in
which the path fails at once; with a few hundred settings .2 is as cheap, and half of delta is too much wherever settings
have structure.
"""

from __future__ import annotations

import math

#: where the numbers are not known: for those who split by hand
USUAL_PLANNING_SHARE, USUAL_NET_SHARE = 0.2, 0.1

_FEW, _MANY = 400, 5_000  # settings
_LEAST_EXAMPLES = 50  # fewer tell no setting from another


def planning_share(n_examples: int, n_settings: int) -> float:
    """The share of the examples that plan: .3 for few settings, falling to .15 for thousands; more if examples are few."""
    between = math.log(max(n_settings, _FEW) / _FEW) / math.log(_MANY / _FEW)
    share = 0.3 - 0.15 * min(between, 1.0)
    return round(max(share, min(0.3, _LEAST_EXAMPLES / max(n_examples, 1))), 3)


def net_share(n_examples: int, n_settings: int) -> float:
    """The share of delta that goes to a test of all settings on all examples: .2 for few settings, .1 for more."""
    return 0.2 if n_settings <= _FEW else 0.1
