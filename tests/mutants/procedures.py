"""Faults of planning, testing and multiplicity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import riskfront as rf
from riskfront._calibration import decision
from riskfront._data import splits
from riskfront._data.table import LossTable
from riskfront.methods import _denoising as denoising
from riskfront.methods import _grids as grids
from riskfront.methods._evidence.limit_tests import Evidence
from riskfront.statistics import _graphs as graphs
from riskfront.statistics import _p_values as p_values
from riskfront.statistics import _procedures as procedures
from tests.mutants.mutant import Mutant, everywhere, method

SEQUENCE = "calibrate: sequence of nulls"


def _split(change: Any) -> Any:
    """A mutant of the split into opt and test examples: change(opt, test) -> the two parts it gives back."""

    def apply() -> None:
        split = splits.split_examples
        everywhere(split, lambda *given: change(*split(*given)))

    return apply


half_inside = _split(lambda opt, test: (opt, np.concatenate([opt[: len(opt) // 2], test])))
no_split = _split(lambda opt, test: (test, test))
plans_on_all = _split(lambda opt, test: (np.concatenate([opt, test]), test))
tests_on_opt = _split(lambda opt, test: (opt, opt))


def goes_on() -> None:
    """A failure does not end the sequence."""
    sequence = procedures.FixedSequence
    sequence.sequential = property(lambda self: False)
    sequence.reject = lambda self, p, delta: p <= delta
    sequence.levels = lambda self, p, delta: np.full(p.shape, delta)


def level(factor: float) -> Any:
    """The sequence is tested at more than delta."""

    def apply() -> None:
        for name in ("reject", "levels"):
            method(procedures.FixedSequence, name, lambda real: lambda self, p, delta: real(self, p, factor * delta))
        everywhere(
            decision._until_first_failure,
            _at_factor(decision._until_first_failure, factor),
        )
        shares = decision._shares_of
        everywhere(shares, lambda delta, share: (factor * shares(delta, share)[0], shares(delta, share)[1]))

    return apply


def _at_factor(real: Any, factor: float) -> Any:
    return lambda evidence, rows, delta, *more: real(evidence, rows, factor * delta, *more)


def chunks(step: int) -> Any:
    """The next chunk of a sequence begins ``step`` settings too late, or too early."""

    def apply() -> None:
        def until_first_failure(evidence: Any, rows: Any, delta: float, excused: Any = None, known: Any = None) -> Any:
            held = np.zeros(len(rows), dtype=bool) if excused is None else excused
            found, start, size = [], 0, evidence.table.batch_size or decision._FIRST_CHUNK
            while start < len(rows):
                chunk = evidence.p_values(rows[start : start + size])
                failed = np.flatnonzero(~(chunk.max(axis=1) <= delta) & ~held[start : start + size])
                if failed.size:
                    found.append(chunk[: failed[0] + 1])
                    break
                found.append(chunk)
                start, size = start + size + step, 2 * size
            return np.concatenate(found)[: len(rows)]

        everywhere(decision._until_first_failure, until_first_failure)

    return apply


def chooses_among_all() -> None:
    """The best of all that was tested, not of what was certified."""
    choose = decision._choose
    everywhere(choose, lambda seen, p, certified: choose(seen, p, np.ones_like(certified)))


def holm_off_by_one() -> None:
    def levels(self: Any, p: np.ndarray, delta: float) -> np.ndarray:
        m = p.size
        order = np.argsort(p, kind="stable")
        steps = delta / np.maximum(np.arange(m - 1, -1, -1), 1)
        passed = int(np.logical_and.accumulate(p[order] <= steps).sum())
        found = np.empty(m)
        found[order] = steps[np.minimum(np.arange(m), passed)]
        return found

    procedures.Holm.levels = levels


def bonferroni_undivided() -> None:
    procedures.Bonferroni.levels = lambda self, p, delta: np.full(p.shape, delta)


def bonferroni_by_half() -> None:
    """Divided by the number of settings in one half only."""
    procedures.Bonferroni.levels = lambda self, p, delta: np.full(p.shape, 2 * delta / p.size)


def undivided_wide() -> None:
    """On the wide walk a rejected setting hands its whole budget to every neighbour."""
    walk = graphs._test_wide

    def broken(stages: Any, *rest: Any) -> Any:
        whole = [graphs._Stage(s.sources, s.targets, np.ones_like(s.transitions)) for s in stages]
        return walk(whole, *rest)

    everywhere(walk, broken)


def undivided_narrow() -> None:
    walk = graphs._test_narrow
    everywhere(walk, lambda edges, *rest: walk([(a, b, 1.0) for a, b, _ in edges], *rest))


def ungated_wide() -> None:
    """Budget moves on from settings that were not rejected, too."""
    walk = graphs._test_wide
    everywhere(walk, lambda stages, start, p, delta, *rest: walk(stages, start, np.zeros_like(p), delta, *rest))


def ungated_narrow() -> None:
    walk = graphs._test_narrow
    everywhere(walk, lambda edges, start, p, delta, *rest: walk(edges, start, np.zeros_like(p), delta, *rest))


def fallback_heads() -> None:
    """Each sequence of the fallback begins with all of delta."""
    make = graphs.fallback

    def broken(shape: Any) -> Any:
        graph = make(shape)
        object.__setattr__(graph, "weights", np.where(graph.weights > 0, 1.0, 0.0))
        return graph

    everywhere(make, broken)
    grids.graphs.fallback = broken


def corner_of_test_data() -> None:
    """The safest corner is looked for on the data that are tested."""
    last: list[LossTable] = []
    split, oriented = LossTable.split, grids._oriented

    def remembering(self: LossTable, *args: Any, **named: Any) -> Any:
        opt, test = split(self, *args, **named)
        last[:] = [test]
        return opt, test

    LossTable.split = remembering
    everywhere(oriented, lambda opt, *rest: oriented(last[0], *rest))


def knob_end_of_test_data() -> None:
    """A knob is walked from the end that looks safer on the data that are tested."""

    def turned(plan: Any, seen: Evidence) -> Any:
        first, last = seen.combined(plan.rows[[0, -1]])
        return plan if first <= last else replace(plan, rows=plan.rows[::-1])

    _knob_sees_test_data(turned)


def knob_thinned_by_test_data() -> None:
    """Values of a knob that measure above the limit on the data that are tested are left out of the sequence."""
    _knob_sees_test_data(lambda plan, seen: replace(plan, rows=plan.rows[seen.margin(plan.rows) < 0]))


def _knob_sees_test_data(change: Any) -> None:
    last: list[LossTable] = []
    split, plan = LossTable.split, rf.OrderedKnob.plan

    def remembering(self: LossTable, *args: Any, **named: Any) -> Any:
        opt, test = split(self, *args, **named)
        last[:] = [test]
        return opt, test

    LossTable.split = remembering
    rf.OrderedKnob.plan = lambda self, opt, problem: change(plan(self, opt, problem), Evidence(problem, last[0]))


def order_of_test_data() -> None:
    """The front comes from opt data, its order from the data that are tested."""
    last: list[LossTable] = []
    split, plan = LossTable.split, rf.ParetoTesting.plan

    def remembering(self: LossTable, *args: Any, **named: Any) -> Any:
        opt, test = split(self, *args, **named)
        last[:] = [test]
        return opt, test

    def ordered(self: rf.ParetoTesting, opt: LossTable, problem: rf.Problem) -> Any:
        found = plan(self, opt, problem)
        return replace(found, rows=found.rows[np.argsort(Evidence(problem, last[0]).combined(found.rows))])

    LossTable.split = remembering
    rf.ParetoTesting.plan = ordered


def binomial_one_less() -> None:
    """P(Bin < k) instead of P(Bin <= k)."""
    binomial = p_values.binomial

    def broken(total: Any, n: Any, alpha: Any) -> Any:
        return binomial(np.asarray(total) - 1, n, alpha)

    everywhere(binomial, broken)


def one_example_more() -> None:
    """The exact test thinks that there is one example in a hundred more than there is."""
    binomial = p_values.binomial

    def broken(total: Any, n: Any, alpha: Any) -> Any:
        return binomial(total, np.ceil(1.01 * np.asarray(n)), alpha)

    everywhere(binomial, broken)


def smooths_test_rows() -> None:
    """The risks that are smoothed are those of the data that are tested."""
    last: list[LossTable] = []
    split, planned = LossTable.split, denoising.planned_limits

    def remembering(self: LossTable, *args: Any, **named: Any) -> Any:
        opt, test = split(self, *args, **named)
        last[:] = [test]
        return opt, test

    LossTable.split = remembering
    everywhere(planned, lambda evidence, smooth: planned(Evidence.of_planning(evidence.problem, last[0]), smooth))


def fallback_beside_the_path() -> None:
    """The fallback test gets its share, and the path still has all of delta."""
    everywhere(decision._shares_of, lambda delta, share: (delta, share * delta))


MUTANTS = [
    Mutant("half of the opt rows inside the test part", SEQUENCE, half_inside),
    Mutant("plan and test on the same rows", SEQUENCE, no_split),
    Mutant("plan on all rows", SEQUENCE, plans_on_all),
    Mutant("test on the opt rows", SEQUENCE, tests_on_opt),
    Mutant("half of the opt rows tested, default method", "calibrate: default method on names", half_inside),
    Mutant("half of the opt rows tested, in trials", "experiment.run: sharp", half_inside),
    Mutant("order of the sequence from test data", SEQUENCE, order_of_test_data),
    Mutant("smoothing sees the test rows", "calibrate: smooth grid of nulls", smooths_test_rows),
    Mutant("fallback test forgets its share", "experiment.run: path and fallback test", fallback_beside_the_path),
    Mutant("sequence goes on after a failure", SEQUENCE, goes_on),
    Mutant("sequence at 2 delta", SEQUENCE, level(2.0)),
    Mutant("sequence at 1.25 delta", "experiment.run: sharp", level(1.25)),
    Mutant("binomial: one count too few", "experiment.run: sharp", binomial_one_less),
    Mutant("binomial: 1 % too many examples", "experiment.run: sharp", one_example_more),
    Mutant("chooses among all tested", "calibrate: default method", chooses_among_all),
    Mutant("a setting skipped between chunks", "calibrate: borders of chunks", chunks(1)),
    Mutant("a setting tested twice between chunks", "calibrate: borders of chunks", chunks(-1)),
    Mutant("end of the knob from test data", "calibrate: ordered knob", knob_end_of_test_data),
    Mutant("knob thinned by test data", "calibrate: ordered knob", knob_thinned_by_test_data),
    Mutant("along the knob after a failure", "calibrate: ordered knob, bets", goes_on),
    Mutant("along the knob at 1.5 delta", "calibrate: ordered knob, bets", level(1.5)),
    Mutant("bonferroni at delta", "calibrate: bonferroni", bonferroni_undivided),
    Mutant("bonferroni at 2 delta / m", "calibrate: bonferroni", bonferroni_by_half),
    Mutant("holm off by one", "calibrate: holm", holm_off_by_one),
    Mutant("undivided budget on the wide walk", "calibrate: wide graph", undivided_wide),
    Mutant("undivided budget on the narrow walk", "calibrate: narrow graph", undivided_narrow),
    Mutant("budget leaves without a rejection, wide", "calibrate: wide graph", ungated_wide),
    Mutant("budget leaves without a rejection, narrow", "calibrate: narrow graph", ungated_narrow),
    Mutant("every fallback sequence at delta", "calibrate: fallback", fallback_heads),
    Mutant("safest corner from test data", "calibrate: learned corner", corner_of_test_data),
]
