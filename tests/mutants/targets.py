"""Faults of limits on more than a mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._data import derived_losses
from riskfront._data.derived_losses import Clusters
from riskfront.methods._evidence import ranges
from riskfront.methods._evidence.limit_tests import LimitTest
from tests.mutants.mutant import Mutant, everywhere, method


def measured_denominator() -> None:
    """The denominator is taken as known: its mean over the very examples that test."""
    real = derived_losses.combined
    everywhere(
        real,
        lambda term, values, column, weights: real(
            term, values, lambda name: column(name).mean(axis=1, keepdims=True), weights
        ),
    )


def half_the_range() -> None:
    """Losses beyond a fifth of the range are cut off."""
    real = ranges.tested_range

    def broken(limit: Any, bounds: Any) -> Any:
        low, high, at = real(limit, bounds)
        return (low / 5, high, at) if limit.over else (low, high, at)

    everywhere(real, broken)


def one_direction() -> None:
    """Only the first of two groups may not be above the second."""
    method(
        LimitTest,
        "p_values",
        lambda real: lambda self, *given: real(self, *given)[:, :1] if self.limit.gap_per else real(self, *given),
    )


def share_forgotten() -> None:
    """The excess over the threshold is compared with the whole way to the limit, not with the share of worst cases."""
    real = ranges.tested_range

    def broken(limit: Any, bounds: Any) -> Any:
        low, high, at = real(limit, bounds)
        return (low, high, 1.5 * at) if limit.worst else (low, high, at)

    everywhere(real, broken)


def weights_ignored() -> None:
    """Every example counts as it came."""
    everywhere(derived_losses.example_weights, lambda name, groups: np.ones(len(groups.codes)))


def rows_of_a_cluster_count() -> None:
    """Every row is an example, whatever it belongs to."""
    Clusters.of = classmethod(
        lambda cls, groups: cls(np.arange(len(groups.codes)), np.arange(len(groups.codes)))  # type: ignore[assignment]
    )


MUTANTS = [
    Mutant("ratio: measured denominator taken as known", "targets: ratio", measured_denominator),
    Mutant("ratio: range too small", "targets: precision", half_the_range),
    Mutant("gap: one direction only", "targets: gap between groups", one_direction),
    Mutant("worst cases: share forgotten", "targets: worst cases", share_forgotten),
    Mutant("weights ignored", "targets: weights", weights_ignored),
    Mutant("clusters: every row counts", "targets: clusters", rows_of_a_cluster_count),
]
