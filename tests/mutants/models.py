"""Faults behind tune, the estimators and accelerate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from riskfront.estimators import calibrated
from riskfront.tuning import looks
from tests.mutants.mutant import Mutant, everywhere, method
from tests.mutants.procedures import half_inside, no_split, tests_on_opt

TUNE = "tune: a hundred nulls"


def calibrates_on_training_rows() -> None:
    """Each part that was held back for calibration is the part that was trained on."""
    split = calibrated.train_test_split

    def broken(*arrays: Any, **named: Any) -> list[Any]:
        return [part for train in split(*arrays, **named)[::2] for part in (train, train)]

    everywhere(split, broken)


def uses_the_last_setting() -> None:
    """After fit the last of the settings is used, certified or not."""

    def make(real: Any) -> Any:
        def certify(self: Any, model: Any, table: Any, *rest: Any) -> None:
            real(self, model, table, *rest)
            self.config_ = table.config(table.n_configs - 1)

        return certify

    method(calibrated.CalibratedModel, "_certify", make)


def calibrates_on_texts_it_learnt() -> None:
    from riskfront.transformers.data import texts

    split = texts.split_texts

    def broken(*args: Any, **named: Any) -> Any:
        parts = split(*args, **named)
        return replace(parts, calibration=parts.train)

    everywhere(split, broken)


def looks_forgotten() -> None:
    """Nobody remembers what the testing examples of a task were asked before."""
    everywhere(looks.look_once, lambda *args, **named: ())


MUTANTS = [
    Mutant("tune: forgets what was asked before", "tune: larger budgets until something passes", looks_forgotten),
    Mutant("tune: search and test on the same examples", TUNE, no_split),
    Mutant("tune: half of the opt examples tested", TUNE, half_inside),
    Mutant("tune: tests on the opt examples", TUNE, tests_on_opt),
    Mutant(
        "classifier: calibrates on rows it was trained on",
        "classifier: trained on coin flips",
        calibrates_on_training_rows,
    ),
    Mutant("estimator: uses a setting that was not certified", "estimator: the setting in use", uses_the_last_setting),
    Mutant("accelerate: calibrates on texts it learnt", "accelerate: coin flips", calibrates_on_texts_it_learnt),
]
