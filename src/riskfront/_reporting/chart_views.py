"""Which part of each measure a picture shows: all of it, and the part that matters when one setting lies far away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riskfront._reporting.certificate_charts import CERTIFIED, CHOSEN, TradeOff
from riskfront._support.arrays import FloatArray

_EDGE = 0.04  # free room at both ends, as a share
_AROUND = 0.6  # how much is seen on each side of what matters, as a share of it
_SQUEEZED = 0.4  # what matters takes less than this share of the picture: look closer


@dataclass(frozen=True, slots=True)
class View:
    """Two ranges of one measure. all: of every setting. near: of what matters; the same as ``all`` where that is no squeeze."""

    all: list[float]
    near: list[float]


def of_tradeoff(data: TradeOff) -> list[View]:
    """For each measure: all settings, and the certified ones with the limit; without any certified, the bulk of all."""
    views = []
    for index, measure in enumerate(data.measures):
        values = data.values[:, index]
        limit = np.array([] if measure.limit is None else [measure.limit])
        everything = np.concatenate([values, limit])
        passed, chosen = (values[data.status >= code] for code in (CERTIFIED, CHOSEN))
        middle = _bulk(passed) if np.isfinite(passed).any() else _bulk(values)
        whole = around(everything)
        views.append(View(whole, _near(np.concatenate([middle, chosen, limit]), everything, whole)))
    return views


def around(values: FloatArray) -> list[float]:
    """A range that holds all values with some room; a single value stands in the middle."""
    seen = values[np.isfinite(values)]
    if seen.size == 0:
        return [0.0, 1.0]
    low, high = float(seen.min()), float(seen.max())
    room = _EDGE * (high - low) if high > low else 0.05 * abs(low) or 0.5
    return [low - room, high + room]


def _bulk(values: FloatArray) -> FloatArray:
    """The values between which nine of ten lie."""
    seen = values[np.isfinite(values)]
    return np.quantile(seen, [0.05, 0.95]) if seen.size else seen


def _near(matters: FloatArray, everything: FloatArray, whole: list[float]) -> list[float]:
    seen, inside = matters[np.isfinite(matters)], everything[np.isfinite(everything)]
    if seen.size == 0:
        return whole
    low, high = float(seen.min()), float(seen.max())
    room = _AROUND * (high - low)
    # no wider than there are settings, and never a view of one point alone
    kept = inside[(inside >= low - room) & (inside <= high + room)]
    near = around(kept)
    squeezed = near[1] - near[0] < _SQUEEZED * (whole[1] - whole[0])
    return near if squeezed and high > low else whole
