"""Risks on planning data, smoothed over similar settings.

Of thousands of settings with noisy risks, a front collects the lucky ones. Averaging over similar settings takes luck away. How
far to average is decided by cross-validation on the planning examples alone: the risks of one half, smoothed, must predict
those of the other half better than they do unsmoothed, or they stay as they are. Nothing here ever sees an example that tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
_NO_SCALE, _ALONE = 0.0, 1.5


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
    if test.p_value == "betting" and (test.limit.drop_from is not None or test.limit.gap_per is not None):
        squares = np.full(raw.total.shape, np.inf)  # a square of a drop is no sum of squares: planned by the mean alone
    elif test.p_value == "betting":
        second, at = _smoothed(replace(test.limit.term, squared=True), opt, like, scales), test.at
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
    key = ("predictions", test.limit.term, test.limit.at_least is None, test.alpha * test.limit.padded)
    tried = opt.remember(key, lambda: _Predictions.of(test, opt, like))  # serves every alpha
    return tried.best(_near_the_limit(test, tried.risks))


@dataclass(frozen=True, slots=True, eq=False)
class _Predictions:
    """What one half of the planning examples, smoothed by each of the candidates, says about the other half.

    moments (settings, candidates, halves and groups, 3): predictions, their squares, and their products with what was
    measured. measured (settings, halves and groups, 2): what was measured, and its square.
    """

    candidates: list[Scales]
    moments: FloatArray
    measured: FloatArray
    risks: FloatArray

    @classmethod
    def of(cls, test: LimitTest, opt: LossTable, like: Similarity) -> _Predictions:
        half, n = opt.halves(test.limit.term), opt.n_examples // 2
        measured = np.hstack([_means(test, sums, n) for sums in half])
        candidates = _candidates(like.axes)
        moments = np.empty((len(measured), len(candidates), measured.shape[1], 3))
        for place, scales in enumerate(candidates):
            # in the order of the halves that they predict
            shown = np.hstack([_means(test, _averaged(sums, like, scales), n) for sums in half[::-1]])
            moments[:, place, :, 0], moments[:, place, :, 1] = shown, shown**2
            moments[:, place, :, 2] = shown * measured
        return cls(candidates, moments, np.stack([measured, measured**2], axis=-1), measured.mean(axis=1))

    def best(self, weights: FloatArray) -> Scales:
        """The candidate that agrees best with what was measured; the first, none, unless another is clearly better.

        Agreement is a correlation over settings, since all that a plan needs is an order: to draw all risks nearer to their
        mean must not look like a gain.
        """
        mean, square, product = np.moveaxis(np.tensordot(weights, self.moments, axes=(0, 0)), -1, 0)
        m, m2 = np.moveaxis(np.tensordot(weights, self.measured, axes=(0, 0)), -1, 0)
        spread = np.sqrt(np.maximum((square - mean**2) * (m2 - m**2), 0.0)).sum(axis=1)
        cross = (product - mean * m).sum(axis=1)
        agreement = np.arctanh(np.clip(cross / np.maximum(spread, 1e-300), -0.999999, 0.999999))
        # chance alone makes some candidate look better, the more so the fewer settings count
        margin = np.sqrt((weights**2).sum())
        found = int(np.argmax(agreement))
        return self.candidates[found] if agreement[found] > agreement[0] + margin else self.candidates[0]


def _candidates(axes: int) -> list[Scales]:
    """No smoothing; as far along every axis; and along all but one, in case settings are not alike along that one."""
    found: list[Scales] = [(_NO_SCALE,) * axes, *((scale,) * axes for scale in _SCALES)]
    if axes > 1:
        found += [tuple(_NO_SCALE if axis == off else _ALONE for axis in range(axes)) for off in range(axes)]
    if axes > 2:
        found += [tuple(_ALONE if axis == only else _NO_SCALE for axis in range(axes)) for only in range(axes)]
    return found


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
