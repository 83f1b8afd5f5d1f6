"""A record of the evidence over time that never grows: when it is full, neighbours are joined."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from riskfront._support.arrays import FloatArray, IntArray

FIELDS = ("row", "time", "outcomes", "numerator", "denominator", "evidence")


@dataclass(slots=True)
class History:
    """points: stretches of ``step`` outcomes each: the last row and time, how many outcomes, sums of numerators and
    denominators, and the decimal logarithm of the largest evidence in it. The last stretch may be shorter."""

    most: int = 64
    step: int = 4
    points: list[list[Any]] = field(default_factory=list)

    def add(self, rows: IntArray, times: list[str] | None, measured: FloatArray, evidence: FloatArray) -> None:
        """measured: (2, n). evidence: (n,)."""
        n = len(rows)
        filled = self.points[-1][2] if self.points else self.step
        while len(self.points) + math.ceil((n - (self.step - filled)) / self.step) > self.most:
            self._join()
            filled = self.points[-1][2] if self.points else self.step
        first = self.step - filled
        edges = [0, *range(first, n, self.step)] if first > 0 else list(range(0, n, self.step))
        for index, begin in enumerate(edges):
            end = edges[index + 1] if index + 1 < len(edges) else n
            if begin == end:
                continue
            part = measured[:, begin:end].sum(axis=1)
            top = math.log10(max(float(evidence[begin:end].max()), 1e-300))
            new = [int(rows[end - 1]), None if times is None else times[end - 1], end - begin, *map(float, part), top]
            if index == 0 and first > 0:
                self.points[-1] = joined(self.points[-1], new)
            else:
                self.points.append(new)

    def _join(self) -> None:
        self.step *= 2
        pairs = [self.points[i : i + 2] for i in range(0, len(self.points), 2)]
        self.points = [joined(*pair) if len(pair) == 2 else pair[0] for pair in pairs]

    def to_dict(self) -> dict[str, Any]:
        return {"most": self.most, "step": self.step, "points": [_short(point) for point in self.points]}

    def sums(self) -> FloatArray:
        """(2,): numerators and denominators of all outcomes."""
        return np.array([[point[3], point[4]] for point in self.points]).reshape(-1, 2).sum(axis=0)


def joined(one: list[Any], other: list[Any]) -> list[Any]:
    return [other[0], other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4], max(one[5], other[5])]


def _short(point: list[Any]) -> list[Any]:
    """With six decimals: a picture needs no more, and the state stays small."""
    return [*point[:3], *(round(value, 6) for value in point[3:])]
