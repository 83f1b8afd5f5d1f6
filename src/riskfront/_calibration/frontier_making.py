"""From a table to a Frontier: split, plan, test all values together, and describe the best settings of every combination."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.calibrate import notes_on_clusters, path_frame, planning_means, setting_columns
from riskfront._calibration.certificates.known_examples import fingerprints_of
from riskfront._calibration.decision import Decision
from riskfront._calibration.diagnosis import explain
from riskfront._calibration.frontier_plan import ValueGrid
from riskfront._calibration.frontier_result import COMBINATION, Frontier
from riskfront._calibration.measured import COLUMNS, covered_groups, measured_values
from riskfront._calibration.simultaneous import Together, certify_together
from riskfront._data.contents import shuffles
from riskfront._data.problem_fit import account
from riskfront._data.sums import SINGLE_THREADED
from riskfront._data.table import LossTable
from riskfront._support.arrays import BoolArray, FloatArray, IntArray
from riskfront._support.version import __version__
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.prediction_powered import what_proxies_brought, with_unlabelled
from riskfront.methods._plan import parameters


def make_frontier(
    table: LossTable,
    grid: ValueGrid,
    method: Method,
    seed: int,
    split_by: str | None = None,
    unlabelled: LossTable | None = None,
) -> Frontier:
    """What ``frontier`` does, without a record of it; ``split_by`` is what a certificate says of its split."""
    split_by = shuffles(table) if split_by is None else split_by
    with SINGLE_THREADED:
        joined, source = table, dict[str, Any]()
        if unlabelled is not None:
            joined, source = with_unlabelled(table, grid.problem, unlabelled, seed)
        opt, test = joined.split(method.opt_fraction, seed=seed, split_by=split_by)
        found = certify_together(method, opt, test, grid, seed)
        made = _described(found, table, method, seed, split_by)
        return made if unlabelled is None else replace(made, unlabelled={**source, **_brought(found)})


def _described(found: Together, table: LossTable, method: Method, seed: int, split_by: str) -> Frontier:
    grid, problem, test = found.grid, found.grid.problem, found.test
    columns = setting_columns(table, problem, (COMBINATION, "n_certified"))
    counts, failures, best, reasons = list[int](), dict[str, Any](), list[_Best](), _Reasons(found)
    for combination, places in enumerate(grid.combinations()):
        decision = found.decision(places)[2]
        counts.append(len(decision.rows))
        if len(decision.rows):
            at = decision.chosen
            best.append(_Best(combination, places, decision.rows[at], decision.p_values[at], decision.by_holm[at]))
        else:
            failures[str(combination)] = reasons.of(places)
    without_fallback = {"holm_share": 0.0} if getattr(method, "holm_share", 0) and not found.holm_tests else {}
    rows = sorted({int(row) for one in best for row in one.rows})
    test.check(np.array(rows, dtype=np.int64))
    return Frontier(
        problem=problem,
        values=grid.values,
        method=method.name,
        parameters=parameters(method) | without_fallback,
        n_opt=found.opt.n_examples,
        n_test=test.n_examples,
        seed=seed,
        data_sha256=table.fingerprint,
        version=__version__,
        setting_columns=columns,
        path=_path(found, best, columns),
        measured=_measured(found, best),
        counts=counts,
        failures=failures,
        groups={name: levels for one in found.tests for name, levels in covered_groups(one).items()},
        explored=planning_means(found.opt, problem, columns, np.flatnonzero(found.certified.any(axis=0))),
        loss_bounds={loss: test.bounds(loss) for limit in problem.limits for loss in limit.bounded},
        split_by=split_by,
        thresholds=_thresholds(found),
        clusters=test.clusters,
        example_fingerprints=fingerprints_of(table, problem, [table.config(row) for row in rows], rows),
        notes=notes_on_clusters(test.clusters),
        intake=account(table, problem),
    )


def _brought(found: Together) -> dict[str, Any]:
    """What proxies brought at the best setting of the loosest values that have one."""
    decisions = (found.decision(places)[2] for places in found.grid.combinations())
    best = next((int(one.rows[one.chosen[0]]) for one in decisions if len(one.rows)), None)
    return dict(what_proxies_brought(found.opt, np.zeros(0, dtype=np.int64), found.grid.problem, lambda: best) or {})


@dataclass(frozen=True, slots=True, eq=False)
class _Best:
    """The chosen settings of a combination of values, best first."""

    combination: int
    places: tuple[int, ...]
    rows: IntArray
    p_values: FloatArray
    by_holm: BoolArray


def _thresholds(found: Together) -> dict[str, float]:
    """The thresholds that the planning examples chose for limits on worst cases, at every value."""
    chosen = {}
    for evidence in found.tests:
        for limit in evidence.problem.limits:
            if limit.worst is not None and limit.threshold is not None:
                chosen[str(replace(limit, threshold=None))] = float(limit.threshold)
    return chosen


def _levels(found: Together, places: Sequence[int], rows: IntArray) -> FloatArray:
    """(rows, limits): the level at which each limit was certified; for those that do not vary the largest of the others'."""
    at = found.levels[found.value_rows(places)][:, rows].T
    levels = np.repeat(at.max(axis=1, keepdims=True), len(found.grid.problem.limits), axis=1)
    for which, one in enumerate(found.grid.varying):
        levels[:, one.index] = at[:, which]
    return levels


def _path(found: Together, best: Sequence[_Best], columns: dict[str, str]) -> pd.DataFrame:
    """The chosen settings of all combinations. The p-value shown is that of the limit that came nearest to its level, beside
    this level."""
    evidence, on_all = found.evidence([0] * len(found.grid.varying))
    limits = len(evidence.tests)
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *(one.rows for one in best)])
    p_values = np.concatenate([np.zeros((0, limits)), *(one.p_values for one in best)])
    by_holm = np.concatenate([np.zeros(0, dtype=bool), *(one.by_holm for one in best)])
    levels = np.concatenate([np.zeros((0, limits)), *(_levels(found, one.places, one.rows) for one in best)])
    everyone = np.ones(len(rows), dtype=bool)
    decision = Decision(rows, p_values, np.zeros(len(rows)), everyone, np.zeros(0, dtype=np.int64), by_holm)
    frame = path_frame(evidence, decision, columns, on_all)
    nearest = np.argmax(p_values / levels, axis=1)[:, None]
    frame["p_value"] = np.take_along_axis(p_values, nearest, axis=1)[:, 0]
    frame["tested_at"] = np.take_along_axis(levels, nearest, axis=1)[:, 0]
    frame["chosen"] = np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(len(one.rows)) + 1 for one in best)])
    frame[COMBINATION] = np.repeat([one.combination for one in best], [len(one.rows) for one in best]).astype(np.int64)
    return frame


def _measured(found: Together, best: Sequence[_Best]) -> pd.DataFrame:
    """Each limit as the test that certified it saw it, on testing examples or on all: computed once a limit, value and
    setting, then given to every combination that has it."""
    wanted: dict[tuple[int, int, bool], list[tuple[int, int, int, float]]] = {}
    varying = {one.index: which for which, one in enumerate(found.grid.varying)}
    for one in best:
        at, levels = found.value_rows(one.places), _levels(found, one.places, one.rows)
        for place in range(len(found.grid.problem.limits)):
            value_row = at[varying.get(place, 0)]
            for rank, row in enumerate(one.rows.tolist()):
                key = (place, value_row, bool(found.by_holm[value_row, row]))
                wanted.setdefault(key, []).append((one.combination, rank + 1, row, float(levels[rank, place])))
    parts = [_of_value(found, *key, uses) for key, uses in sorted(wanted.items())]
    if not parts:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in (*COLUMNS, COMBINATION)})
    frame = pd.concat(parts, ignore_index=True)
    return frame.sort_values([COMBINATION, "chosen"], kind="stable", ignore_index=True)


def _of_value(
    found: Together, place: int, value_row: int, by_holm: bool, uses: Sequence[tuple[int, int, int, float]]
) -> pd.DataFrame:
    """One limit at one value, by one kind of test: a row for each use, (combination, rank, setting, level), and group."""
    seen = found.holm_tests[value_row] if by_holm else found.tests[value_row]
    varying = [one.index for one in found.grid.varying]
    column = 0 if place in varying else 1 + found.grid.fixed.index(found.grid.problem.limits[place])
    limit = seen.problem.limits[column]
    alone = Evidence(seen.problem.with_limits([limit]), seen.table)
    rows = np.array(sorted({row for _, _, row, _ in uses}), dtype=np.int64)
    target_levels = np.full(len(rows), found.holm_level if by_holm else found.aim)
    tested = Decision(
        rows,
        np.zeros((len(rows), 1)),
        target_levels,
        np.ones(len(rows), bool),
        np.arange(len(rows)),
        target_levels=target_levels,
    )
    frame = measured_values(alone, tested)
    groups = len(frame) // len(rows)  # the rows of a setting stand together
    first = np.searchsorted(rows, [row for _, _, row, _ in uses]) * groups
    frame = frame.iloc[(first[:, None] + np.arange(groups)).ravel()].reset_index(drop=True)
    frame["limit"] = str(replace(limit, threshold=found.grid.problem.limits[place].threshold))
    frame["chosen"] = np.repeat([rank for _, rank, _, _ in uses], groups)
    frame["tested_at"] = np.repeat([level for *_, level in uses], groups)
    frame[COMBINATION] = np.repeat([combination for combination, *_ in uses], groups)
    return frame


@dataclass(frozen=True, slots=True, eq=False)
class _Reasons:
    """Why nothing is certified at combinations of values: many have the same reason, which is found once."""

    found: Together
    margins: dict[int, FloatArray] = field(default_factory=dict)
    explained: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)

    def of(self, places: Sequence[int]) -> dict[str, Any]:
        """What stood in the way at the setting that came nearest: which limit, and how many examples it would take."""
        at = self.found.value_rows(places)
        missing = ~self.found.certified[at]
        nearest = np.flatnonzero(missing.sum(axis=0) == missing.sum(axis=0).min())
        means = [self._margin(row)[nearest] for row in at]
        setting = int(nearest[np.argmin(np.max(means, axis=0))])
        key = at[int(np.argmax(missing[:, setting]))], setting
        if key not in self.explained:
            self.explained[key] = self._explain(*key)
        return self.explained[key]

    def _margin(self, row: int) -> FloatArray:
        if row not in self.margins:
            self.margins[row] = self.found.tests[row].margin()
        return self.margins[row]

    def _explain(self, row: int, setting: int) -> dict[str, Any]:
        found, level = self.found, float(self.found.sure_levels[row])
        seen = found.tests[row] if found.stopped_at[row] >= 0 else (found.holm_tests or found.tests)[row]
        if found.stopped_at[row] >= 0 and seen.p_values(np.array([setting]), np.array([level])).max() <= level:
            setting = int(found.stopped_at[row])  # the other stood behind it and was not tested
        explained = explain(seen, np.array([setting]), level)
        return {key: json.loads(json.dumps(value, default=str)) for key, value in explained.items()}
