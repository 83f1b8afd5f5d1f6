"""The certificate of a sequential test: every setting with the examples that it was tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from riskfront._calibration.calibrate import add_estimates, path_frame, setting_columns
from riskfront._calibration.certificates.certificate import Certificate, chosen_configs
from riskfront._calibration.certificates.known_examples import CHOSEN_KNOWN, example_fingerprints
from riskfront._calibration.decision import Decision
from riskfront._calibration.measured import covered_groups, measured_values
from riskfront._calibration.sequential.course import Testing
from riskfront._calibration.sequential.path_test import SettingTest
from riskfront._calibration.sequential.told import Outcomes
from riskfront._data.intake import Intake
from riskfront._data.problem_fit import account
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.spaces.space import Config
from riskfront._support.array_digest import fingerprint
from riskfront._support.arrays import FloatArray, IntArray
from riskfront._support.version import __version__
from riskfront.methods import Method
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.methods._evidence.ranges import with_thresholds
from riskfront.methods._plan import parameters
from riskfront.statistics import _fronts as fronts

#: columns that only paths of sequential tests have
EXAMPLES = "examples"
_NOT_NEEDED = "no test has needed them"


def sequential_certificate(
    testing: Testing,
    method: Method,
    opt: Outcomes,
    test: Outcomes,
    levels: Mapping[int, int],
    needed: Sequence[int],
    evaluations: Mapping[str, Any],
    notes: Sequence[str] = (),
) -> Certificate:
    """What is certified now.

    Args:
        levels: setting -> how many chunks of planning examples it was tried on, for every setting that was searched.
        needed: rows that a table needs beside a setting, such as the reference of a drop.
        evaluations: what was evaluated, and what a full table would have been.
    """
    problem, tests = testing.problem, [one for one in testing.path.tests if one.chunks > one.start]
    columns = setting_columns(testing.opt, problem, also=(EXAMPLES,))
    seen = [_Seen(one, testing.resolve_defaults, test, needed) for one in tests]
    chosen = _chosen(seen)
    frames, measured = [], []
    for place, one in enumerate(seen):
        rank = chosen.index(place) + 1 if place in chosen else 0
        frames.append(one.path_row(columns, rank))
        if rank:
            measured.append(one.measured(rank))
    empty = Evidence(testing.resolve_defaults, testing.opt)
    path = pd.concat(frames, ignore_index=True) if frames else _no_path(empty, columns)
    tried = {
        level: sorted(row for row, reached in levels.items() if reached == level) for level in set(levels.values())
    }
    planned = [opt.table(rows, slice(0, level)) for level, rows in sorted(tried.items())]
    digests = {"opt": [table.sha256 for table in planned], "test": [one.table.sha256 for one in seen]}
    configs = chosen_configs(path, columns)
    return Certificate(
        problem=problem,
        method=method.name,
        parameters={**parameters(method), **({"holm_share": 0.0} if "holm_share" in parameters(method) else {})},
        guaranteed=method.guaranteed,
        n_opt=int(opt.edges[-1]),
        n_test=int(test.edges[-1]),
        seed=None,
        data_sha256=fingerprint(digests, {}),
        version=__version__,
        setting_columns=columns,
        path=path,
        measured=(
            pd.concat(measured, ignore_index=True).sort_values("chosen", kind="stable", ignore_index=True)
            if measured
            else measured_values(empty, _nothing(len(empty.tests)))
        ),
        groups=covered_groups(empty),
        explored=_explored(opt, problem, levels, set(testing.path.path), needed, columns),
        diagnosis=None if chosen else _diagnosis(testing, seen),
        near_misses=(),
        loss_bounds={loss: testing.opt.bounds(loss) for limit in problem.limits for loss in limit.bounded},
        notes=tuple(notes),
        thresholds={
            str(now): float(now.threshold or 0.0)
            for before, now in zip(problem.limits, testing.resolve_defaults.limits, strict=True)
            if before.threshold is None and now.threshold is not None
        },
        evaluations=dict(evaluations),
        intake=_account(problem, planned, seen, test, needed, int(evaluations["made"])),
        example_fingerprints=_fingerprints(problem, configs, [seen[place] for place in chosen], opt, levels),
    )


def _fingerprints(
    problem: Problem, configs: Sequence[Config], chosen: Sequence[_Seen], opt: Outcomes, levels: Mapping[int, int]
) -> dict[str, Any]:
    """Of each chosen setting, the examples that it was planned and tested on."""
    found: dict[str, Any] = {}
    for config, one in list(zip(configs, chosen, strict=True))[:CHOSEN_KNOWN]:
        planned, at = opt.table([one.test.row], slice(0, levels[one.test.row])), np.array([0])
        both: Any = np.ma  # whose functions carry no types
        losses = {
            name: both.concatenate([table.outcomes(name, at) for table in (planned, one.table)], axis=1)
            for name in planned.loss_names
        }
        own = example_fingerprints(problem, [config], LossTable([config], losses, bounds=planned.declared_bounds))
        found = {**own, "settings": {**found.get("settings", {}), **own["settings"]}}
    return found


class _Seen:
    """A tested setting with the outcomes that it was tested on."""

    def __init__(self, test: SettingTest, problem: Problem, outcomes: Outcomes, needed: Sequence[int]) -> None:
        rows = list(dict.fromkeys([test.row, *needed]))
        self.test, self.table = test, outcomes.table(rows, slice(test.start, test.chunks))
        self.evidence = Evidence(problem, self.table)

    def objectives(self) -> FloatArray:
        """(objectives,): to be minimised."""
        return self.evidence.objectives(np.array([0]))[0]

    def decision(self, rank: int) -> Decision:
        level = np.array([self.test.bets.level])
        chosen: IntArray = np.array([0] if rank else [], dtype=np.int64)
        certified = np.array([self.test.passed])
        return Decision(np.array([0]), self.test.limit_p_values[None, :], level, certified, chosen, target_levels=level)

    def path_row(self, columns: dict[str, str], rank: int) -> pd.DataFrame:
        frame = path_frame(self.evidence, self.decision(rank), columns)
        frame.insert(list(frame.columns).index("p_value"), EXAMPLES, self.table.n_examples)
        return frame.assign(chosen=rank)

    def measured(self, rank: int) -> pd.DataFrame:
        """As everywhere, with the p-values of the e-processes."""
        frame = measured_values(self.evidence, self.decision(rank))
        return frame.assign(chosen=rank, p_value=self.test.p_values, test="betting")


def _account(
    problem: Problem,
    planned: Sequence[LossTable],
    seen: Sequence[_Seen],
    test: Outcomes,
    needed: Sequence[int],
    made: int,
) -> Intake:
    """What became of every outcome that was made: planned on, tested on (as a setting or a reference of drops), or neither."""
    tables = {one.test.row: one.table for one in seen}
    if seen:
        end = max(one.test.chunks for one in seen)
        tables |= {row: test.table([row], slice(0, end)) for row in needed}
    intake = Intake.whole(0)
    for table in planned:
        intake = intake + account(table, problem)
    for table in tables.values():
        intake = intake + account(table, problem, np.array([0]))
    rest = made - intake.read
    return intake + Intake.whole(rest).without(_NOT_NEEDED, rest) if rest > 0 else intake


def _chosen(seen: Sequence[_Seen]) -> list[int]:
    """The certified settings that are best in the free objectives, best first; one where there is one objective."""
    passed = [place for place, one in enumerate(seen) if one.test.passed]
    if not passed:
        return []
    values = np.stack([seen[place].objectives() for place in passed])
    best = fronts.front(values)
    p_values = np.array([seen[passed[at]].test.p_values.max() for at in best])
    order = np.lexsort((p_values, *values[best].T[::-1]))
    found = [passed[int(best[at])] for at in order]
    return found[:1] if values.shape[1] == 1 else found


def _explored(
    opt: Outcomes,
    problem: Problem,
    levels: Mapping[int, int],
    planned: set[int],
    needed: Sequence[int],
    columns: dict[str, str],
) -> pd.DataFrame:
    """Estimates of every setting on the planning examples that it was tried on."""
    frames = []
    order: list[int] = []
    for level in sorted(set(levels.values())):
        rows = [row for row, reached in levels.items() if reached == level]
        together = list(dict.fromkeys([*rows, *needed]))
        table = opt.table(together, slice(0, level))
        frame = table.configs.rename(columns=columns)
        add_estimates(frame, Evidence(with_thresholds(problem, table), table), None)
        frame["planned"] = [row in planned for row in together]
        frame[EXAMPLES] = table.n_examples
        frames.append(frame.iloc[: len(rows)])
        order += rows
    found = pd.concat(frames, ignore_index=True)
    places = {row: at for at, row in enumerate(order)}
    return found.iloc[[places[row] for row in levels]].reset_index(drop=True)


def _nothing(limits: int) -> Decision:
    none = np.array([], dtype=np.int64)
    return Decision(none, np.empty((0, limits)), np.array([]), np.array([], dtype=bool), none)


def _no_path(evidence: Evidence, columns: dict[str, str]) -> pd.DataFrame:
    frame = path_frame(evidence, _nothing(len(evidence.tests)), columns)
    frame.insert(list(frame.columns).index("p_value"), EXAMPLES, np.array([], dtype=np.int64))
    return frame


def _diagnosis(testing: Testing, seen: Sequence[_Seen]) -> dict[str, Any]:
    """Why nothing is certified, as far as can be said now."""
    if not testing.path.path:
        return {
            "message": f"No setting was within the limits on the {testing.opt.n_examples} planning examples: none was tested."
        }
    if not seen:
        return {"message": "No testing example is known yet: nothing was tested."}
    best = min(seen, key=lambda one: float(one.test.p_values.max() / one.test.bets.level))
    worst = int(np.argmax(best.test.limit_p_values))
    limit = testing.resolve_defaults.limits[worst]
    measured = best.evidence.tests[worst].worst_measured(best.table, np.array([0]))[0]
    state = "was given up" if best.test.given_up else "has not passed yet"
    return {
        "limit": str(limit),
        "setting": best.table.config(0),
        "examples": best.table.n_examples,
        "measured": None if np.isnan(measured) else float(measured),
        "p_value": float(best.test.limit_p_values[worst]),
        "tested_at": best.test.bets.level,
        "message": (
            f"The setting that came nearest {state} at '{limit}': it measures {measured:.4g} on {best.table.n_examples:,} "
            f"testing examples, with a p-value of {best.test.limit_p_values[worst]:.3g} where at most "
            f"{best.test.bets.level:.3g} is needed."
        ),
    }
