"""Faults of limits with proxies."""

from __future__ import annotations

from typing import Any

import numpy as np

from riskfront._data import unlabelled_batches as unlabelled
from riskfront.statistics import _prediction_powered_betting as powered_betting
from tests.mutants.mutant import Mutant, everywhere, method


def means_of_labelled() -> None:
    """The mean proxy is taken over the labelled examples themselves."""
    everywhere(
        unlabelled._of_batch,
        lambda proxies, condition, batch, own: np.broadcast_to(
            own[:, batch.labelled].mean(axis=1, keepdims=True), own[:, batch.labelled].shape
        ),
    )


def one_batch_for_all() -> None:
    """All labelled examples share the batch of the first."""
    real = unlabelled._batches

    def broken(*given: Any) -> Any:
        for batch in real(*given):
            yield unlabelled.Batches(batch.labelled, np.repeat(batch.unlabelled[:1], len(batch.labelled), axis=0))

    everywhere(real, broken)


def slope_of_all_examples() -> None:
    """The slope is that of all examples that test, the next ones too."""
    real = powered_betting._best_log_wealth

    def broken(losses: Any, differences: Any, counts: Any, alpha: float, level: Any, reach: Any) -> Any:
        x = losses - alpha
        slope = (x * differences).sum(axis=1) / ((differences**2).sum(axis=1) + 1e-9)
        powered_betting._Past.slope = slope  # type: ignore[attr-defined]
        return real(losses, differences, counts, alpha, level, reach)

    everywhere(real, broken)

    def with_it(stake: Any) -> Any:
        def known(self: Any, t: int, n: Any, missing: Any) -> Any:
            self._products = self.slope * (self._widest + self._differences)
            return stake(self, t, n, missing)

        return known

    method(powered_betting._Past, "stake", with_it)


def slope_of_the_next() -> None:
    """The slope is that of the very example that it is used on."""
    real = powered_betting._Past.stake

    def broken(self: Any, t: int, n: Any, missing: Any) -> Any:
        stake, _ = real(self, t, n, missing)
        return stake, _Ahead()

    powered_betting._Past.stake = broken  # type: ignore[method-assign]


class _Ahead:
    """A slope that is asked for a product with the next difference, and so knows it."""

    def __mul__(self, difference: Any) -> Any:
        return 0.3 * np.abs(difference)  # of the right sign every time

    def __array_ufunc__(self, *given: Any, **options: Any) -> Any:
        return NotImplemented


def batch_means_forgotten() -> None:
    """The proxy is taken off, and what it is on average is not put back."""
    everywhere(unlabelled._of_batch, lambda proxies, condition, batch, own: np.zeros_like(own[:, batch.labelled]))


def bounds_not_widened() -> None:
    """Stakes as if loss minus proxy could not be above 1; who loses more than there is owes nothing."""
    real = powered_betting.np.log1p
    powered_betting._Past.largest = lambda self, rho: np.ones_like(rho)  # type: ignore[method-assign]
    powered_betting.np = _Numpy(log1p=lambda value: real(np.maximum(value, -0.9)))  # type: ignore[assignment]


def groups_forgotten() -> None:
    """Batches are drawn from all unlabelled examples, whatever group the limit speaks of."""
    everywhere(unlabelled._kinds, lambda table, means: [()] * table.n_examples)


class _Numpy:
    """numpy with some functions of its own."""

    def __init__(self, **other: Any) -> None:
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return self._other.get(name) or getattr(np, name)


MUTANTS = [
    Mutant("unlabelled: mean proxy of labelled examples", "unlabelled: good proxy", means_of_labelled),
    Mutant("unlabelled: one batch for all", "unlabelled: opposite proxy", one_batch_for_all),
    Mutant("unlabelled: slope of all examples", "unlabelled: proxy to both sides", slope_of_all_examples),
    Mutant("unlabelled: bounds not widened", "unlabelled: few examples", bounds_not_widened),
    Mutant("unlabelled: slope of the next example", "unlabelled: poor proxies", slope_of_the_next),
    Mutant("unlabelled: batch means forgotten", "unlabelled: path and fallback test", batch_means_forgotten),
    Mutant("unlabelled: groups forgotten", "unlabelled: in every group", groups_forgotten),
]
