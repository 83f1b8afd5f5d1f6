"""How many examples plan, and how much of delta the fallback test gets, by the numbers of examples and of settings, and by how
many of these are alike.

Nothing else enters: a share that looked at losses would have seen the examples that test.

Both rest on ``benchmarks/default_shares.py`` (tables: ``benchmarks/results/default_shares.md``; a grid, a worst class, a
cascade, prompts without structure, prompts with a trade-off; 300 to 5,000 examples) and on the grid of 6,480 settings of
``benchmarks/power.py`` (``benchmarks/results/targets_clipped.md``). What they show: the optimum is flat
(with the same draws for every share: ``benchmarks/results/planning_shares.md``).

Planning. Where few settings are alike (cascades, prompts) smoothing helps little and .3 plans best; on a grid of thousands .15
plans as well and leaves more to test.

Fallback test. It loses little by a small share, since what counts there is the logarithm of the level of one setting; the path
loses more, since an exact test that could allow 15 errors at delta often allows 14 at .95 delta: on 6,480 settings a share of
.05 cost four to five points of excess with 500 and 1,000 examples, one of .01 nothing, and it still helps where paths fail at
once (a cascade of 315 settings, 1,000 examples: +23 % over the best with .01, +27 % with .05). Below a hundred settings .05 is
as cheap, and safer should numbers mean nothing: 60 prompts and 300 examples, +23 % instead of +108 %. Where no two settings
are alike (names of prompts), half of delta is best: the path is little better than chance, and the fallback test certifies
what Bonferroni would.
"""

from __future__ import annotations

import math

#: where the numbers are not known: for those who split by hand
USUAL_PLANNING_SHARE, USUAL_HOLM_SHARE = 0.2, 0.05

_HANDFUL, _FEW, _MANY, _HUGE = 100, 400, 5_000, 20_000  # settings
_LEAST_EXAMPLES = 50  # fewer tell no setting from another


def planning_share(n_examples: int, n_settings: int, alike: int | None = None) -> float:
    """The share of the examples that plan: .3 where few settings are alike, falling to .15 for thousands; more if examples are
    few.

    Args:
        alike: how many settings are alike, usually; None for all of them.
    """
    together = n_settings if alike is None else alike
    between = math.log(max(together, _FEW) / _FEW) / math.log(_MANY / _FEW)
    share = 0.3 - 0.15 * min(between, 1.0)
    return round(max(share, min(0.3, _LEAST_EXAMPLES / max(n_examples, 1))), 3)


def default_holm_share(n_examples: int, n_settings: int, alike: int | None = None) -> float:
    """The share of delta that goes to a test of all settings on all examples.

    .5 where no two settings are alike; else .05 for up to a hundred settings, .01 for more. None beyond 20,000, where a test of
    every single one takes minutes and each gets next to nothing of delta.
    """
    if n_settings > _HUGE:
        return 0.0
    if alike == 1:
        return 0.5
    return 0.05 if n_settings <= _HANDFUL else 0.01
