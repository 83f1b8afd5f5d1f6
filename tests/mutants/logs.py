"""Faults behind the doors for logs: something that was recorded, or that failed, is lost."""

from __future__ import annotations

from typing import Any

import numpy as np

import riskfront as rf
from riskfront._data.logs import gather, read_runs
from riskfront._data.logs.runs import Runs
from riskfront._data.logs.tools import inspect_ai
from riskfront._data.reading import column_roles
from tests.mutants.mutant import Mutant, everywhere, method


def drops_failed_repeats() -> None:
    """Calls that failed beside calls that were answered do not enter the mean."""
    averaged = gather.averaged

    def broken(frame: Any) -> Any:
        alone = frame.groupby(["_setting", "_example"])["_failed"].transform("all")
        return averaged(frame[~frame["_failed"] | alone])

    everywhere(averaged, broken)


def drops_failed_calls() -> None:
    """Calls that failed are left out."""
    answers = gather._answers

    def broken(*args: Any) -> Any:
        return [record for record in answers(*args) if not record.failed]

    everywhere(answers, broken)


def drops_what_is_incomplete(name: str) -> Any:
    """Examples for which a column is missing are left out."""

    def apply() -> None:
        def made(init: Any) -> Any:
            def broken(self: Any, runs: Any, **options: Any) -> None:
                init(self, runs.at(np.flatnonzero(~np.isnan(runs.value(name)).any(axis=0))), **options)

            return broken

        method(rf.Cascade, "__init__", made)

    return apply


def absent_examples_go_on() -> None:
    """A cascade goes on to the next model where nothing was logged of the one before."""
    method(Runs, "absent", lambda real: property(lambda runs: np.zeros((len(runs), runs.n_examples), dtype=bool)))


def scores_of_failed_calls_count() -> None:
    """A call that failed keeps the score that a file gives it."""
    everywhere(read_runs._with_failed_calls, lambda runs, worst: runs)


def second_tries_count() -> None:
    """Of several logs of one run, the latest answer to each example counts."""

    def broken(records: Any, skip_broken: bool, left_out: Any) -> Any:
        newest: dict[Any, Any] = {}
        for record in sorted(records, key=lambda record: record.when):
            newest[str(record.setting), record.example, record.repeat] = record
        return list(newest.values())

    everywhere(gather._latest, broken)


def scores_of_failures_unseen() -> None:
    """Nobody asks what calls that failed score in a table."""
    everywhere(column_roles.recorded_failures, lambda source: {})


def stopped_runs_count() -> None:
    """What early stopping left of a run counts as all of it."""
    everywhere(inspect_ai._refuse_stopped_early, lambda header, where: None)


MUTANTS = [
    Mutant(
        "runs that were stopped early count", "logs: a run that was stopped when it looked good", stopped_runs_count
    ),
    Mutant("failures have a second try", "logs: failures were asked again", second_tries_count),
    Mutant("failed calls keep the best score", "calibrate: failed calls score as the best", scores_of_failures_unseen),
    Mutant("failed calls keep their scores", "cascade: failed calls with a score", scores_of_failed_calls_count),
    Mutant(
        "what a run lacks is asked elsewhere", "cascade: a model ran on easy questions alone", absent_examples_go_on
    ),
    Mutant("an epoch that failed is dropped", "logs: an epoch of Inspect that failed", drops_failed_repeats),
    Mutant("a call that failed is dropped", "logs: the only call of an example failed", drops_failed_calls),
    Mutant("a repeat that failed is dropped", "logs: a repeat of promptfoo that failed", drops_failed_repeats),
    Mutant("examples without a price are dropped", "cascade: a price is missing", drops_what_is_incomplete("cost")),
    Mutant(
        "examples without a confidence are dropped",
        "cascade: a confidence is missing",
        drops_what_is_incomplete("sure"),
    ),
    Mutant(
        "examples without a price are dropped by a router",
        "router: a price is missing",
        drops_what_is_incomplete("cost"),
    ),
]
