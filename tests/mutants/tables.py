"""Faults of tables and their parts: order, identity, groups, splits, mixtures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import riskfront as rf
from riskfront._calibration.certificates.choice import mixture_weights
from riskfront._data import contents, splits
from riskfront._data.groups import Groups
from riskfront._data.sample import Sample
from riskfront._data.table import LossTable
from riskfront.methods import Plan
from tests.mutants.mutant import Mutant, everywhere, method


def file_order() -> None:
    """Whatever riskfront shuffles stays in the order of the file."""
    everywhere(splits.permutation, lambda n, seed, *salt: np.arange(n))
    everywhere(contents.content_order, lambda found, *rest: np.arange(len(found)))


def one_shuffle_for_all() -> None:
    """The examples of certify are shuffled by the same seed whatever they are."""
    permutation = splits.permutation
    everywhere(
        contents.content_order,
        lambda found, *rest: np.array(sorted(range(len(found)), key=found.__getitem__))[permutation(len(found), 0)],
    )


def seed_ignored() -> None:
    permutation = splits.permutation
    everywhere(permutation, lambda n, seed, *salt: permutation(n, 0, *salt))


def seed_alone() -> None:
    """Splits are shuffled by the seed alone: the same positions in every file, sorted or not."""
    permutation = splits.permutation
    everywhere(permutation, lambda n, seed, *salt: permutation(n, seed))


def guard_by_identity() -> None:
    """Two tables share examples only if one was made from the other."""
    LossTable.shares_examples = lambda self, other, limited=(): (
        self._origin is other._origin and self._sample.overlaps(other._sample)
    )


def opt_groups_forgotten() -> None:
    LossTable.with_groups_of = lambda self, other: self


def only_groups_of_the_part() -> None:
    """A part of a table knows the groups of its own examples only."""

    def make(real: Any) -> Any:
        def at(self: Sample, examples: Any) -> Sample:
            part = real(self, examples)
            known = {}
            for name, groups in part.groups.items():
                seen, codes = np.unique(groups.codes[part.examples], return_inverse=True)
                everyone = np.zeros(len(groups.codes), dtype=np.int64)
                everyone[part.examples] = codes
                known[name] = Groups(tuple(groups.levels[code] for code in seen), everyone)
            return replace(part, groups=known)

        return at

    method(Sample, "at", make)
    LossTable.joined_with = lambda self, other: self  # sums of parts with other classes cannot be added up


def sums_of_all_rows() -> None:
    """Sums of a part are taken over the whole table."""
    method(Sample, "weights", lambda real: lambda self, term: real(replace(self, examples=None), term))


def settings_by_position() -> None:
    # a table that was laid out along the plan has its rows in the order of the plan
    Plan.rows_in = lambda self, table: self.rows if table.n_configs == self.opt.n_configs else np.arange(len(self.rows))


def mixes_everything() -> None:
    """Time sharing among all tested settings."""

    def mixture(self: rf.Certificate, targets: Any) -> pd.DataFrame:
        values = self.tested[[objective.name for objective in self.problem.objectives]].to_numpy(dtype=float)
        return self.tested.assign(weight=mixture_weights(self.problem, values, targets))

    rf.Certificate.mixture = mixture


MUTANTS = [
    Mutant("bets in the order of the file", "certify: rows sorted by class", file_order),
    Mutant("one shuffle for all data", "certify: examples of two contents", one_shuffle_for_all),
    Mutant("seed of the split ignored", "split: seeds", seed_ignored),
    Mutant("splits by the seed alone", "calibrate: a sorted file", seed_alone),
    Mutant("shared examples found by object identity", "certify: one file twice", guard_by_identity),
    Mutant("classes known only from opt data forgotten", "certify: class only planned on", opt_groups_forgotten),
    Mutant(
        "a part forgets classes it has no example of", "calibrate: class lost in the split", only_groups_of_the_part
    ),
    Mutant("sums of the whole table for a part", "calibrate: sequence of nulls", sums_of_all_rows),
    Mutant("settings matched by position", "certify: settings in another order", settings_by_position),
    Mutant("mixtures of settings not certified", "mixture: time sharing", mixes_everything),
]
