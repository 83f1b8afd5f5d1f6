"""Faults at the doors of tests/monte_carlo/suites/doors.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront.calibration import decision
from riskfront.cascades.made_of import contents as contents_of_runs
from riskfront.certificates import made_of
from riskfront.evidence.evidence import Evidence
from riskfront.losses import contents
from riskfront.losses.derived import gaps
from riskfront.problems.problem import Problem
from riskfront.reading import worst_outcomes
from tests.mutants.mutant import Mutant, everywhere


def both_arms_at_delta() -> None:
    """The plan and the net have all of delta each, and half of it twice is what both were to have."""
    decide = decision._decide_with_net

    def wide(plan: Any, evidence: Evidence, everything: Evidence, path: Any) -> decision.Decision:
        problem = evidence.problem
        twice = Problem(problem.limits, problem.objectives, [], 2 * problem.delta)
        return decide(plan, Evidence(twice, evidence.table), Evidence(twice, everything.table), path)

    everywhere(decide, wide)


def net_not_shared() -> None:
    """Every setting has all that the net has."""
    decide, p_values = decision._decide_with_net, Evidence.p_values

    def undivided(plan: Any, evidence: Evidence, everything: Evidence, path: Any) -> decision.Decision:
        m = everything.table.n_configs
        everything.p_values = lambda rows, aims=None: p_values(everything, rows, aims) / m  # type: ignore[method-assign]
        return decide(plan, evidence, everything, path)

    everywhere(decide, undivided)


def copies_count() -> None:
    everywhere(contents.refuse_repeats, lambda table: None)


def compared_as_stored() -> None:
    """Contents are compared as they were stored: in double precision, groups with their types."""
    digests = contents.content_digests
    everywhere(digests, lambda table, rows, losses, groups, kind=None: digests(table, rows, losses, groups, "<f8"))
    limited = contents.shared_examples
    everywhere(limited, lambda one, other, of=(): limited(one, other))


def settings_with_gaps_left_out() -> None:
    everywhere(worst_outcomes.worst_outcomes, lambda *given: None)


def aside_by_seed_alone() -> None:
    everywhere(contents_of_runs, lambda *given: b"")


def old_examples_pass() -> None:
    everywhere(made_of.known_examples, lambda *given: 0)


def smallest_pair_of_groups() -> None:
    """Of the pairs of groups only the first is compared."""
    paired = gaps.paired

    def one_of_them(*given: Any) -> Any:
        found = paired(*given)
        return [(np.zeros_like(differences), kept) for differences, kept in found]

    everywhere(paired, one_of_them)
    gaps.paired = one_of_them


NET = "calibrate: path and net"
MUTANTS = [
    Mutant("net: both arms at delta", NET, both_arms_at_delta),
    Mutant("net: its share not divided among settings", NET, net_not_shared),
    Mutant("copies of examples count", "calibrate: copies of examples", copies_count),
    Mutant("contents compared as stored", "certify: one file twice, stored otherwise", compared_as_stored),
    Mutant("settings with missing outcomes left out", "read_wide: failures are missing", settings_with_gaps_left_out),
    Mutant("examples set aside by the seed alone", "cascade: a sorted log", aside_by_seed_alone),
    Mutant("check: old examples pass for new", "check: old examples as new", old_examples_pass),
    Mutant(
        "gap: differences forgotten, in calibrate",
        "calibrate: ratio, gap, worst cases, weights",
        smallest_pair_of_groups,
    ),
]
