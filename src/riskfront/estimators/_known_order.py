"""Which end of one threshold is safest, where that is certain before any example is seen.

A decision threshold: as it rises, fewer examples are called positive, so false alarms can only become fewer and misses more. An
abstention threshold: as it rises, fewer examples are answered, so errors can only become fewer. A limit that rests on one of
these facts alone is tested from its safest end on, on all examples, and nothing has to be learned from some of them first.

Limits among what is called positive, or among what is answered (precision, error given answered), are safest where few
examples are selected, and say nothing where none is. They are tested from a threshold on that a count finds;
``start_row`` says why that is valid.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from riskfront._problems.limits import Limit
from riskfront._problems.problem import Problem
from riskfront._support.arrays import IntArray
from riskfront.methods._ordered_knob import SECOND_SHARE
from riskfront.statistics._sample_size import examples_for

Knob = Literal["threshold", "abstain"]

#: +1 where the mean can only rise with the knob, -1 where it can only fall
_ALONG: dict[Knob, dict[str, int]] = {
    "threshold": {
        "predicted_positive": -1,
        "true_positive": -1,
        "false_positive": -1,
        "predicted_negative": 1,
        "true_negative": 1,
        "missed_positive": 1,
        "false_negative": 1,
    },
    "abstain": {
        "error": -1,
        "correct": -1,
        "answered": -1,
        "predicted_positive": -1,
        "true_positive": -1,
        "false_positive": -1,
        "predicted_negative": -1,
        "true_negative": -1,
        "false_negative": -1,
        "abstained": 1,
        "missed_positive": 1,
    },
}
#: conditions that select fewer examples towards one end of the knob: the end where they select fewest
_SELECTS_FEWEST: dict[Knob, dict[str, str]] = {
    "threshold": {"predicted_positive": "high", "predicted_negative": "low"},
    "abstain": {"answered": "high", "predicted_positive": "high", "predicted_negative": "high"},
}
_LOSSES_ALLOWED = (4, 3, 2, 1, 0)
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.05
_WORTH_IT = 1.5


@dataclass(frozen=True, slots=True)
class KnownOrder:
    """The safest end of a knob; ``condition`` selects the examples of a limit that begins at a count, and is None elsewhere."""

    knob: Knob
    safest: Literal["low", "high"]
    condition: str | None = None


def known_order(problem: Problem, knob: Knob) -> KnownOrder | None:
    """The order in which to test the values of the knob; None where limits disagree, or where it is not certain."""
    found = {_order(limit, knob) for limit in problem.limits}
    if len(found) != 1:
        return None
    (order,) = found
    if order is not None and order.condition is not None and len(problem.limits) > 1:
        return None  # a start by count is proven for one limit
    return order


def is_on_mean(limit: Limit) -> bool:
    """Whether a limit is on the mean of one loss, perhaps in groups or under a condition."""
    other_kinds = (limit.over, limit.quantile, limit.worst, limit.weights, limit.gap_per, limit.drop_from, limit.proxy)
    return not any(other_kinds)


def _order(limit: Limit, knob: Knob) -> KnownOrder | None:
    if not is_on_mean(limit) or limit.padded:
        return None
    fewest = _SELECTS_FEWEST[knob].get(limit.given or "")
    if fewest is not None:
        exact = limit.per is None and limit.p_value in ("auto", "binomial") and limit.loss in _ALONG["abstain"]
        return KnownOrder(knob, fewest, limit.given) if exact else None  # type: ignore[arg-type]
    along = _ALONG[knob].get(limit.loss)
    if along is None or limit.given not in (None, "positive", "negative"):
        return None
    rises = along if limit.at_least is None else -along
    return KnownOrder(knob, "low" if rises > 0 else "high")


def start_count(alpha: float, delta: float, n: int) -> int:
    """How many examples the first tested threshold should select, from numbers that are known before any example is seen.

    So many that the exact test can pass with four losses among them if that is a twentieth of all examples or fewer, with three
    or two otherwise, and a hundredth of all examples at least; the number of examples at which one loss more may occur is the
    cheapest to begin with. Where two losses would take more than a third of all, the smallest number at which one loss, or
    none, may occur. Fewer examples fail by bad luck, with four losses in 38 seldom; many certify nothing where positives are
    rare.
    """
    least = int(np.ceil(_LEAST_SHARE * n))
    for losses in _LOSSES_ALLOWED:
        needed = _fewest(losses, alpha, delta)
        if needed <= (_MOST_SHARE if losses > 2 else 1 / 3) * n:
            while needed < least:
                losses += 1
                needed = _fewest(losses, alpha, delta)
            return needed
    return _fewest(0, alpha, delta)


def second_start_count(alpha: float, delta: float, n: int) -> int | None:
    """How many examples the threshold should select at which testing begins once more; None where that is not worth its share.

    So many that a risk of half the limit passes nine times in ten, or a third of all. Few examples can fail by bad luck where
    a part of the labels is wrong at any score, and a model that is right nearly everywhere would be stopped at once.
    """
    enough = examples_for(alpha / 2, alpha, level=SECOND_SHARE * delta, wanted=0.9)
    most = n // 3 if enough is None else min(enough, n // 3)
    return most if most >= _WORTH_IT * start_count(alpha, delta, n) else None


def _fewest(losses: int, alpha: float, delta: float) -> int:
    """The smallest number of examples of which ``losses`` may be lost: P(Bin(count, alpha) <= losses) <= delta."""
    low, high = losses, max(2 * losses, 1)
    while stats.binom.cdf(losses, high, alpha) > delta:
        low, high = high, 2 * high
    return bisect_left(range(high), True, lo=low + 1, key=lambda count: stats.binom.cdf(losses, count, alpha) <= delta)


def start_row(counts: Sequence[int] | IntArray, most: int) -> int:
    """The last row, from the safest end, that selects at most ``most`` examples; the first row where every one selects more.

    ``counts`` must not fall: each row selects what the row before selects, and perhaps more.

    Why the family-wise error stays at delta, although the count looks at the examples that are tested. The thresholds are fixed
    beforehand, number i selects N_i examples, and the test of number i is the exact binomial one. An error is the rejection of
    the first bad threshold at or after the start. Two cases, which exclude each other for each start:

    1. The start itself, number i, is bad. That it is the start says N_i <= most < N_{i+1}. Given N_i, the losses of the
       selected examples are independent with the risk of number i, and N_{i+1} depends on the other examples alone. So it is
       rejected with probability at most delta.
    2. The start is good, and number j is the first bad one after it. Let a be the last bad one before the start. That the start
       lies between them says u = N_{a+1} <= most and N_j > most. Given N_j, number j loses like u draws with the risk of number
       a+1, which is good, and N_j - u draws with a risk above the limit (number j is bad, so the rest must be). The fewer u,
       the more is lost: to know that u is small makes a rejection less likely, never more. Without that knowledge it has
       probability at most delta.

    Both cases together: the probability of an error is at most delta times the sum of the probabilities of the starts, delta.
    A second sequence from a later start has a share of delta of its own, and the first one ends before it: each errs with
    probability at most its share.

    To begin at the first row that selects at least a number would not be covered by this: knowing that the row
    before selects few can make a rejection more likely.
    """
    found = np.flatnonzero(np.asarray(counts) <= most)
    return int(found[-1]) if found.size else 0
