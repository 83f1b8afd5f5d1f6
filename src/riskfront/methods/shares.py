"""How many examples plan, and how much of delta the safety net gets, by the numbers of examples and of settings, and by
whether any two settings are alike at all.

Nothing else enters: a share that looked at losses would have seen the examples that test.

Both rest on ``benchmarks/default_shares.py`` (its table is ``benchmarks/results/default_shares.md``: a grid, a worst class, a
cascade, prompts without structure, prompts with a trade-off; 300 to 5,000 examples) and on the grid of 6,480 settings of
``benchmarks/power.py``. What they show: the optimum is flat. Where few settings lie far apart (cascades, prompts) smoothing
helps little and .3 plans best; on grids of thousands .2 does (on 6,480 settings .15 and .3 are within noise of it at 5,000
examples, and .15 is one to two points worse at 1,000). A net of .1 costs next to nothing and saves most trials in which the
path fails at once; with a few hundred settings .2 is as cheap, and half of delta is too much wherever settings have
structure. Where they have none (names of prompts), half of delta is best: 60 prompts and 300 examples leave nothing certified
in .13 of trials without a net, .02 with .2, none with .5, as with Bonferroni. With thousands of settings and few examples the
net catches little: on 6,480 settings and 500 examples a share of .1 cost two to fourteen points of excess, one of .05 none
to four, so that they get .05.
"""

from __future__ import annotations

import math

#: where the numbers are not known: for those who split by hand
USUAL_PLANNING_SHARE, USUAL_NET_SHARE = 0.2, 0.1

_FEW, _SEVERAL, _MANY, _HUGE = 400, 2_000, 5_000, 20_000  # settings
_LEAST_EXAMPLES = 50  # fewer tell no setting from another


def planning_share(n_examples: int, n_settings: int, alike: bool = True) -> float:
    """The share of the examples that plan: .3 for few settings, falling to .2 for thousands; more if examples are few."""
    between = math.log(max(n_settings, _FEW) / _FEW) / math.log(_MANY / _FEW)
    share = 0.3 - 0.1 * min(between, 1.0)
    return round(max(share, min(0.3, _LEAST_EXAMPLES / max(n_examples, 1))), 3)


def net_share(n_examples: int, n_settings: int, alike: bool = True) -> float:
    """The share of delta that goes to a test of all settings on all examples.

    .5 where no two settings are alike; else .2 for few settings, .05 for thousands. None beyond 20,000, where a test of every
    single one takes minutes and each gets next to nothing of delta.
    """
    if n_settings > _HUGE:
        return 0.0
    if not alike:
        return 0.5
    return 0.2 if n_settings <= _FEW else 0.1 if n_settings <= _SEVERAL else 0.05
