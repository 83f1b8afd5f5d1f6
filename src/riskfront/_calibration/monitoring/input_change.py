"""A warning, without labels, that inputs changed: an exchangeability test on a score or confidence.

A conformal test martingale with its own delta. It says nothing about any limit: inputs may change and every limit hold.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray
from riskfront.statistics import _change_detection as detection
from riskfront.statistics._change_detection import bin_edges, conformal_p_values

FIRST = 500  # scores that fix the bins
_SHARES = np.array([0.1, 0.3, 0.6, 0.9])  # of the largest fair stake on a p-value, upwards and downwards


class InputChange:
    """The first FIRST scores fix bins; each later one is ranked among those after them. Memory for a few counts only.

    Args:
        column: the score. delta: the chance of ever warning although scores stay exchangeable.
    """

    def __init__(self, column: str, delta: float) -> None:
        self.column, self.delta = column, delta
        self._first: list[float] = []
        self._key = 0
        self._edges: FloatArray = np.zeros(0)
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        self._sums = detection.Sums(np.full((2, len(_SHARES)), detection.INITIAL_WEIGHT), 0.0, 0.0, 1 / 3)
        self.scores = 0
        self.evidence = 1.0
        self.row: int | None = None

    def add(self, scores: FloatArray, rows: IntArray) -> None:
        """Scores that are missing are passed over."""
        kept = ~np.isnan(scores)
        scores, rows = scores[kept], rows[kept]
        if len(self._counts) == 0:
            lacking = FIRST - len(self._first)
            self._first += scores[:lacking].tolist()
            scores, rows = scores[lacking:], rows[lacking:]
            if len(self._first) < FIRST:
                return
            self._edges = bin_edges(np.array(self._first))
            self._counts = np.zeros(len(self._edges) + 1, dtype=np.int64)
            self._key = int.from_bytes(hashlib.sha256(np.array(self._first).tobytes()).digest()[:8], "big")
            self._first = []
        for start in range(0, len(scores), detection.BLOCK):
            self._bet(scores[start : start + detection.BLOCK], rows[start : start + detection.BLOCK])

    def _bet(self, scores: FloatArray, rows: IntArray) -> None:
        # random numbers of this stream of scores alone, which go on where the last run ended
        uniforms = np.random.Generator(np.random.Philox(key=self._key).advance(self.scores)).random(len(scores))
        self._counts, p_values = conformal_p_values(self._counts, scores, self._edges, uniforms)
        gains = np.stack([1 - 2 * p_values, 2 * p_values - 1])
        weights = np.full((2, len(_SHARES)), 1 / (2 * len(_SHARES)))
        self._sums, evidence, _ = detection.advance(self._sums, gains, _SHARES, weights, idle=1.0)
        self.scores += len(scores)
        self.evidence = float(evidence[-1])
        hit = np.flatnonzero(evidence >= 1 / self.delta)
        if self.row is None and hit.size:
            self.row = int(rows[hit[0]])

    @property
    def warns(self) -> bool:
        return self.row is not None

    def to_dict(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "delta": self.delta,
            "first": self._first,
            "key": self._key,
            "edges": self._edges.tolist(),
            "counts": self._counts.tolist(),
            "bets": self._sums.bets.tolist(),
            "clock": self._sums.clock,
            "recent": self._sums.recent,
            "recent_square": self._sums.recent_square,
            "scores": self.scores,
            "evidence": self.evidence,
            "row": self.row,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InputChange:
        made = cls(str(data["column"]), float(data["delta"]))
        made._first = [float(value) for value in data["first"]]
        made._key = int(data["key"])
        made._edges = np.array(data["edges"], dtype=np.float64)
        made._counts = np.array(data["counts"], dtype=np.int64)
        numbers = [float(data[name]) for name in ("clock", "recent", "recent_square")]
        made._sums = detection.Sums(np.array(data["bets"], dtype=np.float64), *numbers)
        made.scores, made.evidence, made.row = int(data["scores"]), float(data["evidence"]), data["row"]
        if not math.isfinite(made.evidence):
            raise ValueError("evidence that is not finite")
        return made
