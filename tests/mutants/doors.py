"""Faults at the doors of tests/monte_carlo/suites/doors.py."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from riskfront._calibration import decision
from riskfront._calibration.certificates import known_examples
from riskfront._cascades.replay import contents as contents_of_runs
from riskfront._data import contents, derived_losses
from riskfront._data.identity.fingerprints import numbers_of
from riskfront._data.table import LossTable
from riskfront._problems.problem import Problem
from riskfront._problems.terms import Term
from riskfront.methods._evidence.limit_tests import Evidence
from tests.mutants.mutant import Mutant, everywhere, method


def both_tests_at_delta() -> None:
    """The plan and the fallback test have all of delta each, and half of it twice is what both were to have."""
    decide = decision._decide_with_holm

    def wide(plan: Any, evidence: Evidence, everything: Evidence, path: Any) -> decision.Decision:
        problem = evidence.problem
        twice = Problem(problem.limits, problem.objectives, [], delta=2 * problem.delta)
        return decide(plan, Evidence(twice, evidence.table), Evidence(twice, everything.table), path)

    everywhere(decide, wide)


def fallback_not_shared() -> None:
    """Every setting has all that the fallback test has."""
    decide, p_values = decision._decide_with_holm, Evidence.p_values

    def undivided(plan: Any, evidence: Evidence, everything: Evidence, path: Any) -> decision.Decision:
        m = everything.table.n_configs
        everything.p_values = lambda rows, target_levels=None: p_values(everything, rows, target_levels) / m  # type: ignore[method-assign]
        return decide(plan, evidence, everything, path)

    everywhere(decide, undivided)


def uses_not_counted() -> None:
    """Every question is the first one."""
    from riskfront._calibration.certificates.uses_of_test_set import Asked

    method(Asked, "before", lambda real: lambda self, data, look: ())


def copies_count() -> None:
    everywhere(contents.refuse_repeats, lambda table, limited=(): None)


def compared_as_stored() -> None:
    """Contents are compared as they were stored, in double precision."""

    def as_stored(table: LossTable, rows: Any, losses: Any, groups: Any = (), rounding: Any = None) -> Any:
        columns = (column.astype("<f8") for name in losses for column in table.sequences(Term(name), rows)[0])
        coded = (table.group(name) for name in groups)
        return numbers_of(chain(columns, (np.array(of.levels, dtype=object)[of.codes] for of in coded)))

    everywhere(contents.loss_fingerprints, as_stored)
    limited = contents.shared_examples
    everywhere(limited, lambda one, other, of=(): limited(one, other))


def settings_with_gaps_left_out() -> None:
    made = LossTable.with_intake

    def complete(table: LossTable, intake: Any) -> LossTable:
        whole = made(table, intake)
        return whole.select(~np.isnan(table.losses("error")).any(axis=1)) if table.missing else whole

    LossTable.with_intake = complete  # type: ignore[method-assign]


def aside_by_seed_alone() -> None:
    everywhere(contents_of_runs, lambda *given: b"")


def old_examples_pass() -> None:
    everywhere(known_examples.known_examples, lambda *given: 0)


def smallest_pair_of_groups() -> None:
    """Of the pairs of groups only the first is compared."""
    paired = derived_losses.paired

    def one_of_them(*given: Any) -> Any:
        found = paired(*given)
        return [(np.zeros_like(differences), kept) for differences, kept in found]

    everywhere(paired, one_of_them)
    derived_losses.paired = one_of_them


def exits_in_the_order_they_measure() -> None:
    """The order of the exit thresholds is learnt from the texts that test it."""
    from riskfront.methods import OrderedKnob
    from riskfront.transformers import _certifying

    def learnt(trace: Any, configs: Any, problem: Problem, seed: int) -> Any:
        table = _certifying._table(trace, configs, trace.examples, {})
        means = table.losses("accuracy_drop").mean(axis=1)
        order = np.argsort(means, kind="stable")[1:]  # the full model is no news
        renamed = [{"tau_layer": 1.0 + place} for place in range(len(order))]
        columns = {name: table.losses(name)[order] for name in ("accuracy_drop", "flops")}
        again = LossTable(renamed, columns, None, trace.bounds)
        return _certifying.calibrate(again, problem, method=OrderedKnob(safest={"tau_layer": "low"}), seed=seed)

    everywhere(_certifying.certify_in_order, learnt)


FALLBACK = "calibrate: path and fallback test"
EXITS = "accelerate: exits in a declared order"
MUTANTS = [
    Mutant("calibrate: every question is the first", "calibrate: seeds until one passes", uses_not_counted),
    Mutant("fallback test: both tests at delta", FALLBACK, both_tests_at_delta),
    Mutant("fallback test: its share not divided among settings", FALLBACK, fallback_not_shared),
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
    Mutant("exits: an order read off the tested texts", EXITS, exits_in_the_order_they_measure),
]
