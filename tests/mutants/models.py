"""Faults behind tune, the estimators and accelerate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from riskfront._calibration.certificates import known_examples
from riskfront._data.identity import fingerprints
from riskfront._running.tuning import recorded_uses as looks
from riskfront.estimators import _risk_controlled as calibrated
from riskfront.estimators._calibration_examples import Examples
from tests.mutants.mutant import Mutant, everywhere, method
from tests.mutants.procedures import half_inside, no_split, tests_on_opt

TUNE = "tune: a hundred nulls"


def calibrates_on_training_rows() -> None:
    """Each part that was held back for calibration is the part that was trained on."""

    def make(split: Any) -> Any:
        def broken(self: Any, *given: Any) -> Any:
            train, _ = split(self, *given)
            return train, train

        return broken

    method(Examples, "split", make)


def examples_known_by_losses_alone() -> None:
    """Another model on the same rows is taken for a question to other examples."""
    method(Examples, "describe", lambda real: lambda self, table: _without_digest(real(self, table)))


def _without_digest(table: Any) -> Any:
    table.examples_digest = None
    return table


def tables_known_by_losses_alone() -> None:
    """What `evaluate` knows of its examples is forgotten when its table is calibrated."""
    real = known_examples.data_digests
    everywhere(real, lambda table, *given: real(_without_digest(table), *given))


def other_types_are_other_examples() -> None:
    """What a number was stored as is part of an example."""
    everywhere(
        fingerprints._in_single_precision,
        lambda column: np.array([f"{column.dtype} {value}" for value in column.tolist()], dtype=object),
    )


def other_orders_are_other_examples() -> None:
    """Examples are known in one order and precision alone, and by those who test them later by their losses alone."""
    method(fingerprints.ExampleFingerprints, "order_free", lambda real: None)


def parts_are_other_examples() -> None:
    """What another seed leaves to calibrate on is taken for other examples."""
    method(Examples, "describe", lambda real: lambda self, table: real(replace(self, part_of=None), table))


def begins_where_labels_look_best() -> None:
    """The first threshold to be tested is the one with the smallest p-value, instead of one that a count finds."""

    def make(real: Any) -> Any:
        def certify(self: Any, model: Any, table: Any, problem: Any, *rest: Any) -> None:
            limit = problem.limits[0]
            if limit.given == "predicted_positive":
                hits, said = (table.losses(name).sum(axis=1) for name in (limit.loss, limit.given))
                best = int(np.argmin(stats.binom.sf(hits - 1, said, limit.value)))
                table = table.select(np.arange(table.n_configs) <= best)
            real(self, model, table, problem, *rest)

        return certify

    method(calibrated.CalibratedModel, "_certify", make)


def both_starts_at_full_level() -> None:
    """A sequence that begins once more begins with all of delta."""
    from riskfront.statistics._procedures import FixedSequence, TwoSequences

    def make(real: Any) -> Any:
        def levels(self: Any, p_values: Any, delta: float) -> Any:
            parts = p_values[: self.second], p_values[self.second :]
            return np.concatenate([FixedSequence().levels(part, delta) for part in parts])

        return levels

    method(TwoSequences, "levels", make)


def widenings_of_training_rows() -> None:
    """Widenings are calibrated on errors that are a tenth smaller, as those of training rows are."""
    from riskfront.estimators._intervals import RiskControlledIntervals

    method(RiskControlledIntervals, "_needed_widenings", lambda real: lambda *given: 0.9 * real(*given))


def labels_with_higher_scores() -> None:
    """Calibration sees scores that are a little higher than those of prediction."""
    from riskfront.estimators import _multilabel

    real = _multilabel._table
    everywhere(real, lambda scores, *given: real(np.minimum(scores + 0.04, 1), *given))


def labels_planned_on_what_is_tested() -> None:
    """The thresholds of each label are read off the examples that test them."""
    from riskfront.estimators import _multilabel

    everywhere(_multilabel._divided, lambda examples, seed: (examples, examples))


def rows_of_a_day_counted_singly() -> None:
    """Rows of one cluster are tested as if they were independent."""
    method(Examples, "describe", lambda real: lambda self, table: real(replace(self, clusters=None), table))


def bounds_seen_in_the_data() -> None:
    """The largest amount of the calibration examples is taken for the largest that can be."""
    from riskfront.estimators._costs import Prices

    method(Prices, "bounds", lambda real: lambda self, two: real(replace(self, largest=float(self.amounts.max())), two))


def uses_the_last_setting() -> None:
    """After fit the last of the settings is used, certified or not."""

    def make(real: Any) -> Any:
        def certify(self: Any, model: Any, table: Any, *rest: Any) -> None:
            real(self, model, table, *rest)
            self.config_ = table.config(table.n_configs - 1)

        return certify

    method(calibrated.CalibratedModel, "_certify", make)


def calibration_leaves_no_trace() -> None:
    """Probabilities that were calibrated on the same rows are taken as they come."""
    from riskfront.estimators import _training_rows

    everywhere(_training_rows._says_their_shares, lambda model, X, y: False)


def scale_as_it_is_now() -> None:
    """Intervals use the scale that is set when they are asked for."""
    from riskfront.estimators._intervals import RiskControlledIntervals

    RiskControlledIntervals._scale = property(lambda self: self.scale, lambda self, scale: None)  # type: ignore[assignment]


def frontiers_outlive_a_fit() -> None:
    """A frontier of one model may be chosen from when another has been fitted."""
    method(calibrated.CalibratedModel, "_forget", lambda real: lambda self: None)


def calibrates_on_texts_it_learnt() -> None:
    from riskfront.transformers._data import texts

    split = texts.split_texts

    def broken(*args: Any, **named: Any) -> Any:
        parts = split(*args, **named)
        return replace(parts, calibration=parts.train)

    everywhere(split, broken)


def looks_forgotten() -> None:
    """Nobody remembers what the testing examples of a task were asked before."""
    everywhere(looks.record_use, lambda *args, **named: ())


MUTANTS = [
    Mutant("classifier: parts are other examples", "classifier: seeds until one passes", parts_are_other_examples),
    Mutant(
        "classifier: calibration leaves no trace",
        "classifier: probabilities of the same rows",
        calibration_leaves_no_trace,
    ),
    Mutant("intervals: the scale as it is now", "estimators: set after fit", scale_as_it_is_now),
    Mutant("estimators: a frontier outlives a fit", "estimators: set after fit", frontiers_outlive_a_fit),
    Mutant(
        "many labels: planned on what is tested", "many labels: a threshold for each", labels_planned_on_what_is_tested
    ),
    Mutant(
        "clusters: rows of a day counted singly", "clusters: rows of one day are alike", rows_of_a_day_counted_singly
    ),
    Mutant(
        "intervals: rows of a day counted singly",
        "intervals: values of one day are close",
        rows_of_a_day_counted_singly,
    ),
    Mutant(
        "many labels: rows of a day counted singly",
        "many labels: rows of one day are alike",
        rows_of_a_day_counted_singly,
    ),
    Mutant("costs: bounds seen in the data", "costs: rare large amounts", bounds_seen_in_the_data),
    Mutant(
        "classifier: planned thresholds tested on the planning examples",
        "classifier: thresholds that planning examples chose",
        tests_on_opt,
    ),
    Mutant(
        "classifier: other types are other examples",
        "classifier: models until one passes, rows of other types",
        other_types_are_other_examples,
    ),
    Mutant(
        "tune: another order is other examples", "tune: processes until one passes", other_orders_are_other_examples
    ),
    Mutant("tune: forgets what was asked before", "tune: larger budgets until something passes", looks_forgotten),
    Mutant("tune: search and test on the same examples", TUNE, no_split),
    Mutant("tune: half of the opt examples tested", TUNE, half_inside),
    Mutant("tune: tests on the opt examples", TUNE, tests_on_opt),
    Mutant(
        "classifier: calibrates on rows it was trained on",
        "classifier: trained on coin flips",
        calibrates_on_training_rows,
    ),
    Mutant(
        "classifier: examples known by losses alone",
        "classifier: models until one passes",
        examples_known_by_losses_alone,
    ),
    Mutant(
        "evaluate: examples known by losses alone", "evaluate: models until one passes", tables_known_by_losses_alone
    ),
    Mutant(
        "classifier: begins where labels look best",
        "classifier: one threshold in its known order",
        begins_where_labels_look_best,
    ),
    Mutant(
        "classifier: both starts at the full level",
        "classifier: one threshold from two starts",
        both_starts_at_full_level,
    ),
    Mutant(
        "intervals: widenings of training rows", "intervals: values even between 0 and 1", widenings_of_training_rows
    ),
    Mutant(
        "many labels: calibrated on higher scores",
        "many labels: scores even between 0 and 1",
        labels_with_higher_scores,
    ),
    Mutant("estimator: uses a setting that was not certified", "estimator: the setting in use", uses_the_last_setting),
    Mutant("accelerate: calibrates on texts it learnt", "accelerate: coin flips", calibrates_on_texts_it_learnt),
]
