"""Risks on planning data, smoothed over similar settings.

Of thousands of settings with noisy risks, a front collects the lucky ones. Averaging over similar settings removes noise, but
adds a bias where risks are curved. Twicing (Tukey 1977), 2 S(x) - S(S(x)), corrects most of it. Whether to average is decided
by cross-validation on the planning examples alone: the risks of one half, smoothed, must predict those of the other half
better than they do unsmoothed, or they stay as they are. How far is two steps unless the halves clearly speak for another
scale: to follow every small difference between them costs more than it gains. Nothing here ever sees an example that tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from riskfront._data.sums import Totals
from riskfront._data.table import LossTable
from riskfront._support.arrays import Array, FloatArray, IntArray
from riskfront.methods._evidence.limit_tests import Evidence, LimitTest
from riskfront.methods._similarity import Scales, Similarity, similarity
from riskfront.statistics._bounds import special_functions

_MANY_GROUPS = 1000
_SCALE = 2.0  # the usual standard deviation in steps
_OTHER_SCALES = (1.0, 3.0)
_HARDLY = 0.5  # next to no smoothing, along an axis on which settings are not alike
_CLEARLY = 0.05  # by how much another scale must agree better, in units of arctanh of a correlation
_LEAST = 0.25  # share of the average that twicing keeps at least: a risk near zero must not turn negative
_NEAR = 1.5  # risks count by how near they are to the limit, in units of the way from the safest setting to it
_NO_SCALE = 0.0
_BLOCK_SIZE = 2_000_000  # single losses that are looked at together


@dataclass(frozen=True, slots=True, eq=False)
class PlannedLimit:
    """What the planning examples say about one limit: sums of normalised loss, smoothed or not, for all settings.

    n (settings or 1, groups). total (settings, groups): sums of normalised loss x. squares (settings, groups): sums of
    (x - alpha)^2, where bets need them.
    """

    test: LimitTest
    sums: Totals
    squares: FloatArray | None
    scales: Scales

    def risks(self) -> FloatArray:
        """(settings,): mean normalised loss in the worst group, 1 where some group has no example."""
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
            found = self.test.kind.function(sums.total, n, alpha)
        else:
            squares = self.squares if rows is None else self.squares[rows]
            spread = np.minimum((squares + 1 - alpha) / n, alpha * (1 - alpha))  # as the stakes of a bet see it
            score = (alpha - sums.total / n) * np.sqrt(n / np.maximum(spread, 1e-12))
            found = special_functions().ndtr(-score)
        return np.where(sums.n > 0, found, 1.0).max(axis=1)


def planned_limits(evidence: Evidence, smooth: bool) -> list[PlannedLimit]:
    """The evidence of the planning examples, one entry a limit."""
    like = evidence.table.shared("similarity", lambda: similarity(evidence.table.configs)) if smooth else None
    return [_planned(test, evidence.table, like) for test in evidence.tests]


def _planned(test: LimitTest, opt: LossTable, like: Similarity | None) -> PlannedLimit:
    if test.limit.per is not None and len(opt.group(test.limit.per).levels) > _MANY_GROUPS:
        like = None  # each group has few planning examples, and the worst of so many groups is noise, smoothed or not
    scales = _chosen_scales(test, opt, like) if like is not None and opt.n_examples > 3 else (_NO_SCALE,)
    sums, squares = _smoothed(test, opt, like, scales), None
    if not test.kind.of_totals:
        squares = _squares(test, opt)
        if like is not None and any(scales) and np.isfinite(squares).all():
            squares = _twice(squares, like, scales)
    return PlannedLimit(test, sums, squares, scales)


def _squares(test: LimitTest, opt: LossTable) -> FloatArray:
    """(settings, groups): sums of (x - alpha)^2 of the normalised loss x; infinite for gaps, which only their mean plans."""
    if test.limit.gap_per is not None:
        return np.full((opt.n_configs, len(test.groups(opt))), np.inf)
    if test.limit.drop_from is not None:
        sums = test.as_normalised_losses(opt.totals(test.term), opt.n_examples)
        second = opt.remember(("squared drops", *sums_rest_on(test)), lambda: _squared_drops(test, opt))
        return np.maximum(second - 2 * test.alpha * sums.total + test.alpha**2 * sums.n, 0.0)
    raw, at = opt.totals(test.term), test.at
    second = opt.totals(replace(test.term, squared=True)).total
    return np.maximum(second - 2 * at * raw.total + at**2 * raw.n, 0.0) / (test.high - test.low) ** 2


def _squared_drops(test: LimitTest, opt: LossTable) -> FloatArray:
    """(settings, groups): sums of squared normalised drops, computed example by example."""
    step = max(1, _BLOCK_SIZE // max(1, opt.n_examples))
    found = []
    for start in range(0, opt.n_configs, step):
        rows = np.arange(start, min(start + step, opt.n_configs))
        parts = [(drops, 1 if kept is None else kept) for drops, kept in test.sequences(opt, rows)]
        found.append(np.stack([(drops**2 * kept).sum(axis=1) for drops, kept in parts], axis=1))
    return np.concatenate(found)


def _smoothed(test: LimitTest, opt: LossTable, like: Similarity | None, scales: Scales) -> Totals:
    """Sums of normalised loss over all planning examples, averaged over similar settings."""
    sums = test.as_normalised_losses(opt.totals(test.term), opt.n_examples)
    if like is None or not any(scales):
        return sums
    return opt.remember(("smoothed", *sums_rest_on(test), scales), lambda: _averaged(sums, like, scales))


def sums_rest_on(test: LimitTest) -> tuple[object, ...]:
    """What sums of normalised loss depend on: not on alpha, unless it is padded with."""
    return test.term, test.upper, test.alpha * test.limit.padded


def _averaged(sums: Totals, like: Similarity | None, scales: Scales) -> Totals:
    """Sums and, where they differ between settings, numbers of examples: a ratio of averages is an average of what counts."""
    if like is None or not any(scales):
        return sums
    n = sums.n if len(sums.n) == 1 else _twice(sums.n, like, scales)
    return Totals(n, np.minimum(_twice(sums.total, like, scales), n))


def _twice(values: Array, like: Similarity, scales: Scales) -> FloatArray:
    """Twicing: 2 S(x) - S(S(x)), at least a share of S(x)."""
    once = like.smooth(values.astype(np.float64), scales)
    return np.maximum(2 * once - like.smooth(once, scales), _LEAST * once)


def _chosen_scales(test: LimitTest, opt: LossTable, like: Similarity) -> Scales:
    """How far to average along each axis, by how well one half of the planning examples predicts the other."""
    tried = opt.remember(
        ("predictions", *sums_rest_on(test)), lambda: _Predictions.of(test, opt, like)
    )  # serves every alpha
    return tried.best(_near_the_limit(test, tried.risks))


@dataclass(frozen=True, slots=True, eq=False)
class _Predictions:
    """What one half of the planning examples, smoothed by each of the candidates, says about the other half.

    moments (candidates, halves and groups, 3, settings): predictions, their squares, and their products with what was
    measured. measured (halves and groups, 2, settings): what was measured, and its square.
    """

    candidates: list[Scales]
    moments: FloatArray
    measured: FloatArray
    risks: FloatArray

    @classmethod
    def of(cls, test: LimitTest, opt: LossTable, like: Similarity) -> _Predictions:
        half = [test.as_normalised_losses(sums, opt.n_examples // 2) for sums in opt.halves(test.term)]
        measured = np.hstack([_means(test, sums) for sums in half])
        # in the order of the halves that they predict
        other = Totals(np.hstack([sums.n for sums in half[::-1]]), np.hstack([sums.total for sums in half[::-1]]))
        candidates = _candidates(like.axes)
        moments = np.empty((len(candidates), measured.shape[1], 3, len(measured)))
        for place, scales in enumerate(candidates):
            shown = _means(test, _averaged(other, like, scales)).T
            moments[place, :, 0], moments[place, :, 1] = shown, shown**2
            moments[place, :, 2] = shown * measured.T
        return cls(candidates, moments, np.stack([measured.T, measured.T**2], axis=1), measured.mean(axis=1))

    def best(self, weights: FloatArray) -> Scales:
        """No smoothing (the first candidate) unless some smoothing agrees better with what was measured than chance explains;
        then the usual one (the second) unless another is clearly better.

        Agreement is a correlation over settings, since all that a plan needs is an order: to draw all risks nearer to their
        mean must not look like a gain.
        """
        mean, square, product = np.moveaxis(self.moments @ weights, -1, 0)
        m, m2 = np.moveaxis(self.measured @ weights, -1, 0)
        spread = np.sqrt(np.maximum((square - mean**2) * (m2 - m**2), 0.0)).sum(axis=1)
        cross = (product - mean * m).sum(axis=1)
        agreement = np.arctanh(np.clip(cross / np.maximum(spread, 1e-300), -0.999999, 0.999999))
        # chance alone makes some candidate look better, the more so the fewer settings count
        margin = np.sqrt((weights**2).sum())
        found = int(np.argmax(agreement))
        if agreement[found] <= agreement[0] + margin:
            return self.candidates[0]
        return self.candidates[found] if agreement[found] > agreement[1] + _CLEARLY else self.candidates[1]


def _candidates(axes: int) -> list[Scales]:
    """No smoothing; as far along every axis; and along some axes only, in case settings are not alike along the others."""
    found: list[Scales] = [(scale,) * axes for scale in (_NO_SCALE, _SCALE, *_OTHER_SCALES)]
    if axes > 1:
        found += [tuple(_HARDLY if axis == off else _SCALE for axis in range(axes)) for off in range(axes)]
    if axes > 2:
        found += [tuple(_SCALE if axis == only else _HARDLY for axis in range(axes)) for only in range(axes)]
    return found


def _means(test: LimitTest, sums: Totals) -> FloatArray:
    """(settings, groups): mean normalised loss; alpha, which is neutral, where no example was selected."""
    means = sums.means()
    return np.where(np.isnan(means), test.alpha, means)


def _near_the_limit(test: LimitTest, risks: FloatArray) -> FloatArray:
    """(settings,) with sum 1: how much each setting counts when smoothing is judged."""
    width = max(_NEAR * abs(test.alpha - np.quantile(risks, 0.01)), 1e-6)
    weights = np.exp(-0.5 * ((risks - test.alpha) / width) ** 2) + 1e-12
    return weights / weights.sum()
