"""Faults in telling the same example again."""

from __future__ import annotations

import numpy as np

from riskfront._data.identity import copies
from riskfront._data.identity import fingerprints as examples
from riskfront._data.identity.fingerprints import ExampleFingerprints
from riskfront.estimators._calibration_examples import Examples
from tests.mutants.mutant import Mutant, everywhere, method


def copies_of_examples_pass() -> None:
    everywhere(copies.n_copies, lambda numbers, columns=(): 0)


def rich_contents_may_repeat() -> None:
    """Only how often contents come is looked at, not what they are."""
    real = copies.n_copies
    everywhere(real, lambda numbers, columns=(): real(numbers))
    everywhere(copies.n_continuous_copies, lambda numbers, columns: 0)


def trains_by_position() -> None:
    """Training rows are drawn by position, whatever they contain."""
    method(ExampleFingerprints, "are_rich", lambda real: False)


def calibration_texts_left_out_elsewhere() -> None:
    """Of a text with and without a label, the one with a label always counts."""
    from riskfront.transformers._data import known_texts

    everywhere(known_texts.unlabelled_contents, lambda data: [])
    everywhere(known_texts.picked_copy, lambda content, n: 0)


def measured_again_counts() -> None:
    """Rows with the same X and a y of their own are examples of their own."""
    method(Examples, "_refuse_several_labels", lambda real: lambda self: None)


def clusters_are_never_copies() -> None:
    """Rows of different clusters are taken for independent draws, whatever they hold."""
    method(
        Examples,
        "_refuse_several_labels",
        lambda real: lambda self: None if self.clusters is not None else real(self),
    )


def positions_shuffle_a_split() -> None:
    everywhere(examples.say_enough, lambda columns: True)


def daily_copies_count() -> None:
    from riskfront._calibration.sequential import taken_in

    everywhere(taken_in._refuse_copies, lambda run, table: None)


def orders_are_other_data() -> None:
    """A table in another order is taken for other examples."""
    from riskfront._data import contents

    everywhere(contents.order_free_digests, lambda table, losses: [])


def all_losses_tell_copies() -> None:
    """Copies are looked for by all losses together, a time that differs from call to call among them."""
    from riskfront._data import contents

    real = contents.refuse_repeats
    everywhere(real, lambda table, limited=(): real(table))


def each_part_is_looked_at_alone() -> None:
    """Copies among planning and testing examples together are not looked for."""
    from riskfront._data import contents

    real = contents.refuse_repeats
    everywhere(real, lambda table, limited=(): None)


def names_tell_examples_apart() -> None:
    """What has a name of its own is an example of its own."""
    everywhere(examples._names_rows, lambda column: False)


def digits_tell_examples_apart() -> None:
    """Costs with fewer digits are taken for those of other examples."""
    everywhere(examples.rounding_of, lambda one, other: None)


def checked_on_the_same_examples() -> None:
    from riskfront._calibration.certificates import known_examples

    everywhere(known_examples.known_examples, lambda certificate, table, row: 0)


def equal_losses_are_one_example() -> None:
    """Equal losses prove a shared example, however often independent draws have them."""
    from riskfront._data.identity import shared

    everywhere(shared.shared, lambda first, second, columns=None: len(np.intersect1d(first, second)))


UNLABELLED = "accelerate: frequent texts without labels"
MUTANTS = [
    Mutant("calibrate: a resampled table counts", "calibrate: a resampled table", rich_contents_may_repeat),
    Mutant("calibrate: another time is another question", "calibrate: questions asked again", all_losses_tell_copies),
    Mutant(
        "certify: each part looked at alone",
        "certify: copies on both sides of a split",
        each_part_is_looked_at_alone,
    ),
    Mutant(
        "tune, evaluate: names make examples",
        "tune, evaluate: copies with names of their own",
        names_tell_examples_apart,
    ),
    Mutant(
        "certify: fewer digits are other examples",
        "certify: planning examples with other digits",
        digits_tell_examples_apart,
    ),
    Mutant(
        "check: any examples are new",
        "check: calibration examples with other digits",
        checked_on_the_same_examples,
    ),
    Mutant(
        "certify: equal losses are one example",
        "certify, check: honest examples are refused",
        equal_losses_are_one_example,
    ),
    Mutant("sequential: copies count", "sequential: daily copies", daily_copies_count),
    Mutant("calibrate: another order is other data", "calibrate: a table in many orders", orders_are_other_data),
    Mutant("tune: copies count", "tune: copies of examples", copies_of_examples_pass),
    Mutant("tune: resampled examples count", "tune: copies of examples", rich_contents_may_repeat),
    Mutant("evaluate: copies count", "evaluate: copies of examples", copies_of_examples_pass),
    Mutant("tune: positions shuffle the split", "tune: positions with sorted outcomes", positions_shuffle_a_split),
    Mutant("estimator: copies count", "estimator: copies of examples", copies_of_examples_pass),
    Mutant("intervals: clusters are never copies", "intervals: copies in other clusters", clusters_are_never_copies),
    Mutant("estimator: rows measured again count", "estimator: examples measured again", measured_again_counts),
    Mutant("classifier: splits training rows by position", "classifier: copies of training rows", trains_by_position),
    Mutant("unlabelled: calibration texts left out", UNLABELLED, calibration_texts_left_out_elsewhere),
]
