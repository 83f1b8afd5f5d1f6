"""The evidence about one limit in one group, and where it says that the change was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from riskfront._calibration.monitoring.watched_limit import Counted
from riskfront._support.arrays import FloatArray, IntArray
from riskfront.statistics import _change_detection as detection
from riskfront.statistics._audited_gains import SHARES, SIZE_WEIGHTS, Moments, audited_gains


@dataclass(frozen=True, slots=True)
class Change:
    """Where the evidence began to grow: the row and time of the first outcome since, how many there were since, their risk."""

    row: int
    time: str | None
    outcomes: int
    risk: float | None


@dataclass(frozen=True, slots=True)
class Alarm:
    """The row, time and evidence at which the threshold was reached, and where the change was then estimated to be."""

    row: int
    time: str | None
    evidence: float
    change: Change


class Detector:
    """Everything that is known about one limit in one group; the same size after any number of outcomes.

    Args:
        alpha: the limit on the scale from 0 to 1.
        threshold: the evidence at which it raises its alarm.
        weighted: whether weights of starts add up to 1 (no false alarm ever) or are 1 each (run length).
        rate: the smallest probability of a random audit; 1 where every outcome should have a label.
        by_proxy: whether outcomes without a label come too, with a proxy.
        points: how long the record of the evidence may be.
    """

    def __init__(
        self,
        alpha: float,
        threshold: float,
        *,
        weighted: bool,
        rate: float = 1.0,
        by_proxy: bool = False,
        points: int = 64,
    ) -> None:
        self.alpha, self.threshold, self.weighted, self.rate, self.by_proxy = alpha, threshold, weighted, rate, by_proxy
        self._shares, weights = (SHARES, np.full(len(SHARES), 1 / len(SHARES))) if by_proxy else detection.stakes(alpha)
        families = np.array(SIZE_WEIGHTS) if by_proxy else np.ones(1)
        self._weights = families[:, None] * weights
        self._recent = detection.RECENT * (float(np.sqrt(rate)) if by_proxy else 1.0)
        shape = self._weights.shape
        square = 0.01 if by_proxy else (1 - alpha) / alpha  # that of gains at the limit, to begin with
        self._sums = detection.start(shape, square, weighted=weighted)
        self._restarts = detection.no_restarts(*shape)
        self._rows: IntArray = np.zeros(shape, dtype=np.int64)
        self._times = np.full(shape, None, dtype=object)
        self._moments = Moments()
        self.outcomes = 0
        self.missing = 0
        self.totals = np.zeros(2)
        self.evidence = 1.0 if weighted else 0.0
        self.largest = self.evidence
        self.history = History(points)
        self.alarm: Alarm | None = None

    def add(self, counted: Counted, rows: IntArray, times: list[str] | None) -> None:
        """Bet on these outcomes; ``rows``: (n,), their numbers among all outcomes there ever were."""
        if not len(rows):
            return
        gains = self._gains(counted)
        path = np.empty(len(rows))
        start = 0
        for end in detection.block_ends(gains, float(self._shares.max())):
            part = slice(start, end)
            path[part] = self._bet(gains[:, part], counted.measured[:, part], rows[part], times, start)
            start = end
        self.outcomes += int(counted.audited.sum())
        self.missing += int(counted.missing.sum())
        self.totals += counted.measured.sum(axis=1)
        self.history.add(rows, times, counted.measured, path)

    def _bet(
        self, gains: FloatArray, measured: FloatArray, rows: IntArray, times: list[str] | None, first: int
    ) -> FloatArray:
        """The evidence after each outcome of a block, (n,); where it reaches the threshold, the alarm is taken down."""
        after, evidence, products = detection.advance(
            self._sums, gains, self._shares, self._weights, self._recent, weighted=self.weighted
        )
        hit = np.flatnonzero(evidence >= self.threshold) if self.alarm is None else np.zeros(0, dtype=np.int64)
        if hit.size and hit[0] + 1 < len(rows):
            cut = int(hit[0]) + 1
            to_alarm = self._bet(gains[:, :cut], measured[:, :cut], rows[:cut], times, first)
            after_it = self._bet(gains[:, cut:], measured[:, cut:], rows[cut:], times, first + cut)
            return np.concatenate([to_alarm, after_it])
        self._sums = after
        here = None if times is None else times[first : first + len(rows)]
        self._restart(products, measured, rows, here)
        self.evidence = float(evidence[-1])
        self.largest = max(self.largest, float(evidence.max()))
        if hit.size:
            self.alarm = Alarm(int(rows[-1]), None if here is None else here[-1], self.evidence, self._change())
        return evidence

    def _gains(self, counted: Counted) -> FloatArray:
        """(families, n): what is bet on, at least -1."""
        if counted.proxies is None:
            return ((counted.losses - self.alpha) / self.alpha * (self.rate / counted.q))[None]
        self._moments, gains = audited_gains(
            self._moments, counted.losses, counted.proxies, counted.audited, self.alpha, counted.q, self.rate
        )
        return gains

    def _restart(self, products: FloatArray, measured: FloatArray, rows: IntArray, times: list[str] | None) -> None:
        n = len(rows)
        self._restarts = detection.restarts(self._restarts, products, measured)
        since = self._restarts.since
        # those that began in this block, or after it: at since = 0 the next outcome would be the first
        begun = since <= n
        place = np.minimum(n - np.minimum(since, n), n - 1)
        self._rows = np.where(begun, rows[place] + (since == 0), self._rows)
        if times is not None:
            self._times = np.where(begun, np.array(times, dtype=object)[place], self._times)

    @property
    def risk(self) -> float | None:
        """Of all outcomes so far."""
        return ratio(self.totals)

    @property
    def change(self) -> Change | None:
        """Where the change was estimated to be at the alarm; None without one."""
        return None if self.alarm is None else self.alarm.change

    def _change(self) -> Change:
        best = int(np.argmax(self._restarts.logs))
        risk = ratio(self._restarts.totals.reshape(2, -1)[:, best])
        rows, times, since = self._rows.ravel(), self._times.ravel(), self._restarts.since.ravel()
        return Change(int(rows[best]), times[best], int(since[best]), risk)

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("alpha", "threshold", "weighted", "rate", "by_proxy")},
            "outcomes": self.outcomes,
            "missing": self.missing,
            "totals": self.totals.tolist(),
            "evidence": self.evidence,
            "largest": self.largest,
            "bets": self._sums.bets.tolist(),
            "clock": self._sums.clock,
            "recent": self._sums.recent,
            "recent_square": self._sums.recent_square,
            "moments": list(asdict(self._moments).values()),
            "restarts": {
                "logs": self._restarts.logs.tolist(),
                "since": self._restarts.since.tolist(),
                "totals": self._restarts.totals.tolist(),
                "rows": self._rows.tolist(),
                "times": self._times.tolist(),
            },
            "history": self.history.to_dict(),
            "alarm": None if self.alarm is None else asdict(self.alarm),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Detector:
        made = cls(
            float(data["alpha"]),
            float(data["threshold"]),
            weighted=bool(data["weighted"]),
            rate=float(data["rate"]),
            by_proxy=bool(data["by_proxy"]),
        )
        shape = made._weights.shape
        bets = _array(data["bets"], shape)
        made._sums = detection.Sums(bets, float(data["clock"]), float(data["recent"]), float(data["recent_square"]))
        restarts = data["restarts"]
        made._restarts = detection.Restarts(
            _array(restarts["logs"], shape),
            _array(restarts["since"], shape).astype(np.int64),
            _array(restarts["totals"], (2, *shape)),
        )
        made._rows = _array(restarts["rows"], shape).astype(np.int64)
        made._times = np.array(restarts["times"], dtype=object).reshape(shape)
        made._moments = Moments(*map(float, data["moments"]))
        made.outcomes, made.missing = int(data["outcomes"]), int(data["missing"])
        made.totals = _array(data["totals"], (2,))
        made.evidence, made.largest = float(data["evidence"]), float(data["largest"])
        made.history = History(**data["history"])
        if data["alarm"] is not None:
            found = dict(data["alarm"])
            made.alarm = Alarm(**{**found, "change": Change(**found["change"])})
        return made


def ratio(totals: FloatArray) -> float | None:
    """None where nothing was counted."""
    return float(totals[0] / totals[1]) if totals[1] != 0 else None


def _array(values: Any, shape: tuple[int, ...]) -> FloatArray:
    found = np.array(values, dtype=np.float64)
    if found.shape != shape:
        raise ValueError(f"an array of shape {found.shape} instead of {shape}")
    return found


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
        # six decimals: a picture needs no more, and the state stays small
        points = [[*point[:3], *(round(value, 6) for value in point[3:])] for point in self.points]
        return {"most": self.most, "step": self.step, "points": points}

    def sums(self) -> FloatArray:
        """(2,): numerators and denominators of all outcomes."""
        return np.array([[point[3], point[4]] for point in self.points]).reshape(-1, 2).sum(axis=0)


def joined(one: list[Any], other: list[Any]) -> list[Any]:
    return [other[0], other[1], one[2] + other[2], one[3] + other[3], one[4] + other[4], max(one[5], other[5])]
