"""Weighted Shiryaev-Roberts sums against plain loops, and what makes them e-processes."""

import itertools
import math

import numpy as np
import pytest

from riskfront.statistics import _change_detection as detection
from riskfront.statistics._audited_gains import SIZES, Moments, audited_gains
from riskfront.statistics._change_detection import bin_edges, conformal_p_values


def plainly(losses, alpha, *, weighted=True):
    """The evidence after each outcome, one outcome, stake and start at a time."""
    shares, weights = detection.stakes(alpha)
    starts = []  # (weight, [value of the bet at each stake])
    unspent, clock, recent, square = 1.0, 0.0, 0.0, (1 - alpha) / alpha
    if weighted:
        starts.append((detection.INITIAL_WEIGHT, [1.0] * len(shares)))
        unspent -= detection.INITIAL_WEIGHT
    found = []
    for x in losses:
        y = (x - alpha) / alpha
        rate = detection.RECENT
        if weighted:
            suspicious = recent > 0.5 * math.sqrt(square * rate / (2 - rate))
            clock += 1.0 if suspicious else detection.IDLE
            left = float(detection.unspent(np.array([clock]))[0])
            starts.append((unspent - left, [1.0] * len(shares)))
            unspent = left
        else:
            starts.append((1.0, [1.0] * len(shares)))
        starts = [(w, [v * (1 + g * y) for v, g in zip(values, shares, strict=True)]) for w, values in starts]
        recent, square = recent + rate * (y - recent), square + rate * (y * y - square)
        total = sum(w * sum(k * v for k, v in zip(weights, values, strict=True)) for w, values in starts)
        found.append(total + (unspent if weighted else 0.0))
    return np.array(found)


def in_blocks(losses, alpha, sizes, *, weighted=True):
    shares, weights = detection.stakes(alpha)
    sums = detection.start((1, len(shares)), (1 - alpha) / alpha, weighted=weighted)
    found, at = [], 0
    for size in itertools.cycle(sizes):
        if at >= len(losses):
            return np.concatenate(found), sums
        gains = ((losses[at : at + size] - alpha) / alpha)[None]
        sums, evidence, _ = detection.advance(sums, gains, shares, weights[None], weighted=weighted)
        found.append(evidence)
        at += size


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
def test_sums_are_those_of_all_starts(alpha, weighted):
    rng = np.random.default_rng(0)
    losses = np.where(np.arange(300) < 150, rng.random(300) < alpha / 2, rng.random(300) < min(1, 3 * alpha)).astype(
        float
    )
    expected = plainly(losses, alpha, weighted=weighted)
    for sizes in ([300], [1], [7, 1, 50]):
        found, _ = in_blocks(losses, alpha, sizes, weighted=weighted)
        np.testing.assert_allclose(np.minimum(found, 1e30), np.minimum(expected, 1e30), rtol=1e-9)


def test_weights_add_up_to_at_most_one():
    clock = np.array([0.0, 1e3, 1e9, 1e300])
    left = detection.unspent(clock)
    assert left[0] == pytest.approx(1 - detection.INITIAL_WEIGHT)
    assert (np.diff(left) < 0).all()
    assert left[-1] >= 0
    for alpha in (1e-4, 0.01, 0.1, 0.5, 0.99):
        shares, weights = detection.stakes(alpha)
        assert weights.sum() == pytest.approx(1)
        assert (shares > 0).all()
        assert (shares < 1).all()


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.7])
def test_a_fair_outcome_leaves_the_evidence_as_it_is(alpha):
    """The mean over the next outcome, at the limit, is the evidence before it: the weight of a start is not made of nothing."""
    past = (np.random.default_rng(1).random(50) < 0.5).astype(float)
    before, _ = in_blocks(past, alpha, [50])
    ends = [in_blocks(np.append(past, x), alpha, [50])[0][-1] for x in (0.0, 1.0)]
    assert (1 - alpha) * ends[0] + alpha * ends[1] == pytest.approx(before[-1], rel=1e-12)


def test_long_streams_stay_finite():
    with np.errstate(all="raise", under="ignore"):
        for value, alpha in ((0.0, 0.9), (1.0, 0.001), (1.0, 0.9)):
            gains = np.full((1, 20_000), (value - alpha) / alpha)
            shares, weights = detection.stakes(alpha)
            sums, start = detection.start((1, len(shares)), (1 - alpha) / alpha), 0
            for end in detection.block_ends(gains, float(shares.max())):
                sums, evidence, _ = detection.advance(sums, gains[:, start:end], shares, weights[None])
                assert np.isfinite(evidence).all()
                start = end


def test_restarts_are_those_of_a_plain_cusum():
    rng = np.random.default_rng(2)
    alpha, losses = 0.1, (rng.random(400) < np.repeat([0.05, 0.3], 200)).astype(float)
    shares, weights = detection.stakes(alpha)
    sums, found = detection.start((1, len(shares)), 9.0), detection.no_restarts(1, len(shares))
    for start in range(0, 400, 60):
        part = losses[start : start + 60]
        gains = ((part - alpha) / alpha)[None]
        sums, _, products = detection.advance(sums, gains, shares, weights[None])
        found = detection.restarts(found, products, np.stack([part, np.ones(len(part))]))
    for place, share in enumerate(shares):
        log, since = 0.0, 0
        for x in losses:
            log, since = log + math.log1p(share * (x - alpha) / alpha), since + 1
            if log <= 0:
                log, since = 0.0, 0
        assert found.logs[0, place] == pytest.approx(log, abs=1e-9)
        assert found.since[0, place] == since
        np.testing.assert_allclose(found.totals[:, 0, place], [losses[400 - since :].sum(), since])


def test_audited_gains_have_the_mean_of_the_loss_whatever_is_predicted():
    """The mean over whether the next outcome is audited is loss minus limit, divided by how far the gain can fall."""
    rng = np.random.default_rng(3)
    n, alpha, q = 200, 0.2, 0.25
    losses, audited = (rng.random(n) < 0.3).astype(float), rng.random(n) < q
    proxies = np.clip(losses * 0.7 + 0.3 * rng.random(n), 0, 1)
    moments, _ = audited_gains(Moments(), losses, proxies, audited, alpha, np.full(n, q), q)
    assert moments.number == audited.sum()
    for x, f in itertools.product((0.0, 0.4, 1.0), (0.0, 0.5, 1.0, np.nan)):
        ends = [
            audited_gains(moments, np.array([x]), np.array([f]), np.array([seen]), alpha, np.array([q]), q)[1][:, 0]
            for seen in (False, True)
        ]
        mean = (1 - q) * ends[0] + q * ends[1]
        assert (np.minimum(*ends) >= -1).all()
        low = (x - alpha) / mean
        assert len(low) == len(SIZES)
        assert (low >= alpha / q - 1e-9).all() or x == alpha


def test_audited_gains_do_not_depend_on_the_division_into_batches():
    rng = np.random.default_rng(4)
    n, q = 300, 0.3
    losses, proxies, audited = rng.random(n), rng.random(n), rng.random(n) < q
    _, whole = audited_gains(Moments(), losses, proxies, audited, 0.4, np.full(n, q), q)
    moments, parts = Moments(), []
    for start in range(0, n, 37):
        here = slice(start, start + 37)
        rates = np.full(len(losses[here]), q)
        moments, part = audited_gains(moments, losses[here], proxies[here], audited[here], 0.4, rates, q)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-9, atol=1e-12)


def test_conformal_p_values_are_ranks_among_the_past():
    rng = np.random.default_rng(5)
    scores, edges = rng.random(400), bin_edges(rng.random(500))
    uniforms = rng.random(400)
    counts, p_values = conformal_p_values(np.zeros(len(edges) + 1, dtype=np.int64), scores, edges, uniforms)
    places = np.searchsorted(edges, scores, side="right")
    for t in range(400):
        above, same = (places[: t + 1] > places[t]).sum(), (places[: t + 1] == places[t]).sum()
        assert p_values[t] == pytest.approx((above + uniforms[t] * same) / (t + 1))
    assert counts.sum() == 400
    assert abs(p_values.mean() - 0.5) < 0.06
