"""Faults of a frontier whose statements hold together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from riskfront._calibration import simultaneous
from riskfront.statistics import _nested_sequences as nested_sequences
from tests.mutants.mutant import Mutant, everywhere
from tests.mutants.unlabelled import batch_means_forgotten

PATHS, FALLBACK, CHOSEN, ACCELERATED, UNLABELLED, WAITING = (
    "frontier: paths together",
    "frontier: fallback test together",
    "frontier: chosen after looking",
    "frontier: accelerated model",
    "frontier: with unlabelled examples",
    "frontier: waiting at one setting",
)


def full_level_each() -> None:
    """Every sequence has all of delta, as if it had been the only one."""
    real = nested_sequences.reject_along
    everywhere(real, lambda sequences, *given: real([replace(one, share=1.0) for one in sequences], *given))


def past_a_failure() -> None:
    """A failure does not end its sequence: the share goes on to what comes behind it."""

    def broken(sequences: Any, p_value: Any, level: float, held: Any, loosest: Any, *pooled: Any) -> Any:
        rejected, at = held.copy(), np.full(held.shape, np.nan)
        for one in sequences:
            for value, setting in zip(one.values.tolist(), one.settings.tolist(), strict=True):
                if p_value(value, setting) <= level * one.share:
                    block = slice(int(loosest[value]), value + 1)
                    rejected[block, setting], at[block, setting] = True, level * one.share
        return rejected, at

    everywhere(nested_sequences.reject_along, broken)


def budget_of_the_failed() -> None:
    """What sequences that failed had left is handed on to the others, again and again."""
    real = nested_sequences.reject_along

    def broken(sequences: Any, p_value: Any, level: float, held: Any, loosest: Any, *pooled: Any) -> Any:
        rejected, at = held, np.full(held.shape, np.nan)
        for one in sequences:  # each in turn gets what all the others, which wait at a failure, have
            rejected, new = real([replace(one, share=1.0)], p_value, level, rejected, loosest, *pooled)
            at = np.where(np.isnan(at), new, at)
        return rejected, at

    everywhere(real, broken)


def pooled_with_looser() -> None:
    """A pair is tested at the shares of looser values, too, which go on and are spent again."""
    real = nested_sequences._with_tighter

    def broken(waiting: Any, loosest: Any, pooled: Any) -> Any:
        found = real(waiting, loosest, pooled)
        most = {(loosest[value], setting): 0.0 for value, setting in found}
        for (value, setting), share in found.items():
            most[loosest[value], setting] = max(most[loosest[value], setting], share)
        return {(value, setting): most[loosest[value], setting] for value, setting in found}

    everywhere(real, broken)


def tighter_for_free() -> None:
    """What keeps a loose limit is taken to keep the tighter ones."""
    real = nested_sequences.reject_along

    def broken(sequences: Any, p_value: Any, level: float, held: Any, loosest: Any, *pooled: Any) -> Any:
        rejected, at = real(sequences, p_value, level, held, loosest, *pooled)
        for first in set(loosest.tolist()):
            block = np.flatnonzero(loosest == first)
            rejected[block] = rejected[block].any(axis=0)
            at[block] = np.nan_to_num(at[block], nan=level)
        return rejected, at

    everywhere(real, broken)


def order_of_the_tested_data() -> None:
    """The sequences are ordered by the data that they are tested on."""
    real = simultaneous.certify_together
    everywhere(real, lambda planner, opt, test, *more: real(planner, test, test, *more))


def one_limit_forgotten() -> None:
    """A combination is certified if its first limit is."""
    real = simultaneous.certify_together

    def broken(*given: Any) -> Any:
        found = real(*given)
        others = slice(len(found.grid.varying[0].values), None)
        found.certified[others] = True
        found.levels[others] = np.nan_to_num(found.levels[others], nan=0.1)
        return found

    everywhere(real, broken)


def undivided_fallback() -> None:
    """Every setting has all of the fallback test's share of delta."""
    real = simultaneous.in_holm
    everywhere(real, lambda holm_tests, level: real(holm_tests, level * holm_tests[0].table.n_configs))


def tight_alone_in_fallback() -> None:
    """Passing a tight limit in the fallback test counts even after failing a looser one; the share is undivided."""
    real = simultaneous.in_holm

    def broken(holm_tests: Any, level: float) -> Any:
        return np.concatenate([real([test], 10 * level) for test in holm_tests])

    everywhere(real, broken)


MUTANTS = [
    Mutant("frontier of an accelerated model: every sequence at delta", ACCELERATED, full_level_each),
    Mutant("frontier of an accelerated model: on after a failure", ACCELERATED, past_a_failure),
    Mutant("frontier with unlabelled examples: on after a failure", UNLABELLED, past_a_failure),
    Mutant("frontier with unlabelled examples: batch means forgotten", UNLABELLED, batch_means_forgotten),
    Mutant("frontier together: pooled with looser values", WAITING, pooled_with_looser),
    Mutant("frontier together: every sequence at delta", PATHS, full_level_each),
    Mutant("frontier together: on after a failure", PATHS, past_a_failure),
    Mutant("frontier together: tighter limits for free", PATHS, tighter_for_free),
    Mutant("frontier together: fallback test undivided", FALLBACK, undivided_fallback),
    Mutant("frontier together: ten times the fallback test's share", FALLBACK, tight_alone_in_fallback),
    Mutant("frontier of two limits: every sequence at delta", CHOSEN, full_level_each),
    Mutant("frontier of two limits: the budget of the failed", CHOSEN, budget_of_the_failed),
    Mutant("frontier of two limits: order of the tested data", CHOSEN, order_of_the_tested_data),
    Mutant("frontier of two limits: one limit forgotten", CHOSEN, one_limit_forgotten),
]
