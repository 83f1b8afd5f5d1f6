"""How sure a share of trials is."""

from __future__ import annotations

import numpy as np

from riskfront._support.arrays import FloatArray

_Z = 1.959963984540054  # two-sided 95 %
#: how often held-out examples may "show" that a limit is broken although it holds
HELD_OUT_LEVEL = 0.05


def wilson(share: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of a share of n trials (Wilson)."""
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
