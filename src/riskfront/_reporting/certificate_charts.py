"""What the pictures of a certificate show, as plain values: the page and the matplotlib plots draw the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.certificates.certificate import Certificate, configs_in
from riskfront._reporting import sentences
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront.errors import InvalidInputError
from riskfront.statistics import _fronts as fronts

#: what a setting came to, from least to most; the code of each is its position
STATUSES = ("explored", "on the front", "tested, not certified", "certified", "chosen")
_UNGUARANTEED = {"tested, not certified": "looked at, not picked", "certified": "picked from, no guarantee"}
EXPLORED, FRONT, TESTED, CERTIFIED, CHOSEN = range(5)

MOST_POINTS = 1500  # enough for a full picture, few enough to draw at once
MOST_STEPS = 600
_POOL = 10_000  # of more settings than this a random sample is spread out
P_FLOOR = 1e-12  # smaller p-values are drawn here


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity that can be an axis: what a limit speaks of, a free objective, or both."""

    name: str
    label: str
    limit: float | None
    minimize: bool


@dataclass(frozen=True, slots=True, eq=False)
class TradeOff:
    """Every setting, or an even sample of them.

    values: (points, measures), on testing examples where a setting was tested, on planning examples elsewhere.
    status: (points,), codes into ``STATUSES``. step: (points,), its step on the testing path, 0 for none.
    counts: settings of each status, before thinning. names: of the statuses; nothing is "certified" without a guarantee.
    """

    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: FloatArray
    status: IntArray
    step: IntArray
    settings: tuple[dict[str, Any], ...]
    counts: tuple[int, ...]

    @property
    def n_settings(self) -> int:
        return sum(self.counts)

    @property
    def thinned(self) -> bool:
        return len(self.status) < self.n_settings


@dataclass(frozen=True, slots=True, eq=False)
class TestingPath:
    """The tests in their order, or an even sample of them. step: (points,), from 1. by_limit: (points, limits). stopped: the
    step at whose failure a fixed sequence ended, None when it did not. by_mean: means were compared and no test was made, so
    that p-values say nothing."""

    limit_names: tuple[str, ...]
    step: IntArray
    p_value: FloatArray
    tested_at: FloatArray
    by_limit: FloatArray
    passed: BoolArray
    chosen: BoolArray
    settings: tuple[dict[str, Any], ...]
    delta: float
    n_steps: int
    stopped: int | None
    floor: float
    by_mean: bool

    @property
    def thinned(self) -> bool:
        return len(self.step) < self.n_steps

    @property
    def shares_delta(self) -> bool:
        """Whether tests had shares of delta that differ, or a small one each."""
        return len(set(self.tested_at.tolist())) > 1 or bool(np.any(self.tested_at < self.delta / 2))


def measures(certificate: Certificate) -> tuple[Measure, ...]:
    """The free objectives, then the limits, each quantity once."""
    problem = certificate.problem
    found = {o.name: Measure(o.name, o.name, None, not o.maximize) for o in problem.objectives}
    for name, limit in zip(problem.limit_names, problem.limits, strict=True):
        label = name if limit.quantile is None else sentences.limit_name(limit)
        found[name] = Measure(name, label, limit.compared_with, limit.at_least is None)
    return tuple(found.values())


def tradeoff_data(certificate: Certificate, *, most: int = MOST_POINTS) -> TradeOff:
    """All settings with what they came to; at most ``most`` of them, chosen ones first of all."""
    shown = measures(certificate)
    measured = [measure.name for measure in shown]
    columns = list(certificate.setting_columns.values())
    path, explored = certificate.path, certificate.explored
    status = np.where(path["chosen"] > 0, CHOSEN, np.where(path["certified"], CERTIFIED, TESTED)).astype(np.int64)
    values = path[measured].to_numpy(dtype=float)
    step = np.arange(1, len(path) + 1)
    frame = path[columns]
    if explored is not None:
        seen = set(_keys(path[columns]))
        rest = np.array([key not in seen for key in _keys(explored[columns])], dtype=bool)
        estimates = explored[measured].to_numpy(dtype=float)
        on_front = np.zeros(len(explored), dtype=np.int64)
        on_front[_front(estimates, shown)] = FRONT
        status = np.concatenate([status, on_front[rest]])
        values = np.concatenate([values, estimates[rest]])
        step = np.concatenate([step, np.zeros(int(rest.sum()), dtype=np.int64)])
        frame = explored.loc[rest, columns] if len(frame) == 0 else pd.concat([frame, explored.loc[rest, columns]])
    kept = _spread(values, status, most)
    counts = tuple(int((status == code).sum()) for code in range(len(STATUSES)))
    settings = tuple(configs_in(frame.iloc[kept], certificate.setting_columns))
    names = STATUSES if certificate.guaranteed else tuple(_UNGUARANTEED.get(name, name) for name in STATUSES)
    return TradeOff(names, shown, values[kept], status[kept], step[kept], settings, counts)


def path_data(certificate: Certificate, *, most: int = MOST_STEPS) -> TestingPath:
    """The testing path, with p-values by limit."""
    path, problem = certificate.path, certificate.problem
    p_value, tested_at = path["p_value"].to_numpy(dtype=float), path["tested_at"].to_numpy(dtype=float)
    passed = path["certified"].to_numpy(dtype=bool)
    chosen = path["chosen"].to_numpy() > 0
    names = problem.limit_names
    own = [f"p_value {name}" if len(names) > 1 else "p_value" for name in names]
    kept = _evenly(len(path), np.flatnonzero(chosen), most)
    positive = p_value[p_value > 0]
    return TestingPath(
        limit_names=tuple(names),
        step=kept + 1,
        p_value=p_value[kept],
        tested_at=tested_at[kept],
        by_limit=path[own].to_numpy(dtype=float)[kept],
        passed=passed[kept],
        chosen=chosen[kept],
        settings=tuple(configs_in(path.iloc[kept], certificate.setting_columns)),
        delta=problem.delta,
        n_steps=len(path),
        stopped=_stopped(certificate, passed, tested_at) if certificate.guaranteed else None,
        floor=max(P_FLOOR, min(0.1 * problem.delta, float(positive.min(initial=1.0)))),
        by_mean=not certificate.guaranteed and bool(np.isnan(p_value).all()),
    )


def _stopped(certificate: Certificate, passed: BoolArray, tested_at: FloatArray) -> int | None:
    """The step at which a fixed sequence failed, from 1; None for a path that did not end so.

    A fixed sequence tests everything at one level and has its only failure at its end. Rows of the fallback test come after it.
    """
    path = certificate.path
    if certificate.method in ("bonferroni", "holm"):
        return None
    along = np.flatnonzero(path["tested_by"].to_numpy() == "path") if "tested_by" in path else np.arange(len(path))
    if not len(along) or passed[along[-1]] or len(set(tested_at[along].tolist())) > 1:
        return None
    end = int(along[-1])
    return end + 1 if passed[:end].all() else None


def _front(values: FloatArray, shown: Sequence[Measure]) -> IntArray:
    signs = np.array([1.0 if measure.minimize else -1.0 for measure in shown])
    return fronts.front(np.nan_to_num(values * signs, nan=np.inf))


def _spread(values: FloatArray, status: IntArray, most: int) -> IntArray:
    """At most ``most`` points: up to a fair share of each status, the highest first, spread out over the picture."""
    if len(values) <= most:
        return np.arange(len(values))
    random = np.random.default_rng(0)
    taken: list[IntArray] = []
    left = most
    for code in range(CHOSEN, -1, -1):
        members = np.flatnonzero(status == code)
        share = max(left // 2, 1) if (status < code).any() else left
        pool = members if len(members) <= _POOL else np.sort(random.choice(members, _POOL, replace=False))
        finite = pool[np.isfinite(values[pool]).all(axis=1)]
        part = pool if len(pool) <= share else finite[fronts.thin(values[finite], share)]
        taken.append(part)
        left -= len(part)
    return np.sort(np.concatenate(taken))


def _evenly(n: int, always: IntArray, most: int) -> IntArray:
    """At most about ``most`` positions of n: evenly spaced ones, both ends, and the first of those that must be there."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.concatenate([np.linspace(0, n - 1, most - most // 4).astype(np.int64), always[: most // 4]]))


def _keys(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(zip(*(frame[name].tolist() for name in frame.columns), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdCurves:
    """Curves along one setting.

    Attributes:
        setting: the name of the setting.
        threshold: (m,) its values, ascending.
        names: of the limits, then of the objectives.
        values: (curves, m) what was measured on the testing examples.
        limits: the number that each curve compares with; None for objectives.
        certified: the lowest and the highest certified value; None without any.
        chosen: the value in use; None without any.
        title: the verdict.
    """

    setting: str
    threshold: FloatArray
    names: tuple[str, ...]
    values: FloatArray
    limits: tuple[float | None, ...]
    certified: tuple[float, float] | None
    chosen: float | None
    title: str


def threshold_data(certificate: Certificate) -> ThresholdCurves:
    """The curves of a certificate whose settings differ in one number."""
    tested = certificate.tested
    varied = [column for column in certificate.setting_columns.values() if tested[column].nunique() > 1]
    if len(tested) == 1:
        raise InvalidInputError(
            "plot_threshold needs several settings; one alone was tested, because the test stops at its first failure. "
            f"{certificate.verdict()}"
        )
    if len(varied) != 1 or tested[varied[0]].dtype.kind not in "biuf":
        raise InvalidInputError(
            f"plot_threshold needs settings that differ in one number; these differ in {', '.join(varied) or 'nothing'}. "
            "plot_tradeoff draws any."
        )
    (column,) = varied
    ordered = tested.sort_values(column, kind="stable")
    problem = certificate.problem
    names = list(dict.fromkeys([*problem.limit_names, *(objective.name for objective in problem.objectives)]))
    compared = dict(zip(problem.limit_names, (limit.compared_with for limit in problem.limits), strict=True))
    passed = ordered.loc[ordered["certified"].astype(bool), column]
    setting = next(name for name, shown in certificate.setting_columns.items() if shown == column)
    return ThresholdCurves(
        setting=str(setting),
        threshold=ordered[column].to_numpy(dtype=np.float64),
        names=tuple(names),
        values=np.stack([ordered[name].to_numpy(dtype=np.float64) for name in names]),
        limits=tuple(compared.get(name) for name in names),
        certified=(float(passed.min()), float(passed.max())) if len(passed) else None,
        chosen=float(certificate.config[setting]) if certificate else None,
        title=certificate.verdict().split(". ")[0].rstrip(".") + ".",
    )
