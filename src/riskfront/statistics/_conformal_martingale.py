"""Conformal p-values of scores against all scores before them, with memory for the counts of a few bins only.

Scores are sorted into bins whose edges are fixed beforehand. As long as scores are exchangeable, the randomised p-values

    p_t = (number of scores so far above the bin of score t + u_t * number in its bin, itself included) / t

are independent and uniform on [0, 1] (Vovk, Gammerman and Shafer), so 1 + e (p_t - 1/2) is a fair bet for any |e| <= 2.
"""

from __future__ import annotations

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray

BINS = 20


def bin_edges(scores: FloatArray) -> FloatArray:
    """Inner edges of bins that hold about as many of these scores each; fewer where scores repeat."""
    return np.unique(np.quantile(scores, np.linspace(0, 1, BINS + 1)[1:-1]))


def conformal_p_values(
    counts: IntArray, scores: FloatArray, edges: FloatArray, uniforms: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Counts of each bin after these scores, (edges + 1,), and the p-value of each score, (n,)."""
    places = np.searchsorted(edges, scores, side="right")
    seen = counts + np.cumsum(np.eye(len(counts), dtype=np.int64)[places], axis=0)
    above = np.cumsum(seen[:, ::-1], axis=1)[:, ::-1] - seen
    rows = np.arange(len(scores))
    p_values = (above[rows, places] + uniforms * seen[rows, places]) / seen.sum(axis=1)
    return (seen[-1] if len(scores) else counts), p_values
