"""What to bet on where only a random part of the outcomes is labelled and a proxy is known on all of them.

x_t is the loss in [0, 1], A_t = 1 where an outcome was audited, which happens with known probability q, whatever the loss, and
h_t a prediction of x_t - alpha from the proxy f_t, by what was audited before. Then

    y_t = h_t + A_t (x_t - alpha - h_t) / q

has the mean of x_t - alpha given the past, for any prediction and any drift: finite-sample prediction-powered inference, one
outcome at a time. h = 0 bets on audited outcomes alone. How far y_t can fall grows with h, so several sizes of h are bet on
side by side, 0 among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskfront._support.arrays import BoolArray, FloatArray

#: predictions are multiplied by these; wealth starts divided among them
SIZES = (0.0, 0.4, 0.8)
SIZE_WEIGHTS = (0.2, 0.4, 0.4)
#: stakes as shares of the largest: a good proxy makes bets that its own errors limit, so most of them are large
SHARES = np.geomspace(0.03, 0.9, 10)
_PRIOR = 20.0  # audited outcomes that predictions are drawn towards 0 by


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over audited outcomes so far: their number, x - alpha, f, (x - alpha) f, f^2."""

    number: float = 0.0
    loss: float = 0.0
    proxy: float = 0.0
    product: float = 0.0
    square: float = 0.0


def audited_gains(
    moments: Moments,
    losses: FloatArray,
    proxies: FloatArray,
    audited: BoolArray,
    alpha: float,
    q: FloatArray,
    least: float,
) -> tuple[Moments, FloatArray]:
    """The moments after these outcomes, and gains y_t / low_t, (sizes, n), each at least -1.

    Args:
        losses: (n,) in [0, 1]; what stands at places that were not audited is not read.
        proxies: (n,) in [0, 1], or nan where there is none: then nothing is predicted.
        q: (n,), the probability of an audit, at least ``least``; read where audited.
    """
    x = np.where(audited, losses, 0.0) - np.where(audited, alpha, 0.0)
    known = ~np.isnan(proxies)
    f = np.where(known, proxies, 0.0)
    running = _running(moments, x, f, audited & known)
    slope, at_0 = _lines(*running)
    end_0, end_1 = at_0, at_0 + slope
    predicted = np.where(known, at_0 + slope * f, 0.0)
    sizes = np.array(SIZES)[:, None]
    h = sizes * predicted
    highest = sizes * np.maximum(np.maximum(end_0, end_1), 0.0)
    lowest = sizes * np.minimum(np.minimum(end_0, end_1), 0.0)
    low = np.maximum(alpha / least + highest * (1 / least - 1), -lowest)
    y = h + np.where(audited, (x - h) / np.where(audited, q, 1.0), 0.0)
    return Moments(*(float(sums[-1]) for sums in running)), np.maximum(y / low, -1.0)


def _lines(
    number: FloatArray, loss: FloatArray, proxy: FloatArray, product: FloatArray, square: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n,) each: slope and value at f = 0 of the line of x - alpha on f, by the moments before each outcome."""
    count = np.maximum(number[:-1], 1.0)
    mean_x, mean_f = loss[:-1] / count, proxy[:-1] / count
    covariance = product[:-1] / count - mean_x * mean_f
    variance = np.maximum(square[:-1] / count - mean_f**2, 0.0)
    shrunk = number[:-1] / (number[:-1] + _PRIOR)
    slope = np.clip(shrunk * covariance / (variance + 0.01), -1.0, 1.0)
    at_0 = np.clip(shrunk * mean_x - slope * mean_f, -1.0, 1.0)
    return slope, at_0


def _running(moments: Moments, x: FloatArray, f: FloatArray, used: BoolArray) -> list[FloatArray]:
    """Each moment before the first outcome and after every one, (n + 1,)."""
    added = (used, x * used, f * used, x * f * used, f * f * used)
    before = (moments.number, moments.loss, moments.proxy, moments.product, moments.square)
    return [
        np.cumsum(np.concatenate([[past], more.astype(np.float64)])) for past, more in zip(before, added, strict=True)
    ]
