"""Risks on planning data, smoothed over similar settings.

Of thousands of settings with noisy risks, a front collects the lucky ones. Averaging over similar settings takes luck away. How
far to average is decided by cross-validation on the planning examples alone: the risks of one half, smoothed, must predict
those of the other half better than they do unsmoothed, or they stay as they are. Nothing here ever sees an example that tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskfront.arrays import FloatArray, IntArray
from riskfront.evidence.evidence import Evidence, LimitTest
from riskfront.losses.sums import Term, Totals
from riskfront.losses.table import LossTable
from riskfront.methods.similarity import Scales, Similarity, similarity
from riskfront.statistics import p_values
from riskfront.statistics.binomial import special_functions

_SCALES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # standard deviations in steps that are tried
_NEAR = 1.5  # risks count by how near they are to the limit, in units of the way from the safest setting to it
_NO_SCALE = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class PlannedLimit:
    """What the planning examples say about one limit: sums of badness, smoothed or not, for all settings.

    n (settings or 1, groups). total and squares, (settings, groups): of badness, and of (badness - alpha)^2 where bets need it.
    """

    test: LimitTest
    sums: Totals
    squares: FloatArray | None
    scales: Scales

    def risks(self) -> FloatArray:
        """(settings,): mean badness in the worst group, 1 where some group has no example."""
        worst = self.sums.means().max(axis=1)
        return np.where(np.isnan(worst), 1.0, worst)

    @property
    def risk_tells_all(self) -> bool:
        """Whether p-values order settings as risks do: one group, as many examples for every setting, no variance."""
        return self.squares is None and self.sums.n.shape == (1, 1)

    def p_values(self, rows: IntArray | None = None) -> FloatArray:
        """(rows,): about the p-value that as many examples would give when tested, the largest over groups."""
        sums = self.sums if rows is None else self.sums.at(rows)
        n, alpha = np.maximum(sums.n, 1e-9), self.test.alpha
        if self.squares is None:
            found = p_values.OF_SUMS[self.test.p_value](sums.total, n, alpha)
        else:
            squares = self.squares if rows is None else self.squares[rows]
            spread = np.minimum((squares + 1 - alpha) / n, alpha * (1 - alpha))  # as the stakes of a bet see it
            score = (alpha - sums.total / n) * np.sqrt(n / np.maximum(spread, 1e-12))
            found = special_functions().ndtr(-score)
        worst: FloatArray = np.where(sums.n > 0, found, 1.0).max(axis=1)
        return worst


def planned_limits(evidence: Evidence, smooth: bool) -> list[PlannedLimit]:
    """The evidence of the planning examples, one entry a limit."""
    like = evidence.table.shared("similarity", lambda: similarity(evidence.table.configs)) if smooth else None
    return [_planned(test, evidence.table, like) for test in evidence.tests]


def _planned(test: LimitTest, opt: LossTable, like: Similarity | None) -> PlannedLimit:
    scales = _chosen_scales(test, opt, like) if like is not None and opt.n_examples > 3 else (_NO_SCALE,)
    raw = _smoothed(test.limit.term, opt, like, scales)
    squares = None
    if test.p_value == "betting":
        term = Term(test.limit.loss, test.limit.per, test.limit.given, squared=True)
        second, at = _smoothed(term, opt, like, scales), test.limit.value
        centred = second.total - 2 * at * raw.total + at**2 * raw.n
        squares = np.maximum(centred, 0.0) / (test.high - test.low) ** 2
    return PlannedLimit(test, test.as_badness(raw, opt.n_examples), squares, scales)


def _smoothed(term: Term, opt: LossTable, like: Similarity | None, scales: Scales) -> Totals:
    """Sums of a term over all planning examples, averaged over similar settings."""
    if like is None or not any(scales):
        return opt.totals(term)
    return opt.remember(("smoothed", term, scales), lambda: _averaged(opt.totals(term), like, scales))


def _averaged(sums: Totals, like: Similarity, scales: Scales) -> Totals:
    """Sums and, where they differ between settings, numbers of examples: a ratio of averages is an average of what counts."""
    total = like.smooth(sums.total.astype(np.float64), scales)
    return Totals(sums.n if len(sums.n) == 1 else like.smooth(sums.n.astype(np.float64), scales), total)


def _chosen_scales(test: LimitTest, opt: LossTable, like: Similarity) -> Scales:
    """How far to average along each axis, by how well one half of the planning examples predicts the other."""
    half = opt.halves(test.limit.term)
    measured = np.hstack([_means(test, sums, opt.n_examples // 2) for sums in half])

    def predicted(scales: Scales) -> FloatArray:
        """Smoothed means of each half, side by side in the order of the halves that they predict."""
        both = [_means(test, _averaged(sums, like, scales), opt.n_examples // 2) for sums in half[::-1]]
        return np.hstack(both)

    weights = _near_the_limit(test, measured.mean(axis=1))

    def score(scales: Scales) -> float:
        shown = opt.remember(
            ("predicted", test.limit.term, test.limit.at_least is None, scales), lambda: predicted(scales)
        )
        return _agreement(shown, measured, weights)

    none: Scales = (_NO_SCALE,) * like.axes
    tried = {scales: score(scales) for scales in [none, *((scale,) * like.axes for scale in _SCALES)]}
    best = max(tried, key=lambda scales: tried[scales])
    # an axis along which settings are not alike must not be averaged over, whatever the others are worth
    for axis in range(like.axes if like.axes > 1 and any(best) else 0):
        for factor in (0.0, 2.0):
            other = (*best[:axis], factor * best[axis], *best[axis + 1 :])
            tried[other] = score(other)
            best = other if tried[other] > tried[best] else best
    # chance alone makes some scale look better; settings that count are as many as one part in weights' spread
    margin = np.sqrt((weights**2).sum())
    return best if np.arctanh(tried[best]) > np.arctanh(tried[none]) + margin else none


def _means(test: LimitTest, raw: Totals, n_examples: int) -> FloatArray:
    """(settings, groups): mean badness; the limit itself where nothing was selected, which says nothing."""
    means = test.as_badness(raw, n_examples).means()
    return np.where(np.isnan(means), test.alpha, means)


def _near_the_limit(test: LimitTest, risks: FloatArray) -> FloatArray:
    """(settings,) with sum 1: how much each setting counts when smoothing is judged."""
    width = max(_NEAR * abs(test.alpha - np.quantile(risks, 0.01)), 1e-6)
    weights = np.exp(-0.5 * ((risks - test.alpha) / width) ** 2) + 1e-12
    found: FloatArray = weights / weights.sum()
    return found


def _agreement(predicted: FloatArray, measured: FloatArray, weights: FloatArray) -> float:
    """Correlation over settings of what was predicted with what was measured, each column around its own mean.

    A correlation, since all that a plan needs is an order: to draw all risks nearer to their mean must not look like a gain.
    """
    p, m = predicted - weights @ predicted, measured - weights @ measured
    cross, spread = weights @ (p * m), np.sqrt((weights @ (p * p)) * (weights @ (m * m)))
    return float(np.clip(cross.sum() / max(spread.sum(), 1e-300), -0.999999, 0.999999))
